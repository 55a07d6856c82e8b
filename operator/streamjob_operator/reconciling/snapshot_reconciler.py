"""One reconcile of a StreamSnapshot: look at it and its job, decide, store the status, act."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from streamjob.errors import CannotRestore, StreamJobError
from streamjob.protocol.manifests.stored_manifests import MANIFEST_NAME
from streamjob.store.base import StoreError
from streamjob_operator.cluster.api import Cluster, Conflict, NotFound
from streamjob_operator.cluster.events import EventRecorder
from streamjob_operator.cluster.kinds import STREAM_JOB, STREAM_SNAPSHOT, Object
from streamjob_operator.decisions.snapshots import NamedSavepoint, SnapshotSituation, decide_snapshot
from streamjob_operator.decisions.values.actions import Action, AddFinalizer, DeleteSnapshotData, Emit, RemoveFinalizer
from streamjob_operator.decisions.values.decision import Resource
from streamjob_operator.decisions.values.observation import Observation, Reach
from streamjob_operator.decisions.values.situation import Limits
from streamjob_operator.evaluation.cache import StillEvaluating
from streamjob_operator.evaluation.reading import Resources
from streamjob_operator.machinery.work_queue import WorkLoops
from streamjob_operator.reconciling.acting import Actor, set_finalizer
from streamjob_operator.reconciling.failing import Failures
from streamjob_operator.reconciling.observing import (
    FINALIZER,
    STORAGE_ANNOTATION,
    Observer,
    place_of,
    remembered_storage,
)
from streamjob_operator.resources.parts import Storage
from streamjob_operator.resources.snapshot import SnapshotState, StreamSnapshot
from streamjob_operator.storage.job_stores import JobStores, NotInReach, SecretMissing, trouble_of

_log = logging.getLogger(__name__)
_EVALUATION = 2.0
"""Seconds until the next look at the snapshot of a job whose spec is being evaluated."""


@dataclass(slots=True)
class SnapshotReconciler:
    """Reconciles StreamSnapshots."""

    cluster: Cluster
    resources: Resources
    observer: Observer
    actor: Actor
    stored: JobStores
    events: EventRecorder
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _limits: Limits = field(default_factory=Limits)
    _failures: Failures = field(init=False)

    def __post_init__(self) -> None:
        self._failures = Failures(STREAM_SNAPSHOT, self.cluster, self.events, _nothing_runs, self.now)

    async def reconcile(self, namespace: str, name: str) -> float | None:
        """Reconcile once, and return the seconds until the next time, as `WorkLoops` wants it.

        Raises:
            Exception: it failed; a condition and an event of the StreamSnapshot say why, unless the API server is
                silent.
        """
        try:
            thing = await self.cluster.get(STREAM_SNAPSHOT, namespace, name)
        except NotFound:
            self._failures.forget(namespace, name)
            return WorkLoops.GONE
        try:
            requeue = await self._look(thing)
        except Conflict as error:
            _log.debug("%s/%s was written meanwhile: %s", namespace, name, error)
            return 0.0
        except StillEvaluating as waits:
            _log.debug("%s", waits)
            return _EVALUATION
        except Exception as error:
            await self._failures.note(thing, error)
            raise
        if self._failures.text(thing) is None:
            return requeue
        # The conditions still say that it failed.
        self._failures.forget(namespace, name)
        return 0.0

    async def _look(self, thing: Object) -> float | None:
        snapshot = StreamSnapshot.model_validate(thing)
        if snapshot.status.state.terminal and snapshot.metadata.deletion_timestamp is None:
            return WorkLoops.GONE
        return await self._once(thing, snapshot)

    async def _once(self, thing: Object, snapshot: StreamSnapshot) -> float | None:
        job = await self._job(snapshot)
        resource = None if job is None else await self.resources.read(job)
        seen = None
        if job is not None and resource is not None:
            known = () if snapshot.status.trigger_id is None else (snapshot.status.trigger_id,)
            seen = await self.observer.observe(job, resource, known)
        storage = self._storage(thing, resource, seen)
        situation = SnapshotSituation(
            snapshot=snapshot,
            job=resource,
            seen=seen,
            finalizer=FINALIZER in (thing["metadata"].get("finalizers") or ()),
            now=self.now(),
            reach=Reach.STORE if snapshot.status.path is None else self.stored.reach(snapshot.status.path, storage),
            named=await self._named(snapshot, storage),
        )
        if situation.disposing and snapshot.status.path is not None:
            storage = self._storage(thing, resource, seen)
            try:
                claimed = await self.stored.claimed(snapshot.metadata.namespace, snapshot.status.path, storage)
            except StreamJobError as error:
                if not self._gives_up(snapshot, error):
                    await self.events.record(thing, "Warning", "CleanupFailed", str(error))
                    raise
                situation = replace(situation, hindrance=error.what)
            else:
                situation = replace(situation, claimed=claimed)
        decision = decide_snapshot(situation)
        shown = self._failures.shown(decision.status.conditions, thing)
        wanted = decision.status.model_copy(update={"conditions": shown}).to_dict()
        if wanted != (thing.get("status") or {}):
            thing = await self.cluster.replace(STREAM_SNAPSHOT, thing | {"status": wanted}, subresource="status")
        for action in decision.actions:
            await self._act(thing, job, resource, seen, action)
        return decision.requeue

    def _gives_up(self, snapshot: StreamSnapshot, error: StreamJobError) -> bool:
        """Return whether a savepoint is left because its store has refused the deletion for too long."""
        deleted = snapshot.metadata.deletion_timestamp
        if deleted is None or not isinstance(error, (StoreError, SecretMissing)):
            return False
        return (self.now() - deleted).total_seconds() > self._limits.disposal_of(trouble_of(error).reason)

    async def _named(self, snapshot: StreamSnapshot, storage: Storage) -> NamedSavepoint | None:
        """Return the savepoint at the path that a StreamSnapshot names, before the resource represents it."""
        asked, status = snapshot.spec.savepoint, snapshot.status
        if asked is None or asked.path is None or status.state is not SnapshotState.PENDING:
            return None
        if status.next_try is not None and self.now() < status.next_try:
            return None
        path = asked.path if asked.path.endswith(f"/{MANIFEST_NAME}") else f"{asked.path.rstrip('/')}/{MANIFEST_NAME}"
        try:
            manifest = await self.stored.manifest(snapshot.metadata.namespace, path, storage)
        except NotInReach:
            return None
        except CannotRestore as error:
            return NamedSavepoint(problem=f"there is no savepoint at {path}: {error.what}")
        except StreamJobError as error:
            return NamedSavepoint(problem=f"{path} cannot be read: {error.what}", silent=True)
        if manifest.kind != "savepoint":
            return NamedSavepoint(problem=f"{path} is the manifest of a {manifest.kind}, and no savepoint")
        size = sum(file.length for file in manifest.files())
        return NamedSavepoint(id=manifest.id, size_bytes=size)

    async def _job(self, snapshot: StreamSnapshot) -> Object | None:
        try:
            return await self.cluster.get(STREAM_JOB, snapshot.metadata.namespace, snapshot.spec.job_ref.name)
        except NotFound:
            return None

    async def _act(
        self, thing: Object, job: Object | None, resource: Resource | None, seen: Observation | None, action: Action
    ) -> None:
        storage = self._storage(thing, resource, seen)
        if isinstance(action, Emit):
            await self.events.record(thing, action.type, action.reason, action.message)
        elif isinstance(action, AddFinalizer):
            await set_finalizer(self.cluster, thing, present=True)
            if resource is not None:
                await self._remember(thing, storage)
        elif isinstance(action, RemoveFinalizer):
            await set_finalizer(self.cluster, thing, present=False)
        elif isinstance(action, DeleteSnapshotData):
            try:
                await self.stored.delete_savepoint(thing["metadata"]["namespace"], action.path, storage)
            except StreamJobError as error:
                left = self._gives_up(StreamSnapshot.model_validate(thing), error)
                told = f"{error.what}. The files of {action.path} are left there" if left else str(error)
                await self.events.record(thing, "Warning", "CleanupFailed", told)
                if not left:
                    # The resource stays until this is fixed, and its deletion waits.
                    raise
        elif job is not None and resource is not None and seen is not None:
            if FINALIZER in (thing["metadata"].get("finalizers") or ()):
                await self._remember(thing, storage)
            await self.actor(job, resource, seen, action)

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
        await self.cluster.patch(STREAM_SNAPSHOT, thing["metadata"]["namespace"], thing["metadata"]["name"], change)


async def _nothing_runs(_thing: Object) -> bool:
    """A StreamSnapshot has no process of its own."""
    return True


def _remembered(thing: Object) -> Storage:
    text = (thing["metadata"].get("annotations") or {}).get(STORAGE_ANNOTATION)
    return Storage.model_validate(json.loads(text)) if text else Storage()
