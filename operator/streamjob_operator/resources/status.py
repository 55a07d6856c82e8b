"""The status of a StreamJob: the observed state of the job, and, as a write-ahead log, the next steps."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, model_validator

from streamjob.autoscaling import Means, State
from streamjob.protocol.coordination.triggers import SnapshotKind
from streamjob.protocol.lifecycle import JobState
from streamjob_operator.resources.base import Memory, StatusPart, Time
from streamjob_operator.resources.conditions import Condition
from streamjob_operator.resources.parts import ScalingMode


class LifecycleState(StrEnum):
    """The lifecycle state of a StreamJob; more than the state of the job's process."""

    CREATED = "CREATED"
    DEPLOYING = "DEPLOYING"
    DEPLOYED = "DEPLOYED"
    STABLE = "STABLE"
    UPGRADING = "UPGRADING"
    SUSPENDING = "SUSPENDING"
    SUSPENDED = "SUSPENDED"
    ROLLING_BACK = "ROLLING_BACK"
    ROLLED_BACK = "ROLLED_BACK"
    SCHEDULED = "SCHEDULED"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    DELETING = "DELETING"


RESTING = frozenset(
    {LifecycleState.SUSPENDED, LifecycleState.SCHEDULED, LifecycleState.FINISHED, LifecycleState.FAILED}
)
"""States in which nothing runs until the spec changes, or the schedule's next time comes."""

MEANINGS: Mapping[LifecycleState, str] = {
    LifecycleState.CREATED: "Nothing has happened yet.",
    LifecycleState.DEPLOYING: "The controller has decided to start a driver, and has not seen it running.",
    LifecycleState.DEPLOYED: "The revision is running, and has not completed a checkpoint.",
    LifecycleState.STABLE: "The revision has completed a checkpoint.",
    LifecycleState.UPGRADING: "The driver is being stopped for another revision.",
    LifecycleState.SUSPENDING: "The driver is being stopped because of `suspend`.",
    LifecycleState.SUSPENDED: "The job is stopped as requested; its state is kept.",
    LifecycleState.ROLLING_BACK: "The driver is being stopped for the last stable revision, because its own did not "
    "become stable.",
    LifecycleState.ROLLED_BACK: "The last stable revision is running instead of one that did not become stable.",
    LifecycleState.SCHEDULED: "No run is under way; the next one begins at `status.schedule.nextRun`.",
    LifecycleState.FINISHED: "All input has ended, and all of it is processed.",
    LifecycleState.FAILED: "The job failed, and is not restarted automatically.",
    LifecycleState.DELETING: "The StreamJob is being deleted.",
}


class TriggerPurpose(StrEnum):
    """The purpose of a checkpoint, savepoint or stop that the controller requested."""

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

    state: JobState | None = Field(default=None, description="State that the driver reported last.")
    attempt: int = Field(
        default=0, ge=0, description="Number of the driver. It grows with each driver, and fences off all earlier ones."
    )
    driver: str | None = Field(default=None, description="The uid of this driver's pod, once it has been seen.")
    epoch: int | None = Field(default=None, ge=0, description="The fenced life of the job's coordinator.")
    start_time: Time | None = Field(default=None, description="When this driver was started.")
    update_time: Time | None = Field(default=None, description="When `state` changed last.")
    silent_since: Time | None = Field(
        default=None, description="Time since which this driver has not answered, after it was seen running."
    )
    restarts: int = Field(
        default=0,
        ge=0,
        description="Restarts after failures since the last change of the spec, both inside drivers and of drivers.",
    )
    failures: int = Field(default=0, ge=0, description="Number of drivers that failed in a row since the last reset.")
    last_failure_time: Time | None = Field(default=None, description="Time of the last such failure.")
    next_restart_time: Time | None = Field(default=None, description="When the next driver is started.")
    failure: str | None = Field(default=None, max_length=4096, description="The job's last failure.")
    failure_reason: str | None = Field(default=None, max_length=1024, description="The last failure, as one word.")


class ExecutorStatus(StatusPart):
    """The job's executors."""

    desired: int = Field(default=0, ge=0, description="How many are to run.")
    ready: int = Field(default=0, ge=0, description="How many are ready.")
    lost: int = Field(default=0, ge=0, description="How many were ready before, and are to be replaced.")


