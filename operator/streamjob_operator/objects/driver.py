"""The pod of one attempt at running a revision."""

from __future__ import annotations

from typing import Any

from streamjob.errors import InvalidInput
from streamjob_operator.decisions.actions import CreateDriver
from streamjob_operator.decisions.revision import Revision
from streamjob_operator.objects import names
from streamjob_operator.objects.job_file import arguments, fetched
from streamjob_operator.objects.merging import by_key, merged
from streamjob_operator.objects.names import CONTAINER, CONTROL_PORT, METRICS_PORT, Object
from streamjob_operator.objects.sizes import resources
from streamjob_operator.resources.base import Metadata
from streamjob_operator.resources.parts import Storage
from streamjob_operator.resources.streamjob import StreamJobSpec

_TERMINATION_LOG = "/dev/termination-log"

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


def driver_pod(owner: Metadata, revision: Revision, action: CreateDriver, *, default_image: str) -> Object:
    """Return the pod that runs a revision; it needs the revision's ConfigMap and the StreamJob's Secret.

    Args:
        owner: the StreamJob.
        revision: the revision to run.
        action: its attempt, and the snapshot to start from.
        default_image: the image of the revisions that name none.

    Raises:
        InvalidInput: the template is no template of a pod.
    """
    spec = revision.spec()
    driver = spec.driver
    image = spec.image or default_image
    meta = names.metadata(owner, names.driver_name(owner.name, action.attempt))
    meta["labels"] = {**driver.labels, **meta["labels"], names.ATTEMPT_LABEL: str(action.attempt)}
    meta["annotations"] = {
        **driver.annotations,
        names.REVISION_ANNOTATION: revision.name,
        # A pod that ends on purpose is no workload that Argo CD should wait for.
        "argocd.argoproj.io/ignore-restart-policy": "true",
    }
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": driver.termination_grace_period_seconds,
            "automountServiceAccountToken": driver.service_account is not None,
            "enableServiceLinks": False,
            "securityContext": {**_POD_SECURITY, **(driver.pod_security_context or {})},
            "initContainers": [*driver.init_containers, *_fetching(spec, image), *map(_beside, driver.sidecars)],
            "containers": [_container(owner, spec, action, image)],
            "volumes": by_key(spec.volumes, _volumes(owner, spec, revision), "name"),
            **_placement(spec),
        },
    }
    if not pod["spec"]["initContainers"]:
        del pod["spec"]["initContainers"]
    return merged(_template(driver.template), pod)


