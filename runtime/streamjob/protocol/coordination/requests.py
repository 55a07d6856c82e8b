"""Requests and their outcomes: one outcome per trigger id, and the same one for a repeated request."""

from __future__ import annotations

from dataclasses import dataclass, replace

from streamjob.ids import CheckpointId, TriggerId
from streamjob.protocol.coordination.failures import AbortReason
from streamjob.protocol.coordination.messages import StopRequested, TriggerRequested
from streamjob.protocol.coordination.triggers import Request, Triggers, TriggerState, TriggerStatus


@dataclass
class Stop:
    """A stop in progress, and its callers: first the one that began it, then those that joined with a plain stop."""

    request: StopRequested
    trigger_ids: tuple[TriggerId, ...]

    @property
    def must_succeed(self) -> bool:
        """Whether the job may stop only with its snapshot. A caller without savepoint and drain loses nothing."""
        return must_succeed(self.request)


def must_succeed(request: StopRequested) -> bool:
    """Return whether a stop is useless without its snapshot."""
    return request.savepoint or request.drain


def explain(reason: AbortReason, message: str) -> str:
    """Return a reason and its details as one sentence."""
    return f"{reason.value}: {message}" if message else reason.value


class Requests:
    """Accepts requests and reports their outcomes."""

    def __init__(self, triggers: Triggers) -> None:
        self._triggers = triggers
        self.stop: Stop | None = None

    def repeats(self, trigger_id: TriggerId) -> bool:
        """Return whether a request is known already."""
        return self._triggers.status(trigger_id) is not None

    def enqueue(self, event: TriggerRequested) -> None:
        """Queue a new request, or refuse it if the queue is full."""
        if self._triggers.full:
            self.refuse(event.trigger_id, AbortReason.TOO_MANY_REQUESTS)
        else:
            request = Request(
                trigger_id=event.trigger_id, kind=event.kind, location=event.location, unaligned=event.unaligned
            )
            self._triggers.enqueue(request)

    def take(self) -> Request | None:
        """Return the next request to serve; None if the queue is empty."""
        return self._triggers.take()

    def begin_stop(self, request: StopRequested) -> None:
        """Accept a stop; refuse the queued requests."""
        self._triggers.accept(request.trigger_id)
        self.stop = Stop(request, (request.trigger_id,))
        self.fail_queued(AbortReason.JOB_STOPPING, "")

    def join_stop(self, trigger_id: TriggerId) -> None:
        """Add a caller to the stop under way."""
        assert self.stop is not None
        self._triggers.accept(trigger_id)
        self.stop.trigger_ids += (trigger_id,)

    def refuse(self, trigger_id: TriggerId, reason: AbortReason, message: str = "") -> None:
        """Fail a new request."""
        self._triggers.accept(trigger_id)
        self.fail((trigger_id,), reason, message)

    def fail_queued(self, reason: AbortReason, message: str) -> None:
        """Fail all queued requests."""
        self.fail(tuple(request.trigger_id for request in self._triggers.queued()), reason, message)

    def fail(self, trigger_ids: tuple[TriggerId, ...], reason: AbortReason, message: str) -> None:
        """Report failed requests."""
        self._resolve(trigger_ids, TriggerStatus(state=TriggerState.FAILED, failure=explain(reason, message)))

    def complete(self, trigger_ids: tuple[TriggerId, ...], checkpoint: CheckpointId, uri: str | None) -> None:
        """Report requests that completed with a snapshot."""
        self._resolve(trigger_ids, TriggerStatus(state=TriggerState.COMPLETED, checkpoint=checkpoint, uri=uri))

    def stopped(self, checkpoint: CheckpointId, uri: str | None) -> None:
        """Report to all callers of a stop that the job ended with its snapshot."""
        stop, self.stop = self.stop, None
        if stop is not None:
            self.complete(stop.trigger_ids, checkpoint, uri)

    def give_up_stop(self, reason: AbortReason, message: str) -> None:
        """Report that the job does not stop because its savepoint failed; joined plain stops continue."""
        assert self.stop is not None
        stop, self.stop = self.stop, None
        first, *joined = stop.trigger_ids
        self.fail((first,), reason, message)
        if joined:
            self.stop = Stop(replace(stop.request, trigger_id=joined[0], savepoint=False, location=None), tuple(joined))

    def uncommitted(self, trigger_ids: tuple[TriggerId, ...], checkpoint: CheckpointId, uri: str | None) -> None:
        """Report that a savepoint is stored, but that the epoch ended before its output was committed."""
        text = (
            f"savepoint {checkpoint} is stored at {uri}, but the job failed before its output was published; the "
            "restarted job publishes it, and continues from there"
        )
        outcome = TriggerStatus(state=TriggerState.FAILED, checkpoint=checkpoint, uri=uri, failure=text)
        self._resolve(trigger_ids, outcome)

    def close(self, reason: AbortReason, message: str, *, job_stopped: bool) -> None:
        """Report the end of the epoch to all; `job_stopped`: the job stopped, but without the stop's snapshot."""
        stop, self.stop = self.stop, None
        if stop is not None and job_stopped:
            outcome = TriggerStatus(state=TriggerState.COMPLETED, failure=explain(reason, message))
            self._resolve(stop.trigger_ids, outcome)
        elif stop is not None:
            self.fail(stop.trigger_ids, reason, message)
        self.fail_queued(reason, message)

    def _resolve(self, trigger_ids: tuple[TriggerId, ...], outcome: TriggerStatus) -> None:
        for trigger_id in trigger_ids:
            self._triggers.resolve(trigger_id, outcome)
