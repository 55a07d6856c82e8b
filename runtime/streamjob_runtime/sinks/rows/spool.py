"""Computes a batch once for several sinks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streamjob.ids import BatchId
from streamjob.sink import Staged
from streamjob_runtime.spark.gateway import free_local_checkpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def stage_in_all(
    stages: Sequence[Callable[[DataFrame, BatchId], Staged]], batch: DataFrame, batch_id: BatchId
) -> list[Staged]:
    """Stage a batch in each sink and return the results in order; the batch is computed once."""
    if len(stages) == 1:
        return [stages[0](batch, batch_id)]
    with spooled(batch) as held:
        return [stage(held, batch_id) for stage in stages]


@contextmanager
def spooled(batch: DataFrame) -> Iterator[DataFrame]:
    """Yield a DataFrame with the batch's rows and exactly its schema, which any number of actions may read.

    One Spark action computes the batch, which stays in Spark's local directories until the context ends. Blocks lost
    with an executor are not computed again, since that would change the state: the action fails.
    """
    from pyspark import StorageLevel

    held = batch.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)
    try:
        yield held
    finally:
        free_local_checkpoint(held)
