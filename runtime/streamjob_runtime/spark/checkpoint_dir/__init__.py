"""Spark's checkpoint directory: finds the files of a batch, holds and moves them, and forces batches."""

from streamjob_runtime.spark.checkpoint_dir.errors import (
    CheckpointError,
    CheckpointFileMissing,
    NotCommitted,
    UnreadableCheckpointFile,
    UnsupportedStateFormat,
)
from streamjob_runtime.spark.checkpoint_dir.files import CutFiles, files_for, is_uniquely_named
from streamjob_runtime.spark.checkpoint_dir.forced_batch import (
    END_OF_TIME_MS,
    BatchAlreadyPlanned,
    force_batch,
    force_flush,
    needs_another_flush,
)
from streamjob_runtime.spark.checkpoint_dir.hold import Hold, hold, release
from streamjob_runtime.spark.checkpoint_dir.logs import last_committed, read_commit, read_offsets
from streamjob_runtime.spark.checkpoint_dir.relocate import relocate

__all__ = [
    "END_OF_TIME_MS",
    "BatchAlreadyPlanned",
    "CheckpointError",
    "CheckpointFileMissing",
    "CutFiles",
    "Hold",
    "NotCommitted",
    "UnreadableCheckpointFile",
    "UnsupportedStateFormat",
    "files_for",
    "force_batch",
    "force_flush",
    "hold",
    "is_uniquely_named",
    "last_committed",
    "needs_another_flush",
    "read_commit",
    "read_offsets",
    "release",
    "relocate",
]
