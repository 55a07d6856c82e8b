"""The resource `StreamJob`: a job, how it runs on the cluster, and how its state is kept over changes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from streamjob.job.spec import Options
from streamjob_operator.resources.base import API_VERSION, KubernetesObject, Metadata, NamedObjects, Reference, SpecPart
from streamjob_operator.resources.parts import (
    Checkpointing,
    DeletionPolicy,
    Dependencies,
    HealthCheck,
    PullPolicy,
    RestartPolicy,
    Savepoints,
    SnapshotUri,
    Storage,
    Upgrade,
    UpgradeMode,
)
from streamjob_operator.resources.pods import DriverSpec, ExecutorSpec
from streamjob_operator.resources.status import StreamJobStatus

APPLICATION = r"^(local://|s3://[^/]+)?/.+\.(py|yaml|yml)$"

_Nonce = Annotated[int, Field(strict=True)]


class StreamJobSpec(SpecPart):
    """What is to run, and how."""

    job: KubernetesObject | None = Field(
        default=None,
        description="The job, with the content of a job file: sources, operators, sinks. Its name is the StreamJob's.",
    )
    main_application_file: Annotated[str, Field(max_length=2048, pattern=APPLICATION)] | None = Field(
        default=None,
        description="The job's file instead, Python that defines `job` or YAML: `local:///…` in the image, or `s3://…`.",
    )
    deps: Dependencies = Field(default_factory=Dependencies, description="What the job's code needs beside the image.")
    image: str | None = Field(
        default=None,
        min_length=1,
        max_length=1024,
        description="The runtime's image. Default: the controller's choice.",
    )
    image_pull_policy: PullPolicy = Field(default="IfNotPresent", description="As in a container.")
    image_pull_secrets: tuple[Reference, ...] = Field(default=(), description="As in a pod.")
    parallelism: int | None = Field(
        default=None,
        ge=1,
        le=32768,
        strict=True,
        description="Task slots; goes before that of `job`. `kubectl scale` and autoscalers need it and change it.",
    )
    max_parallelism: int | None = Field(
        default=None,
        ge=1,
        le=32768,
        strict=True,
        description="State partitions, the upper bound of the parallelism. State that has another number is rewritten. "
        "Goes before that of `job`.",
    )
    upgrade_mode: UpgradeMode = Field(
        default="savepoint",
        description="What a changed spec goes on from: a `savepoint` taken for it, the `last-state`, which is the last "
        "checkpoint, or nothing (`stateless`).",
    )
    suspend: bool = Field(default=False, description="Stop the job and keep its state; false goes on from there.")
    initial_savepoint_path: SnapshotUri | None = Field(
        default=None,
        description="URI of the checkpoint or savepoint that the first deployment starts from, and one for a changed "
        "`savepointRedeployNonce`.",
    )
    initial_snapshot_ref: Reference | None = Field(
        default=None, description="The same by the name of a completed StreamSnapshot."
    )
    allow_non_restored_state: bool = Field(
        default=False, description="State of operators that the job no longer has may be dropped."
    )
    restart_nonce: _Nonce | None = Field(default=None, description="A changed number restarts the job.")
    savepoint_trigger_nonce: _Nonce | None = Field(default=None, description="A changed number takes a savepoint.")
    checkpoint_trigger_nonce: _Nonce | None = Field(default=None, description="A changed number takes a checkpoint.")
    savepoint_redeploy_nonce: _Nonce | None = Field(
        default=None,
        description="A changed number starts the job anew from `initialSavepointPath`: what it did since then is left.",
    )
    checkpointing: Checkpointing = Field(
        default_factory=Checkpointing, description="When, how and where checkpoints are taken."
    )
    savepoints: Savepoints = Field(default_factory=Savepoints, description="Savepoints that the controller takes.")
    storage: Storage = Field(default_factory=Storage, description="The S3 server of the snapshots.")
    upgrade: Upgrade = Field(default_factory=Upgrade, description="How a changed spec replaces the running one.")
    health_check: HealthCheck = Field(default_factory=HealthCheck, description="When a running job is not well.")
    restart_policy: RestartPolicy = Field(default_factory=RestartPolicy, description="How failed drivers are replaced.")
    deletion_policy: DeletionPolicy = Field(
        default="Retain", description="What becomes of the checkpoints when the StreamJob is deleted."
    )
    driver: DriverSpec = Field(default_factory=DriverSpec, description="The pod that runs the job.")
    executor: ExecutorSpec = Field(default_factory=ExecutorSpec, description="Executors in pods of their own.")
    volumes: NamedObjects = Field(default=(), description="Volumes of the pods.")
    spark_conf: Options = Field(
        default_factory=dict, description="Spark's configuration; each entry goes before that of `job`."
    )
    hadoop_conf: Options = Field(
        default_factory=dict, description="Hadoop's configuration, without the `spark.hadoop.` in front."
    )


class StreamJob(SpecPart):
    """A job on the cluster."""

    api_version: Literal["streamjob.io/v1alpha1"] = API_VERSION
    kind: Literal["StreamJob"] = "StreamJob"
    metadata: Metadata
    spec: StreamJobSpec = Field(description="What is to run, and how.")
    status: StreamJobStatus = Field(default_factory=StreamJobStatus, description="How it stands.")

    def job_file(self) -> dict[str, Any] | None:
        """Return the job's file as it runs, with the spec's fields laid over it; None for an application.

        This is what `streamjob validate` makes of the resource.
        """
        spec = self.spec
        if spec.job is None:
            return None
        data = {**spec.job, "name": self.metadata.name}
        over = spec.to_dict()
        data |= {key: over[key] for key in ("parallelism", "maxParallelism") if key in over}
        for key in ("checkpointing", "sparkConf"):
            if key in over:
                data[key] = {**(data.get(key) or {}), **over[key]}
        return data
