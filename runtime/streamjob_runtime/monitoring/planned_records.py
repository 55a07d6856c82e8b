"""Tells how many records a batch reads, before Spark has reported it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from streamjob.ids import BatchId
from streamjob_runtime.kafka.positions import Offsets
from streamjob_runtime.kafka.positions import read_offsets as kafka_offsets
from streamjob_runtime.spark.checkpoint_dir.errors import CheckpointFileMissing
from streamjob_runtime.spark.checkpoint_dir.logs import read_offsets


def planned_records(checkpoint: Path, batch: BatchId, directories: Sequence[int]) -> int | None:
    """Return the number of records that a batch reads from Kafka; None if it reads anything else.

    Args:
        checkpoint: Spark's checkpoint directory of the chain.
        batch: a batch whose plan Spark has written.
        directories: the directory of each source below `sources/`.
    """
    planned = _positions(checkpoint, batch, directories)
    if not planned or not all(planned.values()):
        return None
    before = _positions(checkpoint, BatchId(batch - 1), directories)
    records = 0
    for source, ends in planned.items():
        begins = before.get(source) or _first_positions(checkpoint, source)
        records += sum(max(0, end - begins.get(partition, 0)) for partition, end in ends.items())
    return records


def _positions(checkpoint: Path, batch: BatchId, directories: Sequence[int]) -> dict[str, Offsets]:
    try:
        offsets = read_offsets(checkpoint, batch).offsets(directories)
    except CheckpointFileMissing:
        return {}
    return {source: kafka_offsets(offset) for source, offset in offsets}


def _first_positions(checkpoint: Path, source: str) -> Offsets:
    """Return where Spark has begun to read a topic."""
    try:
        return kafka_offsets((checkpoint / "sources" / source / "0").read_text("utf-8").rpartition("\n")[2])
    except FileNotFoundError:
        return {}