class CompletedCheckpoint(StatusPart):
    """A checkpoint, savepoint or final record of the job's log."""

    id: int = Field(ge=0, description="Its id. Ids grow, and are never reused.")
    kind: SnapshotKind = Field(description="Its kind in the log.")
    path: str = Field(description="URI of its manifest.")
    epoch: int | None = Field(default=None, ge=0, description="The epoch that completed it.")
    attempt: int | None = Field(default=None, ge=0, description="The driver that completed it.")
    triggered: Time | None = Field(default=None, description="When it was triggered.")
    completed: Time | None = Field(default=None, description="When it completed.")
    duration_ms: int | None = Field(default=None, ge=0, description="Duration from trigger to completion, in ms.")
    checkpointed_size: int | None = Field(default=None, ge=0, description="Bytes written for this checkpoint.")
    state_size: int | None = Field(default=None, ge=0, description="Size of all files that it refers to, in bytes.")


class CheckpointInProgress(StatusPart):
    """A checkpoint or savepoint in progress."""

    id: int = Field(ge=0, description="Its number.")
    triggered: Time | None = Field(default=None, description="When it was triggered.")


class FailedCheckpoint(StatusPart):
    """A failed checkpoint or savepoint."""

    id: int = Field(ge=0, description="Its number.")
    time: Time | None = Field(default=None, description="When it failed.")
    message: str = Field(default="", max_length=4096, description="Why.")


class CheckpointCounts(StatusPart):
    """Numbers of checkpoints and savepoints of this driver."""

    completed: int = Field(default=0, ge=0, description="Complete.")
    failed: int = Field(default=0, ge=0, description="Failed.")
    in_progress: int = Field(default=0, ge=0, description="Under way.")
    consecutive_failures: int = Field(default=0, ge=0, description="Current number of failures in a row.")


class CheckpointStatus(StatusPart):
    """The job's checkpoints."""

    last_completed: CompletedCheckpoint | None = Field(default=None, description="The newest completed checkpoint.")
    in_progress: CheckpointInProgress | None = Field(default=None, description="The checkpoint in progress.")
    last_failed: FailedCheckpoint | None = Field(default=None, description="The last failed checkpoint.")
    counts: CheckpointCounts = Field(default_factory=CheckpointCounts, description="Numbers of checkpoints.")


class CompletedSavepoint(StatusPart):
    """A savepoint that is complete."""

    id: int | None = Field(default=None, ge=0, description="Its number.")
    path: str = Field(description="URI of its manifest.")
    completed: Time | None = Field(default=None, description="When it completed.")
    size_bytes: int | None = Field(default=None, ge=0, description="Bytes of all files that it refers to.")
    snapshot: str | None = Field(default=None, description="Name of its StreamSnapshot, if it has one.")


class PendingSavepoint(StatusPart):
    """A savepoint that was decided on, and is not complete."""

    started: Time = Field(description="When the controller decided on it.")
    purpose: TriggerPurpose | None = Field(
        default=None, description="The controller's purpose, if it takes the savepoint."
    )
    snapshot: str | None = Field(default=None, description="Name of its StreamSnapshot, if it has one.")


class PendingTrigger(StatusPart):
    """A stop that was decided on; it is asked for, under this id, until it has an outcome."""

    trigger_id: str = Field(max_length=128, description="Identity of the request; asked twice it is the same request.")
    purpose: TriggerPurpose = Field(description="Its purpose.")
    kind: Literal["stop"] = Field(default="stop", description="The kind of request.")
    savepoint: bool = Field(default=False, description="Whether the stop takes a savepoint.")
    mode: Literal["savepoint", "last-state", "stateless"] | None = Field(
        default=None, description="The state that the stop leaves: a savepoint, a last checkpoint, or nothing new."
    )
    attempt: int = Field(ge=0, description="The driver that is asked.")
    started: Time = Field(description="When the controller decided on it.")
    failures: int = Field(default=0, ge=0, description="How often the same purpose failed before.")
    next_try: Time | None = Field(default=None, description="Time of the next attempt.")
    silent_since: Time | None = Field(default=None, description="Since when the driver does not answer.")
    failure: str | None = Field(default=None, max_length=4096, description="The last error.")

    @model_validator(mode="before")
    @classmethod
    def _savepoint_follows_from_the_mode(cls, data: Any) -> Any:
        """Let `savepoint` say the same as `mode`; a status may lack the mode, and has `savepoint` alone."""
        if not isinstance(data, Mapping):
            return data
        mode = data.get("mode") or ("savepoint" if data.get("savepoint") else "last-state")
        return {**data, "mode": mode, "savepoint": mode == "savepoint"}


