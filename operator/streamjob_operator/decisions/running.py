"""A job that is meant to run: what its spec asks of it, and whether it is well.

In this order: an end of the driver that is final counts before anything that the spec asks; what the spec asks counts
before healing; and healing counts before what is done beside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from streamjob_operator.decisions import health, live_changes, pod_dry_run, requests, rollback, stopping
from streamjob_operator.decisions.actions import Emit, EnsureRevision
from streamjob_operator.decisions.memory import Memory
from streamjob_operator.decisions.observation import DriverPod
from streamjob_operator.decisions.recovery import EVICTED, End, ending, evicted, recover
from streamjob_operator.decisions.revision import Difference
from streamjob_operator.decisions.situation import Situation, Step
from streamjob_operator.decisions.starting import asks_for_redeployment, create
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
    interruption = _forget_trial(s) or asked(s) or _rollback_if_overdue(s)
    if interruption is None and s.pod.started is not None:
        interruption = _restart_if_unhealthy(s)
    if interruption is not None:
        return interruption
    if s.takes_requests:
        state = stopping.running_state(s)
        event = Emit(type="Normal", reason="Running", message=f"driver {s.pod.name} runs {s.memory.revision}")
        memory = replace(s.memory, lifecycle=state, since=s.now, next_restart=None)
        return Step(memory=_stable(s, memory), events=(event,), requeue=0)
    return Step(
        memory=s.memory,
        requeue=s.limits.poll,
        reason=s.pod.reason if s.pod.reason.isidentifier() else "Starting",
        message=s.pod.message or f"driver {s.pod.name} starts",
    )


def running(s: Situation) -> Step:
    """The driver was seen to run."""
    if s.pod is None or s.pod.ended:
        return _ended(s)
    if s.memory.lifecycle is LifecycleState.DEPLOYED and s.revision_completed:
        event = Emit(type="Normal", reason="Stable", message=f"{s.memory.revision} has completed a checkpoint")
        memory = replace(s.memory, lifecycle=stopping.running_state(s), since=s.now)
        return Step(memory=_stable(s, memory), events=(event,), requeue=0)
    if s.memory.failed_revision is not None and s.wanted is not None and not s.rolled_back and s.difference in (
        Difference.IGNORE, Difference.PATCH,
    ):  # fmt: skip
        memory = replace(s.memory, failed_revision=None)
        return Step(memory=replace(memory, lifecycle=stopping.running_state(replace(s, memory=memory))), requeue=0)
    interruption = _forget_trial(s) or asked(s) or _rollback_if_overdue(s) or _restart_if_unhealthy(s)
    if interruption is not None:
        return interruption
    return _leaving(s, s.pod) or live_changes.adopt(s) or requests.request(s) or live_changes.beside(s)


def asked(s: Situation) -> Step | None:
    """Return what the spec asks of a driver that runs, or is about to; None if it is as asked."""
    put_off = s.memory.stop
    if put_off is not None and not _is_asked_for(s, put_off.purpose):
        return Step(memory=replace(s.memory, stop=None), requeue=0)
    if s.resource.deleted:
        return _stop(s, TriggerPurpose.DELETE, "Deleting", "the StreamJob was deleted")
    if s.spec is None:
        return None
    if s.spec.suspend:
        return _stop(s, TriggerPurpose.SUSPEND, "Suspending", "the spec asks for a suspension")
    redeploys = asks_for_redeployment(s)
    if not (redeploys or _asks_for_an_upgrade(s)):
        return None
    assert s.wanted is not None
    if s.seen.revision(s.wanted.name) is None:
        return Step(memory=s.memory, actions=(EnsureRevision(revision=s.wanted),), requeue=0)
    if redeploys:
        return _stop(s, TriggerPurpose.REDEPLOY, "Redeploying", "savepointRedeployNonce has changed")
    if rollback.is_rejected(s):
        return rollback.stay(s)
    return _stop(s, TriggerPurpose.UPGRADE, "SpecChanged", f"{s.memory.revision} gives way to {s.wanted.name}")


def _is_asked_for(s: Situation, purpose: TriggerPurpose) -> bool:
    """Whether a stop that was put off is still wanted; while the spec cannot be used, nobody takes anything back."""
    if s.resource.deleted or purpose is TriggerPurpose.DELETE:
        return s.resource.deleted and purpose is TriggerPurpose.DELETE
    if s.spec is None:
        return True
    if purpose is TriggerPurpose.SUSPEND:
        return s.spec.suspend
    if purpose is TriggerPurpose.REDEPLOY:
        return asks_for_redeployment(s)
    return purpose is TriggerPurpose.UPGRADE and _asks_for_an_upgrade(s)


def _asks_for_an_upgrade(s: Situation) -> bool:
    another = s.difference in (Difference.SCALE, Difference.UPGRADE) and not s.rolled_back
    return another and live_changes.incompatible(s) is None


def _stop(s: Situation, purpose: TriggerPurpose, reason: str, message: str) -> Step | None:
    mode = stopping.mode_of(s, purpose)
    if mode is None or not stopping.is_due(s, purpose):
        return None
    event = Emit(type="Normal", reason=reason, message=message)
    if purpose in (TriggerPurpose.SUSPEND, TriggerPurpose.DELETE):
        return stopping.begin(s, purpose, event, mode=mode)
    assert s.wanted is not None
    return _once_admitted(s, s.wanted.name, lambda: stopping.begin(s, purpose, event, mode=mode))


def _once_admitted(s: Situation, revision: str, stop: Callable[[], Step]) -> Step | None:
    """Stop a driver only for a pod that the API server takes; until then, the job runs on."""
    return pod_dry_run.try_pod(s, revision) or (stop() if pod_dry_run.is_admitted(s, revision) else None)


def _forget_trial(s: Situation) -> Step | None:
    """Ask no longer about pods that nobody wants any more."""
    if not s.memory.trials:
        return None
    asked_for = _pods_asked_for(s)
    kept = tuple(each for each in s.memory.trials if each.revision in asked_for)
    return None if kept == s.memory.trials else Step(memory=replace(s.memory, trials=kept), requeue=0)


def _pods_asked_for(s: Situation) -> set[str | None]:
    """The revisions for whose pods the driver might be stopped."""
    found = {s.memory.revision} if health.unhealthy(s) is not None else set()
    if rollback.can_roll_back(s) and rollback.is_overdue(s):
        found.add(s.memory.stable_revision)
    usable = s.spec is not None and not s.spec.suspend and not s.resource.deleted
    if usable and s.wanted is not None and (asks_for_redeployment(s) or _asks_for_an_upgrade(s)):
        found.add(s.wanted.name)
    return found


def _leaving(s: Situation, pod: DriverPod) -> Step | None:
    """Say that the driver is about to go, for nobody did but the cluster; its pod may be gone before the next look."""
    if pod.deleting is None or pod.reason != EVICTED:
        return None
    return Step(memory=s.memory, requeue=s.limits.poll, reason=EVICTED, message=evicted(pod))


def _ended(s: Situation) -> Step:
    final = ending(s).end in (End.FINISHED, End.SUPERSEDED)
    return (None if final else asked(s)) or recover(s)


def _stable(s: Situation, memory: Memory) -> Memory:
    return replace(memory, stable_revision=memory.revision) if s.revision_completed else memory


def _rollback_if_overdue(s: Situation) -> Step | None:
    if not (rollback.can_roll_back(s) and rollback.is_overdue(s)):
        return None
    assert s.memory.stable_revision is not None
    return _once_admitted(
        s, s.memory.stable_revision, lambda: rollback.roll_back(s, "it completed no checkpoint in time")
    )


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
    return _once_admitted(s, s.memory.revision, lambda: _restart(s, why))


def _restart(s: Situation, why: str) -> Step:
    event = Emit(type="Warning", reason="RestartUnhealthyJob", message=why)
    step = stopping.begin(s, TriggerPurpose.RESTART, event, mode="stateless")
    return replace(step, memory=replace(step.memory, failure=why, failure_reason="RestartUnhealthyJob"))
