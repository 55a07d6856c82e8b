"""Reads a driver's state from its pod's JSON."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from streamjob.protocol.lifecycle import JobState
from streamjob.snapshot.record import RecordKind
from streamjob_operator.cluster.kinds import Object
from streamjob_operator.decisions.values.observation import Completion, DriverPod, PodPhase
from streamjob_operator.objects.names import ATTEMPT_LABEL, CONTAINER, CONTROL_PORT, REVISION_ANNOTATION

_EVICTED = "Evicted"
PREPARED = frozenset({"ContainerCreating", "PodInitializing"})
"""Reasons of a container that waits while its pod is prepared: volumes, network, init containers."""


def seconds_of(stamp: str | None) -> float | None:
    """Return the seconds since 1970 of a time as Kubernetes writes it."""
    return None if not stamp else datetime.fromisoformat(stamp).timestamp()


def driver_pod(pod: Object, label: str = ATTEMPT_LABEL) -> DriverPod | None:
    """Return a driver's state; None if the pod has no attempt, because then it is not a driver.

    Args:
        label: the label with its number; that of a preflight for the state of a preflight's pod.
    """
    meta, status = pod["metadata"], pod.get("status") or {}
    try:
        attempt = int((meta.get("labels") or {})[label])
    except (KeyError, ValueError):
        return None
    state = container_state(status)
    terminated = state.get("terminated") or {}
    outcome, said, completion, error = _termination_message(terminated.get("message"), attempt)
    reason, message = reason_of(status, state)
    return DriverPod(
        name=meta["name"],
        attempt=attempt,
        uid=meta.get("uid", ""),
        revision=(meta.get("annotations") or {}).get(REVISION_ANNOTATION, ""),
        phase=PodPhase(status.get("phase") or "Pending"),
        created=seconds_of(meta.get("creationTimestamp")) or 0.0,
        started=seconds_of((state.get("running") or {}).get("startedAt") or terminated.get("startedAt")),
        deleting=seconds_of(meta.get("deletionTimestamp")),
        exit_code=terminated.get("exitCode"),
        outcome=outcome,
        completion=completion,
        error=error,
        reason=reason,
        message=said or message,
        cores=_cores(_container(pod.get("spec") or {}).get("resources")),
        cores_given=_cores(_container_status(status).get("resources")),
        resize=_pending_resize(status),
    )


def control_url(pod: Object, port: int = CONTROL_PORT) -> str | None:
    """Return the address of a driver's control API; None if it cannot be called."""
    status = pod.get("status") or {}
    address = status.get("podIP")
    if status.get("phase") != "Running" or not address:
        return None
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def _container(spec: Object) -> dict[str, Any]:
    return next((each for each in spec.get("containers") or () if each.get("name") == CONTAINER), {})


def _container_status(status: Object) -> dict[str, Any]:
    return next((each for each in status.get("containerStatuses") or () if each.get("name") == CONTAINER), {})


def container_state(status: Object) -> dict[str, Any]:
    """Return the state of the job's container, from a pod's status."""
    return _container_status(status).get("state") or {}


def _cores(resources: Object | None) -> float | None:
    """Return the processors of a container whose request equals its limit; None for any other."""
    given = resources or {}
    written = [(given.get(part) or {}).get("cpu") for part in ("requests", "limits")]
    if None in written:
        return None
    request, limit = (float(parse_quantity(each)) for each in written)  # type: ignore[no-untyped-call]
    return request if request == limit else None


def _pending_resize(status: Object) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodResizePending" and condition.get("status") == "True":
            return f"{condition.get('reason') or 'Deferred'}: {condition.get('message') or ''}"
    return ""


def reason_of(status: Object, state: dict[str, Any]) -> tuple[str, str]:
    """Return why a pod waits or failed. The pod's own reason takes precedence over its container's, and that over
    scheduling."""
    if status.get("reason"):
        return status["reason"], status.get("message") or ""
    for condition in status.get("conditions") or ():
        # Only this condition reveals drain, preemption and taints.
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return _EVICTED, condition.get("message") or condition.get("reason") or ""
    own = _waits_or_ended(state)
    if own is None or own[0] in PREPARED:
        # While a pod is being prepared, it may wait for an init container.
        for container in status.get("initContainerStatuses") or ():
            found = _waits_or_ended(container.get("state") or {})
            if found is not None and found[0] not in (*PREPARED, "Completed"):
                return found[0], f"{container.get('name')}: {found[1] or found[0]}"
    if own is not None:
        return own
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return condition.get("reason") or "Unschedulable", condition.get("message") or ""
    return "", ""


def _waits_or_ended(state: dict[str, Any]) -> tuple[str, str] | None:
    for part in ("waiting", "terminated"):
        found = state.get(part) or {}
        if found.get("reason"):
            return found["reason"], found.get("message") or ""
    return None


def _termination_message(text: str | None, attempt: int) -> tuple[JobState | None, str, Completion | None, str]:
    try:
        said = json.loads(text or "")
        state = said.get("state")
        outcome, message = (JobState(state) if state else None), str(said.get("message") or "")
    except (ValueError, AttributeError):
        return None, text or "", None, ""
    return outcome, message, _completion(said.get("lastCheckpoint"), attempt), str(said.get("error") or "")


def _completion(last: Any, attempt: int) -> Completion | None:
    try:
        return Completion(
            id=int(last["id"]),
            kind=RecordKind(last["kind"]),
            path=str(last["path"]),
            epoch=0,
            attempt=attempt,
            time=float(last["time"]),
        )
    except (KeyError, TypeError, ValueError):
        return None
