"""A sink that keeps its rows in memory, for tests and notebooks."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from streamjob.ids import BatchId, Epoch
from streamjob.sink import SinkContext, Staged
from streamjob_runtime.sinks.at_least_once.batch import AtLeastOnceSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

_tables: dict[str, dict[BatchId, list[Row]]] = {}
_lock = Lock()


def memory_rows(name: str) -> list[Row]:
    """Return the rows of the memory sink with this name, in the order of its batches; empty if there are none."""
    with _lock:
        batches = _tables.get(name, {})
        return [row for batch_id in sorted(batches) for row in batches[batch_id]]


class MemorySink(AtLeastOnceSink):
    """Collects batches under the sink's name. A batch that runs again after a restart replaces its former rows."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._epoch: Epoch | None = None

    def open(self, context: SinkContext) -> None:
        """Begin an epoch."""
        super().open(context)
        self._epoch = None

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        """Collect the batch, in one Spark action."""
        rows = batch.collect()
        with _lock:
            batches = _tables.setdefault(self._name, {})
            if self._epoch != self.context.epoch:
                self._epoch = self.context.epoch
                for behind_the_cut in [each for each in batches if each >= batch_id]:
                    del batches[behind_the_cut]
            batches[batch_id] = rows
        return Staged(None, len(rows))
