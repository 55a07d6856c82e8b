"""Decides what happens next to a StreamSnapshot, from its status and the observation of its job.

As for StreamJobs, the status is a write-ahead log: a request to the driver is decided on and stored, under a trigger id
of its own, before the driver hears of it, and asking twice is one request. An outcome is final.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from streamjob.client.models import TriggerState, TriggerView
from streamjob.protocol.manifests.stored_manifests import MANIFEST_NAME
from streamjob.snapshot.keys import claim_marker
from streamjob_operator.decisions.values.actions import (
    Action,
    AddFinalizer,
    DeleteSnapshotData,
    Emit,
    RemoveFinalizer,
    TriggerCheckpoint,
    TriggerSavepoint,
)
from streamjob_operator.decisions.values.decision import Resource
from streamjob_operator.decisions.values.observation import Observation, Reach
from streamjob_operator.decisions.values.situation import TAKES_REQUESTS, newest_attempt
from streamjob_operator.resources.conditions import Condition, ConditionStatus, with_condition
from streamjob_operator.resources.snapshot import SnapshotState, StreamSnapshot, StreamSnapshotStatus
from streamjob_operator.resources.status import LifecycleState

_FIRST_RETRY, _LONGEST_RETRY = 10.0, 600.0
_JOB_MAY_COME = timedelta(minutes=5)
"""How long a snapshot waits for its StreamJob: both may be applied together, in any order."""
_POLL, _REST = 2.0, 30.0
_WAITING = "WaitingForJob"

_OVER: Mapping[LifecycleState, str] = {
    LifecycleState.FINISHED: "the job has finished",
    LifecycleState.FAILED: "the job has failed",
    LifecycleState.DELETING: "the job is being deleted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDecision:
    """The status to store and the actions to execute, as for a StreamJob.

    Args:
        requeue: seconds until the next look; None if only an event changes anything.
        waits: the reason why a deletion waits, in a word, and for people with the way out; empty if it does not wait.
    """

    status: StreamSnapshotStatus
    actions: tuple[Action, ...] = ()
    requeue: float | None = None
    waits: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSavepoint:
    """The stored savepoint at the path that a StreamSnapshot names.

    Args:
        id: its number in the log of its job.
        size_bytes: of all files that it refers to.
        problem: why it cannot represent a savepoint; None if it can.
        silent: whether that is because the store does not answer.
    """

    id: int | None = None
    size_bytes: int | None = None
    problem: str | None = None
    silent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSituation:
    """Everything that a decision about a StreamSnapshot depends on.

    Args:
        job: its StreamJob; None if there is none.
        seen: the observation of the job; None without a job.
        reach: whether the controller can delete its files.
        named: the snapshot at the path in its spec; None if there is no path, or only drivers can read it.
        claimed: the other job that needs its files, and why; None if there is none. Checked only before files are
            deleted.
        hindrance: what has kept the files from being deleted for so long that they are left; None before that.
    """

    snapshot: StreamSnapshot
    job: Resource | None
    seen: Observation | None
    finalizer: bool
    now: datetime
    reach: Reach = Reach.STORE
    named: NamedSavepoint | None = None
    claimed: str | None = None
    hindrance: str | None = None

    @property
    def status(self) -> StreamSnapshotStatus:
        """As it is stored."""
        return self.snapshot.status

    @property
    def disposes(self) -> bool:
        """Whether the savepoint's files go with the resource."""
        asked = self.snapshot.spec.savepoint
        return asked is not None and asked.dispose_on_delete

    @property
    def disposing(self) -> bool:
        """Whether the savepoint's files are to be deleted now, as far as the resource says."""
        deleted = self.snapshot.metadata.deletion_timestamp is not None and self.finalizer and self.disposes
        completed = self.status.state is SnapshotState.COMPLETED and self.status.path is not None
        return deleted and completed and self.reach is Reach.STORE

    @property
    def over(self) -> str | None:
        """Why the job takes no snapshot any more, or None."""
        if self.job is None:
            created = self.snapshot.metadata.creation_timestamp or self.now
            gone = self.status.state is SnapshotState.IN_PROGRESS or self.now > created + _JOB_MAY_COME
            return f"there is no StreamJob {self.snapshot.spec.job_ref.name}" if gone else None
        if self.job.deleted:
            return _OVER[LifecycleState.DELETING]
        return _OVER.get(self.job.status.lifecycle_state)

    @property
    def takes_requests(self) -> bool:
        """Whether the driver answers, and would take a snapshot."""
        return self.seen is not None and self.seen.job is not None and self.seen.job.state in TAKES_REQUESTS

    @property
    def trigger(self) -> TriggerView | None:
        """The driver's answer about the request; None if it does not know the request, or does not answer."""
        if self.seen is None or self.status.trigger_id is None:
            return None
        return self.seen.triggers.get(self.status.trigger_id)


