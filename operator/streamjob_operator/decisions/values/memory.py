"""The memory of the decisions about a StreamJob. Each field names its place in the status, where it is described.

All of it is stored before anything is done that depends on it. Times are in whole seconds since 1970, as Kubernetes
writes them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

from streamjob_operator.decisions.values.kept import Kept, read, reported
from streamjob_operator.resources.parts import UpgradeMode
from streamjob_operator.resources.status import (
    LifecycleState,
    Nonces,
    PreflightState,
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
        revision: the revision to run next, None if there is none.
    """

    purpose: Annotated[TriggerPurpose, Kept("stop.purpose")]
    mode: Annotated[UpgradeMode, Kept("stop.mode")]
    trigger_id: Annotated[str, Kept("stop.trigger_id")]
    attempt: Annotated[int, Kept("stop.attempt")]
    since: Annotated[float, Kept("stop.started")]
    revision: Annotated[str | None, Kept("pending_revision")] = None
    failures: Annotated[int, Kept("stop.failures")] = 0
    next_try: Annotated[float | None, Kept("stop.next_try")] = None
    silent_since: Annotated[float | None, Kept("stop.silent_since")] = None
    failure: Annotated[str | None, Kept("stop.failure")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Whether the API server takes the pod of a revision; asked until it does, or nothing asks for the pod any more."""

    revision: Annotated[str, Kept("revision")]
    since: Annotated[float, Kept("since")]
    next_try: Annotated[float, Kept("next_try")]
    rejections: Annotated[int, Kept("rejections")] = 0
    message: Annotated[str, Kept("message")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Successor:
    """A driver that is prepared before the running one stops; it starts from `latest`, and refuses to without state.

    Args:
        failure: why it was given up; None while the upgrade waits for it.
    """

    attempt: Annotated[int, Kept("successor.attempt")]
    revision: Annotated[str, Kept("successor.revision")]
    since: Annotated[float, Kept("successor.since")]
    allow_non_restored_state: Annotated[bool, Kept("successor.allow_non_restored_state")] = False
    strict_migration: Annotated[bool, Kept("successor.strict_migration")] = False
    driver: Annotated[str | None, Kept("successor.driver")] = None
    failure: Annotated[str | None, Kept("successor.failure")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """Whether a revision can start, as a pod has found out; see `decisions.preflight`."""

    number: Annotated[int, Kept("preflight.number")]
    revision: Annotated[str, Kept("preflight.revision")]
    generation: Annotated[int, Kept("preflight.generation")]
    since: Annotated[float, Kept("preflight.since")]
    state: Annotated[PreflightState, Kept("preflight.state")] = PreflightState.PENDING
    pod: Annotated[str | None, Kept("preflight.pod")] = None
    failures: Annotated[int, Kept("preflight.failures")] = 0
    next_try: Annotated[float | None, Kept("preflight.next_try")] = None
    message: Annotated[str, Kept("preflight.message")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The decisions that a StreamJob's status records.

    Args:
        lifecycle: the job's state.
        since: when it came there.
        attempt: the newest driver that was decided on; 0 before the first.
        driver: uid of its pod once it was seen.
        revision: the running revision.
        first_attempt: the first driver of that revision, or of its newest start from elsewhere than `latest`.
        revision_since: when that first driver was decided on, or the first one after the job had rested, or when the
            running driver took the revision over.
        stable_revision: the last revision that completed a snapshot.
        failed_revision: the revision that was rolled back and is not tried again.
        restore: the snapshot that the current attempt starts from.
        completed_attempt: the driver of the newest completion that is known of; None before the first.
        last_attempt: the highest number that a successor was given; none is given twice.
        next_restart: when the current attempt may be started.
        times: the schedule that `next_run` follows from; None for a job that has none, or is not to run.
        next_run: when the next run is due.
        last_run: when the newest one began.
        last_run_completed: when the newest of those ended that have read all that was there.
        in_run: whether the current attempt ends with what is there.
    """

    lifecycle: Annotated[LifecycleState, Kept("lifecycle_state")] = LifecycleState.CREATED
    since: Annotated[float, Kept("reconciliation.since")] = 0
    attempt: Annotated[int, Kept("job_status.attempt")] = 0
    decided: Annotated[float, Kept("reconciliation.decided")] = 0
    driver: Annotated[str | None, Kept("job_status.driver")] = None
    revision: Annotated[str | None, Kept("reconciliation.last_reconciled_revision")] = None
    first_attempt: Annotated[int, Kept("reconciliation.first_attempt")] = 0
    revision_since: Annotated[float, Kept("reconciliation.revision_since")] = 0
    stable_revision: Annotated[str | None, Kept("reconciliation.last_stable_revision")] = None
    failed_revision: Annotated[str | None, Kept("reconciliation.failed_revision")] = None
    restore: Annotated[Restore, Kept("reconciliation.restore")] = _FROM_THE_LATEST
    completed_attempt: Annotated[int | None, Kept("checkpoint.last_completed.attempt", reported=True)] = None
    stop: Annotated[Stop | None, Kept("reconciliation")] = None
    trials: Annotated[tuple[Trial, ...], Kept("reconciliation.trials")] = ()
    successor: Annotated[Successor | None, Kept("reconciliation")] = None
    preflight: Annotated[Preflight | None, Kept("reconciliation")] = None
    last_attempt: Annotated[int, Kept("reconciliation.last_attempt")] = 0
    failures: Annotated[int, Kept("job_status.failures")] = 0
    last_failure: Annotated[float | None, Kept("job_status.last_failure_time")] = None
    next_restart: Annotated[float | None, Kept("job_status.next_restart_time")] = None
    failure: Annotated[str | None, Kept("job_status.failure")] = None
    failure_reason: Annotated[str | None, Kept("job_status.failure_reason")] = None
    nonces: Annotated[Nonces, Kept("reconciliation.nonces")] = _NO_NONCES
    requests: Annotated[tuple[RequestedSnapshot, ...], Kept("reconciliation.requests")] = ()
    recordings: Annotated[tuple[TakenSavepoint, ...], Kept("reconciliation.recordings")] = ()
    last_scheduled: Annotated[float | None, Kept("savepoint.last_scheduled")] = None
    times: Annotated[str | None, Kept("schedule.times")] = None
    next_run: Annotated[float | None, Kept("schedule.next_run")] = None
    last_run: Annotated[float | None, Kept("schedule.last_run")] = None
    last_run_completed: Annotated[float | None, Kept("schedule.last_completed")] = None
    in_run: Annotated[bool, Kept("schedule.under_way")] = False

    def trial(self, revision: str | None) -> Trial | None:
        """Return the trial of a revision's pod, or None."""
        return next((each for each in self.trials if each.revision == revision), None)


def intends_otherwise(before: Memory, after: Memory) -> bool:
    """Return whether the intent has changed, so that it must be stored before any action."""
    return any(
        getattr(before, field.name) != getattr(after, field.name)
        for field in fields(Memory)
        if field.name not in reported(Memory)
    )


def memory_of(status: StreamJobStatus) -> Memory:
    """Return the memory in a status."""
    return read(Memory, status) or Memory()
