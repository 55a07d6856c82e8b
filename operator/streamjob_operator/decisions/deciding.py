"""The controller's decision: from an observation of a StreamJob to its next status and actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from streamjob_operator.decisions.scaling import autoscaling
from streamjob_operator.decisions.shared import executors, recording, runs
from streamjob_operator.decisions.shared.history import forgotten
from streamjob_operator.decisions.shared.requests import superfluous
from streamjob_operator.decisions.states import preflight, stopping, successors
from streamjob_operator.decisions.states.deletion import deleting, orphaning
from streamjob_operator.decisions.states.not_running import created, failed, finished, scheduled, suspended
from streamjob_operator.decisions.states.running import deploying, running
from streamjob_operator.decisions.states.starting import LOG_DAMAGED
from streamjob_operator.decisions.states.upgrade import let_successor_go, stopped
from streamjob_operator.decisions.status.conditions import conditions, events
from streamjob_operator.decisions.status.reporting import report
from streamjob_operator.decisions.values import health
from streamjob_operator.decisions.values.actions import Action
from streamjob_operator.decisions.values.decision import Decision, Resource
from streamjob_operator.decisions.values.kept import written
from streamjob_operator.decisions.values.memory import intends_otherwise, memory_of
from streamjob_operator.decisions.values.observation import Observation, StoreProblem, StoreTrouble
from streamjob_operator.decisions.values.situation import Limits, Situation, Step
from streamjob_operator.resources.status import LifecycleState, StreamJobStatus

HANDLERS: Mapping[LifecycleState, Callable[[Situation], Step]] = {
    LifecycleState.CREATED: created,
    LifecycleState.DEPLOYING: deploying,
    LifecycleState.DEPLOYED: running,
    LifecycleState.STABLE: running,
    LifecycleState.ROLLED_BACK: running,
    LifecycleState.SUSPENDED: suspended,
    LifecycleState.SCHEDULED: scheduled,
    LifecycleState.FINISHED: finished,
    LifecycleState.FAILED: failed,
    LifecycleState.DELETING: deleting,
}
"""The handler of each state in which nothing is being stopped; UPGRADING, SUSPENDING and ROLLING_BACK always stop."""


def decide(resource: Resource, seen: Observation, limits: Limits | None = None) -> Decision:
    """Return the next status and actions.

    Args:
        resource: the StreamJob as it was read, before the observation was made.
        seen: the result of one observation.
        limits: how long to be patient.
    """
    before = memory_of(resource.status)
    s = Situation(resource=resource, memory=before, seen=seen, limits=limits or Limits())
    grown = autoscaling.after_a_kill(s)
    # A driver with more memory is another revision: it is wanted before the end of this one is handled.
    step = Step(memory=before, requeue=0) if grown is not None else orphaning(s) or recording.settled(s) or _next(s)
    if step.reason == StoreProblem.UNREACHABLE:
        step = _explained(seen, step)
    after, scaling = step.memory, grown or autoscaling.look(s, step)
    changed = intends_otherwise(before, after) or scaling.moved
    scaled = resource.status.model_copy(update={"autoscaling": scaling.status})
    if scaling.moved:
        # Another revision is wanted from now on, and the conditions must not call the running one up to date.
        s = replace(s, resource=replace(resource, status=scaled, revision=None))
    status = conditions(s, step, report(s, written(after, scaled)))
    told = (*step.events, *scaling.events, *events(resource.status, status), *health.restart_events(s))
    if changed:
        return Decision(status=status, actions=told, requeue=0)
    tidied: tuple[Action, ...] = ()
    if after.lifecycle is not LifecycleState.DELETING:
        tidied = (*recording.recordings(s), *superfluous(s), *forgotten(s), *executors.upkeep(s), *preflight.upkeep(s))
        tidied = (*tidied, *(each for each in successors.abandoned(s) if each not in step.actions))
    return Decision(status=status, actions=(*step.actions, *tidied, *told), requeue=_requeue(s, step, scaling.requeue))


def _explained(seen: Observation, step: Step) -> Step:
    """Return a step that waits for the log with the reason why it cannot be read."""
    if seen.log_damage:
        return replace(step, reason=LOG_DAMAGED, message=seen.log_damage)
    trouble = seen.trouble or StoreTrouble(reason=StoreProblem.UNREACHABLE, message="the store does not answer")
    return replace(step, reason=trouble.reason, message=f"{step.message}: {trouble.message}")


def _requeue(s: Situation, step: Step, look: float | None) -> float | None:
    later = [each.next_try - s.seen.now for each in step.memory.trials if each.next_try > s.seen.now]
    looks = (step.requeue, look, preflight.next_look(s))
    return min([*later, *(each for each in looks if each is not None)], default=None)


def wanted_triggers(status: StreamJobStatus) -> frozenset[str]:
    """Return the trigger ids whose outcome the next decision depends on."""
    stop = memory_of(status).stop
    return frozenset() if stop is None or stop.next_try is not None else frozenset({stop.trigger_id})


def wanted_trials(status: StreamJobStatus, now: float) -> frozenset[str]:
    """Return the revisions whose pods the API server is to be asked about before the next decision."""
    return frozenset(each.revision for each in memory_of(status).trials if now >= each.next_try)


def _next(s: Situation) -> Step:
    let_go = preflight.let_go(s) or let_successor_go(s) or runs.kept(s)
    if let_go is not None:
        return let_go
    stop = s.memory.stop
    if stop is None or stop.next_try is not None:
        return recording.noted(s, HANDLERS[s.memory.lifecycle](s))
    return stopping.under_way(s, stop) or recording.noted(s, stopped(s, stop))
