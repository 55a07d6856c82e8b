"""What a StreamJob says about its pods; the names are the Kubeflow Spark operator's."""

from __future__ import annotations

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from streamjob_operator.resources.base import (
    Cpu,
    KubernetesObject,
    Memory,
    MountedObjects,
    NamedObjects,
    SpecPart,
    format_memory,
)

_LEAST_DRIVER_MEMORY = 768 * 1024**2
"""Spark refuses a heap below 450 MiB, of which Java counts less than it was given."""


class PodSettings(SpecPart):
    """What a pod needs, and where it may run."""

    cores: int = Field(default=1, ge=1, strict=True, description="Processors that the pod asks for.")
    core_request: Cpu | None = Field(
        default=None, description='What the container requests instead of `cores`: `500m`, `"2"`.'
    )
    core_limit: Cpu | None = Field(default=None, description="Most that the container may use. Default: no limit.")
    memory: Memory = Field(
        default=1024**3,
        description="Memory of the Java process: `512m`, `2g` or `2Gi`. Three quarters of it are its heap; the rest is "
        "for the state in RocksDB, for classes and threads. A driver needs `768m`.",
    )
    memory_overhead: Memory | None = Field(
        default=None,
        description="Memory beside it, for Python and native code. Default: 40 % of `memory`, at least `384m`. The "
        "container requests the sum, and may use no more.",
    )
    env: NamedObjects = Field(default=(), description="Environment variables, as in a container.")
    env_from: tuple[KubernetesObject, ...] = Field(
        default=(), description="Secrets and ConfigMaps whose keys become environment variables."
    )
    volume_mounts: MountedObjects = Field(default=(), description="Where which of `spec.volumes` are mounted.")
    labels: dict[str, str] = Field(default_factory=dict, description="Further labels of the pod.")
    annotations: dict[str, str] = Field(default_factory=dict, description="Further annotations of the pod.")
    node_selector: dict[str, str] = Field(default_factory=dict, description="Labels that the node must have.")
    tolerations: tuple[KubernetesObject, ...] = Field(default=(), description="Taints of nodes that are no hindrance.")
    affinity: KubernetesObject | None = Field(default=None, description="As in a pod.")
    priority_class_name: str | None = Field(default=None, min_length=1, description="As in a pod.")
    service_account: str | None = Field(
        default=None,
        min_length=1,
        description="For workload identity. Without it the pod has no token of the cluster.",
    )
    security_context: KubernetesObject | None = Field(
        default=None,
        description="Fields that replace those of the container: not root, read-only files, no capabilities.",
    )
    pod_security_context: KubernetesObject | None = Field(
        default=None, description="Fields that replace those of the pod."
    )
    sidecars: NamedObjects = Field(default=(), description="Further containers.")
    init_containers: NamedObjects = Field(default=(), description="Containers that run before.")
    template: KubernetesObject | None = Field(
        default=None,
        description="A pod template; what the controller builds is laid over it. The job's container is `streamjob`.",
    )


class DriverSpec(PodSettings):
    """The pod that runs the job: coordinator, Spark and Python."""

    termination_grace_period_seconds: int = Field(
        default=120, ge=10, strict=True, description="Seconds that a pod that has to go has for its last checkpoint."
    )

    @field_validator("memory")
    @classmethod
    def _is_enough_for_spark(cls, memory: int) -> int:
        if memory < _LEAST_DRIVER_MEMORY:
            least = format_memory(_LEAST_DRIVER_MEMORY)
            raise PydanticCustomError(
                "too_few_for_spark",
                "{given} are too few for Spark, which does not start: give it {least}",
                {"given": format_memory(memory), "least": least},
            )
        return memory


class ExecutorSpec(PodSettings):
    """Executors in pods of their own. None are started: Spark runs in the driver's pod."""

    instances: int = Field(default=0, ge=0, strict=True, description="How many; must be 0.")
