"""The resource `StreamJob`: a job, how it runs on the cluster, and how its state is kept over changes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from streamjob.job.loading.stream_job import effective_job
from streamjob.job.model.spec import MOST_PARTITIONS
from streamjob.job.model.spec_fields import Options
from streamjob_operator.resources.base import API_VERSION, KubernetesObject, Metadata, NamedObjects, Reference, SpecPart
from streamjob_operator.resources.effect_of_changes import Change
from streamjob_operator.resources.parts import (
    Autoscaling,
    Checkpointing,
    DeletionPolicy,
    Dependencies,
    HealthCheck,
    Observability,
    PullPolicy,
    RestartPolicy,
    Savepoints,
    Schedule,
    SnapshotUri,
    Storage,
    Upgrade,
    UpgradeMode,
)
from streamjob_operator.resources.pods import DriverSpec, ExecutorSpec
from streamjob_operator.resources.status import StreamJobStatus

APPLICATION = r"^(local://|s3://[^/]+)?/.+\.(py|yaml|yml|sql)$"

_Application = Annotated[str, Field(max_length=2048, pattern=APPLICATION)]
_Nonce = Annotated[int, Field(strict=True)]


class StreamJobSpec(SpecPart):
    """The desired state: the job, its pods and its settings."""

    job: Annotated[KubernetesObject | None, Change.UPGRADE] = Field(
        default=None,
        description="The job, with the content of a job file: sources, operators, sinks. It is named after the "
        "StreamJob.",
    )
    main_application_file: Annotated[_Application | None, Change.UPGRADE] = Field(
        default=None,
        description="The job's file, as an alternative to `job`: Python that defines `job`, YAML or SQL, at "
        "`local:///…` in the image or `s3://…`.",
    )
    deps: Annotated[Dependencies, Change.UPGRADE] = Field(
        default_factory=Dependencies, description="Dependencies of the job's code in addition to the image."
    )
    image: Annotated[str | None, Change.UPGRADE] = Field(
        default=None,
        min_length=1,
        max_length=1024,
        description="The runtime's image. Default: the image that the controller is configured with.",
    )
    image_pull_policy: Annotated[PullPolicy, Change.UPGRADE] = Field(
        default="IfNotPresent", description="As in a container."
    )
    image_pull_secrets: Annotated[tuple[Reference, ...], Change.UPGRADE] = Field(default=(), description="As in a pod.")
    parallelism: Annotated[int | None, Change.SCALE] = Field(
        default=None,
        ge=1,
        le=MOST_PARTITIONS,
        strict=True,
        description="Task slots. Overrides `job.parallelism`. `kubectl scale` and autoscalers need this field and "
        "change it.",
    )
    max_parallelism: Annotated[int | None, Change.UPGRADE] = Field(
        default=None,
        ge=1,
        le=MOST_PARTITIONS,
        strict=True,
        description="State partitions, the upper bound of the parallelism. State with another number is rewritten. "
        "Overrides `job.maxParallelism`.",
    )
    upgrade_mode: Annotated[UpgradeMode, Change.IGNORE] = Field(
        default="savepoint",
        description="State that the job continues from after a changed spec: a `savepoint` taken for the upgrade, the "
        "last checkpoint (`last-state`), or none (`stateless`).",
    )
    suspend: Annotated[bool, Change.IGNORE] = Field(
        default=False, description="Stop the job and keep its state. Set it to false to continue from there."
    )
    schedule: Annotated[Schedule | None, Change.IGNORE] = Field(
        default=None,
        description="When the job runs, as a CronJob does: each run reads what is there when it begins, as `streamjob "
        "run --available-now` does, and ends. Between runs nothing runs, and a changed spec waits for the next one. "
        "Default: the job runs all the time.",
    )
    initial_savepoint_path: Annotated[SnapshotUri | None, Change.IGNORE] = Field(
        default=None,
        description="URI of the checkpoint or savepoint to start from, at the first deployment and when "
        "`savepointRedeployNonce` changes.",
    )
    initial_snapshot_ref: Annotated[Reference | None, Change.IGNORE] = Field(
        default=None,
        description="A completed StreamSnapshot to start from, as an alternative to `initialSavepointPath`.",
    )
    allow_non_restored_state: Annotated[bool, Change.IGNORE] = Field(
        default=False,
        description="Drop state that the job has no operator for, or that does not fit its operator, which starts "
        "empty, instead of refusing to start.",
    )
    strict_migration: Annotated[bool, Change.IGNORE] = Field(
        default=False,
        description="Refuse to start where state can be changed to its new form only with a gap, such as an added "
        "aggregate that begins empty in open groups.",
    )
    restart_nonce: Annotated[_Nonce | None, Change.UPGRADE] = Field(
        default=None, description="Change this number to restart the job."
    )
    savepoint_trigger_nonce: Annotated[_Nonce | None, Change.IGNORE] = Field(
        default=None, description="Change this number to take a savepoint."
    )
    checkpoint_trigger_nonce: Annotated[_Nonce | None, Change.IGNORE] = Field(
        default=None, description="Change this number to take a checkpoint."
    )
    savepoint_redeploy_nonce: Annotated[_Nonce | None, Change.IGNORE] = Field(
        default=None,
        description="Change this number to start the job again from `initialSavepointPath` or `initialSnapshotRef`. "
        "Its state since then is abandoned.",
    )
    checkpointing: Annotated[Checkpointing, Change.UPGRADE] = Field(
        default_factory=Checkpointing, description="When, how and where checkpoints are taken."
    )
    savepoints: Annotated[Savepoints, Change.IGNORE] = Field(
        default_factory=Savepoints, description="Savepoints that the controller takes."
    )
    storage: Annotated[Storage, Change.UPGRADE] = Field(
        default_factory=Storage, description="The S3 server of the snapshots."
    )
    autoscaling: Annotated[Autoscaling, Change.IGNORE] = Field(
        default_factory=Autoscaling, description="Automatic scaling: its limits and goals, and whether it acts."
    )
    upgrade: Annotated[Upgrade, Change.IGNORE] = Field(
        default_factory=Upgrade, description="How a changed spec replaces the running one."
    )
    health_check: Annotated[HealthCheck, Change.IGNORE] = Field(
        default_factory=HealthCheck, description="When a running job counts as unhealthy."
    )
    restart_policy: Annotated[RestartPolicy, Change.IGNORE] = Field(
        default_factory=RestartPolicy, description="How failed drivers are replaced."
    )
    deletion_policy: Annotated[DeletionPolicy, Change.IGNORE] = Field(
        default="Retain",
        description="Whether to keep or delete the checkpoints when the StreamJob is deleted. If the store refuses to "
        "delete them for ten minutes, or its Secret is gone for one, they are kept, and an event says where.",
    )
    observability: Annotated[Observability, Change.UPGRADE] = Field(
        default_factory=Observability, description="Logs of the pods, and the receivers of their traces and metrics."
    )
    driver: Annotated[DriverSpec, Change.UPGRADE] = Field(
        default_factory=DriverSpec, description="The pod that runs the job."
    )
    executor: Annotated[ExecutorSpec | None, Change.UPGRADE] = Field(
        default=None, description="Executors in pods of their own. Default: all tasks run in the driver's pod."
    )
    volumes: Annotated[NamedObjects, Change.UPGRADE] = Field(default=(), description="Volumes of the pods.")
    spark_conf: Annotated[Options, Change.UPGRADE] = Field(
        default_factory=dict, description="Spark's configuration. Each entry overrides the same entry in `job`."
    )
    hadoop_conf: Annotated[Options, Change.UPGRADE] = Field(
        default_factory=dict, description="Hadoop's configuration, without the prefix `spark.hadoop.`."
    )

    @property
    def instances(self) -> int:
        """How many executor pods run the tasks; 0 if all tasks run in the driver's pod."""
        if self.executor is None or self.executor.instances is not None:
            return 0 if self.executor is None else self.executor.instances or 0
        slots = self.parallelism or (self.job or {}).get("parallelism")
        return max(1, slots // self.executor.cores) if isinstance(slots, int) else 1


class StreamJob(SpecPart):
    """A job on the cluster."""

    api_version: Literal["streamjob.io/v1alpha1"] = API_VERSION
    kind: Literal["StreamJob"] = "StreamJob"
    metadata: Metadata
    spec: StreamJobSpec = Field(description="The desired state: the job, its pods and its settings.")
    status: StreamJobStatus = Field(default_factory=StreamJobStatus, description="The observed state.")

    def job_file(self) -> dict[str, Any] | None:
        """Return the job's file as it runs, with the spec's overriding fields; None for an application.

        `streamjob validate` reads the resource in the same way.
        """
        spec = self.spec
        if spec.job is None:
            return None
        return effective_job({**spec.job, "name": self.metadata.name}, spec.to_dict())
