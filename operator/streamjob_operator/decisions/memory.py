"""The memory of the decisions about a StreamJob, and its place in the status.

All of it is stored before anything is done that depends on it. Times are in whole seconds since 1970, as Kubernetes
writes them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime

from streamjob_operator.resources.parts import UpgradeMode
from streamjob_operator.resources.status import (
    LifecycleState,
    Nonces,
    PendingTrigger,
    PodTrial,
    ReconciliationStatus,
    RequestedSnapshot,
    Restore,
    StreamJobStatus,
    TakenSavepoint,
    TriggerPurpose,
)

_FROM_THE_LATEST = Restore()
_NO_NONCES = Nonces()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """How the driver is being stopped, or, once `next_try` is set, how that failed.

    Args:
        purpose: what comes after it.
        mode: what it leaves behind.
        trigger_id: identity of the request to the driver.
        attempt: the driver.
        since: when it was decided on.
        revision: what is to run next, None if nothing is.
        failures: how often the same purpose failed before.
        next_try: when it is tried again; the job runs on until then.
        silent_since: since when the driver does not answer.
        failure: why it failed last.
    """

    purpose: TriggerPurpose
    mode: UpgradeMode
    trigger_id: str
    attempt: int
    since: float
    revision: str | None = None
    failures: int = 0
    next_try: float | None = None
    silent_since: float | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Whether the API server takes the pod of a revision; asked until it does, or nothing asks for the pod any more.

    Args:
        revision: what the pod would run.
        since: when it was asked first.
        next_try: when it is asked again.
        rejections: how often it did not.
        message: why not, in its own words.
    """

    revision: str
    since: float
    next_try: float
    rejections: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The decisions that a StreamJob's status records.

    Args:
        lifecycle: where the job stands.
        since: when it came there.
        attempt: the newest driver that was decided on; 0 before the first.
        decided: when that was.
        driver: uid of its pod once it was seen.
        revision: what it runs.
        first_attempt: the first driver of that revision, or of its newest start from elsewhere than `latest`.
        revision_since: when that first driver was decided on, or the first one after the job had rested.
        stable_revision: the last revision that completed a snapshot.
        failed_revision: the revision that was rolled back and is not tried again.
        restore: what the current attempt starts from.
        completed_attempt: the driver of the newest completion that is known of; None before the first.
        stop: see Stop.
        trials: see Trial; one for each revision.
        failures: drivers that failed in a row.
        last_failure: when the last of them did.
        next_restart: when the current attempt may be started.
        failure: why the job failed last.
        failure_reason: the same in a word.
        nonces: the values of the nonces that were acted on.
        requests: StreamSnapshots that are to be made.
        recordings: savepoints of stops that are to get a StreamSnapshot.
        last_scheduled: when the schedule last asked for a savepoint.
    """

    lifecycle: LifecycleState = LifecycleState.CREATED
    since: float = 0
    attempt: int = 0
    decided: float = 0
    driver: str | None = None
    revision: str | None = None
    first_attempt: int = 0
    revision_since: float = 0
    stable_revision: str | None = None
    failed_revision: str | None = None
    restore: Restore = _FROM_THE_LATEST
    completed_attempt: int | None = None
    stop: Stop | None = None
    trials: tuple[Trial, ...] = ()
    failures: int = 0
    last_failure: float | None = None
    next_restart: float | None = None
    failure: str | None = None
    failure_reason: str | None = None
    nonces: Nonces = _NO_NONCES
    requests: tuple[RequestedSnapshot, ...] = ()
    recordings: tuple[TakenSavepoint, ...] = ()
    last_scheduled: float | None = None

    def trial(self, revision: str | None) -> Trial | None:
        """Return the trial of a revision's pod, or None."""
        return next((each for each in self.trials if each.revision == revision), None)


_REPORTED = frozenset({"completed_attempt"})
"""Fields that follow from what was seen; that they change says nothing of what is to be done."""


def intends_otherwise(before: Memory, after: Memory) -> bool:
    """Return whether what is to be done has changed, so that it must be stored before anything is done for it."""
    return any(
        getattr(before, field.name) != getattr(after, field.name)
        for field in fields(Memory)
        if field.name not in _REPORTED
    )


