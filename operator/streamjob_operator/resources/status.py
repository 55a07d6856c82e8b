"""The status of a StreamJob: what is known of the job, and, as a write-ahead log, what will be done next."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from pydantic import Field

from streamjob.protocol.lifecycle import JobState
from streamjob.protocol.triggers import SnapshotKind
from streamjob_operator.resources.base import StatusPart, Time
from streamjob_operator.resources.conditions import Condition


class LifecycleState(StrEnum):
    """Where a StreamJob stands on its way; more than the state of the job's process."""

    CREATED = "CREATED"
    DEPLOYING = "DEPLOYING"
    DEPLOYED = "DEPLOYED"
    STABLE = "STABLE"
    UPGRADING = "UPGRADING"
    SUSPENDING = "SUSPENDING"
    SUSPENDED = "SUSPENDED"
    ROLLING_BACK = "ROLLING_BACK"
    ROLLED_BACK = "ROLLED_BACK"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    DELETING = "DELETING"


MEANINGS: Mapping[LifecycleState, str] = {
    LifecycleState.CREATED: "Nothing was done yet.",
    LifecycleState.DEPLOYING: "A driver was decided on, and has not been seen to run.",
    LifecycleState.DEPLOYED: "The revision runs, and has not completed a checkpoint.",
    LifecycleState.STABLE: "The revision has completed a checkpoint.",
    LifecycleState.UPGRADING: "The driver is being stopped for another revision.",
    LifecycleState.SUSPENDING: "The driver is being stopped, as `suspend` asks.",
    LifecycleState.SUSPENDED: "Nothing runs, as asked; the state is kept.",
    LifecycleState.ROLLING_BACK: "The driver is being stopped for the last stable revision: its own did not get going.",
    LifecycleState.ROLLED_BACK: "The last stable revision runs in the place of one that did not get going.",
    LifecycleState.FINISHED: "All input has ended, and all of it is processed.",
    LifecycleState.FAILED: "The job failed, and is not started again by itself.",
    LifecycleState.DELETING: "The StreamJob is being deleted.",
}


class TriggerPurpose(StrEnum):
    """What a checkpoint, savepoint or stop that the controller asked for is good for."""

    UPGRADE = "Upgrade"
    SUSPEND = "Suspend"
    DELETE = "Delete"
    RESTART = "Restart"
    REDEPLOY = "Redeploy"
    ROLLBACK = "Rollback"
    SCHEDULE = "Schedule"
    NONCE = "Nonce"


class JobStatus(StatusPart):
    """The job's process."""

    state: JobState | None = Field(default=None, description="What the driver said last.")
    attempt: int = Field(
        default=0, ge=0, description="Number of the driver; grows with each, and fences off all before."
    )
    driver: str | None = Field(default=None, description="The uid of this driver's pod, once it was seen.")
    epoch: int | None = Field(default=None, ge=0, description="The fenced life of the job's coordinator.")
    start_time: Time | None = Field(default=None, description="When this driver was started.")
    update_time: Time | None = Field(default=None, description="When `state` changed last.")
    silent_since: Time | None = Field(
        default=None, description="Since when this driver, which was seen to run, does not answer."
    )
    restarts: int = Field(
        default=0, ge=0, description="Restarts after failures since the spec changed, inside drivers and of drivers."
    )
    failures: int = Field(default=0, ge=0, description="Drivers that failed in a row, since the last reset.")
    last_failure_time: Time | None = Field(default=None, description="When the last of them failed.")
    next_restart_time: Time | None = Field(default=None, description="When the next driver is started.")
    failure: str | None = Field(default=None, max_length=4096, description="Why the job failed last.")
    failure_reason: str | None = Field(default=None, max_length=1024, description="The same in a word.")


class CompletedCheckpoint(StatusPart):
    """A checkpoint, savepoint or final record of the job's log."""

    id: int = Field(ge=0, description="Its number; grows, and is never used twice.")
    kind: SnapshotKind = Field(description="What it is in the log.")
    path: str = Field(description="URI of its manifest.")
    epoch: int | None = Field(default=None, ge=0, description="The epoch that completed it.")
    attempt: int | None = Field(default=None, ge=0, description="The driver that completed it.")
    triggered: Time | None = Field(default=None, description="When it was begun.")
    completed: Time | None = Field(default=None, description="When it was complete.")
    duration_ms: int | None = Field(default=None, ge=0, description="From the one to the other, in ms.")
    checkpointed_size: int | None = Field(default=None, ge=0, description="Bytes written for it.")
    state_size: int | None = Field(default=None, ge=0, description="Bytes of all files that it refers to.")


