"""The resource `StreamSnapshot`: a savepoint, or a checkpoint on demand, of a StreamJob."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from pydantic import Field

from streamjob_operator.resources.base import API_VERSION, Metadata, Reference, SpecPart, StatusPart, Time
from streamjob_operator.resources.conditions import Condition
from streamjob_operator.resources.parts import Place, SnapshotUri


class SavepointRequest(SpecPart):
    """A savepoint: self-contained, and kept until you delete it."""

    location: Place | None = Field(
        default=None, description="Location of the savepoint. Default: `savepoints.location` of the StreamJob."
    )
    path: SnapshotUri | None = Field(
        default=None,
        description="URI of an existing savepoint of the job. This resource then represents it, and none is taken.",
    )
    dispose_on_delete: bool = Field(
        default=False,
        description="Delete the savepoint's files with this resource, whether or not the job is running. If the "
        "store refuses to delete them for ten minutes, or its Secret is gone for one, they are kept, and an event says "
        "where.",
    )


class CheckpointRequest(SpecPart):
    """A checkpoint now, retained like the job's other checkpoints."""


class StreamSnapshotSpec(SpecPart):
    """The requested snapshot, and its job."""

    job_ref: Reference = Field(description="The StreamJob, in the same namespace.")
    savepoint: SavepointRequest | None = Field(default=None, description="Take a savepoint.")
    checkpoint: CheckpointRequest | None = Field(default=None, description="Take a checkpoint.")
    backoff_limit: int = Field(
        default=-1,
        ge=-1,
        strict=True,
        description="Number of retries after failures; -1 for unlimited. Delays start at 10s and double.",
    )


class SnapshotState(StrEnum):
    """The state of a StreamSnapshot."""

    PENDING = "Pending"
    IN_PROGRESS = "InProgress"
    COMPLETED = "Completed"
    FAILED = "Failed"
    ABANDONED = "Abandoned"

    @property
    def terminal(self) -> bool:
        """Whether the state is final."""
        return self in (SnapshotState.COMPLETED, SnapshotState.FAILED, SnapshotState.ABANDONED)


MEANINGS: Mapping[SnapshotState, str] = {
    SnapshotState.PENDING: "Not requested yet, or waiting for a retry.",
    SnapshotState.IN_PROGRESS: "Asked for.",
    SnapshotState.COMPLETED: "Complete, and in the job's log.",
    SnapshotState.FAILED: "Failed, and `backoffLimit` is used up.",
    SnapshotState.ABANDONED: "The job was deleted or ended before the snapshot was taken.",
}


class StreamSnapshotStatus(StatusPart):
    """The result of a StreamSnapshot."""

    observed_generation: int | None = Field(
        default=None, ge=0, description="Generation of the spec that this status refers to."
    )
    conditions: tuple[Condition, ...] = Field(
        default=(),
        description="Conditions, by type.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    state: SnapshotState = Field(default=SnapshotState.PENDING, description="State of the StreamSnapshot.")
    trigger_id: str | None = Field(default=None, max_length=128, description="Id of the request.")
    trigger_timestamp: Time | None = Field(default=None, description="When it was requested.")
    result_timestamp: Time | None = Field(default=None, description="When it completed, failed or was abandoned.")
    id: int | None = Field(default=None, ge=0, description="Its number in the job's log.")
    path: str | None = Field(default=None, description="URI of its manifest.")
    size_bytes: int | None = Field(default=None, ge=0, description="Size of all files that it refers to, in bytes.")
    failures: int = Field(default=0, ge=0, description="Number of failed attempts.")
    next_try: Time | None = Field(default=None, description="Time of the next attempt.")
    error: str | None = Field(default=None, max_length=4096, description="The last error.")


class StreamSnapshot(SpecPart):
    """A savepoint or checkpoint of a StreamJob."""

    api_version: Literal["streamjob.io/v1alpha1"] = API_VERSION
    kind: Literal["StreamSnapshot"] = "StreamSnapshot"
    metadata: Metadata
    spec: StreamSnapshotSpec = Field(description="The requested snapshot, and its job.")
    status: StreamSnapshotStatus = Field(default_factory=StreamSnapshotStatus, description="The result.")
