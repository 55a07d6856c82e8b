"""Decides about a job that should run: the demands of its spec, and its health.

The order: a final end of the driver comes before requests of the spec, those before healing, and healing before side
tasks.
"""

from __future__ import annotations

from dataclasses import replace

from streamjob_operator.decisions.shared import live_changes, pod_dry_run, requests, resizing
from streamjob_operator.decisions.states import rollback, stopping
from streamjob_operator.decisions.states.driver_end import EVICTED, End, ending, evicted, recover
from streamjob_operator.decisions.states.starting import create
from streamjob_operator.decisions.states.upgrade import asked, forget_trial, once_admitted
from streamjob_operator.decisions.values import health
from streamjob_operator.decisions.values.actions import Emit, StartJob
from streamjob_operator.decisions.values.memory import Memory
from streamjob_operator.decisions.values.observation import DriverPod
from streamjob_operator.decisions.values.situation import Situation, Step
from streamjob_operator.resources.effect_of_changes import Change
from streamjob_operator.resources.status import LifecycleState, TriggerPurpose


def deploying(s: Situation) -> Step:
    """A driver was decided on; it has not been seen to run."""
    never_seen = s.memory.driver is None
    if never_seen and s.seen.pod(s.memory.attempt) is None:
        return asked(s) or _rollback_without_pod(s) or create(s)
    if s.pod is None or s.pod.ended:
        return _ended(s)
    if never_seen:
        return Step(memory=replace(s.memory, driver=s.pod.uid, trials=()), requeue=0)
    interruption = forget_trial(s) or asked(s) or _rollback_if_due(s)
    if interruption is None and s.pod.started is not None:
        interruption = _restart_if_unhealthy(s)
    if interruption is not None:
        return interruption
    if s.takes_requests:
        state = stopping.running_state(s)
        event = Emit(type="Normal", reason="Running", message=f"driver {s.pod.name} runs {s.memory.revision}")
        memory = replace(s.memory, lifecycle=state, since=s.now, next_restart=None)
        return Step(memory=_stable(s, memory), events=(event,), requeue=0)
    reason, message = _on_its_way(s, s.pod)
    starts = (StartJob(attempt=s.memory.attempt),) if s.job is not None and s.job.waiting is not None else ()
    return s.waits(reason, message, *starts)


def _on_its_way(s: Situation, pod: DriverPod) -> tuple[str, str]:
    """Return how far a driver is that was not seen to run; one that fails and tries again in its pod says why."""
    if s.job is not None and s.job.failure is not None:
        return "JobFailed", f"driver {pod.name} has not run the job yet, and is {s.job.state}: {s.job.failure}"
    return pod.reason if pod.reason.isidentifier() else "Starting", pod.message or f"driver {pod.name} starts"


def running(s: Situation) -> Step:
    """The driver was seen to run."""
    if s.pod is None or s.pod.ended:
        return _ended(s)
    if s.memory.lifecycle is LifecycleState.DEPLOYED and s.revision_completed:
        event = Emit(type="Normal", reason="Stable", message=f"{s.memory.revision} has completed a checkpoint")
        memory = replace(s.memory, lifecycle=stopping.running_state(s), since=s.now)
        return Step(memory=_stable(s, memory), events=(event,), requeue=0)
    if s.memory.failed_revision is not None and s.wanted is not None and not s.rolled_back and s.difference in (
        Change.IGNORE, Change.PATCH,
    ):  # fmt: skip
        memory = replace(s.memory, failed_revision=None)
        return Step(memory=replace(memory, lifecycle=stopping.running_state(replace(s, memory=memory))), requeue=0)
    interruption = forget_trial(s) or asked(s) or _rollback_if_due(s) or _restart_if_unhealthy(s)
    if interruption is not None:
        return interruption
    return (
        _leaving(s, s.pod) or resizing.keep(s) or live_changes.adopt(s) or requests.request(s) or live_changes.beside(s)
    )


def _leaving(s: Situation, pod: DriverPod) -> Step | None:
    """Report that the cluster is about to remove the driver; its pod may be gone at the next reconciliation."""
    if pod.deleting is None or pod.reason != EVICTED:
        return None
    return s.waits(EVICTED, evicted(pod))


def _ended(s: Situation) -> Step:
    final = ending(s).end in (End.FINISHED, End.READ, End.SUPERSEDED)
    return (None if final else asked(s)) or recover(s)


def _stable(s: Situation, memory: Memory) -> Memory:
    return replace(memory, stable_revision=memory.revision) if s.revision_completed else memory


def _rollback_if_due(s: Situation) -> Step | None:
    why = rollback.due(s)
    if why is None:
        return None
    assert s.memory.stable_revision is not None
    return once_admitted(s, s.memory.stable_revision, lambda: rollback.roll_back(s, why))


def _rollback_without_pod(s: Situation) -> Step | None:
    """A revision of which there is no pod is overdue as any other, unless only an older driver holds it up."""
    if s.live_pods or not (rollback.can_roll_back(s) and rollback.is_overdue(s)):
        return None
    trial = s.memory.trial(s.memory.revision)
    why = pod_dry_run.rejection(trial) if trial is not None and trial.rejections else s.memory.failure
    return rollback.roll_back(s, why or "it completed no checkpoint in time")


def _restart_if_unhealthy(s: Situation) -> Step | None:
    why = health.unhealthy(s)
    if why is None:
        return None
    assert s.memory.revision is not None
    return once_admitted(s, s.memory.revision, lambda: _restart(s, why))


def _restart(s: Situation, why: str) -> Step:
    event = Emit(type="Warning", reason="RestartUnhealthyJob", message=why)
    step = stopping.begin(s, TriggerPurpose.RESTART, event, mode="stateless")
    return replace(step, memory=replace(step.memory, failure=why, failure_reason="RestartUnhealthyJob"))
