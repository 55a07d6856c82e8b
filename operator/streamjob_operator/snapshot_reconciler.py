"""One reconcile of a StreamSnapshot: look at it and its job, decide, store the status, act."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime

from streamjob.errors import StreamJobError
from streamjob_operator.acting import Actor, set_finalizer
from streamjob_operator.cluster.api import Cluster, Conflict, NotFound
from streamjob_operator.cluster.events import EventRecorder
from streamjob_operator.cluster.kinds import STREAM_JOB, STREAM_SNAPSHOT, Object
from streamjob_operator.decisions.actions import Action, AddFinalizer, DeleteSnapshotData, Emit, RemoveFinalizer
from streamjob_operator.decisions.decision import Resource
from streamjob_operator.observation import Observation, Reach
from streamjob_operator.observing import (
    FINALIZER,
    STORAGE_ANNOTATION,
    Observer,
    place_of,
    remembered_storage,
)
from streamjob_operator.resources.parts import Storage
from streamjob_operator.resources.snapshot import StreamSnapshot
from streamjob_operator.snapshotting import SnapshotSituation, decide_snapshot
from streamjob_operator.storing import Snapshots
from streamjob_operator.validating import Resources
from streamjob_operator.waking import Loops

_log = logging.getLogger(__name__)


class SnapshotReconciler:
    """Reconciles StreamSnapshots.

    Args:
        cluster: the Kubernetes API.
        observer: looks at their jobs.
        actor: asks drivers.
        stored: deletes savepoints.
        events: records events.
        now: the time of day.
    """

    def __init__(
        self,
        cluster: Cluster,
        observer: Observer,
        actor: Actor,
        stored: Snapshots,
        events: EventRecorder,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._cluster = cluster
        self._resources = Resources()
        self._observer = observer
        self._actor = actor
        self._stored = stored
        self._events = events
        self._now = now

    async def reconcile(self, namespace: str, name: str) -> float | None:
        """Reconcile once, and return the seconds until the next time, as `Loops` wants it."""
        try:
            thing = await self._cluster.get(STREAM_SNAPSHOT, namespace, name)
        except NotFound:
            return Loops.GONE
        snapshot = StreamSnapshot.model_validate(thing)
        deleted = snapshot.metadata.deletion_timestamp is not None
        if snapshot.status.state.terminal and not deleted:
            return Loops.GONE
        try:
            return await self._once(thing, snapshot)
        except Conflict as error:
            _log.debug("%s/%s was written meanwhile: %s", namespace, name, error)
            return 0.0

    async def _once(self, thing: Object, snapshot: StreamSnapshot) -> float | None:
        job = await self._job(snapshot)
        resource = None if job is None else self._resources.read(job)
        seen = None
        if job is not None and resource is not None:
            known = () if snapshot.status.trigger_id is None else (snapshot.status.trigger_id,)
            seen = await self._observer.observe(job, resource, known)
        situation = SnapshotSituation(
            snapshot=snapshot,
            job=resource,
            seen=seen,
            finalizer=FINALIZER in (thing["metadata"].get("finalizers") or ()),
            now=self._now(),
            reach=Reach.STORE
            if snapshot.status.path is None
            else self._stored.reach(snapshot.status.path, self._storage(thing, resource, seen)),
        )
        decision = decide_snapshot(situation)
        wanted = decision.status.to_dict()
        if wanted != (thing.get("status") or {}):
            thing = await self._cluster.replace(STREAM_SNAPSHOT, thing | {"status": wanted}, subresource="status")
        for action in decision.actions:
            await self._act(thing, job, resource, seen, action)
        return decision.requeue

    async def _job(self, snapshot: StreamSnapshot) -> Object | None:
        try:
            return await self._cluster.get(STREAM_JOB, snapshot.metadata.namespace, snapshot.spec.job_ref.name)
        except NotFound:
            return None

    async def _act(
        self, thing: Object, job: Object | None, resource: Resource | None, seen: Observation | None, action: Action
    ) -> None:
        storage = self._storage(thing, resource, seen)
        if isinstance(action, Emit):
            await self._events.record(thing, action.type, action.reason, action.message)
        elif isinstance(action, AddFinalizer):
            await set_finalizer(self._cluster, thing, present=True)
            if resource is not None:
                await self._remember(thing, storage)
        elif isinstance(action, RemoveFinalizer):
            await set_finalizer(self._cluster, thing, present=False)
        elif isinstance(action, DeleteSnapshotData):
            try:
                await self._stored.delete_savepoint(thing["metadata"]["namespace"], action.path, storage)
            except StreamJobError as error:
                # The resource stays until that is mended, and somebody waits for it to go.
                await self._events.record(thing, "Warning", "CleanupFailed", str(error))
                raise
        elif job is not None and resource is not None and seen is not None:
            if FINALIZER in (thing["metadata"].get("finalizers") or ()):
                await self._remember(thing, storage)
            await self._actor(job, resource, seen, action)

    @staticmethod
    def _storage(thing: Object, resource: Resource | None, seen: Observation | None) -> Storage:
        """Return how the files are reached: as those of the job, or of the one that there was."""
        if resource is None or seen is None:
            return _remembered(thing)
        return place_of(resource, seen.revisions)[1]

    async def _remember(self, thing: Object, storage: Storage) -> None:
        text = remembered_storage(storage)
        if (thing["metadata"].get("annotations") or {}).get(STORAGE_ANNOTATION) == text:
            return
        change: Object = {"metadata": {"annotations": {STORAGE_ANNOTATION: text}}}
        await self._cluster.patch(STREAM_SNAPSHOT, thing["metadata"]["namespace"], thing["metadata"]["name"], change)


def _remembered(thing: Object) -> Storage:
    text = (thing["metadata"].get("annotations") or {}).get(STORAGE_ANNOTATION)
    return Storage.model_validate(json.loads(text)) if text else Storage()
