"""Starts operators of a restored chain empty, where their state does not fit and may be dropped."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from streamjob.ids import BatchId
from streamjob_runtime.spark.checkpoint_dir.logs import read_offsets
from streamjob_runtime.spark.checkpoint_dir.new_state import put_empty_state
from streamjob_runtime.spark.gateway import java_session, our_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def begin_empty(
    spark: SparkSession, place: Path, location: str, batch: BatchId, numbers: Collection[int], described: Path
) -> None:
    """Replace the state of operators of a restored checkpoint with empty state.

    Args:
        place: the checkpoint; its query is not running.
        location: the URI by which Spark opens it.
        batch: its last committed batch.
        numbers: the operators; nothing is done if there are none.
        described: a checkpoint directory in which Spark has described the state of the query.
    """
    if not numbers:
        return
    partitions = read_offsets(place, batch).partitions
    assert partitions is not None, "a checkpoint that a job wrote names its number of partitions"
    with tempfile.TemporaryDirectory(prefix="empty-", dir=place.parent) as directory:
        # A state store without rows, with the session's settings, and a directory for Spark's scratch files.
        empty, scratch = Path(directory, "store"), Path(directory, "scratch")
        scratch.mkdir()
        our_java(spark).EmptyStore.write(java_session(spark), str(empty), str(scratch))
        put_empty_state(place, location, batch, numbers, described, empty, partitions)
