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
    """A savepoint: self-contained, and kept until somebody deletes it."""

    location: Place | None = Field(
        default=None, description="Where it goes. Default: `savepoints.location` of the StreamJob."
    )
    path: SnapshotUri | None = Field(
        default=None,
        description="URI of a savepoint of the job that exists: none is taken, and this resource stands for that one.",
    )
    dispose_on_delete: bool = Field(
        default=False, description="Delete its files with this resource, whether the job still runs or not."
    )


class CheckpointRequest(SpecPart):
    """A checkpoint now: kept as long as the job's other checkpoints."""


class StreamSnapshotSpec(SpecPart):
    """What is to be taken, and of which job."""

    job_ref: Reference = Field(description="The StreamJob, in the same namespace.")
    savepoint: SavepointRequest | None = Field(default=None, description="Take a savepoint.")
    checkpoint: CheckpointRequest | None = Field(default=None, description="Take a checkpoint.")
    backoff_limit: int = Field(
        default=-1,
        ge=-1,
        strict=True,
        description="Repetitions after failures; -1 for any number. Delays double from 10s.",
    )


class SnapshotState(StrEnum):
    """Where a StreamSnapshot stands."""

    PENDING = "Pending"
    IN_PROGRESS = "InProgress"
    COMPLETED = "Completed"
    FAILED = "Failed"
    ABANDONED = "Abandoned"

    @property
    def terminal(self) -> bool:
        """Whether nothing will become of it any more."""
        return self in (SnapshotState.COMPLETED, SnapshotState.FAILED, SnapshotState.ABANDONED)


MEANINGS: Mapping[SnapshotState, str] = {
    SnapshotState.PENDING: "Not asked for yet, or to be asked for again.",
    SnapshotState.IN_PROGRESS: "Asked for.",
    SnapshotState.COMPLETED: "Complete, and in the job's log.",
    SnapshotState.FAILED: "Failed as often as `backoffLimit` allows.",
    SnapshotState.ABANDONED: "The job went away, or ended, before it.",
}


class StreamSnapshotStatus(StatusPart):
    """What became of a StreamSnapshot."""

    observed_generation: int | None = Field(
        default=None, ge=0, description="Generation of the spec that this status is about."
    )
    conditions: tuple[Condition, ...] = Field(
        default=(),
        description="What is so and what is not, by type.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    state: SnapshotState = Field(default=SnapshotState.PENDING, description="Where it stands.")
    trigger_id: str | None = Field(default=None, max_length=128, description="Identity of the request.")
    trigger_timestamp: Time | None = Field(default=None, description="When it was asked for.")
    result_timestamp: Time | None = Field(default=None, description="When it was complete, or given up.")
    id: int | None = Field(default=None, ge=0, description="Its number in the job's log.")
    path: str | None = Field(default=None, description="URI of its manifest.")
    size_bytes: int | None = Field(default=None, ge=0, description="Bytes of all files that it refers to.")
    failures: int = Field(default=0, ge=0, description="How often it failed.")
    next_try: Time | None = Field(default=None, description="When it is tried again.")
    error: str | None = Field(default=None, max_length=4096, description="Why it failed last.")


class StreamSnapshot(SpecPart):
    """A savepoint or checkpoint of a StreamJob."""

    api_version: Literal["streamjob.io/v1alpha1"] = API_VERSION
    kind: Literal["StreamSnapshot"] = "StreamSnapshot"
    metadata: Metadata
    spec: StreamSnapshotSpec = Field(description="What is to be taken, and of which job.")
    status: StreamSnapshotStatus = Field(default_factory=StreamSnapshotStatus, description="What became of it.")
