"""Names, labels and paths on which the objects of a driver agree."""

from __future__ import annotations

from typing import Any, Final

from streamjob_operator.resources.base import API_VERSION, GROUP, Metadata

Object = dict[str, Any]
"""An object of Kubernetes as JSON has it."""

CONTAINER: Final = "streamjob"
"""The job's container in its pod."""

CONTROL_PORT: Final = 8080
METRICS_PORT: Final = 8081
"""Of metrics and probes, which need no token."""

NAME_LABEL: Final = f"{GROUP}/name"
UID_LABEL: Final = f"{GROUP}/uid"
ATTEMPT_LABEL: Final = f"{GROUP}/attempt"
REVISION_ANNOTATION: Final = f"{GROUP}/revision"

JOB_DIRECTORY: Final = "/etc/streamjob/job"
CONTROL_DIRECTORY: Final = "/etc/streamjob/control"
WORK_DIRECTORY: Final = "/var/lib/streamjob"
"""The only directory except `/tmp` that the process may write to; deleted with the pod."""
CODE_DIRECTORY: Final = f"{WORK_DIRECTORY}/code"

JOB_FILE: Final = "job.yaml"
TOKEN_KEY: Final = "token"

_LONGEST_LABEL = 63
_LONGEST_NAME = 253
_UID_DIGITS = 8


def driver_name(job: str, attempt: int) -> str:
    """Return the name of the pod of an attempt."""
    return f"{job}-driver-{attempt}"


def control_name(owner: Metadata) -> str:
    """Return the name of the Secret with the control API's token, and of the NetworkPolicy before that API."""
    return _own_name(owner, f"{owner.name}-control")


def config_map_name(owner: Metadata, revision: str) -> str:
    """Return the name of the ConfigMap with a revision's job file."""
    return _own_name(owner, revision)


def labels(owner: Metadata) -> dict[str, str]:
    """Return the labels of all that belongs to a StreamJob."""
    return {
        "app.kubernetes.io/name": "streamjob",
        "app.kubernetes.io/component": "driver",
        "app.kubernetes.io/managed-by": "streamjob-controller",
        NAME_LABEL: owner.name[:_LONGEST_LABEL].rstrip("-."),
        UID_LABEL: owner.uid,
    }


def metadata(owner: Metadata, name: str) -> Object:
    """Return the metadata of an object that goes when its StreamJob goes."""
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": labels(owner),
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


def _own_name(owner: Metadata, name: str) -> str:
    """Objects of an earlier StreamJob of the same name may be garbage-collected at any time, so they are not reused."""
    suffix = f"-{owner.uid[:_UID_DIGITS]}"
    return f"{name[: _LONGEST_NAME - len(suffix)]}{suffix}"