def memory_of(status: StreamJobStatus) -> Memory:
    """Return the memory in a status."""
    job, plan = status.job_status, status.reconciliation
    last = status.checkpoint.last_completed
    return Memory(
        lifecycle=status.lifecycle_state,
        since=_seconds(plan.since) or 0,
        attempt=job.attempt,
        decided=_seconds(plan.decided) or 0,
        driver=job.driver,
        revision=plan.last_reconciled_revision,
        first_attempt=plan.first_attempt,
        revision_since=_seconds(plan.revision_since) or 0,
        stable_revision=plan.last_stable_revision,
        failed_revision=plan.failed_revision,
        restore=plan.restore or Restore(),
        completed_attempt=None if last is None else last.attempt,
        stop=_stop_of(plan.stop, plan.pending_revision),
        trials=tuple(_trial_of(each) for each in plan.trials),
        failures=job.failures,
        last_failure=_seconds(job.last_failure_time),
        next_restart=_seconds(job.next_restart_time),
        failure=job.failure,
        failure_reason=job.failure_reason,
        nonces=plan.nonces,
        requests=plan.requests,
        recordings=plan.recordings,
        last_scheduled=_seconds(status.savepoint.last_scheduled),
    )


def remember(memory: Memory, status: StreamJobStatus) -> StreamJobStatus:
    """Return the status with what is to be remembered; what it reports besides stays as it is."""
    stop = memory.stop
    return status.model_copy(
        update={
            "lifecycle_state": memory.lifecycle,
            "job_status": status.job_status.model_copy(
                update={
                    "attempt": memory.attempt,
                    "driver": memory.driver,
                    "failures": memory.failures,
                    "last_failure_time": _time(memory.last_failure),
                    "next_restart_time": _time(memory.next_restart),
                    "failure": memory.failure,
                    "failure_reason": memory.failure_reason,
                }
            ),
            "savepoint": status.savepoint.model_copy(update={"last_scheduled": _time(memory.last_scheduled)}),
            "reconciliation": ReconciliationStatus(
                last_reconciled_revision=memory.revision,
                last_stable_revision=memory.stable_revision,
                pending_revision=None if stop is None else stop.revision,
                failed_revision=memory.failed_revision,
                since=_time(memory.since),
                decided=_time(memory.decided),
                first_attempt=memory.first_attempt,
                revision_since=_time(memory.revision_since),
                restore=memory.restore,
                stop=None if stop is None else _trigger_of(stop),
                trials=tuple(_pod_trial_of(each) for each in memory.trials),
                nonces=memory.nonces,
                requests=memory.requests,
                recordings=memory.recordings,
            ),
        }
    )


def _stop_of(trigger: PendingTrigger | None, revision: str | None) -> Stop | None:
    if trigger is None:
        return None
    return Stop(
        purpose=trigger.purpose,
        mode=trigger.mode or ("savepoint" if trigger.savepoint else "last-state"),
        trigger_id=trigger.trigger_id,
        attempt=trigger.attempt,
        since=trigger.started.timestamp(),
        revision=revision,
        failures=trigger.failures,
        next_try=_seconds(trigger.next_try),
        silent_since=_seconds(trigger.silent_since),
        failure=trigger.failure,
    )


def _trigger_of(stop: Stop) -> PendingTrigger:
    return PendingTrigger(
        trigger_id=stop.trigger_id,
        purpose=stop.purpose,
        kind="stop",
        savepoint=stop.mode == "savepoint",
        mode=stop.mode,
        attempt=stop.attempt,
        started=datetime.fromtimestamp(stop.since, UTC),
        failures=stop.failures,
        next_try=_time(stop.next_try),
        silent_since=_time(stop.silent_since),
        failure=stop.failure,
    )


def _trial_of(trial: PodTrial) -> Trial:
    return Trial(
        revision=trial.revision,
        since=trial.since.timestamp(),
        next_try=trial.next_try.timestamp(),
        rejections=trial.rejections,
        message=trial.message,
    )


def _pod_trial_of(trial: Trial) -> PodTrial:
    return PodTrial(
        revision=trial.revision,
        since=datetime.fromtimestamp(trial.since, UTC),
        next_try=datetime.fromtimestamp(trial.next_try, UTC),
        rejections=trial.rejections,
        message=trial.message,
    )


def _seconds(time: datetime | None) -> float | None:
    return None if time is None else time.timestamp()


def _time(seconds: float | None) -> datetime | None:
    return None if not seconds else datetime.fromtimestamp(int(seconds), UTC)
