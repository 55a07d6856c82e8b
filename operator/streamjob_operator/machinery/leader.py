"""One replica acts, the others stand by: a Lease says which, as in Kubernetes' own controllers.

The client library has an election, too. But its requests have no deadline, so a holder that hangs in one would act
beyond its lease, and a lost connection ends it. Here, a holder gives up before others may take over.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum

from streamjob_operator.cluster.api import AlreadyExists, Cluster, ClusterError, Conflict, NotFound
from streamjob_operator.cluster.kinds import LEASE, Object
from streamjob_operator.settings import LeaseSettings

_log = logging.getLogger(__name__)


class Attempted(Enum):
    """The outcome of an attempt to acquire or renew a Lease."""

    HELD = "held"
    TAKEN = "held by another"
    FAILED = "no answer, or another replica was faster"


@dataclass(frozen=True, slots=True)
class Seen:
    """A version of the Lease, and since when on the own clock it is the newest; other machines' clocks do not count."""

    version: str
    since: float


def may_take(lease: Object, seen: Seen, identity: str, now: float) -> bool:
    """Return whether a replica may take a Lease: it holds it, no one does, or its holder was silent."""
    spec = lease.get("spec") or {}
    holder = spec.get("holderIdentity")
    return not holder or holder == identity or now - seen.since >= float(spec.get("leaseDurationSeconds") or 0)


def held_by(lease: Object, settings: LeaseSettings, now: datetime) -> Object:
    """Return the Lease with a replica as its holder, renewed."""
    spec = dict(lease.get("spec") or {})
    stamp = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if spec.get("holderIdentity") != settings.identity:
        spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + bool(lease)
        spec["acquireTime"] = stamp
    spec |= {
        "holderIdentity": settings.identity,
        "leaseDurationSeconds": int(settings.duration),
        "renewTime": stamp,
    }
    meta = lease.get("metadata") or {"namespace": settings.namespace, "name": settings.name}
    return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": meta, "spec": spec}


@dataclass(slots=True)
class Leadership:
    """A replica's part in the election.

    Args:
        clock: seconds of a clock that never goes back.
        now: the time of day, which people read in the Lease.
    """

    cluster: Cluster
    settings: LeaseSettings
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _seen: Seen | None = field(default=None, init=False)
    _renewed: float = field(init=False)

    def __post_init__(self) -> None:
        self._renewed = self.clock()

    async def acquire(self) -> None:
        """Return once this replica holds the Lease."""
        while await self._try(self.settings.renew_deadline) is not Attempted.HELD:
            await self.sleep(self.settings.retry)
        _log.info("%s leads", self.settings.identity)

    async def keep(self) -> None:
        """Renew the Lease, and return when it is lost or could not be renewed in time: then stop acting at once."""
        while True:
            await self.sleep(self.settings.retry)
            left = self._renewed + self.settings.renew_deadline - self.clock()
            if left <= 0:
                _log.error("%s could not renew its lease in time", self.settings.identity)
                return
            if await self._try(left) is Attempted.TAKEN:
                _log.error("%s has lost its lease to another", self.settings.identity)
                return

    async def release(self) -> None:
        """Let another replica take over at once; a failure costs only time."""
        try:
            async with asyncio.timeout(self.settings.retry):
                lease = await self.cluster.get(LEASE, self.settings.namespace, self.settings.name)
                if lease["spec"].get("holderIdentity") == self.settings.identity:
                    await self.cluster.replace(LEASE, lease | {"spec": lease["spec"] | {"holderIdentity": ""}})
        except (TimeoutError, ClusterError) as error:
            _log.warning("the lease was not released: %s", error)

    async def _try(self, seconds: float) -> Attempted:
        started = self.clock()
        try:
            async with asyncio.timeout(seconds):
                attempted = await self._acquire_or_renew()
        except (AlreadyExists, Conflict):
            return Attempted.FAILED
        except (TimeoutError, ClusterError) as error:
            _log.warning("the lease could not be acquired or renewed: %s", error or "no answer")
            return Attempted.FAILED
        if attempted is Attempted.HELD:
            # From before the request: others count from when it was applied, which is later.
            self._renewed = started
        return attempted

    async def _acquire_or_renew(self) -> Attempted:
        settings = self.settings
        try:
            lease = await self.cluster.get(LEASE, settings.namespace, settings.name)
        except NotFound:
            written = await self.cluster.create(LEASE, held_by({}, settings, self.now()))
            self._seen = Seen(written["metadata"]["resourceVersion"], self.clock())
            return Attempted.HELD
        version = lease["metadata"]["resourceVersion"]
        if self._seen is None or self._seen.version != version:
            self._seen = Seen(version, self.clock())
        if not may_take(lease, self._seen, settings.identity, self.clock()):
            return Attempted.TAKEN
        written = await self.cluster.replace(LEASE, held_by(lease, settings, self.now()))
        self._seen = Seen(written["metadata"]["resourceVersion"], self.clock())
        return Attempted.HELD