def _container(owner: Metadata, spec: StreamJobSpec, action: CreateDriver, image: str) -> Object:
    driver = spec.driver
    mounts = [*_mounts(), {"name": "control", "mountPath": names.CONTROL_DIRECTORY, "readOnly": True}]
    container: Object = {
        "name": CONTAINER,
        "image": image,
        "imagePullPolicy": spec.image_pull_policy,
        "args": arguments(owner, spec, action),
        "env": _variables(spec),
        "ports": [
            {"name": "control", "containerPort": CONTROL_PORT, "protocol": "TCP"},
            {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
        ],
        "resources": resources(driver),
        "volumeMounts": by_key(driver.volume_mounts, mounts, "mountPath"),
        "securityContext": {**_CONTAINER_SECURITY, **(driver.security_context or {})},
        # Java and Python are imported before the job answers: minutes where processors are scarce.
        "startupProbe": _probe("/healthz", period=2, failures=150),
        "livenessProbe": _probe("/healthz", period=10, failures=6),
        "readinessProbe": _probe("/readyz", period=5, failures=2),
        "terminationMessagePath": _TERMINATION_LOG,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if driver.env_from:
        container["envFrom"] = [dict(each) for each in driver.env_from]
    return container


def _mounts() -> list[Object]:
    return [
        {"name": "job", "mountPath": names.JOB_DIRECTORY, "readOnly": True},
        {"name": "work", "mountPath": names.WORK_DIRECTORY},
        {"name": "tmp", "mountPath": "/tmp"},
    ]


def _volumes(owner: Metadata, spec: StreamJobSpec, revision: Revision) -> list[Object]:
    code = [*spec.deps.config_maps, names.config_map_name(owner, revision.name)]
    return [
        {"name": "job", "projected": {"sources": [{"configMap": {"name": name}} for name in code]}},
        {"name": "control", "secret": {"secretName": names.control_name(owner)}},
        {"name": "work", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
    ]


def _variables(spec: StreamJobSpec) -> list[Any]:
    own = [
        {"name": "STREAMJOB_HOST", "value": "*"},
        {"name": "STREAMJOB_PORT", "value": str(CONTROL_PORT)},
        {"name": "STREAMJOB_METRICS_PORT", "value": str(METRICS_PORT)},
        {"name": "STREAMJOB_TOKEN_FILE", "value": f"{names.CONTROL_DIRECTORY}/{names.TOKEN_KEY}"},
        {"name": "STREAMJOB_TERMINATION_LOG", "value": _TERMINATION_LOG},
    ]
    given = {each["name"]: dict(each) for each in (*_common_variables(spec.storage), *spec.driver.env)}
    return list((given | {each["name"]: each for each in own}).values())


def _common_variables(storage: Storage) -> list[Object]:
    """Return where S3 is and how to log in there, by AWS' names, and a home that can be written to."""
    variables: list[Object] = [{"name": "HOME", "value": names.WORK_DIRECTORY}]
    if storage.endpoint is not None:
        variables.append({"name": "AWS_ENDPOINT_URL", "value": storage.endpoint})
    if storage.region is not None:
        variables.append({"name": "AWS_REGION", "value": storage.region})
    if storage.path_style_access is not None:
        variables.append({"name": "STREAMJOB_S3_PATH_STYLE", "value": str(storage.path_style_access).lower()})
    if storage.credentials_secret_ref is not None:
        secret = storage.credentials_secret_ref.name
        variables += [
            _from_secret("AWS_ACCESS_KEY_ID", secret),
            _from_secret("AWS_SECRET_ACCESS_KEY", secret),
            _from_secret("AWS_SESSION_TOKEN", secret, optional=True),
        ]
    return variables


def _from_secret(key: str, secret: str, *, optional: bool = False) -> Object:
    reference: Object = {"name": secret, "key": key} | ({"optional": True} if optional else {})
    return {"name": key, "valueFrom": {"secretKeyRef": reference}}


def _fetching(spec: StreamJobSpec, image: str) -> list[Object]:
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
            "env": _common_variables(spec.storage),
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "volumeMounts": _mounts(),
            "securityContext": {**_CONTAINER_SECURITY, **(spec.driver.security_context or {})},
        }
    ]


def _beside(sidecar: Object) -> Object:
    """Return a sidecar as Kubernetes has it since 1.29: it ends when the job does, so that the pod ends as well."""
    return {**sidecar, "restartPolicy": "Always"}


def _placement(spec: StreamJobSpec) -> Object:
    driver = spec.driver
    wanted: Object = {
        "serviceAccountName": driver.service_account,
        "priorityClassName": driver.priority_class_name,
        "nodeSelector": dict(driver.node_selector),
        "tolerations": [dict(each) for each in driver.tolerations],
        "affinity": driver.affinity,
        "imagePullSecrets": [{"name": each.name} for each in spec.image_pull_secrets],
    }
    return {key: value for key, value in wanted.items() if value}


def _template(template: Object | None) -> Object:
    """Return the part of a pod template that belongs to a pod."""
    given = template or {}
    metadata, spec = (_map(given.get(part), part) for part in ("metadata", "spec"))
    kept = {part: _map(metadata.get(part), f"metadata.{part}") for part in ("labels", "annotations")}
    return {"metadata": {part: value for part, value in kept.items() if value}, "spec": spec}


def _map(value: Any, path: str) -> Object:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput(f"driver.template.{path} is {type(value).__name__}, not a map", "write it as in a pod")
    return value


def _probe(path: str, *, period: int, failures: int) -> Object:
    return {
        "httpGet": {"path": path, "port": "metrics"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
