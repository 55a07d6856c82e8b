"""Spans of what the controller does with a job: an upgrade, a suspension, a start.

A span begins with a decision that the status records, and ends when the status shows the outcome. The driver's spans
are below ours: it gets the identity of their parent with a request for a stop, and in its pod's environment. Identities
follow from the StreamJob's uid and the attempt, so no process has to remember them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from streamjob.telemetry.spans import Attribute, Span, SpanContext
from streamjob_operator.resources.status import RESTING, StreamJobStatus

_START = "start"
_STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A change of what runs, from the decision to its outcome.

    Args:
        name: of its span: `upgrade`, `suspend`, `start` and so on.
        attempt: the attempt that it leads to.
        begun: the decision.
        stopped: when the former driver was gone; None if it is not, or there was none.
        started: the decision on the new attempt; None before it.
    """

    name: str
    attempt: int
    begun: datetime
    stopped: datetime | None = None
    started: datetime | None = None


def move_context(uid: str, attempt: int) -> SpanContext:
    """Return the identity of the span of the move that leads to an attempt."""
    return SpanContext.root("streamjob", uid, attempt)


def start_context(uid: str, attempt: int) -> SpanContext:
    """Return the identity of the span that waits for the driver of an attempt."""
    return move_context(uid, attempt).child(_START)


def stop_context(uid: str, attempt: int) -> SpanContext:
    """Return the identity of the span that waits for the end of the driver of an attempt."""
    return move_context(uid, attempt + 1).child(_STOP)


def follow(
    move: Move | None, before: StreamJobStatus, after: StreamJobStatus, now: datetime
) -> tuple[Move | None, Move | None]:
    """Return the move under way, and the one that has ended, if any.

    Args:
        move: the move that was under way; None if none was known, as after a restart of the controller.
        before: the status before a decision.
        after: the status after it.
        now: the time of the decision.
    """
    stop, attempt = after.reconciliation.stop, after.job_status.attempt
    stopping = stop is not None and stop.next_try is None
    if move is not None and attempt > move.attempt:
        move = None
    if move is None and stop is not None and stopping:
        return Move(name=stop.purpose.lower(), attempt=stop.attempt + 1, begun=stop.started), None
    if move is None and attempt > before.job_status.attempt:
        move = Move(name=_START, attempt=attempt, begun=now)
    if move is None:
        return None, None
    if attempt < move.attempt:
        if stopping:
            return move, None
        move = replace(move, stopped=move.stopped or now)
        return (None, move) if stop is not None or after.lifecycle_state in RESTING else (move, None)
    if move.started is None:
        has_stopped = move.stopped or (now if move.name != _START else None)
        move = replace(move, started=after.reconciliation.decided or now, stopped=has_stopped)
    last = after.checkpoint.last_completed
    completed = last is not None and last.attempt is not None and last.attempt >= move.attempt
    return (None, move) if completed or after.lifecycle_state in RESTING or stopping else (move, None)


def move_spans(
    move: Move, uid: str, after: StreamJobStatus, now: datetime, about: Mapping[str, Attribute]
) -> list[Span]:
    """Return the spans of a move that has ended, its parent span first.

    Args:
        uid: of the StreamJob.
        after: the status that shows the outcome.
        now: the time of that.
        about: attributes of the job.
    """
    last = after.checkpoint.last_completed
    end, failure = now, None
    if move.started is None:
        stop = after.reconciliation.stop
        failure = None if stop is None else stop.failure or "it was postponed"
    elif last is not None and last.attempt is not None and last.attempt >= move.attempt:
        end = max(move.started, last.completed or now)
    else:
        failure = after.job_status.failure or "another change came before its first checkpoint"
    known: dict[str, Attribute] = {**about, "streamjob.attempt": move.attempt}
    whole = move_context(uid, move.attempt)
    spans = [Span(move.name, whole, None, move.begun.timestamp(), end.timestamp(), known, failure)]
    if move.stopped is not None:
        stopped = whole.child(_STOP)
        spans.append(Span(_STOP, stopped, whole, move.begun.timestamp(), move.stopped.timestamp(), known))
    if move.started is not None:
        context = start_context(uid, move.attempt)
        spans.append(Span(_START, context, whole, move.started.timestamp(), end.timestamp(), known, failure))
    return spans
