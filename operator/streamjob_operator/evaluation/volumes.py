"""Whether snapshots that are to be kept on a volume are, in every pod: a path in the pod is gone with the pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from streamjob_operator.objects.names import CONTAINER
from streamjob_operator.resources.pods import PodSettings
from streamjob_operator.resources.streamjob import StreamJobSpec

_GOES_WITH_THE_POD = frozenset({"emptyDir", "ephemeral"})
_READ_ONLY = frozenset({"configMap", "secret", "projected", "downwardAPI", "image"})


def place_problems(spec: StreamJobSpec) -> tuple[str, ...]:
    """Return the problems with a job's locations if its state would not outlive its pods."""
    pods: dict[str, PodSettings] = {} if spec.upgrade_mode == "stateless" else {"driver": spec.driver}
    if spec.executor is not None:
        pods["executor"] = spec.executor
    return tuple(
        f"{field}: {place} {problem}"
        for field, place in _places(spec)
        for name, pod in pods.items()
        if place is not None and not place.startswith("s3://")
        if (problem := _problem(spec, name, pod, place)) is not None
    )


def _places(spec: StreamJobSpec) -> Iterator[tuple[str, str | None]]:
    policy = (spec.job or {}).get("checkpointing")
    of_job = policy.get("location") if isinstance(policy, Mapping) else None
    yield "spec.checkpointing.location", spec.checkpointing.location or (of_job if isinstance(of_job, str) else None)
    yield "spec.savepoints.location", spec.savepoints.location


def _problem(spec: StreamJobSpec, name: str, pod: PodSettings, place: str) -> str | None:
    directory = PurePosixPath(place.removeprefix("file://"))
    mounts = [each for each in _mounts(pod) if directory.is_relative_to(str(each.get("mountPath") or "?"))]
    if not mounts:
        return (
            f"is in the {name}'s pod, and no volume is mounted there, so it would be gone with the pod. Mount one by"
            f" volumes and {name}.volumeMounts, or keep snapshots on s3://"
        )
    mount = max(mounts, key=lambda each: len(PurePosixPath(each["mountPath"]).parts))
    volume = next((each for each in _volumes(spec, pod) if each.get("name") == mount.get("name")), {})
    if _GOES_WITH_THE_POD & volume.keys():
        return f"is on the volume {mount['name']}, which is gone with the pod. Take a persistentVolumeClaim, or s3://"
    if mount.get("readOnly") or _READ_ONLY & volume.keys():
        return f"is on the volume {mount['name']}, which cannot be written to"
    return None


def _mounts(pod: PodSettings) -> Iterator[Mapping[str, Any]]:
    yield from pod.volume_mounts
    for container in _listed(_template(pod), "containers"):
        if container.get("name") == CONTAINER:
            yield from _listed(container, "volumeMounts")


def _volumes(spec: StreamJobSpec, pod: PodSettings) -> Iterator[Mapping[str, Any]]:
    yield from spec.volumes
    yield from _listed(_template(pod), "volumes")


def _template(pod: PodSettings) -> Mapping[str, Any]:
    given = (pod.template or {}).get("spec")
    return given if isinstance(given, Mapping) else {}


def _listed(thing: Mapping[str, Any], field: str) -> Iterator[Mapping[str, Any]]:
    """A template is in a user's words, and judged elsewhere."""
    found = thing.get(field)
    yield from (each for each in found if isinstance(each, Mapping)) if isinstance(found, list) else ()
