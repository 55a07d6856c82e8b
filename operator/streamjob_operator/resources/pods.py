"""The pods of a StreamJob; field names are those of the Kubeflow Spark operator."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from streamjob.job.model.spec import MOST_PARTITIONS
from streamjob_operator.resources.base import (
    Cpu,
    KubernetesObject,
    Memory,
    MountedObjects,
    NamedObjects,
    SpecPart,
    format_memory,
)
from streamjob_operator.resources.effect_of_changes import Change

LEAST_MEMORY = 768 * 1024**2
"""Spark refuses a heap below 450 MiB, of which Java counts less than it was given."""
HEAP_SHARE = 0.75
"""Share of Java's memory that is its heap. The rest is for classes, threads, and the state in RocksDB."""
_MIB = 1024**2
_OVERHEAD = 0.4
"""Spark's own factor for programs with Python workers (`spark.kubernetes.memoryOverheadFactor`)."""
_LEAST_OVERHEAD = 384 * _MIB


class PodSettings(SpecPart):
    """Resources, environment and placement of a pod."""

    cores: int = Field(default=1, ge=1, strict=True, description="Processors that the pod requests.")
    core_request: Cpu | None = Field(
        default=None, description='CPU request of the container instead of `cores`: `500m`, `"2"`.'
    )
    core_limit: Cpu | None = Field(default=None, description="CPU limit of the container. Default: no limit.")
    memory: Memory = Field(
        default=1024**3,
        description="Memory of the Java process: `512m`, `2g` or `2Gi`. Three quarters of it are its heap; the rest is "
        "for the state in RocksDB, for classes and threads. The least is `768m`.",
    )
    memory_overhead: Memory | None = Field(
        default=None,
        description="Additional memory for Python and native code. Default: 40 % of `memory`, at least `384m`. The "
        "sum is the container's request and limit.",
    )
    env: NamedObjects = Field(default=(), description="Environment variables, as in a container.")
    env_from: tuple[KubernetesObject, ...] = Field(
        default=(), description="Secrets and ConfigMaps whose keys become environment variables."
    )
    volume_mounts: MountedObjects = Field(default=(), description="Mounts of `spec.volumes`.")
    labels: dict[str, str] = Field(default_factory=dict, description="Additional labels of the pod.")
    annotations: dict[str, str] = Field(default_factory=dict, description="Additional annotations of the pod.")
    node_selector: dict[str, str] = Field(default_factory=dict, description="Labels that the node must have.")
    tolerations: tuple[KubernetesObject, ...] = Field(default=(), description="Taints of nodes that the pod tolerates.")
    affinity: KubernetesObject | None = Field(default=None, description="As in a pod.")
    priority_class_name: str | None = Field(default=None, min_length=1, description="As in a pod.")
    service_account: str | None = Field(
        default=None,
        min_length=1,
        description="Service account, for workload identity. Without it, the pod has no token of the cluster.",
    )
    security_context: KubernetesObject | None = Field(
        default=None,
        description="Fields that override the container's defaults: not root, read-only file system, no capabilities.",
    )
    pod_security_context: KubernetesObject | None = Field(
        default=None, description="Fields that override the pod's defaults."
    )
    sidecars: NamedObjects = Field(default=(), description="Additional containers.")
    init_containers: NamedObjects = Field(default=(), description="Containers that run before the job.")
    template: KubernetesObject | None = Field(
        default=None,
        description="A pod template. The controller's own fields override it. The job's container is `streamjob`.",
    )

    @property
    def container_memory(self) -> int:
        """The memory of the container in bytes: Java's, and the overhead."""
        overhead = self.memory_overhead
        if overhead is None:
            overhead = max(_LEAST_OVERHEAD, int(self.memory * _OVERHEAD) // _MIB * _MIB)
        return self.memory + overhead


class SparkPod(PodSettings):
    """A pod in which Spark runs."""

    @field_validator("memory")
    @classmethod
    def _is_enough_for_spark(cls, memory: int) -> int:
        if memory < LEAST_MEMORY:
            least = format_memory(LEAST_MEMORY)
            raise PydanticCustomError(
                "too_few_for_spark",
                "{given} are not enough for Spark to start: use at least {least}",
                {"given": format_memory(memory), "least": least},
            )
        return memory


class DriverSpec(SparkPod):
    """The pod that runs the job: coordinator, Spark and Python."""

    termination_grace_period_seconds: int = Field(
        default=120,
        ge=10,
        strict=True,
        description="Time that a terminating pod has for its last checkpoint, in seconds.",
    )
    standby: int = Field(
        default=0,
        ge=0,
        le=1,
        strict=True,
        description="With 1, a second process in the pod has Spark started and the newest checkpoint at hand, and "
        "continues the job at once if the first one dies. The pod then requests twice the memory.",
    )


class DisruptionBudget(SpecPart):
    """How many executors the cluster may evict at the same time, for example while it drains nodes."""

    max_unavailable: int = Field(
        default=1, ge=0, strict=True, description="Number of executors. With 0, none can be evicted."
    )


class ExecutorSpec(SparkPod):
    """Executors in pods of their own, which run the tasks. `cores` of each are its task slots."""

    instances: Annotated[int | None, Change.PATCH] = Field(
        default=None,
        ge=1,
        le=MOST_PARTITIONS,
        strict=True,
        description="Number of executors. Default: `parallelism` divided by `cores`. Omit it to scale with "
        "`kubectl scale`, which sets `parallelism`.",
    )
    termination_grace_period_seconds: int = Field(
        default=120,
        ge=10,
        strict=True,
        description="Time that a terminating executor has until the job continues without it, behind a checkpoint, in "
        "seconds.",
    )
    volume_claim_templates: tuple[KubernetesObject, ...] = Field(
        default=(),
        description="As in a StatefulSet. The claim named `work` holds the executor's local files, which then survive "
        "a reboot of the node. Default: they are in an `emptyDir`. The claims go with the executors.",
    )
    pod_disruption_budget: DisruptionBudget = Field(
        default_factory=DisruptionBudget, description="How many executors may be evicted at the same time."
    )
    topology_spread_constraints: tuple[KubernetesObject, ...] | None = Field(
        default=None, description="As in a pod. Default: spread over zones and nodes where possible."
    )
