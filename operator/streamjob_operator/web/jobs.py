"""Finds StreamJobs and their drivers, for a leader in its mirror, for a replica on standby at the API server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence

from streamjob_operator.cluster.api import Cluster, NotFound
from streamjob_operator.cluster.driver_api import DriverAddress
from streamjob_operator.cluster.kinds import POD, STREAM_JOB, Object
from streamjob_operator.machinery.mirror import Mirror, MirroredCluster
from streamjob_operator.objects.names import UID_LABEL, driver_name
from streamjob_operator.reconciling.observing import Tokens

_LISTED_SECONDS = 5.0
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


class Jobs:
    """The StreamJobs that the controller manages.

    Args:
        namespaces: those that the controller manages; empty for all.
        clock: seconds of a clock that never goes back.
    """

    def __init__(self, cluster: Cluster, namespaces: Sequence[str], clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._namespaces = tuple(namespaces)
        self._clock = clock
        self._mirror: Mirror | None = None
        self._tokens = Tokens(cluster)
        self._listing = asyncio.Lock()
        self._listed: tuple[float, list[Object]] = (float("-inf"), [])

    def lead(self, mirror: Mirror) -> None:
        """Read from the mirror from now on: this replica leads."""
        self._mirror = mirror
        self._cluster = MirroredCluster(self._cluster, mirror)

    async def all(self) -> list[Object]:
        """Return all StreamJobs; they must not be changed. Raises ClusterError."""
        mirrored = self._mirror.all(STREAM_JOB) if self._mirror is not None else None
        if mirrored is not None:
            return mirrored
        async with self._listing:
            at, found = self._listed
            if self._clock() - at >= _LISTED_SECONDS:
                found = []
                for namespace in self._namespaces or (None,):
                    found += await self._cluster.list(STREAM_JOB, namespace)
                self._listed = self._clock(), found
            return found

    async def find(self, namespace: str, name: str) -> Object | None:
        """Return a StreamJob; None if there is none of that name, or if it is not managed. Raises ClusterError."""
        managed = not self._namespaces or namespace in self._namespaces
        # The names come from an address, and become a path of a request.
        if not managed or not _NAMESPACE.fullmatch(namespace) or not _NAME.fullmatch(name):
            return None
        try:
            return await self._cluster.get(STREAM_JOB, namespace, name)
        except NotFound:
            return None

    async def driver(self, job: Object) -> DriverAddress | None:
        """Return where a StreamJob's driver is asked; None while it cannot be. Raises ClusterError."""
        meta = job["metadata"]
        attempt = ((job.get("status") or {}).get("jobStatus") or {}).get("attempt") or 0
        wanted = driver_name(meta["name"], attempt)
        pods = await self._cluster.list(POD, meta["namespace"], labels=f"{UID_LABEL}={meta['uid']}")
        pod = next((each for each in pods if each["metadata"]["name"] == wanted), None)
        return await self._tokens.address(job, pod) if pod is not None else None

    def refused(self, job: Object) -> None:
        """Have the token of a StreamJob's drivers read again: a driver has refused it."""
        self._tokens.forget(job["metadata"]["uid"])
