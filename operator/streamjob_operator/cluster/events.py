"""Emits Kubernetes events: repeats are aggregated, and failures are ignored."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from streamjob_operator.cluster.api import AlreadyExists, Cluster, ClusterError, NotFound
from streamjob_operator.cluster.kinds import EVENT, Object

_log = logging.getLogger(__name__)
_LONGEST_MESSAGE = 1024
_LONGEST_SUBJECT = 253 - 17
COMPONENT = "streamjob-controller"


@dataclass(slots=True)
class EventRecorder:
    """Records events on objects.

    Args:
        instance: which replica says it.
        now: the time of day.
        pause: seconds in which the same event on the same object is not counted again.
    """

    cluster: Cluster
    instance: str = ""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    pause: float = 10.0
    _last: dict[str, datetime] = field(default_factory=dict)

    async def record(self, subject: Object, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Record an event, or count the one up that says the same."""
        meta, now = subject["metadata"], self.now()
        short = message if len(message) <= _LONGEST_MESSAGE else f"{message[: _LONGEST_MESSAGE - 1]}…"
        same = hashlib.sha256("\0".join((meta["uid"], kind, reason, short)).encode()).hexdigest()[:16]
        name = f"{meta['name'][:_LONGEST_SUBJECT]}.{same}"
        last = self._last.get(name)
        if last is not None and (now - last).total_seconds() < self.pause:
            return
        self._forget(now)
        self._last[name] = now
        stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        event: Object = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": meta["namespace"]},
            "involvedObject": {
                "apiVersion": subject["apiVersion"],
                "kind": subject["kind"],
                "name": meta["name"],
                "namespace": meta["namespace"],
                "uid": meta["uid"],
                "resourceVersion": meta.get("resourceVersion", ""),
            },
            "type": kind,
            "reason": reason,
            "message": short,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self.instance,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }
        try:
            await self._write(event)
        except ClusterError as error:
            # Nothing can be made in a namespace that is being deleted; the log is then the only place.
            where = f"{meta['namespace']}/{meta['name']}"
            _log.warning("event %s on %s was not recorded (%s): %s", reason, where, error, message)

    async def _write(self, event: Object) -> None:
        namespace, name = event["metadata"]["namespace"], event["metadata"]["name"]
        try:
            await self.cluster.create(EVENT, event)
        except AlreadyExists:
            try:
                known = await self.cluster.get(EVENT, namespace, name)
                again = {"count": int(known.get("count") or 1) + 1, "lastTimestamp": event["lastTimestamp"]}
                await self.cluster.patch(EVENT, namespace, name, again)
            except NotFound:
                # It expired between the two.
                await self.cluster.create(EVENT, event)

    def _forget(self, now: datetime) -> None:
        if len(self._last) > 10_000:
            self._last = {name: at for name, at in self._last.items() if (now - at).total_seconds() < self.pause}
