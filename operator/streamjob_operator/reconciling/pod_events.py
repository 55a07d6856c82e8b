"""Why a pod does not start, where its status does not say: only its events name a volume that cannot be mounted."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from streamjob_operator.cluster.api import Cluster, Refused
from streamjob_operator.cluster.kinds import EVENT, Object
from streamjob_operator.decisions.values.observation import DriverPod, ExecutorPod
from streamjob_operator.reconciling.driver_pods import PREPARED

_Pod = TypeVar("_Pod", DriverPod, ExecutorPod)
_SOON = 5.0
"""Seconds that a pod may take for this before anybody asks."""


async def explained(cluster: Cluster, namespace: str, pod: _Pod, now: float) -> _Pod:
    """Return a pod with the reason of its newest warning, if it is being prepared for longer than usual.

    Args:
        pod: a driver or an executor.
        now: the time, in seconds since 1970.
    """
    if pod.reason not in PREPARED or pod.deleting is not None or now < pod.created + _SOON:
        return pod
    found = await newest_warning(cluster, namespace, pod.uid)
    if found is None:
        return pod
    reason, message = found
    return replace(pod, reason=reason, message=f"pod {pod.name}: {message}")


async def newest_warning(cluster: Cluster, namespace: str, uid: str) -> tuple[str, str] | None:
    """Return the reason and the message of the newest warning about an object; None if there is none.

    An installation of an older version lacks the right to look, and is to work on.
    """
    try:
        events = await cluster.list(EVENT, namespace, fields=f"involvedObject.uid={uid},type=Warning")
    except Refused:
        return None
    latest = max(events, key=_time, default=None)
    return None if latest is None else (latest.get("reason") or "", latest.get("message") or "")


def _time(event: Object) -> str:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((str(each) for each in times if each), "")