class SnapshotReference(StatusPart):
    """A StreamSnapshot, and the savepoint that it represents."""

    name: str = Field(description="Its name.")
    path: str = Field(description="URI of the savepoint's manifest.")


class SavepointStatus(StatusPart):
    """The job's savepoints."""

    last_completed: CompletedSavepoint | None = Field(default=None, description="The newest completed checkpoint.")
    pending: PendingSavepoint | None = Field(
        default=None, description="The next one that the controller has decided on."
    )
    last_scheduled: Time | None = Field(default=None, description="When the schedule last asked for one.")
    upgrade_snapshot_reference: SnapshotReference | None = Field(
        default=None, description="The savepoint of the last upgrade, suspension or deletion that took one."
    )


class RestoredFrom(StatusPart):
    """The snapshot that the job's epoch started from."""

    id: int | None = Field(default=None, ge=0, description="Its number.")
    kind: SnapshotKind | None = Field(default=None, description="Its kind in its log.")
    path: str = Field(description="URI of its manifest.")


class Nonces(StatusPart):
    """The last handled values of the spec's nonces."""

    savepoint_trigger: int | None = Field(default=None, description="`savepointTriggerNonce`.")
    checkpoint_trigger: int | None = Field(default=None, description="`checkpointTriggerNonce`.")
    savepoint_redeploy: int | None = Field(default=None, description="`savepointRedeployNonce`.")
    run: int | None = Field(default=None, description="`schedule.runNonce`.")


class Restore(StatusPart):
    """The starting point of the current attempt's driver."""

    source: str = Field(default="latest", description="`latest`, `none`, or the URI of a snapshot.")
    required: bool = Field(default=False, description="Whether the driver must refuse to start without state.")
    allow_non_restored_state: bool = Field(
        default=False, description="Whether to drop state that the job has no operator for, or that does not fit."
    )
    strict_migration: bool = Field(
        default=False, description="Whether to refuse state that can be changed to its new form only with a gap."
    )
    first_attempt: int = Field(default=0, ge=0, description="The first attempt with this starting point.")


class RequestedSnapshot(StatusPart):
    """A StreamSnapshot that the controller has decided to create, and has not seen yet."""

    name: str = Field(description="Its name.")
    kind: Literal["savepoint", "checkpoint"] = Field(description="The kind of snapshot.")
    origin: Literal["nonce", "schedule"] = Field(description="The reason for taking it.")


class TakenSavepoint(StatusPart):
    """A savepoint of a stop, which gets a StreamSnapshot."""

    name: str = Field(description="The StreamSnapshot's name.")
    origin: Literal["upgrade", "suspend", "delete"] = Field(description="The reason for stopping the driver.")
    attempt: int = Field(ge=0, description="The driver that took it.")
    path: str | None = Field(default=None, description="URI of its manifest, once it is known.")


class PodTrial(StatusPart):
    """Whether the API server accepts the next driver's pod. While it does not, a running driver is left alone."""

    revision: str = Field(description="The revision that the pod would run.")
    since: Time = Field(description="Time of the first request.")
    next_try: Time = Field(description="Time of the next request.")
    rejections: int = Field(default=0, ge=0, description="Number of rejections.")
    message: str = Field(default="", max_length=4096, description="The API server's last rejection message.")


class WarmSuccessor(StatusPart):
    """A driver that is prepared while the running one still works, and continues the job when that one has stopped."""

    attempt: int = Field(ge=1, description="Its number, which no other pod gets.")
    revision: str = Field(description="The revision that it is made from.")
    allow_non_restored_state: bool = Field(
        default=False, description="Whether it drops state that the job has no operator for, or that does not fit."
    )
    strict_migration: bool = Field(
        default=False, description="Whether it refuses state that can be changed to its new form only with a gap."
    )
    since: Time = Field(description="When the controller decided on it.")
    driver: str | None = Field(default=None, description="The uid of its pod, once it has been seen.")
    failure: str | None = Field(
        default=None, max_length=4096, description="Why it was given up; the upgrade goes on without it."
    )


class PreflightState(StrEnum):
    """How far a preflight has come."""

    PENDING = "Pending"
    PASSED = "Passed"
    FAILED = "Failed"
    SKIPPED = "Skipped"
    WITHDRAWN = "Withdrawn"


