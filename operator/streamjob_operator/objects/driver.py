"""The pods that are made from a revision: that of an attempt at running it, and that of a preflight."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streamjob.telemetry.spans import TRACEPARENT, SpanContext
from streamjob_operator.decisions.status.traces import start_context
from streamjob_operator.decisions.values.actions import CreateDriver, CreatePreflight
from streamjob_operator.decisions.values.revision import Revision
from streamjob_operator.objects import names, observability
from streamjob_operator.objects.job_file import arguments, check_arguments
from streamjob_operator.objects.merging import by_key, merged
from streamjob_operator.objects.names import (
    BLOCKS_PORT,
    CONTAINER,
    CONTROL_PORT,
    CONTROL_VOLUME,
    METRICS_PORT,
    RPC_PORT,
    Object,
)
from streamjob_operator.objects.pod import executor_secret, job_container, mounts, pod_spec, template, variables
from streamjob_operator.objects.sizes import resources
from streamjob_operator.objects.startup import driver_startup
from streamjob_operator.resources.base import Metadata
from streamjob_operator.resources.streamjob import StreamJobSpec

_TERMINATION_LOG = "/dev/termination-log"
_OF_A_SERVER = ("ports", "startupProbe", "livenessProbe", "readinessProbe")


def driver_pod(
    owner: Metadata, revision: Revision, action: CreateDriver, *, default_image: str, traced: bool = False
) -> Object:
    """Return the pod that runs a revision; it needs the revision's ConfigMap and the StreamJob's Secret.

    Args:
        action: its attempt, and the snapshot to start from.
        default_image: the image of the revisions that name none.
        traced: whether a span of the controller waits for the driver.

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
    container = _container(owner, spec, action, image, traced=traced)
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {
            "restartPolicy": "Never",
            **pod_spec(spec, driver, image, container, _volumes(owner, spec, revision)),
        },
    }
    return merged(template(driver.template, "driver"), pod)


def preflight_pod(owner: Metadata, revision: Revision, action: CreatePreflight, *, default_image: str) -> Object:
    """Return the pod that checks whether a revision can start: its driver's pod, with a check in the place of the job.

    Raises:
        InvalidInput: the template is no template of a pod.
    """
    driver = CreateDriver(attempt=0, revision=revision.name)
    pod, spec = driver_pod(owner, revision, driver, default_image=default_image), revision.spec()
    meta, inside = pod["metadata"], pod["spec"]
    meta["name"] = names.preflight_name(owner.name, action.number)
    del meta["labels"][names.ATTEMPT_LABEL]
    # Neither executors nor users of the control API must take it for a driver.
    meta["labels"] |= {names.COMPONENT_LABEL: names.PREFLIGHT, names.PREFLIGHT_LABEL: str(action.number)}
    inside["volumes"] = _without(inside["volumes"], CONTROL_VOLUME)
    container = next(each for each in inside["containers"] if each["name"] == CONTAINER)
    for field in _OF_A_SERVER:
        container.pop(field, None)
    container["args"] = check_arguments(owner, spec, action)
    # The Secret of executors may not exist before the revision is deployed.
    container["env"] = _without(container["env"], names.EXECUTOR_SECRET)
    container["volumeMounts"] = _without(container["volumeMounts"], CONTROL_VOLUME)
    if spec.driver.standby:
        container["resources"] = {**container["resources"], **resources(spec.driver, 1)}
    return pod


def _without(things: Iterable[Object], name: str) -> list[Object]:
    return [each for each in things if each["name"] != name]


def _container(owner: Metadata, spec: StreamJobSpec, action: CreateDriver, image: str, *, traced: bool) -> Object:
    driver = spec.driver
    own_mounts = [*mounts(), {"name": names.CONTROL_VOLUME, "mountPath": names.CONTROL_DIRECTORY, "readOnly": True}]
    return {
        **job_container(spec, driver, image),
        "args": arguments(owner, spec, action),
        "env": _variables(owner, spec, start_context(owner.uid, action.attempt) if traced else None),
        "ports": _ports(spec),
        "resources": resources(driver, 1 + driver.standby),
        "volumeMounts": by_key(driver.volume_mounts, own_mounts, "mountPath"),
        # The controller itself waits for no probe. They are rare: one that finds the process just ended is a warning.
        "startupProbe": driver_startup(),
        "livenessProbe": _probe("/healthz", failures=2),
        "readinessProbe": _probe("/readyz", failures=1),
        "terminationMessagePath": _TERMINATION_LOG,
    }


def _ports(spec: StreamJobSpec) -> list[Object]:
    ports = {"control": CONTROL_PORT, "metrics": METRICS_PORT}
    if spec.executor is not None:
        ports |= {"rpc": RPC_PORT, "blocks": BLOCKS_PORT}
    return [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports.items()]


def _volumes(owner: Metadata, spec: StreamJobSpec, revision: Revision) -> list[Object]:
    code = [*spec.deps.config_maps, names.config_map_name(owner, revision.name)]
    return [
        {"name": "job", "projected": {"sources": [{"configMap": {"name": name}} for name in code]}},
        {"name": names.CONTROL_VOLUME, "secret": {"secretName": names.control_name(owner)}},
        {"name": "work", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
    ]


def _variables(owner: Metadata, spec: StreamJobSpec, parent: SpanContext | None) -> list[Any]:
    own: list[Object] = [
        {"name": "STREAMJOB_HOST", "value": "*"},
        {"name": "STREAMJOB_PORT", "value": str(CONTROL_PORT)},
        {"name": "STREAMJOB_METRICS_PORT", "value": str(METRICS_PORT)},
        {"name": "STREAMJOB_TOKEN_FILE", "value": f"{names.CONTROL_DIRECTORY}/{names.TOKEN_KEY}"},
        {"name": "STREAMJOB_TERMINATION_LOG", "value": _TERMINATION_LOG},
    ]
    if spec.executor is not None:
        address = {"fieldRef": {"fieldPath": "status.podIP"}}
        own += [executor_secret(owner), {"name": names.DRIVER_ADDRESS, "valueFrom": address}]
    if parent is not None:
        own.append({"name": TRACEPARENT, "value": parent.traceparent})
    reporting = observability.of_driver(spec.observability)
    return by_key((*variables(spec.storage), *reporting, *spec.driver.env), own, "name")


def _probe(path: str, *, failures: int) -> Object:
    return {
        "httpGet": {"path": path, "port": "metrics"},
        "periodSeconds": 30,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
