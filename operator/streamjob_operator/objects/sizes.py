"""The resources of a driver's container, and the time that its process has to end."""

from __future__ import annotations

from streamjob_operator.objects.names import Object
from streamjob_operator.resources.base import format_memory
from streamjob_operator.resources.pods import PodSettings

_MIB = 1024**2
_OVERHEAD = 0.4
"""Spark's own factor for programs with Python workers (`spark.kubernetes.memoryOverheadFactor`)."""
_LEAST_OVERHEAD = 384 * _MIB


def container_memory(settings: PodSettings) -> int:
    """Return the memory of the container in bytes: Java's, and the overhead."""
    overhead = settings.memory_overhead
    if overhead is None:
        overhead = max(_LEAST_OVERHEAD, int(settings.memory * _OVERHEAD) // _MIB * _MIB)
    return settings.memory + overhead


def resources(settings: PodSettings, processes: int = 1) -> Object:
    """Return the container's requests and limits; memory is not shared with others, processors are.

    Args:
        settings: those of the pod.
        processes: how many processes run in the container, each with the memory of the settings.
    """
    memory = format_memory(container_memory(settings) * processes)
    limits = {"memory": memory}
    if settings.core_limit is not None:
        limits["cpu"] = settings.core_limit
    return {"requests": {"cpu": settings.core_request or str(settings.cores), "memory": memory}, "limits": limits}


def grace_of_process(termination_grace: int) -> int:
    """Return the seconds that the last checkpoint may take, so that the process ends before it is killed."""
    return termination_grace - min(10, termination_grace // 2)