class PreflightStatus(StatusPart):
    """The check of a revision in a pod of its own, before the running driver is stopped for it."""

    number: int = Field(ge=1, description="Number of its pod, which no other one gets.")
    revision: str = Field(description="The revision that is checked.")
    generation: int = Field(ge=0, description="Generation of the spec that asks for it.")
    since: Time = Field(description="When the controller decided on it.")
    state: PreflightState = Field(default=PreflightState.PENDING, description="How far it has come.")
    pod: str | None = Field(default=None, description="The uid of its pod, once it has been seen.")
    failures: int = Field(
        default=0, ge=0, description="How often it failed in a row, for a reason that may pass by itself."
    )
    next_try: Time | None = Field(default=None, description="Time of the next attempt after such a failure.")
    message: str = Field(default="", max_length=4096, description="Why it failed or was skipped.")


class ReconciliationStatus(StatusPart):
    """The next steps of the controller, written before they are taken. Revisions are names of ControllerRevisions."""

    last_reconciled_revision: str | None = Field(default=None, description="The revision that the driver runs.")
    last_stable_revision: str | None = Field(
        default=None, description="The last revision that completed a checkpoint, the target of a rollback."
    )
    pending_revision: str | None = Field(
        default=None, description="The revision that comes next, once the running one has stopped."
    )
    failed_revision: str | None = Field(
        default=None, description="The revision that was rolled back. It is not tried again until the spec changes."
    )
    since: Time | None = Field(default=None, description="When `lifecycleState` changed last.")
    decided: Time | None = Field(default=None, description="When the controller decided on the current attempt.")
    first_attempt: int = Field(
        default=0,
        ge=0,
        description="The revision's first attempt. Completions of this and later attempts belong to the revision.",
    )
    revision_since: Time | None = Field(
        default=None,
        description="When the controller decided on that first attempt, or the driver took the revision over.",
    )
    requests: tuple[RequestedSnapshot, ...] = Field(
        default=(), description="StreamSnapshots that the controller has decided on, and that may not exist yet."
    )
    recordings: tuple[TakenSavepoint, ...] = Field(
        default=(), description="Savepoints of stops whose StreamSnapshots may not exist yet."
    )
    restore: Restore | None = Field(default=None, description="The starting point of the driver.")
    stop: PendingTrigger | None = Field(default=None, description="How the running driver is being stopped.")
    trials: tuple[PodTrial, ...] = Field(
        default=(), description="Whether the API server accepts the pods of the next drivers."
    )
    successor: WarmSuccessor | None = Field(
        default=None, description="The driver that is prepared before the running one stops."
    )
    preflight: PreflightStatus | None = Field(
        default=None, description="The last check of a revision before the driver was stopped for it."
    )
    last_attempt: int = Field(
        default=0, ge=0, description="The highest number that was given to a prepared driver, whether it ran or not."
    )
    nonces: Nonces = Field(default_factory=Nonces, description="The nonces that have been handled.")


class ScheduleStatus(StatusPart):
    """The runs of a job with a schedule."""

    times: str | None = Field(default=None, description="The schedule that `nextRun` follows from, and its time zone.")
    next_run: Time | None = Field(default=None, description="When the next run is due.")
    last_run: Time | None = Field(default=None, description="When the newest run began.")
    last_completed: Time | None = Field(
        default=None, description="When the newest of the runs ended that have read all that was there."
    )
    under_way: bool = Field(
        default=False, description="Whether the newest driver is that of a run: it ends with what is there."
    )


class LastScaling(StatusPart):
    """A change of the number of task slots."""

    time: Time = Field(description="When it was decided on.")
    before: int = Field(ge=1, description="Task slots before.")
    after: int = Field(ge=1, description="Task slots after.")
    means: Means = Field(description="How they were changed.")
    rule: str = Field(description="The rule that decided it; `External` if somebody else made the change.")
    reason: str = Field(default="", max_length=4096, description="Why, with the numbers behind it.")
    expected: float = Field(description="Expected factor of the capacity.")
    reached: float | None = Field(
        default=None, description="Measured factor of the capacity, once records have waited for long enough."
    )


class MemoryUseStatus(StatusPart):
    """The most memory that drivers used lately, in bytes: of Java's heap after a collection, and outside the heap."""

    attempt: int = Field(ge=0, description="The driver that was observed last.")
    since: Time = Field(description="When the present window of six hours began.")
    live_heap: int = Field(default=0, ge=0, description="Most of the heap that a collection has left in it.")
    outside_heap: int = Field(default=0, ge=0, description="Most in use outside the heap in it.")
    live_heap_before: int | None = Field(default=None, ge=0, description="The same, in the window before.")
    outside_heap_before: int | None = Field(default=None, ge=0, description="The same, in the window before.")
    short_since: Time | None = Field(default=None, description="Since when the driver has been short of memory.")
    retry: Time | None = Field(
        default=None, description="When more memory is tried again, after the API server rejected the pod."
    )