class CheckpointInProgress(StatusPart):
    """A checkpoint or savepoint that is under way."""

    id: int = Field(ge=0, description="Its number.")
    triggered: Time | None = Field(default=None, description="When it was begun.")


class FailedCheckpoint(StatusPart):
    """A checkpoint or savepoint that came to nothing."""

    id: int = Field(ge=0, description="Its number.")
    time: Time | None = Field(default=None, description="When it failed.")
    message: str = Field(default="", max_length=4096, description="Why.")


class CheckpointCounts(StatusPart):
    """How many checkpoints and savepoints this driver has seen."""

    completed: int = Field(default=0, ge=0, description="Complete.")
    failed: int = Field(default=0, ge=0, description="Failed.")
    in_progress: int = Field(default=0, ge=0, description="Under way.")
    consecutive_failures: int = Field(default=0, ge=0, description="Failed in a row, up to now.")


class CheckpointStatus(StatusPart):
    """The job's checkpoints."""

    last_completed: CompletedCheckpoint | None = Field(default=None, description="The newest that is complete.")
    in_progress: CheckpointInProgress | None = Field(default=None, description="The one that is under way.")
    last_failed: FailedCheckpoint | None = Field(default=None, description="The last that failed.")
    counts: CheckpointCounts = Field(default_factory=CheckpointCounts, description="How many there were.")


class CompletedSavepoint(StatusPart):
    """A savepoint that is complete."""

    id: int | None = Field(default=None, ge=0, description="Its number.")
    path: str = Field(description="URI of its manifest.")
    completed: Time | None = Field(default=None, description="When it was complete.")
    snapshot: str | None = Field(default=None, description="Name of its StreamSnapshot, if it has one.")


class PendingSavepoint(StatusPart):
    """A savepoint that was decided on, and is not complete."""

    started: Time = Field(description="When it was decided on.")
    purpose: TriggerPurpose | None = Field(default=None, description="What the controller takes it for, if it does.")
    snapshot: str | None = Field(default=None, description="Name of its StreamSnapshot, if it has one.")


class PendingTrigger(StatusPart):
    """A stop that was decided on; it is asked for, under this id, until it has an outcome."""

    trigger_id: str = Field(max_length=128, description="Identity of the request; asked twice it is the same request.")
    purpose: TriggerPurpose = Field(description="What it is good for.")
    kind: Literal["stop"] = Field(default="stop", description="What is asked for.")
    savepoint: bool = Field(default=False, description="Whether the stop takes a savepoint.")
    mode: Literal["savepoint", "last-state", "stateless"] | None = Field(
        default=None, description="What a stop leaves behind: a savepoint, a last checkpoint, or nothing new."
    )
    attempt: int = Field(ge=0, description="The driver that is asked.")
    started: Time = Field(description="When it was decided on.")
    failures: int = Field(default=0, ge=0, description="How often the same purpose failed before.")
    next_try: Time | None = Field(default=None, description="When it is tried again.")
    silent_since: Time | None = Field(default=None, description="Since when the driver does not answer.")
    failure: str | None = Field(default=None, max_length=4096, description="Why it failed last.")


class SnapshotReference(StatusPart):
    """A StreamSnapshot, and what it stands for."""

    name: str = Field(description="Its name.")
    path: str = Field(description="URI of the savepoint's manifest.")


class SavepointStatus(StatusPart):
    """The job's savepoints."""

    last_completed: CompletedSavepoint | None = Field(default=None, description="The newest that is complete.")
    pending: PendingSavepoint | None = Field(default=None, description="The next that was decided on.")
    last_scheduled: Time | None = Field(default=None, description="When the schedule last asked for one.")
    upgrade_snapshot_reference: SnapshotReference | None = Field(
        default=None, description="The savepoint of the last upgrade, suspension or deletion that took one."
    )


class RestoredFrom(StatusPart):
    """The snapshot that the job's epoch started from."""

    id: int | None = Field(default=None, ge=0, description="Its number.")
    kind: SnapshotKind | None = Field(default=None, description="What it is in its log.")
    path: str = Field(description="URI of its manifest.")


class Nonces(StatusPart):
    """The values of the spec's nonces that were acted on."""

    savepoint_trigger: int | None = Field(default=None, description="`savepointTriggerNonce`.")
    checkpoint_trigger: int | None = Field(default=None, description="`checkpointTriggerNonce`.")
    savepoint_redeploy: int | None = Field(default=None, description="`savepointRedeployNonce`.")


