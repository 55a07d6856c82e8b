"""Finds out which files a source has read up to a batch, from its log below `sources/`."""

from __future__ import annotations

import json
from collections.abc import Collection, Container
from pathlib import Path

from streamjob.ids import BatchId
from streamjob_runtime.spark.checkpoint_dir.file_entries import last_read, last_read_by_spark
from streamjob_runtime.spark.checkpoint_dir.files_read import sparks_files
from streamjob_runtime.spark.checkpoint_dir.logs import VOID_OFFSET, read_offsets


def files_read(checkpoint: Path, source: int, batch: BatchId, directory: int | None = None) -> Container[str]:
    """Return the files that a source has delivered up to a committed batch: absolute paths, or URIs if not local.

    Args:
        checkpoint: Spark's checkpoint directory of a chain.
        source: the number of the source's line in the offset log.
        directory: its directory below `sources/`; None if it has the line's number.

    Raises:
        CheckpointFileMissing: the offset log has no entry for the batch.
        UnreadableCheckpointFile: the source's log does not have its format.
    """
    offset = read_offsets(checkpoint, batch).offsets()[source][1]
    if offset == VOID_OFFSET:
        return frozenset()
    log = checkpoint / "sources" / str(source if directory is None else directory)
    position = json.loads(offset)
    if (entry := last_read(position)) is not None:
        # It loads numpy, which a job without such a source does without.
        from streamjob_runtime.discovery.entries import load

        return load(log, entry)[0]
    of_spark = last_read_by_spark(position)
    assert of_spark is not None, offset
    return sparks_files(log, of_spark)


class ReadByAll(Container[str]):
    """The files that each of several readings of a source has read; none if there is no reading."""

    def __init__(self, readings: Collection[Container[str]]) -> None:
        self._readings = readings

    def __contains__(self, path: object) -> bool:
        return bool(self._readings) and all(path in each for each in self._readings)
