"""Going back to the last stable revision from one that does not get going.

It happens only if the failed revision completed nothing, since its completions may not fit the older one. Its driver
may complete something up to its very end, so the log is read again once its process is gone.
"""

from __future__ import annotations

from dataclasses import replace

from streamjob_operator.decisions import health, pod_dry_run
from streamjob_operator.decisions.actions import Emit
from streamjob_operator.decisions.situation import Situation, Step
from streamjob_operator.decisions.starting import deploy, go_on, latest
from streamjob_operator.decisions.stopping import begin
from streamjob_operator.resources.status import LifecycleState, TriggerPurpose


def can_roll_back(s: Situation) -> bool:
    """Return whether a rollback is asked for, possible, and loses nothing."""
    stable = s.memory.stable_revision
    return (
        s.upgrade.rollback.enabled
        and stable is not None
        and stable != s.memory.revision
        and s.seen.revision(stable) is not None
        and s.log is not None
        and not s.revision_completed
    )


def is_overdue(s: Situation) -> bool:
    """Return whether the revision should have completed a snapshot by now."""
    return s.now > s.memory.revision_since + s.upgrade.rollback.readiness_timeout


def roll_back(s: Situation, why: str) -> Step:
    """Decide on a rollback: the rest of the failed revision is stopped first."""
    message = f"{s.memory.revision} is rolled back to {s.memory.stable_revision}: {why}"
    step = begin(s, TriggerPurpose.ROLLBACK, Emit(type="Warning", reason="Rollback", message=message), mode="stateless")
    return replace(step, memory=replace(step.memory, failure=message[:1000], failure_reason="RolledBack"))


def is_rejected(s: Situation) -> bool:
    """Return whether the API server has rejected the pod of the wanted revision for longer than a revision may take.

    The running revision is stable, and was not stopped.
    """
    trial, rollback = s.memory.trial(None if s.wanted is None else s.wanted.name), s.upgrade.rollback
    return (
        rollback.enabled
        and trial is not None
        and trial.rejections > 0
        and s.memory.lifecycle in health.RUNS
        and s.memory.stable_revision == s.memory.revision != trial.revision
        and s.now > trial.since + rollback.readiness_timeout
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
        return Step(
            memory=s.memory,
            requeue=s.limits.store,
            reason="StoreUnreachable",
            message="it is not known whether the revision completed anything",
        )
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
