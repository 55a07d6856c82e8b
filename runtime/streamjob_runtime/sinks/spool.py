"""Computes a batch once for several sinks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streamjob.ids import BatchId
from streamjob.sink import Sink, Staged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def stage_in_all(sinks: Sequence[Sink], batch: DataFrame, batch_id: BatchId) -> list[Staged]:
    """Stage a batch in each sink and return what they staged, in their order; the batch itself is computed once."""
    if len(sinks) == 1:
        return [sinks[0].stage(batch, batch_id)]
    with spooled(batch) as held:
        return [sink.stage(held, batch_id) for sink in sinks]


@contextmanager
def spooled(batch: DataFrame) -> Iterator[DataFrame]:
    """Yield a DataFrame with the batch's rows and exactly its schema, which any number of actions may read.

    The batch is computed by one Spark action, and lies in Spark's local directories until the context is left. What is
    lost there with an executor is not computed again, since that would touch the state: the action fails.
    """
    from pyspark import StorageLevel

    held = batch.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)
    try:
        yield held
    finally:
        # Spark would free the blocks only after a garbage collection.
        held._jdf.queryExecution().logical().rdd().unpersist(False)