def decide_snapshot(s: SnapshotSituation) -> SnapshotDecision:
    """Return the next status and actions for a StreamSnapshot."""
    if s.snapshot.metadata.deletion_timestamp is not None:
        return _with_waits(s, _deleted(s))
    if s.disposes and not s.finalizer and not s.status.state.terminal:
        return SnapshotDecision(status=_told(s, s.status), actions=(AddFinalizer(),), requeue=0)
    decision = _HANDLERS[s.status.state](s)
    return SnapshotDecision(status=_told(s, decision.status), actions=decision.actions, requeue=decision.requeue)


def _pending(s: SnapshotSituation) -> SnapshotDecision:
    status, asked = s.status, s.snapshot.spec.savepoint
    named = asked is not None and asked.path is not None
    if s.over is not None and not named:
        return _abandon(s, s.over)
    if status.next_try is not None and s.now < status.next_try:
        return SnapshotDecision(status=status, requeue=(status.next_try - s.now).total_seconds())
    if asked is not None and asked.path is not None:
        return _record(s, asked.path)
    if not s.takes_requests:
        return SnapshotDecision(status=status, requeue=_REST)
    begun = status.replaced(
        state=SnapshotState.IN_PROGRESS,
        trigger_id=f"snapshot-{s.snapshot.metadata.uid}-{status.failures}",
        trigger_timestamp=s.now,
        next_try=None,
    )
    return SnapshotDecision(status=begun, requeue=0)


def _in_progress(s: SnapshotSituation) -> SnapshotDecision:
    trigger = s.trigger
    if trigger is not None and trigger.state is TriggerState.COMPLETED:
        return _complete(s, trigger)
    if trigger is not None and trigger.state is TriggerState.FAILED:
        return _fail(s, trigger.failure or "the driver does not say why")
    if s.over is not None:
        return _abandon(s, s.over)
    actions: tuple[Action, ...] = ()
    if trigger is None and s.takes_requests and s.job is not None:
        actions = (_request(s, s.job),)
    return SnapshotDecision(status=s.status, actions=actions, requeue=_POLL)


def _rest(s: SnapshotSituation) -> SnapshotDecision:
    return SnapshotDecision(status=s.status)


_HANDLERS: Mapping[SnapshotState, Callable[[SnapshotSituation], SnapshotDecision]] = {
    SnapshotState.PENDING: _pending,
    SnapshotState.IN_PROGRESS: _in_progress,
    SnapshotState.COMPLETED: _rest,
    SnapshotState.FAILED: _rest,
    SnapshotState.ABANDONED: _rest,
}


def _request(s: SnapshotSituation, job: Resource) -> Action:
    attempt, trigger = job.status.job_status.attempt, s.status.trigger_id
    assert trigger is not None
    asked = s.snapshot.spec.savepoint
    if asked is None:
        return TriggerCheckpoint(attempt=attempt, trigger_id=trigger)
    place = asked.location or (None if job.usable is None else job.usable.savepoints.location)
    return TriggerSavepoint(attempt=attempt, trigger_id=trigger, location=place)


def _complete(s: SnapshotSituation, trigger: TriggerView) -> SnapshotDecision:
    history = () if s.seen is None or s.seen.checkpoints is None else s.seen.checkpoints.history
    size = next((each.state_size for each in history if each.id == trigger.checkpoint), None)
    return _completed(s, trigger.checkpoint, trigger.result, size)


