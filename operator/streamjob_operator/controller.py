"""Wakes the loops of the objects that a change concerns, and makes sure that no change is missed."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence

from streamjob.errors import InvalidInput
from streamjob_operator.cluster.api import Cluster, ClusterError, NotFound, Refused
from streamjob_operator.cluster.kinds import CONTROLLER_REVISION, POD, STREAM_JOB, STREAM_SNAPSHOT, Kind, Object
from streamjob_operator.machinery.mirror import Mirror
from streamjob_operator.machinery.watch_audit import Health, Identity, identity_of
from streamjob_operator.machinery.work_queue import Pace, WorkLoops
from streamjob_operator.metrics import Metrics
from streamjob_operator.objects.names import NAME_LABEL
from streamjob_operator.reconciling.observing import SnapshotIndex
from streamjob_operator.resources.snapshot import SnapshotState

_log = logging.getLogger(__name__)
_AWAY = 5.0
"""Seconds between two listings while the API server does not answer them."""

WATCHED: Mapping[Kind, str | None] = {
    STREAM_JOB: None,
    STREAM_SNAPSHOT: None,
    POD: NAME_LABEL,
    CONTROLLER_REVISION: NAME_LABEL,
}
"""The kinds that are watched, and by which labels they are selected."""


class OwnWrites:
    """The versions of objects that this controller wrote itself; their arrival in a watch is not a change.

    Args:
        most: how many are remembered.
    """

    def __init__(self, most: int = 10_000) -> None:
        self._versions: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._most = most

    def note(self, thing: Object) -> None:
        """Record a written object, as the API returned it."""
        self._versions[_version_of(thing)] = None
        while len(self._versions) > self._most:
            self._versions.popitem(last=False)

    def includes(self, thing: Object) -> bool:
        """Return whether this very version was written here."""
        return _version_of(thing) in self._versions


class NotServed(InvalidInput):
    """The cluster does not serve the resources."""


Reconcile = Callable[[str, str], Awaitable[float | None]]


class Controller:
    """Wakes the reconcilers.

    Args:
        cluster: the Kubernetes API.
        reconcilers: by kind; each takes a namespace and a name, and returns a delay as `WorkLoops` documents it.
        index: the StreamSnapshots, kept up to date here.
        health: records the versions that watches deliver and listings show.
        metrics: count errors.
        own_writes: the versions that the reconcilers wrote themselves.
        mirror: the watched objects, kept up to date here.
        namespaces: those that are handled; empty for all.
        pace: intervals between the reconciliations of objects.
        concurrency: how many at the same time.
        sweep_every: seconds between two listings of everything.
    """

    def __init__(
        self,
        cluster: Cluster,
        reconcilers: Mapping[Kind, Reconcile],
        index: SnapshotIndex,
        health: Health,
        metrics: Metrics,
        *,
        own_writes: OwnWrites | None = None,
        mirror: Mirror | None = None,
        namespaces: Sequence[str] = (),
        pace: Pace | None = None,
        concurrency: int = 20,
        sweep_every: float = 60.0,
    ) -> None:
        self._cluster = cluster
        self._reconcilers = reconcilers
        self._index = index
        self._health = health
        self._metrics = metrics
        self._namespaces: tuple[str | None, ...] = tuple(namespaces) or (None,)
        self._own_writes = own_writes or OwnWrites()
        self._mirror = mirror or Mirror()
        self._sweep_every = sweep_every
        self.loops: WorkLoops[Identity] = WorkLoops(
            self._reconcile, pace=pace or Pace(), concurrency=concurrency, failed=self._failed
        )

    def saw(self, kind: Kind, thing: Object, *, gone: bool = False) -> None:
        """Record an object that a watch delivered, and wake the loops that it concerns."""
        self._health.audit.delivered(kind, thing)
        if gone:
            self._mirror.drop(kind, thing)
        else:
            self._mirror.put(kind, thing)
        if kind == STREAM_JOB and not gone and self._own_writes.includes(thing):
            self._wake_snapshots_of(thing)
            return
        self._wake(kind, thing, gone=gone)

    async def begin(self) -> None:
        """List everything for the first time, so that all objects are known before the first decision.

        Raises:
            NotServed: the cluster does not know the resources, or does not let them be listed.
        """
        self._health.swept = self._health.clock()
        try:
            await self.sweep()
        except (NotFound, Refused) as error:
            raise NotServed(
                f"the resources cannot be listed: {error.what}",
                "Install their definitions, and give the controller its rights: the chart does both.",
            ) from error
        except ClusterError as error:
            _log.warning("not everything could be listed: %s", error)

    async def sweep_for_ever(self) -> None:
        """List everything now and then.

        After an outage of the API server, all objects are reconciled. Retries of an object grow with the length of the
        outage, and no watch delivers events missed meanwhile.
        """
        away = False
        while True:
            await asyncio.sleep(min(self._sweep_every, _AWAY) if away else self._sweep_every)
            try:
                await self.sweep()
            except ClusterError as error:
                _log.warning("not everything could be listed: %s", error)
                away = True
            else:
                for key in self.loops.known() if away else ():
                    self.loops.wake(key)
                away = False

    async def sweep(self) -> None:
        """List everything, and wake the loops of changes that no watch has delivered."""
        for kind, labels in WATCHED.items():
            found: list[Object] = []
            before = self._mirror.versions(kind)
            for namespace in self._namespaces:
                # The index is replaced by each listing, so a listing of snapshots must be complete.
                found += await self._cluster.list(
                    kind, namespace, labels=labels, metadata_only=kind is not STREAM_SNAPSHOT
                )
            for thing in self._mirror.listed(kind, found, before):
                self._wake(kind, thing, gone=True)
            behind = set(self._health.audit.listed(kind, found, self._health.clock()))
            for thing in found:
                if identity_of(kind, thing) in behind:
                    self._wake(kind, thing)
        self._health.swept = self._health.clock()
        self._metrics.watch_lag.set(self._health.audit.lag(self._health.clock()))

    def _wake(self, kind: Kind, thing: Object, *, gone: bool = False) -> None:
        namespace, name = thing["metadata"].get("namespace", ""), thing["metadata"]["name"]
        if kind == STREAM_JOB:
            self.loops.wake((STREAM_JOB, namespace, name))
            self._wake_snapshots_of(thing)
        elif kind == STREAM_SNAPSHOT:
            _, job = self._index.drop(thing) if gone else self._index.put(thing)
            self.loops.wake((STREAM_JOB, namespace, job))
            self._wake_snapshot(thing)
        elif kind == POD:
            job_label = (thing["metadata"].get("labels") or {}).get(NAME_LABEL)
            if job_label:
                self.loops.wake((STREAM_JOB, namespace, _owner(thing) or job_label))

    def _wake_snapshots_of(self, job: Object) -> None:
        for snapshot in self._index.of(job["metadata"].get("namespace", ""), job["metadata"]["name"]):
            self._wake_snapshot(snapshot)

    def _wake_snapshot(self, thing: Object) -> None:
        meta, state = thing["metadata"], (thing.get("status") or {}).get("state")
        rests = state is not None and SnapshotState(state).terminal and not meta.get("deletionTimestamp")
        if STREAM_SNAPSHOT in self._reconcilers and not rests:
            self.loops.wake((STREAM_SNAPSHOT, meta["namespace"], meta["name"]))

    async def _reconcile(self, key: Identity) -> float | None:
        kind, namespace, name = key
        return await self._reconcilers[kind](namespace, name)

    def _failed(self, _key: Identity, error: Exception) -> None:
        self._metrics.reconcile_errors.labels(type(error).__name__).inc()


def _version_of(thing: Object) -> tuple[str, str]:
    return thing["metadata"].get("uid", ""), thing["metadata"]["resourceVersion"]


def _owner(thing: Object) -> str | None:
    """Return the name of the StreamJob that owns an object; a label may be too short for it."""
    owners = thing["metadata"].get("ownerReferences") or ()
    return next((str(owner["name"]) for owner in owners if owner.get("kind") == STREAM_JOB.kind), None)
