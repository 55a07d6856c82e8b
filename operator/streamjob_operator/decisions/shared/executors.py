"""Decides about a job's executors: how many there are to be, from which template, and whether they are ready.

They outlive drivers, so that the next driver finds their files. A driver is created together with the objects of its
executors; here is what happens to these besides.
"""

from __future__ import annotations

from streamjob_operator.decisions.values import health
from streamjob_operator.decisions.values.actions import Action, DeleteExecutor, EnsureExecutors, RemoveExecutors
from streamjob_operator.decisions.values.observation import ExecutorPod
from streamjob_operator.decisions.values.situation import Situation
from streamjob_operator.resources.conditions import ConditionStatus
from streamjob_operator.resources.status import RESTING, ExecutorStatus, LifecycleState

STARTING = "ExecutorsStarting"
LOST = "ExecutorsLost"
LEAVING = "ExecutorsLeaving"

_RUNS = health.RUNS | {LifecycleState.DEPLOYING}


def desired(s: Situation) -> int:
    """Return how many executors are to run now."""
    return 0 if s.memory.lifecycle in RESTING else s.instances


def upkeep(s: Situation) -> tuple[Action, ...]:
    """Return the actions that keep the executors as they should be beside the current driver, or without one."""
    found, revision = s.seen.executors, s.memory.revision
    if revision is None or s.deployed is None:
        return ()
    resting = s.memory.lifecycle in RESTING
    if not resting and (s.memory.lifecycle not in _RUNS or not s.driver_is_live):
        return ()
    if not s.instances:
        return () if found is None else (RemoveExecutors(),)
    if resting:
        return () if found is None or not found.replicas else (EnsureExecutors(revision=revision, instances=0),)
    if found is None or (found.revision, found.replicas) != (revision, s.instances):
        return (EnsureExecutors(revision=revision, instances=s.instances),)
    stale = (DeleteExecutor(name=pod.name) for pod in s.seen.executor_pods if pod.template != found.template)
    return (*(each for each in stale if not _is_deleting(s, each.name)), *_let_go(s))


def reported(s: Situation, before: ExecutorStatus | None) -> ExecutorStatus | None:
    """Return the executors' part of the status; None for a job without executors."""
    if s.seen.executors is None and not s.instances:
        return None
    wanted, ready = desired(s), min(len(_ready(s)), desired(s))
    known = 0 if before is None else before.ready + before.lost
    counts = s.memory.lifecycle in health.RUNS
    return ExecutorStatus(desired=wanted, ready=ready, lost=max(0, min(known, wanted) - ready) if counts else 0)


def readiness(s: Situation, status: ExecutorStatus | None) -> tuple[ConditionStatus, str, str] | None:
    """Return whether the executors are ready, with the cause if they are not; None for a job without executors."""
    if status is None:
        return None
    if not status.desired:
        return "Unknown", "NotRunning", ""
    count = f"{status.ready} of {status.desired} executors are ready"
    if status.ready >= status.desired:
        return "True", "ExecutorsReady", count
    rejected = next((each.rejection for each in s.seen.admissions if each.revision == s.memory.revision), None)
    if s.seen.executors is None and rejected is not None:
        return "False", "PodRejected", f"{count}; the API server rejects them: {rejected}"
    usual = LOST if status.lost else STARTING
    cause = next((pod for pod in _unready(s) if pod.reason and pod.reason.isidentifier()), None)
    if cause is not None:
        reason = usual if cause.reason in _ON_ITS_WAY else cause.reason
        return "False", reason, f"{count}; {cause.name}: {cause.message or cause.reason}"
    if s.seen.executors is not None and s.seen.executors.message:
        return "False", "FailedCreate", f"{count}; {s.seen.executors.message}"
    return "False", usual, count


def leaving(s: Situation) -> bool:
    """Return whether there are executors beyond those that are to run."""
    return sum(not pod.phase.ended for pod in s.seen.executor_pods) > desired(s)


_ON_ITS_WAY = frozenset({"ContainerCreating", "PodInitializing", "Completed", "Error"})
"""Words of Kubernetes that say nothing about the cause."""


def _ready(s: Situation) -> tuple[ExecutorPod, ...]:
    template = None if s.seen.executors is None else s.seen.executors.template
    fit = (pod for pod in s.seen.executor_pods if pod.ready and pod.deleting is None and pod.template == template)
    if s.job is not None and s.job.executors is not None:
        # A pod stays ready for a while when it has lost its driver.
        registered = {each.name for each in s.job.executors.executors}
        return tuple(pod for pod in fit if pod.name in registered)
    return () if s.memory.lifecycle is LifecycleState.DEPLOYING else tuple(fit)


def _unready(s: Situation) -> tuple[ExecutorPod, ...]:
    ready = {pod.name for pod in _ready(s)}
    return tuple(pod for pod in s.seen.executor_pods if pod.name not in ready)


def _is_deleting(s: Situation, name: str) -> bool:
    return any(pod.name == name and pod.deleting is not None for pod in s.seen.executor_pods)


def _let_go(s: Situation) -> tuple[DeleteExecutor, ...]:
    """Let go of pods on lost nodes: their set waits for them for ever.

    A process that lives on there writes to its own disk only.
    """
    return tuple(
        DeleteExecutor(name=pod.name, grace=0)
        for pod in s.seen.executor_pods
        if pod.deleting is not None and s.seen.now > pod.deleting + s.limits.lost
    )
