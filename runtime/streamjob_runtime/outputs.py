"""Where a chain's batches go: each batch is computed once, and staged in every sink."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue

from streamjob.errors import InvalidInput
from streamjob.ids import BatchId, CheckpointId, OperatorUid
from streamjob.sink import Sink
from streamjob_runtime.sinks.spool import stage_in_all

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger("streamjob")


class Outputs:
    """The sinks of a chain. `write` runs on the query's thread, `commit` beside it on another.

    Args:
        sinks: by uid, opened.

    `rows` counts what was written; it is None once no sink could tell for a batch.
    """

    def __init__(self, sinks: Mapping[OperatorUid, Sink]) -> None:
        self._sinks = dict(sinks)
        self.rows: int | None = 0

    def __contains__(self, sink: object) -> bool:
        return sink in self._sinks

    def write(self, frame: DataFrame, batch: BatchId) -> dict[OperatorUid, JsonValue]:
        """Stage a batch in all sinks, with exactly one action on `frame`; return what there is to commit."""
        staged = stage_in_all(list(self._sinks.values()), frame, batch)
        known = [each.rows for each in staged if each.rows is not None]
        self.rows = None if self.rows is None or not known else self.rows + max(known)
        by_sink = zip(self._sinks, staged, strict=True)
        return {uid: each.committable for uid, each in by_sink if each.committable is not None}

    def commit(self, sink: OperatorUid, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        """Publish what a completed checkpoint covers in a sink."""
        self._sinks[sink].commit(checkpoint, committables)

    def abort(self, sink: OperatorUid) -> None:
        """Discard what earlier epochs staged in a sink and nobody will publish."""
        self._sinks[sink].abort()

    def close(self) -> None:
        """Release the sinks."""
        for sink in self._sinks.values():
            sink.close()


class FormerOutputs:
    """The sinks of a completed checkpoint, for its publication: the job's own where they have stayed the same.

    Args:
        outputs: the job's sinks.
        unchanged: uids of those that are what they were.
        former: builds a sink of the checkpoint that the job no longer has, or has otherwise; None if it had none.
    """

    def __init__(
        self,
        outputs: Outputs,
        unchanged: frozenset[OperatorUid],
        former: Callable[[OperatorUid], Sink | None],
    ) -> None:
        self._outputs = outputs
        self._unchanged = unchanged
        self._former = former

    def commit(self, sink: OperatorUid, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        """Publish what a completed checkpoint covers in a sink."""
        if sink in self._unchanged:
            self._outputs.commit(sink, checkpoint, committables)
        elif committables and (former := self._former(sink)) is not None:
            try:
                former.commit(checkpoint, committables)
            finally:
                former.close()

    def abort(self, sink: OperatorUid) -> None:
        """Discard what earlier epochs staged in a sink; in a former one everything that is left."""
        if sink in self._outputs:
            self._outputs.abort(sink)
        if sink in self._unchanged:
            return
        try:
            former = self._former(sink)
        except InvalidInput as error:
            # Nothing is due there, or its commit would have failed before: what is left is rubbish.
            log.warning("What a former sink staged and never published stays where it is: %s", error.what)
            return
        if former is not None:
            try:
                former.abort()
            finally:
                former.close()
