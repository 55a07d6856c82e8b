"""The actions that a decision requests from the edge.

All actions may be repeated: one that has no effect any more is a success. None of them reports back; the next
observation shows the outcome. They are carried out in order, after the decision's status was stored, and only if that
succeeded. An action that is known to have failed ends the sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from streamjob.client.models import CheckpointingChanges
from streamjob.protocol.log.restore import LATEST
from streamjob_operator.decisions.values.revision import Revision

EventType = Literal["Normal", "Warning"]
"""Kubernetes' types of events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsureRevision:
    """Store a revision (a ControllerRevision of its name) if it is not stored yet."""

    revision: Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRevision:
    """Delete a revision that nothing names any more.

    Args:
        job_file: whether its job file goes, too; a pod that runs on has it mounted.
    """

    name: str
    job_file: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePod:
    """Create a pod of a stored revision, with all that it mounts.

    Args:
        restore_from: `latest`, `none` or the URI of a snapshot: `--from`.
        require_snapshot: `--require-snapshot`.
        allow_non_restored_state: `--allow-non-restored-state`.
        strict_migration: `--strict`.
    """

    revision: str
    restore_from: str = LATEST
    require_snapshot: bool = False
    allow_non_restored_state: bool = False
    strict_migration: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDriver(CreatePod):
    """Create the driver pod `<job>-driver-<attempt>`.

    Args:
        attempt: passed to the process as `--attempt`.
        waits: `--wait-for-start`.
        available_now: `--available-now`.
    """

    attempt: int
    waits: bool = False
    available_now: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePreflight(CreatePod):
    """Create the pod `<job>-preflight-<number>` that checks whether its revision can start; it changes nothing.

    Args:
        location: where the snapshot is; None for the revision's own location.
    """

    number: int
    location: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePreflight:
    """Delete the pod of a preflight at once: it has nothing to save."""

    name: str
    grace: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptDriver:
    """Make the StreamJob the owner of a driver pod that has none, with access to its control API.

    Args:
        uid: its identity; another one of that name is left alone.
    """

    name: str
    uid: str
    attempt: int
    revision: Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class StartJob:
    """`POST /v1/start` to the driver of an attempt, which waits for it, and to no other one."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteDriver:
    """Delete a driver pod.

    Args:
        grace: seconds between SIGTERM and SIGKILL; None for the pod's own grace period.
    """

    name: str
    grace: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsureExecutors:
    """Make the executors' objects, or change them, as a stored revision has them."""

    revision: str
    instances: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteExecutor:
    """Delete an executor's pod; its set makes another one.

    Args:
        grace: seconds between SIGTERM and SIGKILL, 0 to let go of a pod whose node is lost; None for the pod's own.
    """

    name: str
    grace: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveExecutors:
    """Delete the executors' set, with its pods, its Service and its PodDisruptionBudget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeDriver:
    """Give a running driver's container another request and limit of processors."""

    name: str
    cpu: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopJob:
    """`POST /v1/stop` to the driver of an attempt, to no other one.

    Args:
        savepoint: stop only with a savepoint.
        location: URI of a directory for the savepoint; None for the job's own place.
        drain: flush the job first.
    """

    attempt: int
    trigger_id: str
    savepoint: bool = False
    location: str | None = None
    drain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSavepoint:
    """`POST /v1/savepoints` to the driver of an attempt, to no other one."""

    attempt: int
    trigger_id: str
    location: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerCheckpoint:
    """`POST /v1/checkpoints` to the driver of an attempt, to no other one."""

    attempt: int
    trigger_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchCheckpointing:
    """`PATCH /v1/checkpointing` to the driver of an attempt, with the fields that differ."""

    attempt: int
    changes: CheckpointingChanges


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSnapshot:
    """Create a StreamSnapshot of the job, labelled with its origin; it outlives the job.

    Args:
        kind: kind of the snapshot that it takes or represents.
        origin: the reason for it.
        path: manifest of the savepoint that it represents; None if it takes its own.
    """

    name: str
    kind: Literal["savepoint", "checkpoint"]
    origin: Literal["nonce", "schedule", "upgrade", "suspend", "delete"]
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSnapshot:
    """Delete a StreamSnapshot that need not be kept any longer, and the files of its savepoint."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSnapshotData:
    """Delete the savepoint whose manifest is at `path`, from the store."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DisposeCheckpoints:
    """Claim the job's log as `attempt` and delete the job's own root in the store: log, checkpoints, shared files."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddFinalizer:
    """Put the controller's finalizer on the resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFinalizer:
    """Take the controller's finalizer off the resource: nothing is left to be done for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Emit:
    """Record an event on the resource; `reason` is one of a fixed set, in CamelCase."""

    type: EventType
    reason: str
    message: str


Action = (
    EnsureRevision
    | DeleteRevision
    | CreateDriver
    | CreatePreflight
    | DeletePreflight
    | AdoptDriver
    | StartJob
    | DeleteDriver
    | ResizeDriver
    | EnsureExecutors
    | DeleteExecutor
    | RemoveExecutors
    | StopJob
    | TriggerSavepoint
    | TriggerCheckpoint
    | PatchCheckpointing
    | CreateSnapshot
    | DeleteSnapshot
    | DeleteSnapshotData
    | DisposeCheckpoints
    | AddFinalizer
    | RemoveFinalizer
    | Emit
)
