"""The parts that the pods of a StreamJob share: security, storage, code, placement, and the user's template."""

from __future__ import annotations

from typing import Any

from streamjob.errors import InvalidInput
from streamjob_operator.objects import names
from streamjob_operator.objects.job_file import fetched
from streamjob_operator.objects.merging import by_key
from streamjob_operator.objects.names import Object
from streamjob_operator.resources.base import Metadata
from streamjob_operator.resources.parts import Storage
from streamjob_operator.resources.pods import DriverSpec, ExecutorSpec, PodSettings
from streamjob_operator.resources.streamjob import StreamJobSpec

_CONTAINER_SECURITY: Object = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
}
_POD_SECURITY: Object = {
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
    "fsGroupChangePolicy": "OnRootMismatch",
}


def pod_spec(
    spec: StreamJobSpec, pod: DriverSpec | ExecutorSpec, image: str, container: Object, volumes: list[Object]
) -> Object:
    """Return the spec of a pod around the job's container and its volumes."""
    before = [*pod.init_containers, *_fetching(spec, pod, image), *map(_beside, pod.sidecars)]
    return {
        "terminationGracePeriodSeconds": pod.termination_grace_period_seconds,
        "automountServiceAccountToken": pod.service_account is not None,
        "enableServiceLinks": False,
        "securityContext": {**_POD_SECURITY, **(pod.pod_security_context or {})},
        **({"initContainers": before} if before else {}),
        "containers": [container],
        "volumes": by_key(spec.volumes, volumes, "name"),
        **_placement(spec, pod),
    }


def job_container(spec: StreamJobSpec, settings: PodSettings, image: str) -> Object:
    """Return the fields that the job's container has in every pod."""
    return {
        "name": names.CONTAINER,
        "image": image,
        "imagePullPolicy": spec.image_pull_policy,
        "securityContext": _container_security(settings),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **({"envFrom": [dict(each) for each in settings.env_from]} if settings.env_from else {}),
    }


def _container_security(settings: PodSettings) -> Object:
    return {**_CONTAINER_SECURITY, **(settings.security_context or {})}


def mounts() -> list[Object]:
    """Return the mounts of the job's code, and of the directories that the process may write to."""
    return [
        {"name": "job", "mountPath": names.JOB_DIRECTORY, "readOnly": True},
        {"name": "work", "mountPath": names.WORK_DIRECTORY},
        {"name": "tmp", "mountPath": "/tmp"},
    ]


def variables(storage: Storage) -> list[Object]:
    """Return where S3 is and how to log in there, by AWS' names, and a home that can be written to."""
    found: list[Object] = [{"name": "HOME", "value": names.WORK_DIRECTORY}]
    if storage.endpoint is not None:
        found.append({"name": "AWS_ENDPOINT_URL", "value": storage.endpoint})
    if storage.region is not None:
        found.append({"name": "AWS_REGION", "value": storage.region})
    if storage.path_style_access is not None:
        found.append({"name": "STREAMJOB_S3_PATH_STYLE", "value": str(storage.path_style_access).lower()})
    if storage.credentials_secret_ref is not None:
        secret = storage.credentials_secret_ref.name
        found += [
            from_secret("AWS_ACCESS_KEY_ID", secret),
            from_secret("AWS_SECRET_ACCESS_KEY", secret),
            from_secret("AWS_SESSION_TOKEN", secret, optional=True),
        ]
    return found


def from_secret(variable: str, secret: str, key: str | None = None, *, optional: bool = False) -> Object:
    """Return a variable with the value of a Secret's key; by default the key has the variable's name."""
    reference: Object = {"name": secret, "key": key or variable} | ({"optional": True} if optional else {})
    return {"name": variable, "valueFrom": {"secretKeyRef": reference}}


def executor_secret(owner: Metadata) -> Object:
    """Return the variable with the secret that a job's driver and executors share."""
    return from_secret(names.EXECUTOR_SECRET, names.executors_name(owner), names.EXECUTOR_SECRET_KEY)


def _fetching(spec: StreamJobSpec, settings: PodSettings, image: str) -> list[Object]:
    """Return the container that fetches an application from S3, if that is where it is."""
    uri = fetched(spec)
    if uri is None:
        return []
    return [
        {
            "name": "fetch",
            "image": image,
            "imagePullPolicy": spec.image_pull_policy,
            "command": ["tini", "--", "python", "-m", "streamjob_runtime.process.fetch", uri, names.CODE_DIRECTORY],
            "env": variables(spec.storage),
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "volumeMounts": [each for each in mounts() if each["name"] != "job"],
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": _container_security(settings),
        }
    ]


def _beside(sidecar: Object) -> Object:
    """Return a sidecar as Kubernetes has it since 1.29: it ends when the job does, so that the pod ends as well."""
    return {**sidecar, "restartPolicy": "Always"}


def _placement(spec: StreamJobSpec, settings: PodSettings) -> Object:
    """Return the fields of a pod that decide where it runs, and as which account."""
    wanted: Object = {
        "serviceAccountName": settings.service_account,
        "priorityClassName": settings.priority_class_name,
        "nodeSelector": dict(settings.node_selector),
        "tolerations": [dict(each) for each in settings.tolerations],
        "affinity": settings.affinity,
        "imagePullSecrets": [{"name": each.name} for each in spec.image_pull_secrets],
    }
    return {key: value for key, value in wanted.items() if value}


def template(given: Object | None, section: str) -> Object:
    """Return the part of a pod template that belongs to a pod.

    Args:
        given: the template.
        section: the section of the spec that it is in, for messages.

    Raises:
        InvalidInput: it is no template of a pod.
    """
    given = given or {}
    metadata, spec = (_map(given.get(part), f"{section}.template.{part}") for part in ("metadata", "spec"))
    kept = {part: _map(metadata.get(part), f"{section}.template.metadata.{part}") for part in ("labels", "annotations")}
    return {"metadata": {part: value for part, value in kept.items() if value}, "spec": spec}


def _map(value: Any, path: str) -> Object:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput(f"{path} is {type(value).__name__}, not a map", "write it as in a pod")
    return value
