"""The models of the controller's page: all jobs that a viewer may read, and one of them as Kubernetes knows it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from streamjob.client.chain_models import View
from streamjob.client.models import Request
from streamjob.job.model.spec import MOST_PARTITIONS

Tone = Literal["critical", "attention", "underway", "ok", "still"]
"""How much a job needs somebody, the most urgent first; `still` is a job that is suspended or has finished."""

DriverPresence = Literal["answers", "away", "none"]


class ConditionView(View):
    """A condition of a StreamJob."""

    type: str
    status: str
    reason: str
    message: str = ""
    since: float | None = Field(default=None, description="When its status changed last.")
    wrong: bool = Field(description="Whether this status means trouble.")


class JobRow(View):
    """A StreamJob in the list of all jobs. Times are in seconds since 1970; null is not known."""

    namespace: str
    name: str
    tone: Tone
    sentence: str = Field(description="The worst finding, of the driver or of the controller.")
    lifecycle: str = Field(description="`status.lifecycleState`.")
    since: float | None = Field(default=None, description="When the lifecycle state was reached.")
    state: str | None = Field(default=None, description="State that the driver reported last.")
    driver: DriverPresence = Field(description="Whether a driver answers, is away, or is not wanted.")
    away_since: float | None = Field(default=None, description="Since when the driver does not answer.")
    troubles: tuple[str, ...] = Field(default=(), description="Types of the conditions that mean trouble.")
    lag_seconds: float | None = Field(default=None, description="The largest lag of a source.")
    lag_records: float | None = Field(default=None, description="Unread records of all sources.")
    rows_per_second: float | None = Field(default=None, description="Records read per second.")
    figures_at: float | None = Field(default=None, description="When the driver gave these three figures.")
    checkpoint_at: float | None = Field(default=None, description="When the last checkpoint completed.")
    checkpoint_interval: float | None = Field(default=None, description="Seconds between checkpoints by the spec.")
    restarts: int = Field(default=0, description="Restarts after failures since the spec changed last.")
    upgrade: str | None = Field(default=None, description="The step of a running upgrade, rollback or suspension.")
    revision: str | None = Field(default=None, description="The revision that the driver runs.")
    parallelism: int | None = Field(default=None, description="Task slots.")
    recommended: int | None = Field(default=None, description="Task slots that fit the load.")
    suspended: bool = Field(default=False, description="Whether the spec suspends the job.")


class JobsView(View):
    """The jobs that a viewer may read, by `namespace/name`."""

    viewer: str = Field(description="The viewer's name in Kubernetes.")
    every_namespace: bool = Field(description="Whether the viewer may read the jobs of all namespaces.")
    now: float = Field(description="The controller's clock, in seconds since 1970.")
    jobs: dict[str, JobRow]


class ResourceView(View):
    """A StreamJob as Kubernetes knows it, also while its driver is away."""

    row: JobRow
    now: float = Field(description="The controller's clock, in seconds since 1970.")
    conditions: tuple[ConditionView, ...]
    attempt: int = Field(description="Number of the driver.")
    failure: str | None = Field(default=None, description="The job's last failure.")
    next_restart_at: float | None = Field(default=None, description="When the next driver is started.")
    checkpoint_path: str | None = Field(default=None, description="URI of the last completed checkpoint.")
    savepoint_path: str | None = Field(default=None, description="URI of the last completed savepoint.")
    savepoint_at: float | None = Field(default=None, description="When it completed.")
    pending_revision: str | None = Field(default=None, description="The revision that comes next.")
    scaling: str | None = Field(default=None, description="The last decision of automatic scaling, with its reason.")
    scaling_acts: bool = Field(default=False, description="Whether automatic scaling sets the task slots itself.")


class ScaleRequest(Request):
    """Body of `POST …/v1/scale`."""

    parallelism: Annotated[int, Field(ge=1, le=MOST_PARTITIONS, strict=True, description="Task slots.")]


class SuspendRequest(Request):
    """Body of `POST …/v1/suspend`."""

    suspend: Annotated[bool, Field(strict=True, description="True to stop the job and keep its state.")]


class Done(View):
    """A change that the API server has taken."""

    sentence: str


class ControllerSession(View):
    """The rights of a caller of the controller's page."""

    write: bool = Field(description="Whether the caller may change this job; false where no job is named.")
    expires_at: float | None = Field(default=None, description="When the token expires, if it says so.")
    viewer: str = Field(description="The caller's name in Kubernetes.")
    controller: Literal[True] = True
