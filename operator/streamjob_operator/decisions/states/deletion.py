"""The end of a StreamJob: its driver has stopped, and its snapshots are kept or deleted."""

from __future__ import annotations

from dataclasses import replace

from streamjob.snapshot.keys import job_root
from streamjob_operator.decisions.shared.recording import recordings
from streamjob_operator.decisions.values.actions import (
    DeleteDriver,
    DeletePreflight,
    DeleteRevision,
    DisposeCheckpoints,
    Emit,
    RemoveExecutors,
    RemoveFinalizer,
)
from streamjob_operator.decisions.values.observation import PodPhase, Reach
from streamjob_operator.decisions.values.situation import Situation, Step
from streamjob_operator.resources.conditions import ConditionType, find_condition
from streamjob_operator.resources.status import LifecycleState

_LIVE = frozenset({PodPhase.PENDING, PodPhase.RUNNING, PodPhase.UNKNOWN})
_OUT_OF_REACH = {
    Reach.VOLUME: "its checkpoints are on a volume, which the controller cannot reach",
    Reach.NO_CREDENTIALS: "the StreamJob names no credentials with which its checkpoints could be deleted",
}


def orphaning(s: Situation) -> Step | None:
    """Let go at once of a job that outlives its resource; None for any other.

    Its driver runs on, and its checkpoints stay whatever the deletion policy says. Its revisions go: those that an
    older controller stored refuse every change of their metadata, and the garbage collector would wait for them for
    ever. So do the pods of preflights and successors, which nobody would end.
    """
    if not s.seen.orphans:
        return None
    revisions = tuple(DeleteRevision(name=each.name, job_file=False) for each in s.seen.revisions)
    waiting = () if s.successor_pod is None else (DeleteDriver(name=s.successor_pod.name),)
    checks = tuple(DeletePreflight(name=each.name) for each in s.seen.preflights)
    let_go = (RemoveFinalizer(),) if s.seen.finalizer else ()
    return Step(
        memory=replace(s.memory, lifecycle=LifecycleState.DELETING, stop=None),
        actions=(*revisions, *waiting, *checks, *let_go),
        reason="Orphaning",
        message="the StreamJob is deleted, and its driver runs on without it",
    )


def deleting(s: Situation) -> Step:
    """Nothing is to be stopped any more: see that no pod is left, dispose of the checkpoints, and let go."""
    if not s.seen.finalizer:
        return Step(memory=s.memory)
    live = s.live_pods
    if live:
        asked = tuple(DeleteDriver(name=pod.name) for pod in live if pod.deleting is None)
        message = f"driver {live[0].name} has to go first; if its node is gone, delete the pod with --force"
        return s.waits("Stopping", message, *asked)
    if _executors_are_left(s):
        removal = () if s.seen.executors is None else (RemoveExecutors(),)
        return s.waits("Stopping", "the executors have to go first", *removal)
    waits = _recording(s)
    if waits is not None:
        return waits
    if s.resource.spec is None and s.memory.attempt > 0:
        return _let_go(s, "its spec cannot be read, deletionPolicy included: its checkpoints are kept")
    if not _disposes(s):
        return _let_go(s)
    log = s.seen.log
    if s.location is None:
        return _let_go(s)
    if s.seen.reach is not Reach.STORE:
        return _let_go(s, f"{_OUT_OF_REACH[s.seen.reach]}: they are kept")
    hindrance, root = _hindrance(s), job_root(s.location, s.resource.namespace, s.resource.name)
    if hindrance is not None:
        return _let_go(s, f"{hindrance}. Its checkpoints are kept at {root}")
    if log is None:
        message = f"the checkpoints at {root} cannot be deleted yet, and are kept if that takes much longer"
        return s.waits("StoreUnreachable", message, requeue=s.limits.store)
    if log.empty:
        return _let_go(s)
    if log.attempt is not None and log.attempt > _disposing_attempt(s):
        return _let_go(s, "its checkpoints are kept: another owner has claimed them since")
    # The claim of the disposal stays in the log and fences off processes that wake up later. So the log does not show
    # whether an earlier disposal was completed. This one completes, or the finalizer stays.
    disposal = DisposeCheckpoints(attempt=_disposing_attempt(s))
    return s.waits("Disposing", "the checkpoints are being deleted", disposal, RemoveFinalizer())


def _hindrance(s: Situation) -> str | None:
    """Return what has kept the checkpoints from being deleted for so long that they are left; None before that."""
    failed = find_condition(s.resource.status.conditions, ConditionType.READY)
    trouble = s.seen.trouble
    if s.now <= s.memory.since + s.limits.disposal_of(None if trouble is None else trouble.reason):
        return None
    if s.seen.log is None:
        return s.seen.log_damage or ("the store does not answer" if trouble is None else trouble.message)
    return failed.message.split("\n")[0] if failed is not None and failed.reason == "ReconcileFailed" else None


def _executors_are_left(s: Situation) -> bool:
    """Nothing may be uploaded behind the disposal of the checkpoints; one on a lost node is not waited for for ever."""
    left = s.seen.executors is not None or any(pod.phase in _LIVE for pod in s.seen.executor_pods)
    return left and s.now <= s.memory.since + s.limits.patience


def _recording(s: Situation) -> Step | None:
    """Create the StreamSnapshot for the deletion's savepoint, which exists without it: do not wait for ever."""
    missing = recordings(s)
    unknown = s.log is None and len(missing) < len(s.memory.recordings)
    if not (missing or unknown) or s.now > s.memory.since + s.limits.patience:
        return None
    return s.waits("RecordingSavepoint", "the savepoint gets its StreamSnapshot", *missing)


def _disposes(s: Situation) -> bool:
    """A resource that never ran a driver, or has lost its log to another owner, owns nothing there."""
    # The policy counts although something else in the spec is wrong.
    spec = s.resource.spec
    if spec is None or spec.deletion_policy != "Delete":
        return False
    return s.memory.attempt > 0 and s.memory.failure_reason != "Superseded"


def _disposing_attempt(s: Situation) -> int:
    return max(s.memory.attempt, s.memory.last_attempt) + 1


def _let_go(s: Situation, warning: str = "") -> Step:
    events = (Emit(type="Warning", reason="CleanupFailed", message=warning),) if warning else ()
    return Step(memory=s.memory, actions=(RemoveFinalizer(),), events=events)
