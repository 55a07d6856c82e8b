"""Turns what happens in a job into spans, and hands them to a queue; it never waits, and never fails the job."""

from __future__ import annotations

import functools
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from streamjob.ids import ChainUid, CheckpointId, Epoch, TriggerId
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.triggers import TriggerState
from streamjob.telemetry.logs import trace_checkpoint
from streamjob.telemetry.spans import Attribute, Span, SpanContext
from streamjob_runtime.monitoring.query_progress import BatchProgress
from streamjob_runtime.monitoring.traces.batches import batch_spans
from streamjob_runtime.monitoring.traces.checkpoints import CheckpointRecord, checkpoint_spans, follow
from streamjob_runtime.monitoring.traces.starts import StartPhases, start_spans

_REMEMBERED = 1000

log = logging.getLogger("streamjob")

_Method = TypeVar("_Method", bound=Callable[..., None])


def _harmless(method: _Method) -> _Method:
    """Log the first error of a recorder instead of raising it: the job must not fail by what observes it."""

    @functools.wraps(method)
    def guarded(self: TraceRecorder, *arguments: Any, **keywords: Any) -> None:
        try:
            method(self, *arguments, **keywords)
        except Exception:
            if not self.failed:
                self.failed = True
                log.exception("Traces have gaps: %s failed", method.__name__)

    return guarded  # type: ignore[return-value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """The job that is traced.

    Args:
        about: attributes of the job.
        process: identifies this process in the identities of its traces.
        parent: the span that waits for the start of this process; None if none does.
        batches: the share of batches with a trace, 0 to 1.
    """

    about: Mapping[str, Attribute]
    process: str
    parent: SpanContext | None = None
    batches: float = 0.01


class TraceRecorder:
    """Records the spans of one job; may be called from any thread.

    Args:
        traced: what is traced.
        put: takes spans; returns at once.
        state_of: returns the state of a request to the coordinator; None if it is unknown.
        random: returns numbers from 0 to 1, to choose batches.
    """

    def __init__(
        self,
        traced: Traced,
        put: Callable[[Sequence[Span]], None],
        state_of: Callable[[TriggerId], TriggerState | None],
        random: Callable[[], float],
    ) -> None:
        self.failed = False
        self._traced = traced
        self._put = put
        self._state_of = state_of
        self._random = random
        self._lock = threading.Lock()
        self._parents: OrderedDict[TriggerId, SpanContext] = OrderedDict()
        self._checkpoint: CheckpointRecord | None = None
        self._requested_by: SpanContext | None = None
        self._parent = traced.parent
        self._start: StartPhases | None = None
        self._epoch: Epoch | None = None
        self._restored: Mapping[str, Attribute] = {}
        self._start_parent: SpanContext | None = None

    @_harmless
    def expect(self, trigger_id: TriggerId, parent: SpanContext) -> None:
        """Make the span of another process the parent of the checkpoint that answers a request."""
        with self._lock:
            self._parents[trigger_id] = parent
            while len(self._parents) > _REMEMBERED:
                self._parents.popitem(last=False)

    @_harmless
    def handled(self, epoch: Epoch, event: m.Event, actions: Sequence[m.Action]) -> None:
        """Follow the coordinator by one event; called under the state lock."""
        before = self._checkpoint
        self._checkpoint, ended = follow(before, event, actions)
        if ended is not None:
            context = self._context(epoch, ended.id)
            self._put(checkpoint_spans(ended, context, self._requested_by, self._about(epoch)))
        if self._checkpoint is not None and (before is None or before.id != self._checkpoint.id):
            self._requested_by = self._requester()
            trace_checkpoint(self._checkpoint.id, self._context(epoch, self._checkpoint.id).fields)

    @_harmless
    def starting(self, start: StartPhases, restored: CheckpointId | None, first_output: TriggerId) -> None:
        """Follow the start of an epoch.

        Args:
            start: its parts.
            restored: the snapshot that it is restored from; None for a fresh start.
            first_output: the request for the first checkpoint behind a restore, which belongs to its trace.
        """
        self._start, self._start_parent, self._parent = start, self._parent, None
        self._epoch = start.epoch
        self._restored = {} if restored is None else {"streamjob.restored_checkpoint": restored}
        self.expect(first_output, self._start_context(start))

    @_harmless
    def not_started(self, start: StartPhases, now: float, failure: str) -> None:
        """Record a start that has ended before a batch was emitted."""
        self._end_start(start, now, failure)

    @_harmless
    def emitted(self, chain: ChainUid, batch: BatchProgress) -> None:
        """Record a batch that has ended."""
        start, epoch = self._start, self._epoch
        if start is not None and batch.begun is not None and batch.begun >= start.begun:
            end = batch.begun + batch.duration_ms / 1000
            known = {**self._about(start.epoch), "streamjob.chain": chain, "streamjob.batch": batch.batch}
            above = self._start_context(start)
            first = Span("first batch", above.child("first batch"), above, batch.begun, end, known)
            self._end_start(start, end, None, [first])
        if self._random() < self._traced.batches:
            context = SpanContext.root(self._traced.process, "batch", chain, batch.batch, str(batch.begun))
            about = self._traced.about if epoch is None else self._about(epoch)
            self._put(batch_spans(chain, batch, context, about))

    def _end_start(self, start: StartPhases, end: float, failure: str | None, last: Sequence[Span] = ()) -> None:
        with self._lock:
            # A batch and the end of the epoch may be noted at the same time, by two threads.
            if self._start is not start:
                return
            self._start = None
        about = {**self._about(start.epoch), **self._restored}
        spans = start_spans(start, end, self._start_context(start), self._start_parent, about, failure)
        self._put([*spans, *last])

    def _requester(self) -> SpanContext | None:
        with self._lock:
            known = list(self._parents)
            # The coordinator has one checkpoint in progress, so a request in progress is one for it.
            found = [each for each in known if self._state_of(each) is TriggerState.IN_PROGRESS]
            return self._parents.pop(found[0]) if found else None

    def _context(self, epoch: Epoch, checkpoint: CheckpointId) -> SpanContext:
        own = ("checkpoint", self._traced.process, epoch, checkpoint)
        parent = self._requested_by
        return SpanContext.root(*own) if parent is None else parent.child(*own)

    def _start_context(self, start: StartPhases) -> SpanContext:
        own = ("start", self._traced.process, start.epoch)
        parent = self._start_parent
        return SpanContext.root(*own) if parent is None else parent.child(*own)

    def _about(self, epoch: Epoch) -> dict[str, Attribute]:
        return {**self._traced.about, "streamjob.epoch": epoch}
