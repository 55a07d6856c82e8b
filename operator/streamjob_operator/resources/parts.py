"""The sections of a StreamJob's spec, pods aside; Flink's fields have Flink's names, Spark's have Kubeflow's."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from streamjob.autoscaling import Policy
from streamjob.durations import Seconds
from streamjob.job.model.spec import CheckpointingPolicy
from streamjob.telemetry.logs import LogFormat
from streamjob_operator.resources.base import Memory, ObjectName, Reference, SomeCpu, SpecPart

UpgradeMode = Literal["savepoint", "last-state", "stateless"]
CompatibilityCheck = Literal["Off", "Warn", "Enforce"]
DeletionPolicy = Literal["Retain", "Delete"]
PullPolicy = Literal["Always", "IfNotPresent", "Never"]

PLACE = r"^(s3://[^/]+|file:///|/).*$"
_FIELD = r"(\*|[0-9A-Za-z]+(-[0-9A-Za-z]+)?)(/[0-9]+)?"
_CRON = rf"{_FIELD}(,{_FIELD})*( +{_FIELD}(,{_FIELD})*){{4}}"
SCHEDULE = rf"^(([0-9]+(ms|s|m|h|d))+|{_CRON})$"

Place = Annotated[str, Field(min_length=1, max_length=2048, pattern=PLACE)]
"""Where snapshots are: `s3://bucket/prefix`, or an absolute path in the driver's pod."""

SnapshotUri = Annotated[str, Field(min_length=1, max_length=2048, pattern=r"^(s3://[^/]+|file:///|/).+$")]
"""A snapshot: its manifest, or the directory of it."""


class Checkpointing(CheckpointingPolicy):
    """When, how and where checkpoints are taken, and how many are kept. Each field overrides that of `job`."""

    location: Place | None = Field(
        default=None,
        description="Location of checkpoints: `s3://bucket/prefix`, or a path on a volume of the driver. Required "
        "unless `upgradeMode` is `stateless`.",
    )


class Schedule(SpecPart):
    """When the job runs, if it does not run all the time: each run reads what is there when it begins, and ends."""

    cron: str = Field(
        max_length=128,
        pattern=rf"^{_CRON}$",
        description="When runs begin: cron's five fields, like `0 3 * * *`. No run begins while one is under way.",
    )
    time_zone: str | None = Field(
        default=None,
        max_length=64,
        pattern=r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$",
        description="Time zone of `cron`, like `Europe/Berlin`. Default: UTC.",
    )
    starting_deadline: Seconds | None = Field(
        default=None,
        gt=0,
        description="A run that could not begin for this long after its time, for instance because the controller was "
        "away, does not begin at all. Default: it begins late, once for all times that were missed.",
    )
    run_nonce: Annotated[int, Field(strict=True)] | None = Field(
        default=None,
        description="Change this number to begin a run at once, or when the one that is under way has ended.",
    )


class Retention(SpecPart):
    """Retention of the snapshots that the controller has requested. The newest is always kept."""

    max_count: int = Field(default=10, ge=1, strict=True, description="How many.")
    max_age: Seconds | None = Field(default=None, gt=0, description="Maximum age. Default: unlimited.")


class Savepoints(SpecPart):
    """Savepoints that the controller takes by itself."""

    location: Place | None = Field(
        default=None, description="Location of savepoints. Default: below the location of the checkpoints."
    )
    schedule: Annotated[str, Field(max_length=128, pattern=SCHEDULE)] | None = Field(
        default=None,
        description="Takes savepoints regularly: a duration since the last one, like `6h`, or cron's five fields in "
        "UTC.",
    )
    on_deletion: bool = Field(default=False, description="Stop with a savepoint when the StreamJob is deleted.")
    drain: bool = Field(
        default=False,
        description="Drain the job for the savepoint of `onDeletion`: windows and timers fire as if all input had "
        "ended. Do not continue from such a savepoint.",
    )
    retention: Retention = Field(default_factory=Retention, description="Which savepoints are kept.")


