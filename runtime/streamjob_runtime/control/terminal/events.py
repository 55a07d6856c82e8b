"""Describes in sentences what happened between two observations of a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from streamjob.client import formatting
from streamjob.client.diagnosing import savepoint_waits
from streamjob.client.models import CheckpointDetail, CheckpointsView, JobState, JobView, SnapshotKind
from streamjob.client.page_models import EventKind, EventWeight


@dataclass(frozen=True, slots=True)
class Event:
    """An event; `is_end` marks the end of the job.

    `at` is its time in seconds since 1970, None for the time of the observation. `details` is more than the text has
    room for.
    """

    text: str
    weight: EventWeight = "notable"
    is_end: bool = False
    kind: EventKind = "state"
    at: float | None = None
    details: Mapping[str, str | int | float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Look:
    """A job and its checkpoints at one moment."""

    job: JobView
    checkpoints: CheckpointsView


_BAD_STATES = frozenset({JobState.RESTARTING, JobState.FAILED, JobState.SUPERSEDED})
_BEFORE_RUNNING = frozenset({JobState.CREATED, JobState.RESTORING, JobState.RESTARTING})


def events(before: Look | None, now: Look) -> list[Event]:
    """Return the events between `before` (None for the start) and `now`, in the order in which to show them."""
    return [
        *_ended_checkpoints(before, now),
        *_waiting_savepoint(before, now),
        *_ended_inputs(before, now),
        *_finished_chains(before, now),
        *_states(before, now),
    ]


def checkpoint_name(entry: CheckpointDetail, job: JobView) -> str:
    """Return the name of a snapshot: `checkpoint 14`, `savepoint 15`, `final checkpoint 16`."""
    kind = job.kind_of(entry)
    name = "final checkpoint" if kind is SnapshotKind.FINAL else kind.value
    unaligned = "unaligned " if len(job.chains) > 1 and entry.is_unaligned else ""
    return f"{unaligned}{name} {entry.id}"


def _states(before: Look | None, now: Look) -> Iterator[Event]:
    state = now.job.state
    restarted = before is not None and now.job.restarts > before.job.restarts
    if before is not None and before.job.state is state and not restarted:
        return
    why = formatting.first_line(now.job.failure)
    if restarted and state is not JobState.RESTARTING:
        # It was over before anybody looked.
        yield Event(
            f"{now.job.name} has restarted{': ' + why if why else ''}",
            "bad",
            kind="restart",
            details={"state": JobState.RESTARTING.value, "text": now.job.failure},
        )
    if state in _BAD_STATES:
        yield Event(
            f"{now.job.name} is {state}{': ' + why if why else ''}",
            "bad",
            is_end=state.terminal,
            kind="restart" if state is JobState.RESTARTING else "state",
            at=now.job.state_since,
            details={"state": state.value, "text": now.job.failure},
        )
    elif state.terminal:
        yield Event(
            f"{now.job.name} is {state} after {formatting.duration(now.job.uptime)}: "
            f"{formatting.count(now.job.records_in)} records in, {formatting.count(now.job.records_out)} out",
            is_end=True,
            at=now.job.state_since,
            details={"state": state.value},
        )
    else:
        source = now.job.restored_from
        restored = (
            source is not None
            and state is JobState.RUNNING
            and (before is None or restarted or before.job.state in _BEFORE_RUNNING)
        )
        where = f", restored from {source.kind} {source.id}" if source is not None and restored else ""
        yield Event(f"{now.job.name} is {state}{where}", at=now.job.state_since, details={"state": state.value})


def _waiting_savepoint(before: Look | None, now: Look) -> Iterator[Event]:
    waits = _savepoint_waits(now)
    if waits is not None and (before is None or _savepoint_waits(before) is None):
        yield Event(waits, kind="checkpoint")


def _savepoint_waits(look: Look) -> str | None:
    return savepoint_waits(look.checkpoints, look.job.start_time + look.job.uptime)


def _ended_inputs(before: Look | None, now: Look) -> Iterator[Event]:
    ended_before = _inputs_at_end(before.job) if before is not None else frozenset()
    for uid in sorted(_inputs_at_end(now.job) - ended_before):
        yield Event(f"{uid} has reached its end", "routine", kind="input", details={"source": uid})


def _inputs_at_end(job: JobView) -> frozenset[str]:
    return frozenset(
        source.uid for chain in job.chains for source in chain.inputs if source.ended and source.chain is None
    )


def _finished_chains(before: Look | None, now: Look) -> Iterator[Event]:
    # If the job has a single chain, the end of the job says the same.
    if len(now.job.chains) < 2:
        return
    finished_before = {chain.uid for chain in before.job.chains if chain.finished} if before is not None else set()
    for chain in now.job.chains:
        if chain.finished and chain.uid not in finished_before:
            yield Event(f"chain {chain.uid} has finished", "routine", details={"chain": chain.uid})


def _ended_checkpoints(before: Look | None, now: Look) -> Iterator[Event]:
    # An id that a failed epoch gave up may be used again, with another trigger time.
    known = (
        {(entry.id, entry.trigger_timestamp) for entry in before.checkpoints.history if _ended(entry)}
        if before
        else set()
    )
    for entry in reversed(now.checkpoints.history):
        if not _ended(entry) or (entry.id, entry.trigger_timestamp) in known:
            continue
        if entry.class_name == "failed":
            why = formatting.first_line(entry.failure_message)
            yield Event(
                f"{checkpoint_name(entry, now.job)} failed{': ' + why if why else ''}",
                "bad",
                kind="checkpoint",
                at=None if entry.failure_timestamp is None else entry.failure_timestamp / 1000,
                details={"checkpoint": entry.id, "text": entry.failure_message},
            )
        else:
            took = formatting.duration(entry.end_to_end_duration / 1000)
            yield Event(
                f"{checkpoint_name(entry, now.job)} completed in {took}, "
                f"{formatting.size(entry.checkpointed_size)} written of {formatting.size(entry.state_size)}",
                "notable" if entry.is_savepoint else "routine",
                kind="checkpoint",
                at=(entry.trigger_timestamp + entry.end_to_end_duration) / 1000,
                details={"checkpoint": entry.id, "path": entry.external_path},
            )


def _ended(entry: CheckpointDetail) -> bool:
    return entry.class_name != "in_progress"
