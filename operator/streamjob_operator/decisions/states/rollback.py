"""Going back to the last stable revision from one that does not get going.

It happens only if the failed revision completed nothing, since its completions may not fit the older one. Its driver
may complete something up to its very end, so the log is read again once its process is gone.
"""

from __future__ import annotations

import math
from dataclasses import replace

from streamjob_operator.decisions.shared import pod_dry_run
from streamjob_operator.decisions.states.starting import deploy, go_on, latest
from streamjob_operator.decisions.states.stopping import begin
from streamjob_operator.decisions.values import health
from streamjob_operator.decisions.values.actions import Emit
from streamjob_operator.decisions.values.observation import DriverPod, ExecutorPod
from streamjob_operator.decisions.values.situation import Situation, Step
from streamjob_operator.resources.status import LifecycleState, TriggerPurpose

_USUAL_TIME = 300.0
_NEVER = frozenset({"ErrImageNeverPull", "InvalidImageName"})
_PULLING = frozenset({"ErrImagePull", "ImagePullBackOff"})
_MISSING = ("not found", "notfound", "manifest unknown", "name unknown", "does not exist", "denied", "unauthorized")
"""Words of registries and container runtimes for an image that does not exist, or that nobody may have."""


def is_enabled(s: Situation) -> bool:
    """Return whether a revision that fails is rolled back: as asked, or else wherever an upgrade keeps state."""
    if s.spec is None or s.upgrade.rollback.enabled is not None:
        return bool(s.upgrade.rollback.enabled)
    return s.spec.upgrade_mode != "stateless"


def due(s: Situation) -> str | None:
    """Return why the deployed revision is to be rolled back now; None if it is not, or cannot be."""
    if not can_roll_back(s):
        return None
    missing = _without_image(s)
    return missing or (_late(s) if is_overdue(s) else None)


def _without_image(s: Situation) -> str | None:
    """Return why the deployed revision has no image, if waiting does not help; None otherwise.

    A registry that is away may be back at Kubernetes' next try; the first three are made within half a minute.
    """
    executors = s.seen.executors
    template = executors.template if executors is not None and executors.revision == s.memory.revision else None
    pods: list[DriverPod | ExecutorPod | None] = [
        s.pod,
        *(each for each in s.seen.executor_pods if each.template == template),
    ]
    for pod in pods:
        if pod is None or pod.deleting is not None:
            continue
        missing = any(word in pod.message.lower() for word in _MISSING)
        lasts = missing or s.now >= pod.created + s.limits.pull
        if pod.reason in _NEVER or (pod.reason in _PULLING and lasts):
            image = None if s.deployed is None else s.deployed.spec().image
            return f"{pod.reason}: pod {pod.name} does not get its image{f' {image}' if image else ''}: {pod.message}"
    return None


def _late(s: Situation) -> str:
    """Return a message that a revision took too long, with the known causes."""
    late = "it completed no checkpoint in time"
    if s.job is not None and s.job.failure is not None:
        return f"{late}: {s.job.failure}"
    if s.pod is not None and s.pod.started is None and s.pod.reason:
        return f"{late}: {s.pod.reason}: {s.pod.message}"
    return late


def can_roll_back(s: Situation) -> bool:
    """Return whether a rollback is allowed and possible, and loses nothing."""
    stable = s.memory.stable_revision
    return (
        is_enabled(s)
        and stable is not None
        and stable != s.memory.revision
        and s.seen.revision(stable) is not None
        and s.log is not None
        and not s.revision_completed
    )


def is_overdue(s: Situation) -> bool:
    """Return whether the revision should have completed a snapshot by now."""
    return s.now > s.memory.revision_since + _time_allowed(s)


def _time_allowed(s: Situation) -> float:
    asked = s.upgrade.rollback
    if asked.readiness_timeout is not None:
        return asked.readiness_timeout
    # A large state takes long to restore: nothing is rolled back for its slowness unless the user says so.
    return _USUAL_TIME if asked.enabled else math.inf


def roll_back(s: Situation, why: str) -> Step:
    """Decide on a rollback: the rest of the failed revision is stopped first."""
    message = f"{s.memory.revision} is rolled back to {s.memory.stable_revision}: {why}"
    step = begin(s, TriggerPurpose.ROLLBACK, Emit(type="Warning", reason="Rollback", message=message), mode="stateless")
    return replace(step, memory=replace(step.memory, failure=message[:1000], failure_reason="RolledBack"))


def is_rejected(s: Situation) -> bool:
    """Return whether the API server has rejected the pod of the wanted revision for longer than a revision may take.

    The running revision is stable, and was not stopped.
    """
    trial = s.memory.trial(None if s.wanted is None else s.wanted.name)
    return (
        is_enabled(s)
        and trial is not None
        and trial.rejections > 0
        and s.memory.lifecycle in health.RUNS
        and s.memory.stable_revision == s.memory.revision != trial.revision
        and s.now > trial.since + _time_allowed(s)
    )


def stay(s: Situation) -> Step:
    """Decide that a revision with a rejected pod is not tried again, and the running one is kept."""
    assert s.wanted is not None
    trial = s.memory.trial(s.wanted.name)
    assert trial is not None
    message = (
        f"{trial.revision} is rolled back to {s.memory.revision}, which keeps running: {pod_dry_run.rejection(trial)}"
    )
    memory = replace(
        s.memory,
        lifecycle=LifecycleState.ROLLED_BACK,
        since=s.now,
        failed_revision=trial.revision,
        failure=message[:1000],
        failure_reason="RolledBack",
        stop=None,
        trials=(),
    )
    return Step(memory=memory, events=(Emit(type="Warning", reason="Rollback", message=message),), requeue=0)


def rolled_back(s: Situation) -> Step:
    """Decide on the next step once no process of the failed revision is left."""
    if s.log is None:
        message = "it is not known whether the revision completed anything"
        return s.waits("StoreUnreachable", message, requeue=s.limits.store)
    failed, stable = s.memory.revision, s.memory.stable_revision
    assert failed is not None
    if s.revision_completed or stable is None or s.seen.revision(stable) is None:
        message = f"{failed} completed a snapshot after all, and is kept"
        return deploy(s, failed, go_on(s), event=Emit(type="Normal", reason="RollbackCancelled", message=message))
    step = deploy(s, stable, latest(s))
    memory = replace(
        step.memory, failed_revision=failed, failure=s.memory.failure, failure_reason=s.memory.failure_reason
    )
    return replace(step, memory=memory)