class Storage(SpecPart):
    """The S3 server of the snapshots, and how to log in there."""

    endpoint: str | None = Field(
        default=None, max_length=2048, pattern=r"^https?://[^/@]+/?$", description="URL of the server. Default: AWS."
    )
    region: str | None = Field(default=None, min_length=1, max_length=63, description="Its region.")
    path_style_access: bool | None = Field(
        default=None,
        description="Put the bucket into the path instead of the host name. Default: true if `endpoint` is set.",
    )
    credentials_secret_ref: Reference | None = Field(
        default=None,
        description="A Secret with `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and, if there is one, "
        "`AWS_SESSION_TOKEN`. Without it, the driver uses its service account, and the controller does not access the "
        "store unless it may use its own credentials.",
    )


class Rollback(SpecPart):
    """The return to the last stable revision from one that does not become stable."""

    enabled: bool | None = Field(
        default=None,
        description="Go back to the last stable revision, unless the new one has completed a checkpoint. Default: from "
        "a revision that cannot become stable, such as one without an image, unless `upgradeMode` is `stateless`.",
    )
    readiness_timeout: Seconds | None = Field(
        default=None,
        gt=0,
        description="Time in which a revision must complete its first checkpoint. Default: `5m` if `enabled` is true; "
        "otherwise unlimited.",
    )


class Upgrade(SpecPart):
    """How a changed spec replaces the running one."""

    last_state_fallback: bool = Field(
        default=True,
        description="If `upgradeMode` is `savepoint` and the job cannot take one, continue from its last checkpoint.",
    )
    max_allowed_checkpoint_age: Seconds | None = Field(
        default=None,
        gt=0,
        description="If `upgradeMode` is `last-state` and the last checkpoint is older than this, take a savepoint "
        "first.",
    )
    compatibility_check: CompatibilityCheck = Field(
        default="Enforce",
        description="Handling of a spec that does not fit the job's state: `Enforce` leaves the running job alone, "
        "`Warn` reports it and continues, `Off` does not check.",
    )
    warm_successor: bool = Field(
        default=False,
        description="Prepare the next driver in a second pod before the running one stops, so that the job stands "
        "still for less than half as long. Meanwhile the job needs twice the resources. Without room for the second "
        "pod, or if it is not prepared within two minutes, the upgrade goes the ordinary way. Not for jobs on "
        "executors.",
    )
    preflight: bool = Field(
        default=True,
        description="Before a running driver is stopped for an upgrade or a redeployment, start a pod of the new "
        "revision that checks, with its image, code and Secrets, whether the job can start from the newest checkpoint, "
        "as `streamjob check` does. If it cannot, the running job is left alone, and the condition `PreflightPassed` "
        "has the error. The upgrade begins later by the start of one pod. Without room for that pod, the upgrade goes "
        "on without. A warm successor makes the same check, and no such pod is started.",
    )
    rollback: Rollback = Field(
        default_factory=Rollback,
        description="The return to the last stable revision from one that does not become stable.",
    )


class CheckpointProgress(SpecPart):
    """How long a job may run without completing a checkpoint."""

    window: Seconds | None = Field(
        default=None,
        gt=0,
        description="Maximum time without a completed checkpoint. Default: the larger of interval and timeout, times "
        "`tolerableFailedCheckpoints` + 2.",
    )


class HealthCheck(SpecPart):
    """When a running job counts as unhealthy and its pod is replaced."""

    enabled: bool = Field(default=True, description="Replace the pod of an unhealthy job.")
    checkpoint_progress: CheckpointProgress = Field(
        default_factory=CheckpointProgress, description="Missing checkpoints."
    )


class RestartPolicy(SpecPart):
    """How often and how soon a failed driver is restarted. Each delay is twice the previous one."""

    type: Literal["OnFailure", "Never"] = Field(default="OnFailure", description="Whether a failed driver is replaced.")
    on_failure_retries: int | None = Field(
        default=None, ge=0, strict=True, description="Maximum number of replacements in a row. Default: unlimited."
    )
    on_failure_retry_interval: Seconds = Field(
        default=10.0,
        gt=0,
        description="The first delay. There is no delay if the cause of the first failure was outside the job.",
    )
    max_retry_interval: Seconds = Field(default=300.0, gt=0, description="The longest delay.")
    reset_after: Seconds = Field(
        default=600.0, gt=0, description="After this time without a failure, the count and the delays are reset."
    )


