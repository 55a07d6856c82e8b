"""Decides which event is due, from what is seen of a running job; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from streamjob.protocol.lifecycle import JobState
from streamjob_runtime.lineage.content import EventType, Moment, Schema

_ENDS: Mapping[JobState, EventType] = {
    JobState.FINISHED: "COMPLETE",
    JobState.STOPPED: "COMPLETE",
    JobState.FAILED: "FAIL",
    JobState.SUPERSEDED: "ABORT",
}


@dataclass(frozen=True, slots=True)
class Look:
    """The view of a job at a moment.

    Args:
        at: when, in seconds since 1970.
        epoch: its epoch; None before the first claim.
        restarts: how often it was restarted after a failure.
        failure: its last failure; None if there was none.
        schemas: the columns that each sink gets, by name, as far as they are known.
    """

    at: float
    epoch: int | None
    state: JobState
    restarts: int = 0
    failure: str | None = None
    schemas: Mapping[str, Schema] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Followed:
    """The events that were sent about a job.

    Args:
        epoch: the last epoch of which something was said; None for none.
        began: when it was seen first, in seconds since 1970.
        ended: whether its end was said.
        said_at: when the last event was.
        restarts: the restarts that were seen when the epoch began.
        schemas: the columns that were said.
    """

    epoch: int | None = None
    began: float = 0.0
    ended: bool = False
    said_at: float = 0.0
    restarts: int = 0
    schemas: Mapping[str, Schema] = field(default_factory=dict)


def follow(before: Followed, look: Look, interval: float) -> tuple[Followed, Sequence[Moment]]:
    """Return the new state and the events to send, oldest first.

    Args:
        interval: seconds between two RUNNING events.
    """
    due: list[Moment] = []
    now = before
    if look.epoch is not None and look.epoch != before.epoch:
        if before.epoch is not None and not before.ended:
            due.append(_end(before, look, "FAIL" if look.restarts > before.restarts else "COMPLETE"))
        now = Followed(look.epoch, look.at, said_at=look.at, restarts=look.restarts, schemas=look.schemas)
        due.append(Moment("START", look.at, look.epoch, look.at, look.schemas))
    if now.epoch is None or now.ended:
        return now, due
    # An epoch that has not gone on to the next one yet, but waits for it.
    failed = look.state is JobState.RESTARTING and look.restarts > now.restarts
    if (end := "FAIL" if failed else _ENDS.get(look.state)) is not None:
        due.append(_end(now, look, end))
        return replace(now, ended=True, said_at=look.at), due
    schemas = {**now.schemas, **look.schemas}
    if schemas != now.schemas or look.at - now.said_at >= interval:
        due.append(Moment("RUNNING", look.at, now.epoch, now.began, schemas))
        now = replace(now, said_at=look.at, schemas=schemas)
    return now, due


def _end(of: Followed, look: Look, kind: EventType) -> Moment:
    assert of.epoch is not None
    failure = (look.failure or "the job gave no reason") if kind == "FAIL" else None
    return Moment(kind, look.at, of.epoch, of.began, of.schemas, failure)
