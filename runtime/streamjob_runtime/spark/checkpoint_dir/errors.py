"""Errors of Spark's checkpoint directory, one class per cause."""

from __future__ import annotations

from pathlib import Path

from streamjob.errors import StreamJobError
from streamjob.ids import BatchId


class CheckpointError(StreamJobError):
    """Spark's checkpoint directory cannot be used for an operation."""


class NotCommitted(CheckpointError):
    """A cut was requested at a batch that Spark has not committed, or whose commit it has deleted."""

    def __init__(self, checkpoint: Path, batch: BatchId) -> None:
        super().__init__(
            f"Batch {batch} has no entry in {checkpoint / 'commits'}",
            "cut after Spark has committed the batch, within its last spark.sql.streaming.minBatchesToRetain ones",
        )
        self.batch = batch


class CheckpointFileMissing(CheckpointError):
    """A file of a batch is missing in the checkpoint directory, even after listing it again."""

    def __init__(self, checkpoint: Path, path: str, batch: BatchId) -> None:
        super().__init__(
            f"Batch {batch} needs the file {path}, which is not in {checkpoint}",
            "raise spark.sql.streaming.minBatchesToRetain if Spark purges files before they are held",
        )
        self.path = path
        self.batch = batch


class UnreadableCheckpointFile(CheckpointError):
    """A file of Spark's checkpoint does not have the format of Spark 4.3."""

    def __init__(self, file: Path, problem: str) -> None:
        super().__init__(f"{file} cannot be read: {problem}", "the checkpoint must be one that Spark 4.3 has written")
        self.file = file


class UnsupportedStateFormat(CheckpointError):
    """The state was written with settings under which file names do not distinguish attempts."""

    def __init__(self, checkpoint: Path, problem: str) -> None:
        super().__init__(
            f"The state in {checkpoint} {problem}",
            "remove the settings of state stores from sparkConf, and start with --from none",
        )
