"""Computes a batch once for several places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streamjob.ids import BatchId
from streamjob.sink import Staged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def stage_in_all(
    stages: Sequence[Callable[[DataFrame, BatchId], Staged]], batch: DataFrame, batch_id: BatchId
) -> list[Staged]:
    """Stage a batch at each place and return what was staged, in their order; the batch itself is computed once."""
    if len(stages) == 1:
        return [stages[0](batch, batch_id)]
    with spooled(batch) as held:
        return [stage(held, batch_id) for stage in stages]


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
