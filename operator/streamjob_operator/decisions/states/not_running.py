"""A job that has no driver: before the first one, while it is suspended, and when it has finished or failed."""

from __future__ import annotations

from dataclasses import replace

from streamjob_operator.decisions.states import compatibility, preflight
from streamjob_operator.decisions.states.adoption import adopt
from streamjob_operator.decisions.states.starting import asks_for_redeployment, deploy_wanted
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
    incompatible = compatibility.incompatible(s)
    if incompatible is not None:
        return Step(memory=s.memory)
    return deploy_wanted(s, from_state=False, event=_submit("is resumed"))


def finished(s: Situation) -> Step:
    """All work was done; a spec that asks for other work is a new start."""
    return _until_the_spec_changes(s)


def failed(s: Situation) -> Step:
    """Nothing more is tried before the spec changes."""
    if s.spec is not None and s.spec.suspend and not s.resource.deleted:
        return suspend(s)
    return _until_the_spec_changes(s)


def suspend(s: Situation) -> Step:
    """Decide that the job rests."""
    memory = replace(
        s.memory,
        lifecycle=LifecycleState.SUSPENDED,
        since=s.now,
        stop=None,
        next_restart=None,
        failures=0,
        last_failure=None,
        failure=None,
        failure_reason=None,
    )
    event = Emit(type="Normal", reason="Suspended", message="the job is suspended")
    return Step(memory=memory, events=(event,), requeue=0)


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
    return deploy_wanted(s, from_state=False, event=_submit("is started for a changed spec"))


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
