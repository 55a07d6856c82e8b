"""A job that has no driver: before the first one, between runs, while suspended, and when it has finished or failed."""

from __future__ import annotations

from dataclasses import replace

from streamjob_operator.decisions.shared import runs
from streamjob_operator.decisions.states import compatibility, preflight
from streamjob_operator.decisions.states.adoption import adopt
from streamjob_operator.decisions.states.starting import asks_for_redeployment, deploy, deploy_wanted, go_on
from streamjob_operator.decisions.values.actions import AddFinalizer, DeleteDriver, Emit
from streamjob_operator.decisions.values.situation import Situation, Step
from streamjob_operator.resources.effect_of_changes import Change
from streamjob_operator.resources.status import LifecycleState


def created(s: Situation) -> Step:
    """Nothing has happened yet."""
    if s.resource.deleted:
        return delete(s)
    if not s.seen.finalizer:
        return Step(memory=s.memory, actions=(AddFinalizer(),), requeue=0)
    if not s.memory.since:
        return Step(memory=replace(s.memory, since=s.now), requeue=0)
    if s.spec is None:
        return Step(memory=s.memory)
    if s.spec.schedule is not None and not s.spec.suspend:
        return wait_for_run(s)
    taken_over = adopt(s)
    if taken_over is not None:
        return taken_over
    if s.spec.suspend:
        return suspend(s)
    return deploy_wanted(s, from_state=False, event=_submit("is deployed for the first time"))


def suspended(s: Situation) -> Step:
    """The job was stopped because its spec asked for it."""
    if s.resource.deleted:
        return delete(s)
    leftover = _remove_pods(s)
    if s.spec is None or s.spec.suspend or leftover is not None:
        return leftover or Step(memory=s.memory)
    if s.spec.schedule is not None:
        return wait_for_run(s)
    incompatible = compatibility.incompatible(s)
    if incompatible is not None:
        return Step(memory=s.memory)
    return deploy_wanted(s, from_state=False, event=_submit("is resumed"))


def scheduled(s: Situation) -> Step:
    """No run is under way; the next one begins at its time."""
    if s.resource.deleted:
        return delete(s)
    leftover = _remove_pods(s)
    if s.spec is None or leftover is not None:
        return leftover or Step(memory=s.memory)
    if s.spec.suspend:
        return suspend(s)
    if s.spec.schedule is not None:
        return _run(s)
    if compatibility.incompatible(s) is not None:
        return Step(memory=s.memory)
    return deploy_wanted(s, event=_submit("has no schedule any more, and runs all the time"))


def finished(s: Situation) -> Step:
    """All work was done; a spec that asks for other work is a new start."""
    return _until_the_spec_changes(s)


def failed(s: Situation) -> Step:
    """Nothing more is tried before the spec changes, or the next run is due."""
    if s.spec is not None and s.spec.suspend and not s.resource.deleted:
        return suspend(s)
    # A run of a job that another owner has superseded would take the log back from it.
    may_run = s.memory.failure_reason != "Superseded" and not s.resource.deleted and not starts_again(s)
    return _run(s) if may_run else _until_the_spec_changes(s)


def suspend(s: Situation) -> Step:
    """Decide that the job rests."""
    event = Emit(type="Normal", reason="Suspended", message="the job is suspended")
    return runs.rest(s, LifecycleState.SUSPENDED, event)


def wait_for_run(s: Situation) -> Step:
    """Decide that the job rests until its first run, or the first one since it ran all the time or was suspended."""
    event = Emit(type="Normal", reason="Scheduled", message="the job runs by its schedule")
    return runs.rest(s, LifecycleState.SCHEDULED, event)


def starts_again(s: Situation) -> bool:
    """Return whether the spec asks a job that has finished or failed for another start, and may have it."""
    if s.resource.deleted or s.spec is None or s.spec.suspend:
        return False
    other_work = s.difference in (Change.SCALE, Change.UPGRADE) and not _only_rescales_what_is_done(s)
    asks = other_work or asks_for_redeployment(s)
    return asks and compatibility.incompatible(s) is None and not preflight.blocks(s)


def _until_the_spec_changes(s: Situation) -> Step:
    if s.resource.deleted:
        return delete(s)
    if not starts_again(s):
        return Step(memory=s.memory)
    step = deploy_wanted(s, from_state=False, event=_submit("is started for a changed spec"))
    # Else it repeats the run that has failed.
    return _as_run(s, step) if runs.due(s) is not None else step


def _run(s: Situation) -> Step:
    """Begin a run if one is due; the revision that was rolled back is not tried again for it."""
    why = runs.due(s)
    if why is None:
        return Step(memory=s.memory, requeue=runs.seconds_until_due(s))
    event = Emit(type="Normal", reason="RunStarted", message=f"a run begins: {why}")
    if s.rolled_back and s.memory.revision is not None:
        step = deploy(s, s.memory.revision, go_on(s), event=event)
    elif compatibility.incompatible(s) is not None:
        return Step(memory=s.memory)
    else:
        step = deploy_wanted(s, event=event)
    return _as_run(s, step)


def _as_run(s: Situation, step: Step) -> Step:
    begins = step.memory.lifecycle is LifecycleState.DEPLOYING
    return replace(step, memory=runs.begun(s, step.memory)) if begins else step


def _only_rescales_what_is_done(s: Situation) -> bool:
    return s.memory.lifecycle is LifecycleState.FINISHED and s.difference is Change.SCALE


def _remove_pods(s: Situation) -> Step | None:
    pods = tuple(DeleteDriver(name=pod.name) for pod in s.seen.pods if pod.deleting is None)
    return Step(memory=s.memory, actions=pods, requeue=s.limits.poll) if pods else None


def delete(s: Situation) -> Step:
    """Decide that the job ends with its resource."""
    return Step(memory=replace(s.memory, lifecycle=LifecycleState.DELETING, since=s.now, stop=None), requeue=0)


def _submit(what: str) -> Emit:
    return Emit(type="Normal", reason="Submit", message=f"the job {what}")
