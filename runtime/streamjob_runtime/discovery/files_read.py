"""What a source of files has read up to a batch, from its log below `sources/`."""

from __future__ import annotations

import json
from collections.abc import Collection, Container
from pathlib import Path

from streamjob.ids import BatchId
from streamjob_runtime.spark.checkpoint_dir import files_read as of_spark
from streamjob_runtime.spark.checkpoint_dir.logs import VOID_OFFSET, read_offsets

_POSITION, _OF_SPARK = "files", "logOffset"
"""The field of our own source's position, the last entry that it has read; and of that of Spark's own stream."""


def position_of(offset: str) -> int | None:
    """Return the last entry that our own source has read, from its line in the offset log; -1 for none.

    It is None if the source is another one.
    """
    if offset == VOID_OFFSET:
        return -1
    value = json.loads(offset)
    return int(value[_POSITION]) if isinstance(value, dict) and value.keys() == {_POSITION} else None


def position_of_spark(offset: str) -> int | None:
    """Return the last entry that Spark's own stream has read, behind which ours goes on; None for any other source."""
    value = None if offset == VOID_OFFSET else json.loads(offset)
    return int(value[_OF_SPARK]) if isinstance(value, dict) and value.keys() == {_OF_SPARK} else None


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
    position = position_of(read_offsets(checkpoint, batch).offsets()[source][1])
    if position is None:
        return of_spark.files_read(checkpoint, source, batch, directory)
    # It loads numpy, which a job without such a source does without.
    from streamjob_runtime.discovery.entries import load

    return load(checkpoint / "sources" / str(source if directory is None else directory), position)[0]


class ReadByAll(Container[str]):
    """The files that each of several readings of a source has read; none if there is no reading."""

    def __init__(self, readings: Collection[Container[str]]) -> None:
        self._readings = readings

    def __contains__(self, path: object) -> bool:
        return bool(self._readings) and all(path in each for each in self._readings)