def _completed(s: SnapshotSituation, number: int | None, path: str | None, size: int | None) -> SnapshotDecision:
    status = s.status.replaced(
        state=SnapshotState.COMPLETED,
        result_timestamp=s.now,
        id=number,
        path=path,
        size_bytes=size,
        next_try=None,
        error=None,
    )
    return SnapshotDecision(status=status, actions=(Emit(type="Normal", reason="Completed", message=f"{path}"),))


def _record(s: SnapshotSituation, path: str) -> SnapshotDecision:
    """Record an existing savepoint; there is nothing to wait for, regardless of the job."""
    found = s.named or NamedSavepoint()
    if found.silent:
        return SnapshotDecision(status=s.status.replaced(error=(found.problem or "")[:4096]), requeue=_REST)
    if found.problem is not None:
        return _fail(s, found.problem)
    manifest = path if path.endswith(f"/{MANIFEST_NAME}") else f"{path.rstrip('/')}/{MANIFEST_NAME}"
    return _completed(s, found.id, manifest, found.size_bytes)


def _fail(s: SnapshotSituation, why: str) -> SnapshotDecision:
    failures, limit = s.status.failures + 1, s.snapshot.spec.backoff_limit
    status = s.status.replaced(failures=failures, error=why[:4096])
    event = Emit(type="Warning", reason="SnapshotError", message=f"try {failures}: {why}")
    if 0 <= limit < failures:
        status = status.replaced(state=SnapshotState.FAILED, result_timestamp=s.now)
        return SnapshotDecision(status=status, actions=(event,))
    delay = min(_FIRST_RETRY * 2.0 ** min(failures - 1, 30), _LONGEST_RETRY)
    status = status.replaced(state=SnapshotState.PENDING, next_try=s.now + timedelta(seconds=delay), trigger_id=None)
    return SnapshotDecision(status=status, actions=(event,), requeue=delay)


def _abandon(s: SnapshotSituation, why: str) -> SnapshotDecision:
    status = s.status.replaced(state=SnapshotState.ABANDONED, result_timestamp=s.now, next_try=None, error=why)
    return SnapshotDecision(status=status, actions=(Emit(type="Warning", reason="SnapshotAbandoned", message=why),))


_CLAIMED = "SavepointClaimed"
_OR_KEEP = "; to let the StreamSnapshot go and keep the files, take its finalizer off"
_OUT_OF_REACH = {
    Reach.VOLUME: "is on a volume of the driver",
    Reach.NO_CREDENTIALS: "could be deleted with credentials only, and the StreamJob named none",
}


def _deleted(s: SnapshotSituation) -> SnapshotDecision:
    if not s.finalizer:
        return SnapshotDecision(status=s.status)
    done = (RemoveFinalizer(),)
    if s.disposes and s.status.state is SnapshotState.IN_PROGRESS:
        # Its location is known only when it is complete; it must not be left behind.
        decision = _in_progress(s)
        why = "the savepoint is being taken, and its files go once it is complete or has failed"
        waits = None if decision.status.state.terminal else ("InProgress", why)
        return SnapshotDecision(
            status=decision.status, actions=decision.actions, requeue=decision.requeue or 0, waits=waits
        )
    path = s.status.path
    if not s.disposes or path is None or s.status.state is not SnapshotState.COMPLETED:
        return SnapshotDecision(status=s.status, actions=done)
    if s.reach is not Reach.STORE:
        why = f"{path} {_OUT_OF_REACH[s.reach]}: its files are left there"
        return SnapshotDecision(status=s.status, actions=(Emit(type="Warning", reason="Cleanup", message=why), *done))
    if s.hindrance is not None:
        why = f"{s.hindrance}. The files of {path} are left there"
        event = Emit(type="Warning", reason="CleanupFailed", message=why)
        return SnapshotDecision(status=s.status, actions=(event, *done))
    if _is_needed(s, path):
        why = "the job would restart from this savepoint; its files go once a newer checkpoint is complete"
        event = Emit(type="Normal", reason="Cleanup", message=why)
        waits = "SavepointNeeded", f"{why}, or the StreamJob is deleted{_OR_KEEP}"
        return SnapshotDecision(status=s.status, actions=(event,), requeue=_REST, waits=waits)
    if s.claimed is not None:
        marker = claim_marker(path)
        why = f"{s.claimed}. Delete that job with its checkpoints, or, if it needs the savepoint no more, {marker}"
        event = Emit(type="Warning", reason=_CLAIMED, message=why)
        return SnapshotDecision(status=s.status, actions=(event,), requeue=_REST, waits=(_CLAIMED, f"{why}{_OR_KEEP}"))
    return SnapshotDecision(status=s.status, actions=(DeleteSnapshotData(path=path), *done))