class ScalingMode(StrEnum):
    """Whether the controller scales a job."""

    OFF = "Off"
    ADVISE = "Advise"
    ACT = "Act"


class Autoscaling(Policy, SpecPart):
    """Automatic scaling: its limits and goals, and whether the controller acts."""

    mode: ScalingMode = Field(
        default=ScalingMode.OFF,
        description="`Advise` reports in `status.autoscaling` how many task slots fit the load. `Act` also changes "
        "them, and `parallelism` is then only the number to begin with. The spec is never written. Write `Off` in "
        "quotes: YAML takes it for false.",
    )
    cpu_per_slot: SomeCpu | None = Field(
        default=None,
        description="CPU request of a task slot. With `Act`, the driver's request is this times the slots, in place of "
        "`driver.cores` and `driver.coreRequest`; a `driver.coreLimit` becomes equal to it. Default: the request stays "
        "as it is.",
    )
    max_memory: Memory | None = Field(
        default=None,
        description="With `Act`: most memory (`driver.memory`) of a driver that is short of it. A driver whose heap or "
        "container is nearly full for a minute, or that is killed because it exceeds the memory of its container, gets "
        "half as much again. Default: it gets no more.",
    )
    min_memory: Memory | None = Field(
        default=None,
        description="With `Act`: least memory (`driver.memory`) of a driver that used much less for six hours. It gets "
        "less when the job restarts for another number of task slots. Default: it gets no less.",
    )


class Otlp(SpecPart):
    """Traces and metrics of the driver by OTLP over HTTP.

    Secrets, such as headers, belong into the variables of `driver.envFrom`: `OTEL_EXPORTER_OTLP_HEADERS`.
    """

    endpoint: str | None = Field(
        default=None,
        max_length=2048,
        pattern=r"^https?://[^/@]+(/[^@]*)?$",
        description="URL of a collector: `http://collector.observability:4318`. Default: nothing is sent, unless "
        "OpenTelemetry's variables are in the driver's environment.",
    )
    traced_batches: float = Field(
        default=0.01, ge=0, le=1, description="Share of batches with a trace. Checkpoints and starts always have one."
    )
    metrics_interval: Seconds = Field(
        default=60.0, ge=0.1, le=86_400, description="Time between two exports of the metrics."
    )


class Observability(SpecPart):
    """Logs of the pods, and the receivers of their traces and metrics."""

    log_format: LogFormat = Field(
        default=LogFormat.TEXT,
        description="Format of the logs of driver and executors: `text`, or `json` for one object per line.",
    )
    otlp: Otlp = Field(default_factory=Otlp, description="Traces and metrics of the driver by OTLP over HTTP.")


class Dependencies(SpecPart):
    """Dependencies of the job's code besides its image: Spark's own fields, and ConfigMaps with Python modules."""

    config_maps: tuple[ObjectName, ...] = Field(
        default=(),
        description="ConfigMaps whose keys become files next to the job's: modules for `python: module:function`.",
    )
    jars: tuple[str, ...] = Field(default=(), description="Jars, as `spark.jars`.")
    files: tuple[str, ...] = Field(default=(), description="Files, as `spark.files`.")
    py_files: tuple[str, ...] = Field(default=(), description="Python modules and archives, as `spark.submit.pyFiles`.")
    archives: tuple[str, ...] = Field(default=(), description="Archives, as `spark.archives`.")
    packages: tuple[str, ...] = Field(default=(), description="Maven coordinates, as `spark.jars.packages`.")
    exclude_packages: tuple[str, ...] = Field(default=(), description="As `spark.jars.excludes`.")
    repositories: tuple[str, ...] = Field(default=(), description="Maven repositories, as `spark.jars.repositories`.")
