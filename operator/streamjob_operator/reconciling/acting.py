"""Executes the actions for a StreamJob. An action that is already done counts as success."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from functools import singledispatchmethod

from streamjob.client.client import ControlApiError
from streamjob.client.models import CheckpointRequest, SavepointRequest, StopRequest
from streamjob.errors import StreamJobError
from streamjob.ids import TriggerId
from streamjob_operator.cluster.api import AlreadyExists, Cluster, NotFound, Refused
from streamjob_operator.cluster.driver_api import DriverAddress, Drivers
from streamjob_operator.cluster.events import EventRecorder
from streamjob_operator.cluster.kinds import (
    CONFIG_MAP,
    CONTROLLER_REVISION,
    POD,
    POD_DISRUPTION_BUDGET,
    SERVICE,
    STATEFUL_SET,
    STREAM_JOB,
    STREAM_SNAPSHOT,
    Object,
)
from streamjob_operator.cluster.revisions import ensure_revision
from streamjob_operator.decisions.status.traces import stop_context
from streamjob_operator.decisions.values.actions import (
    Action,
    AddFinalizer,
    AdoptDriver,
    CreateDriver,
    CreatePreflight,
    CreateSnapshot,
    DeleteDriver,
    DeleteExecutor,
    DeletePreflight,
    DeleteRevision,
    DeleteSnapshot,
    DeleteSnapshotData,
    DisposeCheckpoints,
    Emit,
    EnsureExecutors,
    EnsureRevision,
    PatchCheckpointing,
    RemoveExecutors,
    RemoveFinalizer,
    ResizeDriver,
    StartJob,
    StopJob,
    TriggerCheckpoint,
    TriggerSavepoint,
)
from streamjob_operator.decisions.values.decision import Resource
from streamjob_operator.decisions.values.observation import Observation
from streamjob_operator.decisions.values.revision import Revision
from streamjob_operator.objects.names import CONTAINER, NAME_LABEL, config_map_name, driver_service_name, executors_name
from streamjob_operator.reconciling.observing import (
    FINALIZER,
    ORIGIN_LABEL,
    STORAGE_ANNOTATION,
    Tokens,
    place_of,
    remembered_storage,
)
from streamjob_operator.reconciling.pod_dry_run import Admissions
from streamjob_operator.resources.base import API_VERSION, Metadata
from streamjob_operator.storage.job_stores import JobStores

_log = logging.getLogger(__name__)


class RevisionMissing(StreamJobError):
    """A driver is to be made from a revision that is not stored."""


class Actor:
    """Carries out actions.

    Args:
        cluster: the Kubernetes API.
        drivers: asks drivers.
        tokens: provides the tokens for drivers.
        stored: deletes from stores.
        events: records events.
        admissions: creates drivers.
        clock: seconds since 1970.
        traced: whether this controller sends traces.
    """

    def __init__(
        self,
        cluster: Cluster,
        drivers: Drivers,
        tokens: Tokens,
        stored: JobStores,
        events: EventRecorder,
        admissions: Admissions,
        clock: Callable[[], float] = time.time,
        *,
        traced: bool = False,
    ) -> None:
        self._cluster = cluster
        self._drivers = drivers
        self._tokens = tokens
        self._stored = stored
        self._events = events
        self._admissions = admissions
        self._clock = clock
        self._traced = traced

    async def __call__(self, job: Object, resource: Resource, seen: Observation, action: Action) -> None:
        """Carry out an action.

        Raises:
            StreamJobError: the action failed, or only a part of it succeeded. A driver that does not answer is not a
                failure: the next observation shows the outcome.
        """
        await self._do(action, job, resource, seen)

    @singledispatchmethod
    async def _do(self, action: Action, job: Object, resource: Resource, seen: Observation) -> None:
        raise NotImplementedError(type(action).__name__)

    @_do.register
    async def _(self, action: EnsureRevision, job: Object, resource: Resource, seen: Observation) -> None:
        await ensure_revision(self._cluster, job, action.revision)

    @_do.register
    async def _(self, action: DeleteRevision, job: Object, resource: Resource, seen: Observation) -> None:
        if action.job_file:
            file = config_map_name(Metadata.model_validate(job["metadata"]), action.name)
            await self._cluster.delete(CONFIG_MAP, resource.namespace, file)
        await self._cluster.delete(CONTROLLER_REVISION, resource.namespace, action.name)

    @_do.register
    async def _(
        self, action: CreateDriver | CreatePreflight, job: Object, resource: Resource, seen: Observation
    ) -> None:
        await self._admissions.create(job, _stored(resource, seen, action.revision), action)

    @_do.register
    async def _(self, action: AdoptDriver, job: Object, resource: Resource, seen: Observation) -> None:
        await self._admissions.adopt(job, action)

    @_do.register
    async def _(
        self,
        action: DeleteDriver | DeletePreflight | DeleteExecutor,
        job: Object,
        resource: Resource,
        seen: Observation,
    ) -> None:
        await self._cluster.delete(POD, resource.namespace, action.name, grace=action.grace)

    @_do.register
    async def _(self, action: EnsureExecutors, job: Object, resource: Resource, seen: Observation) -> None:
        await self._admissions.ensure_executors(job, _stored(resource, seen, action.revision), action)

    @_do.register
    async def _(self, action: RemoveExecutors, job: Object, resource: Resource, seen: Observation) -> None:
        owner = Metadata.model_validate(job["metadata"])
        await self._cluster.delete(STATEFUL_SET, resource.namespace, executors_name(owner))
        await self._cluster.delete(POD_DISRUPTION_BUDGET, resource.namespace, executors_name(owner))
        await self._cluster.delete(SERVICE, resource.namespace, driver_service_name(owner))

    @_do.register
    async def _(self, action: ResizeDriver, job: Object, resource: Resource, seen: Observation) -> None:
        try:
            await self._cluster.resize(resource.namespace, action.name, CONTAINER, action.cpu)
        except (NotFound, Refused) as error:
            # An older Kubernetes, a quota: the pod stays as it is, and the next observation shows it.
            _log.warning("%s/%s is not resized: %s", resource.namespace, action.name, error)

    @_do.register
    async def _(self, action: StartJob, job: Object, resource: Resource, seen: Observation) -> None:
        await self._ask(job, seen, action.attempt, self._drivers.start)

    @_do.register
    async def _(self, action: StopJob, job: Object, resource: Resource, seen: Observation) -> None:
        request = StopRequest(
            savepoint=action.savepoint,
            location=action.location,
            drain=action.drain,
            trigger_id=TriggerId(action.trigger_id),
        )
        parent = stop_context(resource.uid, action.attempt) if self._traced else None
        await self._ask(job, seen, action.attempt, lambda driver: self._drivers.stop(driver, request, parent))

    @_do.register
    async def _(self, action: TriggerSavepoint, job: Object, resource: Resource, seen: Observation) -> None:
        request = SavepointRequest(location=action.location, trigger_id=TriggerId(action.trigger_id))
        await self._ask(job, seen, action.attempt, lambda driver: self._drivers.trigger_savepoint(driver, request))

    @_do.register
    async def _(self, action: TriggerCheckpoint, job: Object, resource: Resource, seen: Observation) -> None:
        request = CheckpointRequest(trigger_id=TriggerId(action.trigger_id))
        await self._ask(job, seen, action.attempt, lambda driver: self._drivers.trigger_checkpoint(driver, request))

    @_do.register
    async def _(self, action: PatchCheckpointing, job: Object, resource: Resource, seen: Observation) -> None:
        await self._ask(
            job,
            seen,
            action.attempt,
            lambda driver: self._drivers.patch_checkpointing(driver, action.changes),
        )

    @_do.register
    async def _(self, action: CreateSnapshot, job: Object, resource: Resource, seen: Observation) -> None:
        _, storage = place_of(resource, seen.revisions)
        thing: Object = {
            "apiVersion": API_VERSION,
            "kind": STREAM_SNAPSHOT.kind,
            "metadata": {
                "name": action.name,
                "namespace": resource.namespace,
                "labels": {NAME_LABEL: resource.name[:63].rstrip("-."), ORIGIN_LABEL: action.origin},
                "annotations": {STORAGE_ANNOTATION: remembered_storage(storage)},
            },
            "spec": {
                "jobRef": {"name": resource.name},
                action.kind: {} if action.path is None else {"path": action.path},
            },
        }
        try:
            await self._cluster.create(STREAM_SNAPSHOT, thing)
        except AlreadyExists:
            return

    @_do.register
    async def _(self, action: DeleteSnapshot, job: Object, resource: Resource, seen: Observation) -> None:
        try:
            found = await self._cluster.get(STREAM_SNAPSHOT, resource.namespace, action.name)
        except NotFound:
            return
        meta = found["metadata"]
        if meta.get("deletionTimestamp") is not None:
            return
        if found["spec"].get("savepoint") is not None:
            # Set only now: if a user or a deleted namespace removes the object, its files must be kept.
            finalizers = [*(each for each in meta.get("finalizers") or () if each != FINALIZER), FINALIZER]
            change: Object = {
                "metadata": {"finalizers": finalizers, "resourceVersion": meta["resourceVersion"]},
                "spec": {"savepoint": {"disposeOnDelete": True}},
            }
            await self._cluster.patch(STREAM_SNAPSHOT, resource.namespace, action.name, change)
        await self._cluster.delete(STREAM_SNAPSHOT, resource.namespace, action.name)

    @_do.register
    async def _(self, action: DeleteSnapshotData, job: Object, resource: Resource, seen: Observation) -> None:
        _, storage = place_of(resource, seen.revisions)
        await self._stored.delete_savepoint(resource.namespace, action.path, storage)

    @_do.register
    async def _(self, action: DisposeCheckpoints, job: Object, resource: Resource, seen: Observation) -> None:
        location, storage = place_of(resource, seen.revisions)
        if location is None:
            return
        await self._stored.dispose(
            resource.namespace, resource.name, location, storage, attempt=action.attempt, now=self._clock()
        )

    @_do.register
    async def _(self, action: AddFinalizer, job: Object, resource: Resource, seen: Observation) -> None:
        await set_finalizer(self._cluster, job, present=True)

    @_do.register
    async def _(self, action: RemoveFinalizer, job: Object, resource: Resource, seen: Observation) -> None:
        await set_finalizer(self._cluster, job, present=False)

    @_do.register
    async def _(self, action: Emit, job: Object, resource: Resource, seen: Observation) -> None:
        await self._events.record(job, action.type, action.reason, action.message)

    async def _ask(
        self, job: Object, seen: Observation, attempt: int, request: Callable[[DriverAddress], Awaitable[object]]
    ) -> None:
        pod, namespace = seen.pod(attempt), job["metadata"]["namespace"]
        if pod is None:
            return
        try:
            found = await self._cluster.get(POD, namespace, pod.name)
        except NotFound:
            return
        if found["metadata"]["uid"] != pod.uid:
            return
        address = await self._tokens.address(job, found)
        if address is None:
            return
        try:
            await request(address)
        except ControlApiError as error:
            _log.warning("%s/%s did not do it: %s", namespace, pod.name, error)


async def set_finalizer(cluster: Cluster, thing: Object, *, present: bool) -> None:
    """Put the controller's finalizer on an object, or take it off. Raises Conflict if the object has changed."""
    meta = thing["metadata"]
    finalizers = [each for each in meta.get("finalizers") or () if each != FINALIZER]
    wanted = [*finalizers, FINALIZER] if present else finalizers
    if wanted == list(meta.get("finalizers") or ()):
        return
    kind = STREAM_JOB if thing["kind"] == STREAM_JOB.kind else STREAM_SNAPSHOT
    change: Object = {"metadata": {"finalizers": wanted, "resourceVersion": meta["resourceVersion"]}}
    try:
        await cluster.patch(kind, meta["namespace"], meta["name"], change)
    except NotFound:
        return


def _stored(resource: Resource, seen: Observation, name: str) -> Revision:
    revision = seen.revision(name)
    if revision is None:
        raise RevisionMissing(f"{resource.namespace}/{resource.name}: revision {name} is not stored")
    return revision
