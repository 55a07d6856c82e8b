"""The runs of a job with a schedule: when the next one is due, which times pass, and the rest between two runs."""

from __future__ import annotations

from dataclasses import replace

from streamjob.schedules import next_time
from streamjob_operator.decisions.values import health
from streamjob_operator.decisions.values.actions import Emit
from streamjob_operator.decisions.values.memory import Memory
from streamjob_operator.decisions.values.situation import Situation, Step
from streamjob_operator.resources.base import stamp_of
from streamjob_operator.resources.parts import Schedule
from streamjob_operator.resources.status import RESTING, LifecycleState

_WITHOUT_TIMES = frozenset(
    {LifecycleState.CREATED, LifecycleState.SUSPENDED, LifecycleState.FINISHED, LifecycleState.DELETING}
)


def kept(s: Situation) -> Step | None:
    """Take up a schedule that is new or has changed, drop one that is gone, or let a time pass; None for nothing.

    A changed schedule counts from now on, as does that of a job that is resumed: no time before is made up for.
    """
    memory = s.memory
    if s.spec is None or s.resource.deleted or (memory.lifecycle in health.RUNS and not s.driver_is_live):
        # The status first reports the end of the driver; otherwise the job would look as if it still ran.
        return None
    schedule = None if s.spec.suspend or memory.lifecycle in _WITHOUT_TIMES else s.spec.schedule
    if schedule is None:
        gone = replace(memory, times=None, next_run=None)
        return None if gone == memory else Step(memory=gone, requeue=0)
    if memory.times != _text(schedule):
        nonces = memory.nonces
        if not memory.attempt:
            # As a first deployment takes no savepoint for its nonces.
            nonces = nonces.model_copy(update={"run": schedule.run_nonce})
        times, due = _text(schedule), _after(schedule, s.now)
        return Step(memory=replace(memory, times=times, next_run=due, nonces=nonces), requeue=0)
    why = _passes(s, schedule)
    if why is None or memory.next_run is None:
        return None
    message = f"the run that was due at {stamp_of(memory.next_run)} does not begin: {why}"
    event = Emit(type="Warning", reason="RunSkipped", message=message)
    return Step(memory=replace(memory, next_run=_after(schedule, s.now)), events=(event,), requeue=0)


def due(s: Situation) -> str | None:
    """Return why a run is to begin now; None if it is not."""
    if s.spec is None or s.spec.schedule is None:
        return None
    nonce = s.spec.schedule.run_nonce
    if nonce is not None and nonce != s.memory.nonces.run:
        return "runNonce has changed"
    if s.memory.next_run is None or s.now < s.memory.next_run:
        return None
    return f"it was due at {stamp_of(s.memory.next_run)}"


def seconds_until_due(s: Situation) -> float | None:
    """Return how long the job rests if nothing changes; None if only a change lets it run."""
    return s.memory.next_run - s.now if s.memory.next_run is not None and s.memory.next_run > s.now else None


def begun(s: Situation, deploying: Memory) -> Memory:
    """Return the memory of a driver that was decided on as that of the first one of a run."""
    schedule = None if s.spec is None else s.spec.schedule
    if schedule is None:
        return deploying
    return replace(
        deploying,
        last_run=s.now,
        next_run=_after(schedule, s.now),
        nonces=deploying.nonces.model_copy(update={"run": schedule.run_nonce}),
        failures=0,
        last_failure=None,
        failure=None,
        failure_reason=None,
    )


def completed(s: Situation, message: str) -> Step:
    """Decide that a run is over."""
    memory = replace(s.memory, last_run_completed=s.now, stable_revision=s.memory.revision)
    event = Emit(type="Normal", reason="RunCompleted", message=message)
    return rest(replace(s, memory=memory), LifecycleState.SCHEDULED, event)


def rest(s: Situation, lifecycle: LifecycleState, event: Emit) -> Step:
    """Decide that the job rests, and is well."""
    memory = replace(
        s.memory,
        lifecycle=lifecycle,
        since=s.now,
        stop=None,
        in_run=False,
        next_restart=None,
        failures=0,
        last_failure=None,
        failure=None,
        failure_reason=None,
    )
    return Step(memory=memory, events=(event,), requeue=0)


def _passes(s: Situation, schedule: Schedule) -> str | None:
    """Return why the next run will not begin; None if it will, or is not due."""
    memory = s.memory
    if memory.next_run is None or s.now < memory.next_run:
        return None
    if memory.in_run and memory.lifecycle not in RESTING:
        began = "" if memory.last_run is None else f", which began at {stamp_of(memory.last_run)},"
        return f"the one before{began} is still under way"
    late = schedule.starting_deadline
    if late is None or next_time(schedule.cron, s.now - late - 1, schedule.time_zone) <= s.now:
        return None
    return f"it could not begin within {late:g} s"


def _after(schedule: Schedule, now: float) -> float:
    return next_time(schedule.cron, now, schedule.time_zone)


def _text(schedule: Schedule) -> str:
    return f"{schedule.cron} {schedule.time_zone or 'UTC'}"
