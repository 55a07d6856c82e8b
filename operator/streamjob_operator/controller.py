"""Wakes the loops of the objects that a change concerns, and makes sure that no change is missed."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

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


@dataclass(slots=True)
class Controller:
    """Wakes the reconcilers.

    Args:
        reconcilers: by kind; each takes a namespace and a name, and returns a delay as `WorkLoops` documents it.
        index: the StreamSnapshots, kept up to date here.
        namespaces: those that are handled; empty for all.
        sweep_every: seconds between two listings of everything.
    """

    cluster: Cluster
    reconcilers: Mapping[Kind, Reconcile]
    index: SnapshotIndex
    health: Health
    metrics: Metrics
    own_writes: OwnWrites = field(default_factory=OwnWrites)
    mirror: Mirror = field(default_factory=Mirror)
    namespaces: Sequence[str] = ()
    pace: Pace = field(default_factory=Pace)
    concurrency: int = 20
    sweep_every: float = 60.0
    loops: WorkLoops[Identity] = field(init=False)

    def __post_init__(self) -> None:
        self.loops = WorkLoops(self._reconcile, pace=self.pace, concurrency=self.concurrency, failed=self._failed)

    def saw(self, kind: Kind, thing: Object, *, gone: bool = False) -> None:
        """Record an object that a watch delivered, and wake the loops that it concerns."""
        self.health.audit.delivered(kind, thing)
        if gone:
            self.mirror.drop(kind, thing)
        else:
            self.mirror.put(kind, thing)
        if kind == STREAM_JOB and not gone and self.own_writes.includes(thing):
            self._wake_snapshots_of(thing)
            return
        self._wake(kind, thing, gone=gone)

    async def begin(self) -> None:
        """List everything for the first time, so that all objects are known before the first decision.

        Raises:
            NotServed: the cluster does not know the resources, or does not let them be listed.
        """
        self.health.swept = self.health.clock()
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
            await asyncio.sleep(min(self.sweep_every, _AWAY) if away else self.sweep_every)
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
            before = self.mirror.versions(kind)
            for namespace in self.namespaces or (None,):
                # The index has whole StreamSnapshots.
                found += await self.cluster.list(
                    kind, namespace, labels=labels, metadata_only=kind is not STREAM_SNAPSHOT
                )
            for thing in self.mirror.listed(kind, found, before):
                self._wake(kind, thing, gone=True)
            behind = set(self.health.audit.listed(kind, found, self.health.clock()))
            for thing in found:
                if identity_of(kind, thing) in behind:
                    self._wake(kind, thing)
        self.health.swept = self.health.clock()
        self.metrics.watch_lag.set(self.health.audit.lag(self.health.clock()))

    def _wake(self, kind: Kind, thing: Object, *, gone: bool = False) -> None:
        namespace, name = thing["metadata"].get("namespace", ""), thing["metadata"]["name"]
        if kind == STREAM_JOB:
            self.loops.wake((STREAM_JOB, namespace, name))
            self._wake_snapshots_of(thing)
        elif kind == STREAM_SNAPSHOT:
            _, job = self.index.drop(thing) if gone else self.index.put(thing)
            self.loops.wake((STREAM_JOB, namespace, job))
            self._wake_snapshot(thing)
        elif kind == POD:
            job_label = (thing["metadata"].get("labels") or {}).get(NAME_LABEL)
            if job_label:
                self.loops.wake((STREAM_JOB, namespace, _owner(thing) or job_label))

    def _wake_snapshots_of(self, job: Object) -> None:
        for snapshot in self.index.of(job["metadata"].get("namespace", ""), job["metadata"]["name"]):
            self._wake_snapshot(snapshot)

    def _wake_snapshot(self, thing: Object) -> None:
        meta, state = thing["metadata"], (thing.get("status") or {}).get("state")
        rests = state is not None and SnapshotState(state).terminal and not meta.get("deletionTimestamp")
        if STREAM_SNAPSHOT in self.reconcilers and not rests:
            self.loops.wake((STREAM_SNAPSHOT, meta["namespace"], meta["name"]))

    async def _reconcile(self, key: Identity) -> float | None:
        kind, namespace, name = key
        return await self.reconcilers[kind](namespace, name)

    def _failed(self, _key: Identity, error: Exception) -> None:
        self.metrics.reconcile_errors.labels(type(error).__name__).inc()


def _version_of(thing: Object) -> tuple[str, str]:
    return thing["metadata"].get("uid", ""), thing["metadata"]["resourceVersion"]


def _owner(thing: Object) -> str | None:
    """Return the name of the StreamJob that owns an object; a label may be too short for it."""
    owners = thing["metadata"].get("ownerReferences") or ()
    return next((str(owner["name"]) for owner in owners if owner.get("kind") == STREAM_JOB.kind), None)