class Restore(StatusPart):
    """What the driver of the current attempt is told to start from."""

    source: str = Field(default="latest", description="`latest`, `none`, or the URI of a snapshot.")
    required: bool = Field(default=False, description="Whether the driver must refuse to start from nothing.")
    allow_non_restored_state: bool = Field(
        default=False, description="Whether state of operators that the job no longer has may be dropped."
    )
    first_attempt: int = Field(default=0, ge=0, description="The first driver that was told so.")


class RequestedSnapshot(StatusPart):
    """A StreamSnapshot that the controller decided on, and has not seen yet."""

    name: str = Field(description="Its name.")
    kind: Literal["savepoint", "checkpoint"] = Field(description="What it is to take.")
    origin: Literal["nonce", "schedule"] = Field(description="What it is taken for.")


class TakenSavepoint(StatusPart):
    """A savepoint of a stop, which gets a StreamSnapshot."""

    name: str = Field(description="The StreamSnapshot's name.")
    origin: Literal["upgrade", "suspend", "delete"] = Field(description="What the driver was stopped for.")
    attempt: int = Field(ge=0, description="The driver that took it.")
    path: str | None = Field(default=None, description="URI of its manifest, once it is known.")


class PodTrial(StatusPart):
    """Whether the API server takes the next driver's pod; while it does not, a driver that runs is left alone."""

    revision: str = Field(description="The revision that the pod would run.")
    since: Time = Field(description="When the API server was asked first.")
    next_try: Time = Field(description="When it is asked again.")
    rejections: int = Field(default=0, ge=0, description="How often it rejected the pod.")
    message: str = Field(default="", max_length=4096, description="Why it rejected the pod, in its own words.")


class ReconciliationStatus(StatusPart):
    """What the controller is about to do; written before it is done. Revisions are names of ControllerRevisions."""

    last_reconciled_revision: str | None = Field(default=None, description="The revision that the driver runs.")
    last_stable_revision: str | None = Field(
        default=None, description="The last revision that completed a checkpoint; a rollback goes there."
    )
    pending_revision: str | None = Field(
        default=None, description="The revision that comes next, once the running one has stopped."
    )
    failed_revision: str | None = Field(
        default=None, description="The revision that was rolled back; not tried again until the spec changes."
    )
    since: Time | None = Field(default=None, description="When `lifecycleState` changed last.")
    decided: Time | None = Field(default=None, description="When the driver of the current attempt was decided on.")
    first_attempt: int = Field(
        default=0, ge=0, description="First driver of the revision; what it or a later one completed is the revision's."
    )
    revision_since: Time | None = Field(default=None, description="When that first driver was decided on.")
    requests: tuple[RequestedSnapshot, ...] = Field(
        default=(), description="StreamSnapshots that were decided on, and may not exist yet."
    )
    recordings: tuple[TakenSavepoint, ...] = Field(
        default=(), description="Savepoints of stops whose StreamSnapshots may not exist yet."
    )
    restore: Restore | None = Field(default=None, description="What the driver starts from.")
    stop: PendingTrigger | None = Field(default=None, description="How the running driver is being stopped.")
    trials: tuple[PodTrial, ...] = Field(
        default=(), description="Whether the API server takes the pods that may come next."
    )
    nonces: Nonces = Field(default_factory=Nonces, description="The nonces that were acted on.")


class StreamJobStatus(StatusPart):
    """How a StreamJob stands."""

    observed_generation: int | None = Field(
        default=None, ge=0, description="Generation of the spec that this status is about."
    )
    conditions: tuple[Condition, ...] = Field(
        default=(),
        description="What is so and what is not, by type.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    lifecycle_state: LifecycleState = Field(
        default=LifecycleState.CREATED, description="Where the StreamJob stands on its way."
    )
    job_status: JobStatus = Field(default_factory=JobStatus, description="The job's process.")
    checkpoint: CheckpointStatus = Field(default_factory=CheckpointStatus, description="The job's checkpoints.")
    savepoint: SavepointStatus = Field(default_factory=SavepointStatus, description="The job's savepoints.")
    restored_from: RestoredFrom | None = Field(default=None, description="The snapshot that the job started from.")
    reconciliation: ReconciliationStatus = Field(
        default_factory=ReconciliationStatus, description="What the controller is about to do."
    )
    replicas: int = Field(default=0, ge=0, description="The parallelism that runs; what `/scale` reports.")
    selector: str = Field(default="", description="For `/scale`; selects no pod, because replicas are task slots.")
