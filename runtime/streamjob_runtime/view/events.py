"""What happened between two looks at a job, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from streamjob.client import formatting
from streamjob.client.models import CheckpointDetail, CheckpointsView, JobState, JobView


class Weight(Enum):
    """How much an event matters to a person."""

    ROUTINE = "routine"
    NOTABLE = "notable"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened."""

    text: str
    weight: Weight = Weight.NOTABLE


@dataclass(frozen=True, slots=True)
class Look:
    """A job and its checkpoints at one time."""

    job: JobView
    checkpoints: CheckpointsView


_BAD_STATES = frozenset({JobState.RESTARTING, JobState.FAILED, JobState.SUPERSEDED})
_BEFORE_RUNNING = frozenset({JobState.CREATED, JobState.RESTORING, JobState.RESTARTING})


def events(before: Look | None, now: Look) -> list[Event]:
    """Return what happened from `before` (None: from the start) to `now`, in the order of telling."""
    return [
        *_ended_checkpoints(before, now),
        *_ended_inputs(before, now),
        *_states(before, now),
    ]


def checkpoint_name(checkpoint: CheckpointDetail) -> str:
    """Return how a checkpoint is called: `checkpoint 14`, `savepoint 15`."""
    return f"{'savepoint' if checkpoint.is_savepoint else 'checkpoint'} {checkpoint.id}"


def first_line(text: str | None) -> str:
    """Return the first line of a message that may have many."""
    return (text or "").strip().partition("\n")[0]


def _states(before: Look | None, now: Look) -> Iterator[Event]:
    state = now.job.state
    if before is not None and before.job.state is state:
        return
    if state in _BAD_STATES:
        why = first_line(now.job.failure)
        yield Event(f"{now.job.name} is {state}{': ' + why if why else ''}", Weight.BAD)
    elif state.terminal:
        records_in = sum(chain.records_in for chain in now.job.chains)
        known = [chain.records_out for chain in now.job.chains if chain.records_out is not None]
        records_out = sum(known) if len(known) == len(now.job.chains) else None
        yield Event(
            f"{now.job.name} is {state} after {formatting.duration(now.job.uptime)}: "
            f"{formatting.count(records_in)} records in, {formatting.count(records_out)} out"
        )
    else:
        source = now.job.restored_from
        restored = (
            source is not None and state is JobState.RUNNING and (before is None or before.job.state in _BEFORE_RUNNING)
        )
        where = f", restored from {source.kind} {source.id}" if source is not None and restored else ""
        yield Event(f"{now.job.name} is {state}{where}")


def _ended_inputs(before: Look | None, now: Look) -> Iterator[Event]:
    ended_before = _inputs_at_end(before.job) if before is not None else frozenset()
    for uid in sorted(_inputs_at_end(now.job) - ended_before):
        yield Event(f"{uid} has reached its end", Weight.ROUTINE)


def _inputs_at_end(job: JobView) -> frozenset[str]:
    return frozenset(source.uid for chain in job.chains for source in chain.inputs if source.ended)


def _ended_checkpoints(before: Look | None, now: Look) -> Iterator[Event]:
    # An id that a failed epoch gave up may come again, with another trigger time.
    known = (
        {(entry.id, entry.trigger_timestamp) for entry in before.checkpoints.history if _ended(entry)}
        if before
        else set()
    )
    for entry in reversed(now.checkpoints.history):
        if not _ended(entry) or (entry.id, entry.trigger_timestamp) in known:
            continue
        if entry.class_name == "failed":
            why = first_line(entry.failure_message)
            yield Event(f"{checkpoint_name(entry)} failed{': ' + why if why else ''}", Weight.BAD)
        else:
            yield Event(
                f"{checkpoint_name(entry)} completed in {formatting.duration(entry.end_to_end_duration / 1000)}, "
                f"{formatting.size(entry.checkpointed_size)} written of {formatting.size(entry.state_size)}",
                Weight.NOTABLE if entry.is_savepoint else Weight.ROUTINE,
            )


def _ended(entry: CheckpointDetail) -> bool:
    return entry.class_name != "in_progress"
