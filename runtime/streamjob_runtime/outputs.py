"""Where a chain's batches go: each batch is computed once, and staged in every sink."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue

from streamjob.ids import BatchId, CheckpointId, OperatorUid
from streamjob.sink import Sink
from streamjob_runtime.sinks.spool import Spool

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Outputs:
    """The sinks of a chain. `write` runs on the query's thread, `commit` beside it on another.

    Args:
        sinks: by uid, opened.
        spool: holds a batch for more than one sink.
    """

    def __init__(self, sinks: Mapping[OperatorUid, Sink], spool: Spool) -> None:
        self._sinks = dict(sinks)
        self._spool = spool
        self.rows = 0

    def write(self, frame: DataFrame, batch: BatchId) -> dict[OperatorUid, JsonValue]:
        """Stage a batch in all sinks, with exactly one action on `frame`; return what there is to commit."""
        if len(self._sinks) == 1:
            return self._stage(frame, batch)
        with self._spool.write_once(frame, batch) as stored:
            return self._stage(stored, batch)

    def _stage(self, frame: DataFrame, batch: BatchId) -> dict[OperatorUid, JsonValue]:
        committables: dict[OperatorUid, JsonValue] = {}
        rows = 0
        for uid, sink in self._sinks.items():
            staged = sink.stage(frame, batch)
            if staged.committable is not None:
                committables[uid] = staged.committable
            rows = max(rows, staged.rows or 0)
        self.rows += rows
        return committables

    def commit(self, checkpoint: CheckpointId, committables: Iterable[tuple[OperatorUid, Sequence[JsonValue]]]) -> None:
        """Publish what a checkpoint covers, in the sinks that are part of the job."""
        for uid, values in committables:
            self._sinks[uid].commit(checkpoint, values)

    def abort(self) -> None:
        """Discard what earlier epochs staged and nobody will publish."""
        for sink in self._sinks.values():
            sink.abort()

    def close(self) -> None:
        """Release the sinks."""
        for sink in self._sinks.values():
            sink.close()
