"""The sink of a job under test: commits rows into memory, in two phases as any exactly-once sink."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pydantic import JsonValue

from streamjob.errors import InvalidInput
from streamjob.ids import BatchId, CheckpointId, Epoch
from streamjob.sink import SinkContext, Staged, StagedRowsGone

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

FORMAT = f"{__name__}:CollectingSink"
OPTION = "collected"
"""The option with the name of the `Collected` to which a sink writes."""

_Key = tuple[int, int]
_Rows = Sequence[Mapping[str, Any]]

_collected: dict[str, Collected] = {}


class ColumnsOfOneName(InvalidInput):
    """A sink of a job under test gets two columns with the same name."""


class Collected:
    """The rows of one sink. Any thread may use it.

    Args:
        name: a name that no other one in the process has.
        whole: each batch replaces all rows before it, as in output mode `complete`.
    """

    def __init__(self, name: str, *, whole: bool = False) -> None:
        self.whole = whole
        self._lock = threading.Lock()
        self._staged: dict[_Key, _Rows] = {}
        self._committed: dict[_Key, _Rows] = {}
        self.columns: StructType | None = None
        self.name = name
        _collected[name] = self

    @property
    def has_staged(self) -> bool:
        """Whether there are rows that no checkpoint has published yet."""
        with self._lock:
            return bool(self._staged)

    def batches(self) -> list[_Rows]:
        """Return the published batches that have rows, in their order."""
        with self._lock:
            return list(self._committed.values())

    def rows(self, since: int = 0) -> tuple[list[Mapping[str, Any]], int]:
        """Return the published rows in the order of their batches, and the number of batches.

        Args:
            since: the number of batches to leave out.
        """
        batches = self.batches()
        chosen = batches[since:][-1:] if self.whole else batches[since:]
        return [row for batch in chosen for row in batch], len(batches)

    def stage(self, key: _Key, rows: _Rows) -> None:
        """Keep a batch until a checkpoint publishes it."""
        with self._lock:
            self._staged[key] = rows

    def commit(self, key: _Key) -> None:
        """Publish a batch; once. Raises StagedRowsGone."""
        with self._lock:
            if key in self._committed:
                return
            if key not in self._staged:
                raise StagedRowsGone(f"batch {key[1]} of epoch {key[0]} was never staged in the test's sink")
            self._committed[key] = self._staged.pop(key)

    def discard_below(self, epoch: Epoch) -> None:
        """Discard what earlier epochs staged."""
        with self._lock:
            for key in [each for each in self._staged if each[0] < epoch]:
                del self._staged[key]

    def forget(self) -> None:
        """Let nothing find it by its name any more."""
        _collected.pop(self.name, None)


class CollectingSink:
    """Stages batches in memory, and publishes them with their checkpoint."""

    def open(self, context: SinkContext) -> None:
        """Begin an epoch."""
        self._context = context
        self._collected = _collected[context.options[OPTION]]

    def check_schema(self, schema: StructType) -> None:
        """Remember the columns, by which a test's rows are read.

        Raises:
            ColumnsOfOneName: two columns have one name, which hardly any sink accepts.
        """
        twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
        if twice:
            raise ColumnsOfOneName(
                f"sink {self._context.uid}: its rows have several columns {twice[0]!r}",
                "give each column a name of its own",
            )
        self._collected.columns = schema

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        """Collect a batch, in one Spark action."""
        rows = batch.toArrow().to_pylist()
        if not rows and not self._collected.whole:
            return Staged(None, 0)
        self._collected.stage((self._context.epoch, batch_id), rows)
        return Staged([self._context.epoch, batch_id], len(rows))

    def commit(self, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        """Publish the batches of a checkpoint."""
        for epoch, batch in cast("Sequence[_Key]", committables):
            self._collected.commit((epoch, batch))

    def abort(self) -> None:
        """Discard what earlier epochs staged and no checkpoint published."""
        self._collected.discard_below(self._context.epoch)

    def close(self) -> None:
        """Do nothing: the rows stay for the test."""