class AutoscalingStatus(StatusPart):
    """The automatic scaling: its last decision, the reason for it, and what it remembers."""

    mode: ScalingMode = Field(description="The mode of this decision.")
    state: State = Field(default=State.LEARNING, description="State of the automatic scaling.")
    parallelism: int | None = Field(
        default=None, ge=1, description="With mode Act: the task slots that the job is to have, instead of the spec's."
    )
    means: Means | None = Field(default=None, description="How the job comes to have them.")
    driver_memory: Memory | None = Field(
        default=None, description="Driver memory chosen by autoscaling; replaces the spec's."
    )
    driver_memory_overhead: Memory | None = Field(
        default=None, description="The same for the memory of its container besides Java's heap."
    )
    spec_memory: Memory | None = Field(
        default=None, description="The spec's `driver.memory` when less was decided on; another one takes precedence."
    )
    memory_use: MemoryUseStatus | None = Field(default=None, description="The memory that drivers used.")
    killed_attempt: int | None = Field(
        default=None, ge=0, description="The last driver that was killed for its memory, and got more."
    )
    recommended: int | None = Field(default=None, ge=1, description="The task slots that fit the load.")
    reason: str = Field(default="", max_length=4096, description="Why, with the numbers behind it.")
    conflict: str = Field(
        default="", max_length=4096, description="The change of the spec that has no effect, because mode Act decides."
    )
    limit: str = Field(default="", max_length=4096, description="What forbids more task slots, if they would help.")
    arrival_rate: float | None = Field(default=None, description="Records that arrive per second.")
    capacity: float | None = Field(default=None, description="Records per second that the present slots can process.")
    utilization: float | None = Field(default=None, description="Arrival rate as a share of the capacity.")
    lag_seconds: float | None = Field(
        default=None, description="Unread records, divided by those that arrive per second."
    )
    restart_seconds: float | None = Field(
        default=None, description="Measured duration of a restart: the longest of the last five."
    )
    last_scaling: LastScaling | None = Field(default=None, description="The last change of the task slots.")
    moves_today: int = Field(default=0, ge=0, description="Changes by restart in the last 24 hours.")
    spec_parallelism: int | None = Field(
        default=None, ge=1, description="The spec's parallelism when mode Act began; later changes have no effect."
    )
    observed: Time | None = Field(default=None, description="Time of the decision.")
    memory: str = Field(
        default="",
        max_length=65_536,
        description="What the decision remembers: the fitted model, the arrivals and the changes of the last day. "
        "Compressed JSON in base64.",
    )


class StreamJobStatus(StatusPart):
    """The observed state of a StreamJob."""

    observed_generation: int | None = Field(
        default=None, ge=0, description="Generation of the spec that this status refers to."
    )
    conditions: tuple[Condition, ...] = Field(
        default=(),
        description="Conditions, by type.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    lifecycle_state: LifecycleState = Field(
        default=LifecycleState.CREATED, description="Lifecycle state of the StreamJob."
    )
    job_status: JobStatus = Field(default_factory=JobStatus, description="The job's process.")
    executors: ExecutorStatus | None = Field(
        default=None, description="The job's executors, if it has executors in pods of their own."
    )
    checkpoint: CheckpointStatus = Field(default_factory=CheckpointStatus, description="The job's checkpoints.")
    savepoint: SavepointStatus = Field(default_factory=SavepointStatus, description="The job's savepoints.")
    schedule: ScheduleStatus = Field(default_factory=ScheduleStatus, description="The runs of a job with a schedule.")
    restored_from: RestoredFrom | None = Field(default=None, description="The snapshot that the job started from.")
    reconciliation: ReconciliationStatus = Field(
        default_factory=ReconciliationStatus, description="The next steps of the controller."
    )
    autoscaling: AutoscalingStatus | None = Field(
        default=None, description="The automatic scaling; absent if its mode is Off."
    )
    replicas: int = Field(default=0, ge=0, description="The running parallelism, as `/scale` reports it.")
    selector: str = Field(default="", description="For `/scale`; selects no pod, because replicas are task slots.")
