"""The outputs of a chain: each batch is computed once, staged in every sink, and handed to the chain's readers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from pydantic import JsonValue

from streamjob.errors import InvalidInput
from streamjob.ids import BatchId, CheckpointId, OperatorUid
from streamjob.journal import BatchPlan
from streamjob.protocol.emissions.channels import Segment
from streamjob.sink import ChecksSchema, CommitsTogether, KnowsPublished, KnowsTarget, Sink, Staged
from streamjob.snapshot.manifest import SinkState
from streamjob_runtime.chain.channels.stream import Stream
from streamjob_runtime.chain.emissions.publishing import BatchPublisher
from streamjob_runtime.sinks.meter import SinkMeters
from streamjob_runtime.sinks.rows.spool import stage_in_all
from streamjob_runtime.sinks.rows.unavailable import KeepsUnavailable, available

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger("streamjob")


@dataclass(frozen=True)
class Written:
    """The result of a batch: committables of sinks that have something to commit, and segments for the readers."""

    staged: Mapping[OperatorUid, JsonValue] = field(default_factory=dict)
    segments: tuple[Segment, ...] = ()


class ChainOutput:
    """The outputs of one chain; used on its query's thread.

    Args:
        sinks: the chain's sinks by uid, opened.
        stream: the stream for other chains; None if there are none.
        publishers: publish the batches of some of the sinks.
        plan_of: returns the plan of a batch.

    `rows` counts the written rows; it is None once the number was unknown for a batch.
    """

    def __init__(
        self,
        sinks: Mapping[OperatorUid, Sink],
        stream: Stream | None = None,
        meters: SinkMeters | None = None,
        publishers: Mapping[OperatorUid, BatchPublisher] | None = None,
        plan_of: Callable[[BatchId], BatchPlan] | None = None,
    ) -> None:
        self._sinks = dict(sinks)
        self._publishers = dict(publishers or {})
        self._plan_of = plan_of
        self._stream = stream
        self._meters = meters or SinkMeters()
        self.rows: int | None = 0

    @property
    def has_readers(self) -> bool:
        """Whether other chains read the output."""
        return self._stream is not None

    def wait_for_room(self, batch: BatchId, over: Callable[[], bool], ask: Callable[[], None]) -> None:
        """Block while a journal has no room for a batch, or until `over`; `ask` for a checkpoint in time."""
        for each in self._publishers.values():
            each.wait_for_room(batch, over, ask)

    def check(self, rows: DataFrame) -> None:
        """Ask the sinks that can check it whether they accept such rows. Raises their errors."""
        for sink in self._sinks.values():
            if isinstance(sink, ChecksSchema):
                sink.check_schema(rows.schema)

    def write(self, frame: DataFrame, batch: BatchId, begin: Callable[[], None] = lambda: None) -> Written:
        """Stage a batch in all sinks and in the stream, with exactly one action on `frame`.

        Args:
            begin: is called right before a sink publishes it; blocks until that may be.
        """
        handed_on: list[Segment] = []
        stages: list[Callable[[DataFrame, BatchId], Staged]] = [
            partial(self._stage, uid, sink, begin) for uid, sink in self._sinks.items()
        ]
        stream = self._stream
        if stream is not None:

            def hand_on(rows: DataFrame, number: BatchId) -> Staged:
                handed_on.extend(stream.write(rows, number))
                return Staged(None, sum(segment.records for segment in handed_on))

            stages.append(hand_on)
        staged = stage_in_all(stages, frame, batch)
        known = [each.rows for each in staged if each.rows is not None]
        self.rows = None if self.rows is None or not known else self.rows + max(known)
        by_sink = zip(self._sinks, staged[: len(self._sinks)], strict=True)
        committables = {uid: each.committable for uid, each in by_sink if each.committable is not None}
        return Written(committables, tuple(handed_on))

    def _stage(
        self, uid: OperatorUid, sink: Sink, begin: Callable[[], None], rows: DataFrame, batch: BatchId
    ) -> Staged:
        if not isinstance(sink, KeepsUnavailable) or not sink.keeps_unavailable:
            rows = available(rows, f"sink {uid!r} cannot leave it as it is stored")
        publisher, plan_of = self._publishers.get(uid), self._plan_of
        if publisher is None or plan_of is None:
            return self._meters.of(uid).stage(lambda: sink.stage(rows, batch))
        return self._meters.of(uid).stage(lambda: publisher.stage(rows, batch, plan_of, begin))


class Outputs:
    """All sinks of a job, for commits and for closing; used on other threads than the queries'.

    Args:
        sinks: by uid, opened.
        publishers: publish the batches of some of them.
    """

    def __init__(
        self,
        sinks: Mapping[OperatorUid, Sink],
        meters: SinkMeters | None = None,
        publishers: Mapping[OperatorUid, BatchPublisher] | None = None,
    ) -> None:
        self._sinks = dict(sinks)
        self.meters = meters or SinkMeters()
        self.publishers = dict(publishers or {})

    def __contains__(self, sink: object) -> bool:
        return sink in self._sinks

    def of(self, sinks: Iterable[OperatorUid]) -> dict[OperatorUid, Sink]:
        """Return some of the sinks, by uid."""
        return {uid: self._sinks[uid] for uid in sinks}

    def commit(self, checkpoint: CheckpointId, output: Sequence[SinkState]) -> None:
        """Commit the output that a completed checkpoint covers."""
        self.commit_in(checkpoint, [(state, self._sinks[state.uid]) for state in output], frozenset(self._sinks))

    def commit_in(
        self, checkpoint: CheckpointId, output: Iterable[tuple[SinkState, Sink]], metered: frozenset[OperatorUid]
    ) -> None:
        """Commit the output that a completed checkpoint covers in some sinks, together where they can.

        Args:
            output: the committables, each with its sink.
            metered: uids of the sinks whose work counts.
        """
        for together in transactions(output):
            commit: Callable[[], None] = partial(commit_transaction, checkpoint, together)
            for state, _ in together:
                if state.uid in metered:
                    commit = partial(self.meters.of(state.uid).commit, commit, checkpoint, state.committables)
            commit()
            for state, _ in together:
                if state.uid in self.publishers:
                    self.publishers[state.uid].covered(state.committables)

    def published(self) -> Mapping[OperatorUid, CheckpointId]:
        """Return the checkpoint that each sink published last, of those that know. Raises errors of the sinks."""
        known = (
            (uid, sink.newest_published()) for uid, sink in self._sinks.items() if isinstance(sink, KnowsPublished)
        )
        return {uid: newest for uid, newest in known if newest is not None}

    def abort(self, sink: OperatorUid) -> None:
        """Discard output that earlier epochs staged in a sink and no process will commit."""
        self.meters.of(sink).abort(self._sinks[sink].abort)

    def journals(self) -> Mapping[OperatorUid, str]:
        """Return the ids of the journals of the sinks that publish each batch, or have batches to run again."""
        known = ((uid, each.journal_id()) for uid, each in self.publishers.items() if each.needs_journal)
        return {uid: journal for uid, journal in known if journal is not None}

    def targets(self) -> Mapping[OperatorUid, str]:
        """Return the ids of what the sinks write to, of those that know. Raises errors of the sinks."""
        known = ((uid, sink.target_id()) for uid, sink in self._sinks.items() if isinstance(sink, KnowsTarget))
        return {uid: target for uid, target in known if target is not None}

    def close(self) -> None:
        """Release the sinks."""
        for sink in self._sinks.values():
            sink.close()


class FormerOutputs:
    """The sinks for the commit of a completed checkpoint: the job's own if they are unchanged.

    Args:
        unchanged: uids of the unchanged ones.
        former: builds a sink of the checkpoint that the job has no longer or has changed; None if there was none.
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

    def commit(self, checkpoint: CheckpointId, output: Sequence[SinkState]) -> None:
        """Commit the output that a completed checkpoint covers."""
        with ExitStack() as opened:
            known: list[tuple[SinkState, Sink]] = []
            for state in output:
                if state.uid in self._unchanged:
                    known += [(state, sink) for sink in self._outputs.of([state.uid]).values()]
                elif state.committables and (former := self._former(state.uid)) is not None:
                    opened.callback(former.close)
                    known.append((state, former))
            self._outputs.commit_in(checkpoint, known, self._unchanged)

    def abort(self, sink: OperatorUid) -> None:
        """Discard output that earlier epochs staged in a sink; in a former one, all remaining output."""
        if sink in self._outputs:
            self._outputs.abort(sink)
        if sink in self._unchanged:
            return
        try:
            former = self._former(sink)
        except InvalidInput as error:
            # Nothing is due there, or its commit would have failed before, so the rest is garbage.
            log.warning("What a former sink staged and never committed stays where it is: %s", error.what)
            return
        if former is not None:
            try:
                former.abort()
            finally:
                former.close()


def transactions(output: Iterable[tuple[SinkState, Sink]]) -> list[list[tuple[SinkState, Sink]]]:
    """Return the sinks in order, those together that commit in one transaction."""
    groups: dict[object, list[tuple[SinkState, Sink]]] = {}
    for state, sink in output:
        of = (type(sink), sink.transaction) if isinstance(sink, CommitsTogether) else state.uid
        groups.setdefault(of, []).append((state, sink))
    return list(groups.values())


def commit_transaction(checkpoint: CheckpointId, together: Sequence[tuple[SinkState, Sink]]) -> None:
    """Commit the output of sinks that `transactions` has put together. Raises errors of the sinks.

    Args:
        checkpoint: the completed checkpoint that covers the output.
        together: the sinks' committables, each with its sink.
    """
    state, first = together[0]
    if isinstance(first, CommitsTogether):
        first.commit_together(checkpoint, [(sink, each.committables) for each, sink in together])
    else:
        first.commit(checkpoint, state.committables)
