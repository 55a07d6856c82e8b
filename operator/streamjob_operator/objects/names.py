"""Names, labels and paths on which the objects of a driver and its executors agree."""

from __future__ import annotations

from typing import Any, Final

from streamjob_operator.resources.base import API_VERSION, GROUP, Metadata
from streamjob_operator.resources.labels import COMPONENT_LABEL as COMPONENT_LABEL
from streamjob_operator.resources.labels import DRIVER as DRIVER
from streamjob_operator.resources.labels import EXECUTOR as EXECUTOR
from streamjob_operator.resources.labels import PREFLIGHT as PREFLIGHT
from streamjob_operator.resources.labels import UID_LABEL as UID_LABEL

Object = dict[str, Any]
"""An object of Kubernetes as JSON has it."""

CONTAINER: Final = "streamjob"
"""The job's container in its pod."""

CONTROL_PORT: Final = 8080
METRICS_PORT: Final = 8081
"""Of metrics and probes, which need no token."""
RPC_PORT: Final = 7078
"""Of Spark's driver, for executors."""
BLOCKS_PORT: Final = 7079
"""Of Spark's block managers, in the driver and in executors."""

NAME_LABEL: Final = f"{GROUP}/name"
ATTEMPT_LABEL: Final = f"{GROUP}/attempt"
PREFLIGHT_LABEL: Final = f"{GROUP}/preflight"
"""The number of a preflight."""
TEMPLATE_LABEL: Final = f"{GROUP}/executor-template"
"""A digest of the template that an executor's pod was made from."""
REVISION_ANNOTATION: Final = f"{GROUP}/revision"

JOB_DIRECTORY: Final = "/etc/streamjob/job"
CONTROL_VOLUME: Final = "control"
CONTROL_DIRECTORY: Final = "/etc/streamjob/control"
WORK_DIRECTORY: Final = "/var/lib/streamjob"
"""The only directory except `/tmp` that the process may write to; deleted with the pod."""
CODE_DIRECTORY: Final = f"{WORK_DIRECTORY}/code"

JOB_FILE: Final = "job.yaml"
TOKEN_KEY: Final = "token"
EXECUTOR_SECRET_KEY: Final = "secret"

EXECUTOR_SECRET: Final = "STREAMJOB_EXECUTOR_SECRET"
DRIVER_ADDRESS: Final = "STREAMJOB_DRIVER_ADDRESS"
"""Variables of the pods."""

_LONGEST_LABEL = 63
_LONGEST_NAME = 253
_UID_DIGITS = 8
_LONGEST_OF_A_SET = 52
"""Kubernetes adds ten characters and a dash to the name of a StatefulSet, and makes a label of it."""


def driver_name(job: str, attempt: int) -> str:
    """Return the name of the pod of an attempt."""
    return f"{job}-driver-{attempt}"


def preflight_name(job: str, number: int) -> str:
    """Return the name of the pod of a preflight."""
    return f"{job}-preflight-{number}"


def control_name(owner: Metadata) -> str:
    """Return the name of the Secret with the control API's token, and of the NetworkPolicy before that API."""
    return _own_name(owner, f"{owner.name}-control")


def executors_name(owner: Metadata) -> str:
    """Return the name of the executors' StatefulSet, Secret, NetworkPolicy and PodDisruptionBudget."""
    return _host_name(owner, "", f"-{EXECUTOR}", _LONGEST_OF_A_SET)


def driver_service_name(owner: Metadata) -> str:
    """Return the name of the Service by which executors find the driver."""
    return _host_name(owner, f"{DRIVER}-", "", _LONGEST_LABEL)


def config_map_name(owner: Metadata, revision: str) -> str:
    """Return the name of the ConfigMap with a revision's job file."""
    return _own_name(owner, revision)


def labels(owner: Metadata, component: str = DRIVER) -> dict[str, str]:
    """Return the labels of all that belongs to a component of a StreamJob."""
    return {
        "app.kubernetes.io/name": "streamjob",
        COMPONENT_LABEL: component,
        "app.kubernetes.io/managed-by": "streamjob-controller",
        NAME_LABEL: owner.name[:_LONGEST_LABEL].rstrip("-."),
        UID_LABEL: owner.uid,
    }


def selector(owner: Metadata, component: str) -> Object:
    """Return the selector of a component's pods."""
    own = labels(owner, component)
    return {"matchLabels": {label: own[label] for label in (NAME_LABEL, UID_LABEL, COMPONENT_LABEL)}}


def metadata(owner: Metadata, name: str, component: str = DRIVER) -> Object:
    """Return the metadata of an object that goes when its StreamJob goes."""
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": labels(owner, component),
        "ownerReferences": [
            {
                "apiVersion": API_VERSION,
                "kind": "StreamJob",
                "name": owner.name,
                "uid": owner.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


def _host_name(owner: Metadata, before: str, after: str, longest: int) -> str:
    """Names of Services and of StatefulSets' pods are host names: without dots, and the first begins with a letter."""
    after = f"{after}-{owner.uid[:_UID_DIGITS]}"
    name = owner.name.replace(".", "-")[: longest - len(before) - len(after)].rstrip("-")
    return f"{before}{name}{after}"


def _own_name(owner: Metadata, name: str) -> str:
    """Objects of an earlier StreamJob of the same name may be garbage-collected at any time, so they are not reused."""
    suffix = f"-{owner.uid[:_UID_DIGITS]}"
    return f"{name[: _LONGEST_NAME - len(suffix)]}{suffix}"
