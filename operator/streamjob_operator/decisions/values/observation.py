"""One observation of the cluster: the values that decisions use.

An observation may be stale or partial. A value that could not be queried is None, which never means that it is empty:
an unreachable store is not an empty log, and an unreachable control API is not a stopped job. Times are in seconds
since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from streamjob.client.models import CheckpointingView, CheckpointsView, JobView, TriggerView
from streamjob.errors import ExitCode
from streamjob.protocol.lifecycle import JobState
from streamjob.snapshot.record import RecordKind
from streamjob_operator.decisions.values.revision import Revision
from streamjob_operator.resources.snapshot import SnapshotState


class PodPhase(StrEnum):
    """Kubernetes' names for how far a pod has come."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    @property
    def ended(self) -> bool:
        """Whether the pod's processes have ended."""
        return self in (PodPhase.SUCCEEDED, PodPhase.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The log's record of a completed snapshot; `path` is the absolute URI of its manifest."""

    id: int
    kind: RecordKind
    path: str
    epoch: int
    attempt: int
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverPod:
    """A driver pod of the job.

    Args:
        attempt: its number, from the label.
        started: when its container started, None before.
        deleting: when it was asked to go (the time of its deletion timestamp, grace period included), None if it was
            not.
        exit_code: how the driver's container ended, None before.
        outcome: the job's last state as the driver left it in its termination message, None if it left none.
        completion: the newest snapshot that it completed, as the driver left it there.
        error: the class of the error with which it ended, likewise; empty for any other end.
        reason: why it waits or failed, in Kubernetes' word: ImagePullBackOff, Unschedulable, OOMKilled, Evicted, …
        message: the reason for people; for an ended driver, the text of its termination message.
        cores: processors that its container is to have, by the pod's spec: request and limit, if they are the same.
        cores_given: processors that its container has; None if the node does not say.
        resize: why the node has not given it the processors of its spec, in Kubernetes' words; empty if it has.
    """

    name: str
    attempt: int
    uid: str = ""
    revision: str = ""
    phase: PodPhase
    created: float
    started: float | None = None
    deleting: float | None = None
    exit_code: int | None = None
    outcome: JobState | None = None
    completion: Completion | None = None
    error: str = ""
    reason: str = ""
    message: str = ""
    cores: float | None = None
    cores_given: float | None = None
    resize: str = ""

    @property
    def ended(self) -> bool:
        """Whether its process is known to have ended."""
        return self.phase.ended

    @property
    def exited_as(self) -> ExitCode | None:
        """The meaning of the exit code; None while the process runs, and for codes that are not the runtime's."""
        try:
            return None if self.exit_code is None else ExitCode(self.exit_code)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorPod:
    """A pod of an executor.

    Args:
        template: digest of the template that it was made from, from the label.
        deleting: as in DriverPod.
        reason: as in DriverPod.
    """

    name: str
    uid: str = ""
    template: str = ""
    phase: PodPhase
    created: float
    ready: bool = False
    deleting: float | None = None
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSet:
    """The StatefulSet of the executors.

    Args:
        revision: name of the revision that it was made or changed for last.
        replicas: how many pods it is to have.
        template: digest of the template of its pods.
        message: why it cannot make its pods; empty if it can, or if nobody knows.
    """

    revision: str
    replicas: int
    template: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLog:
    """The upper end of the job's log: its last claim and its newest completion.

    `attempt` is that of the last claim; None for an empty log. `remembered` means that it comes
    from the job's status, because only drivers can read the log.
    """

    attempt: int | None = None
    newest: Completion | None = None
    remembered: bool = False

    @property
    def empty(self) -> bool:
        """Whether the log holds nothing: no job ever claimed it, or its checkpoints were disposed of."""
        return self.attempt is None and self.newest is None

    @property
    def finished(self) -> bool:
        """Whether all work of the job is done."""
        return self.newest is not None and self.newest.kind is RecordKind.FINAL


class Reach(StrEnum):
    """Whether the controller can read a job's snapshots itself; otherwise it relies on the reports of drivers."""

    STORE = "store"
    VOLUME = "volume"
    """They are on a volume, and only pods see it."""
    NO_CREDENTIALS = "no credentials"
    """The job names no credentials, and the controller may not use its own."""


class StoreProblem(StrEnum):
    """Why the controller cannot read a job's log, as the reason of a condition."""

    SECRET_MISSING = "SecretMissing"
    BUCKET_MISSING = "BucketMissing"
    CREDENTIALS_REJECTED = "CredentialsRejected"
    CREDENTIALS_EXPIRED = "CredentialsExpired"
    ACCESS_DENIED = "AccessDenied"
    DENIED = "StoreDenied"
    UNREACHABLE = "StoreUnreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTrouble:
    """Why the controller cannot read a job's log: as a reason, and in the words of the store."""

    reason: StoreProblem
    message: str


SnapshotOrigin = Literal["manual", "nonce", "schedule", "upgrade", "suspend", "delete"]
"""The origin of a StreamSnapshot, as its label has it: a user, or the controller for a nonce, for the schedule, or for
a savepoint that it took to stop the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSnapshot:
    """A StreamSnapshot that refers to the job; `state` is Pending before its first status, `size` is in bytes."""

    name: str
    kind: Literal["savepoint", "checkpoint"]
    origin: SnapshotOrigin = "manual"
    created: float
    state: SnapshotState = SnapshotState.PENDING
    path: str | None = None
    size: int | None = None
    completed: float | None = None
    deleting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatibility:
    """Whether a revision can be restored from the log's newest completion.

    Args:
        compatible: False if the restore would be refused.
        problems: why, one sentence each.
    """

    revision: str
    compatible: bool
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The API server's answer to a driver's objects, the pod among them: to a dry run, or to their creation.

    Args:
        rejection: why it does not take them, in its own words; None if it does.
    """

    revision: str
    time: float
    rejection: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One look at all that concerns one StreamJob.

    Args:
        now: when it was made.
        pods: all driver pods of the job, of any attempt.
        preflights: the pods of its preflights; `attempt` is their number.
        unowned: driver pods of the job's name that no StreamJob owns; looked for before the first driver only.
        executors: the set of the job's executors; None if it has none.
        executor_pods: their pods, also those of a set that is gone.
        job: the report of the control API in the current attempt's pod; None without such a pod or an answer.
        successor: the report of the driver that is prepared to follow it; None without one, or without an answer.
        checkpoints: its statistics, likewise.
        policy: its checkpointing policy in force, likewise.
        triggers: the state of the requests that `decisions.wanted_triggers` names; requests unknown to the running
            process are omitted.
        log: the job's log at the location of the deployed revision (before the first, of the spec), read after the
            pods were listed; None if the store was not reachable.
        log_damage: the problem with a damaged log and its fix; empty if it is intact. `log` is None then.
        reach: whether that log can be read at all.
        trouble: why it could not be read this time; None if it could, or was not asked for.
        initial: the StreamSnapshot in `spec.initialSnapshotRef`, of any job; None if there is none.
        compatibility: of the spec's revision with the newest completion; None if it was not checked.
        admissions: the API server's answers to the dry runs that `decisions.wanted_trials` names, and to the last
            creation of a driver if that was rejected and no dry run was of the same revision.
        orphans: whether the resource was deleted so that its objects stay, as `kubectl delete --cascade=orphan` does.
    """

    now: float
    pods: tuple[DriverPod, ...] = ()
    preflights: tuple[DriverPod, ...] = ()
    unowned: tuple[DriverPod, ...] = ()
    executors: ExecutorSet | None = None
    executor_pods: tuple[ExecutorPod, ...] = ()
    job: JobView | None = None
    successor: JobView | None = None
    checkpoints: CheckpointsView | None = None
    policy: CheckpointingView | None = None
    triggers: Mapping[str, TriggerView] = field(default_factory=dict)
    log: StoredLog | None = None
    log_damage: str = ""
    reach: Reach = Reach.STORE
    trouble: StoreTrouble | None = None
    snapshots: tuple[KnownSnapshot, ...] = ()
    revisions: tuple[Revision, ...] = ()
    initial: KnownSnapshot | None = None
    compatibility: Compatibility | None = None
    admissions: tuple[Admission, ...] = ()
    finalizer: bool = True
    orphans: bool = False

    def pod(self, attempt: int) -> DriverPod | None:
        """Return the pod of an attempt, or None."""
        return next((pod for pod in self.pods if pod.attempt == attempt), None)

    def revision(self, name: str | None) -> Revision | None:
        """Return a stored revision by name, or None."""
        return next((revision for revision in self.revisions if revision.name == name), None)

    def snapshot(self, name: str) -> KnownSnapshot | None:
        """Return a StreamSnapshot by name, or None."""
        return next((snapshot for snapshot in self.snapshots if snapshot.name == name), None)
