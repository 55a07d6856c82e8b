"""The resources of a driver's container, and the time that its process has to end."""

from __future__ import annotations

from streamjob_operator.objects.names import Object
from streamjob_operator.resources.base import format_memory
from streamjob_operator.resources.pods import PodSettings


def resources(settings: PodSettings, processes: int = 1) -> Object:
    """Return the container's requests and limits; memory is not shared with others, processors are.

    Args:
        processes: how many processes run in the container, each with the memory of the settings.
    """
    memory = format_memory(settings.container_memory * processes)
    limits = {"memory": memory}
    if settings.core_limit is not None:
        limits["cpu"] = settings.core_limit
    return {"requests": {"cpu": settings.core_request or str(settings.cores), "memory": memory}, "limits": limits}


def grace_of_process(termination_grace: int) -> int:
    """Return the seconds that the last checkpoint may take, so that the process ends before it is killed."""
    return termination_grace - min(10, termination_grace // 2)