def _with_waits(s: SnapshotSituation, decision: SnapshotDecision) -> SnapshotDecision:
    """Return a deletion's decision with conditions that say what it waits for."""
    if decision.waits is None:
        return decision
    (reason, message), found = decision.waits, decision.status.conditions
    verdicts: tuple[tuple[str, ConditionStatus], ...] = (("Ready", "False"), ("Reconciling", "True"))
    for kind, value in verdicts:
        found = with_condition(
            found,
            kind,
            value,
            reason,
            f"the deletion waits: {message}",
            generation=s.snapshot.metadata.generation,
            now=s.now.astimezone(UTC),
        )
    return replace(decision, status=decision.status.replaced(conditions=found))


def _is_needed(s: SnapshotSituation, path: str) -> bool:
    """Return whether the job may start from a savepoint; True if unknown."""
    if s.job is None:
        return False
    if s.seen is None or s.seen.log is None:
        return True
    restore, last = s.job.status.reconciliation.restore, s.job.status.checkpoint.last_completed
    if restore is not None and restore.source == path:
        completed = newest_attempt(None if last is None else last.attempt, s.seen.job, s.seen.log)
        if completed is None or completed < restore.first_attempt:
            return True
    return s.seen.log.newest is not None and s.seen.log.newest.path == path


_VERDICTS: Mapping[SnapshotState, Mapping[str, ConditionStatus]] = {
    SnapshotState.PENDING: {"Ready": "False", "Reconciling": "True", "Stalled": "False"},
    SnapshotState.IN_PROGRESS: {"Ready": "False", "Reconciling": "True", "Stalled": "False"},
    SnapshotState.COMPLETED: {"Ready": "True", "Reconciling": "False", "Stalled": "False"},
    SnapshotState.FAILED: {"Ready": "False", "Reconciling": "False", "Stalled": "True"},
    SnapshotState.ABANDONED: {"Ready": "False", "Reconciling": "False", "Stalled": "True"},
}


def _waits_for_job(s: SnapshotSituation, status: StreamSnapshotStatus) -> str | None:
    """Return the event of its job for which a StreamSnapshot waits; None if it does not wait for the job."""
    asked = s.snapshot.spec.savepoint
    if status.state is not SnapshotState.PENDING or (asked is not None and asked.path is not None):
        return None
    name = s.snapshot.spec.job_ref.name
    if s.snapshot.metadata.deletion_timestamp is not None or s.takes_requests:
        return None
    if s.job is None:
        minutes = round(_JOB_MAY_COME.total_seconds() / 60)
        return f"there is no StreamJob {name}; the snapshot is abandoned {minutes} minutes after it was made"
    if s.job.status.lifecycle_state is LifecycleState.SUSPENDED:
        return f"StreamJob {name} is suspended: the snapshot is taken once the job runs again"
    if s.seen is None or s.seen.job is None:
        return f"no driver of StreamJob {name} answers: the snapshot is taken once the job runs"
    return f"StreamJob {name} is {s.seen.job.state}: the snapshot is taken once the job runs"


def _told(s: SnapshotSituation, status: StreamSnapshotStatus) -> StreamSnapshotStatus:
    """Return the status with its conditions, by the rules of kstatus."""
    generation = s.snapshot.metadata.generation
    found: tuple[Condition, ...] = status.conditions
    reason, message = status.state.value, status.error or ""
    if (waits := _waits_for_job(s, status)) is not None:
        reason, message = _WAITING, f"{waits}; before: {message}" if message else waits
    for kind, value in _VERDICTS[status.state].items():
        found = with_condition(found, kind, value, reason, message, generation=generation, now=s.now.astimezone(UTC))
    return status.replaced(conditions=found, observed_generation=generation)
