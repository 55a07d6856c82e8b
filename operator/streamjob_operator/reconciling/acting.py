"""Executes the actions for a StreamJob. An action that is already done counts as success."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

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

Request = StartJob | StopJob | TriggerSavepoint | TriggerCheckpoint | PatchCheckpointing
"""The actions that ask the driver of an attempt."""


class RevisionMissing(StreamJobError):
    """A driver is to be made from a revision that is not stored."""


@dataclass(slots=True)
class Actor:
    """Carries out actions.

    Args:
        clock: seconds since 1970.
        traced: whether this controller sends traces.
    """

    cluster: Cluster
    drivers: Drivers
    tokens: Tokens
    stored: JobStores
    events: EventRecorder
    admissions: Admissions
    clock: Callable[[], float] = time.time
    traced: bool = False

    async def __call__(self, job: Object, resource: Resource, seen: Observation, action: Action) -> None:
        """Carry out an action.

        Raises:
            StreamJobError: the action failed, or only a part of it succeeded. A driver that does not answer is not a
                failure: the next observation shows the outcome.
        """
        namespace = resource.namespace
        match action:
            case EnsureRevision():
                await ensure_revision(self.cluster, job, action.revision)
            case DeleteRevision():
                if action.job_file:
                    file = config_map_name(Metadata.model_validate(job["metadata"]), action.name)
                    await self.cluster.delete(CONFIG_MAP, namespace, file)
                await self.cluster.delete(CONTROLLER_REVISION, namespace, action.name)
            case CreateDriver() | CreatePreflight():
                await self.admissions.create(job, _stored(resource, seen, action.revision), action)
            case AdoptDriver():
                await self.admissions.adopt(job, action)
            case DeleteDriver() | DeletePreflight() | DeleteExecutor():
                await self.cluster.delete(POD, namespace, action.name, grace=action.grace)
            case EnsureExecutors():
                await self.admissions.ensure_executors(job, _stored(resource, seen, action.revision), action)
            case RemoveExecutors():
                owner = Metadata.model_validate(job["metadata"])
                await self.cluster.delete(STATEFUL_SET, namespace, executors_name(owner))
                await self.cluster.delete(POD_DISRUPTION_BUDGET, namespace, executors_name(owner))
                await self.cluster.delete(SERVICE, namespace, driver_service_name(owner))
            case ResizeDriver():
                try:
                    await self.cluster.resize(namespace, action.name, CONTAINER, action.cpu)
                except (NotFound, Refused) as error:
                    # An older Kubernetes, a quota: the pod stays as it is, and the next observation shows it.
                    _log.warning("%s/%s is not resized: %s", namespace, action.name, error)
            case StartJob() | StopJob() | TriggerSavepoint() | TriggerCheckpoint() | PatchCheckpointing():
                await self._ask(job, resource, seen, action)
            case CreateSnapshot():
                await self._create_snapshot(resource, seen, action)
            case DeleteSnapshot():
                await self._delete_snapshot(namespace, action.name)
            case DeleteSnapshotData():
                _, storage = place_of(resource, seen.revisions)
                await self.stored.delete_savepoint(namespace, action.path, storage)
            case DisposeCheckpoints():
                location, storage = place_of(resource, seen.revisions)
                if location is not None:
                    now = self.clock()
                    await self.stored.dispose(namespace, resource.name, location, storage, action.attempt, now)
            case AddFinalizer():
                await set_finalizer(self.cluster, job, present=True)
            case RemoveFinalizer():
                await set_finalizer(self.cluster, job, present=False)
            case Emit():
                await self.events.record(job, action.type, action.reason, action.message)
            case _:
                assert_never(action)

    async def _create_snapshot(self, resource: Resource, seen: Observation, action: CreateSnapshot) -> None:
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
        with contextlib.suppress(AlreadyExists):
            await self.cluster.create(STREAM_SNAPSHOT, thing)

    async def _delete_snapshot(self, namespace: str, name: str) -> None:
        try:
            found = await self.cluster.get(STREAM_SNAPSHOT, namespace, name)
        except NotFound:
            return
        if found["metadata"].get("deletionTimestamp") is not None:
            return
        if found["spec"].get("savepoint") is not None:
            # Set only now: if a user or a deleted namespace removes the object, its files must be kept.
            finalizers = [*_other_finalizers(found), FINALIZER]
            change: Object = {
                "metadata": {"finalizers": finalizers, "resourceVersion": found["metadata"]["resourceVersion"]},
                "spec": {"savepoint": {"disposeOnDelete": True}},
            }
            await self.cluster.patch(STREAM_SNAPSHOT, namespace, name, change)
        await self.cluster.delete(STREAM_SNAPSHOT, namespace, name)

    async def _ask(self, job: Object, resource: Resource, seen: Observation, action: Request) -> None:
        pod, namespace = seen.pod(action.attempt), resource.namespace
        if pod is None:
            return
        try:
            found = await self.cluster.get(POD, namespace, pod.name)
        except NotFound:
            return
        if found["metadata"]["uid"] != pod.uid:
            return
        address = await self.tokens.address(job, found)
        if address is None:
            return
        try:
            await self._request(address, resource.uid, action)
        except ControlApiError as error:
            _log.warning("%s/%s did not do it: %s", namespace, pod.name, error)

    async def _request(self, driver: DriverAddress, uid: str, action: Request) -> None:
        match action:
            case StartJob():
                await self.drivers.start(driver)
            case StopJob():
                request = StopRequest(
                    savepoint=action.savepoint,
                    location=action.location,
                    drain=action.drain,
                    trigger_id=TriggerId(action.trigger_id),
                )
                parent = stop_context(uid, action.attempt) if self.traced else None
                await self.drivers.stop(driver, request, parent)
            case TriggerSavepoint():
                savepoint = SavepointRequest(location=action.location, trigger_id=TriggerId(action.trigger_id))
                await self.drivers.trigger_savepoint(driver, savepoint)
            case TriggerCheckpoint():
                checkpoint = CheckpointRequest(trigger_id=TriggerId(action.trigger_id))
                await self.drivers.trigger_checkpoint(driver, checkpoint)
            case PatchCheckpointing():
                await self.drivers.patch_checkpointing(driver, action.changes)
            case _:
                assert_never(action)


async def set_finalizer(cluster: Cluster, thing: Object, *, present: bool) -> None:
    """Put the controller's finalizer on an object, or take it off. Raises Conflict if the object has changed."""
    meta, others = thing["metadata"], _other_finalizers(thing)
    wanted = [*others, FINALIZER] if present else others
    if wanted == list(meta.get("finalizers") or ()):
        return
    kind = STREAM_JOB if thing["kind"] == STREAM_JOB.kind else STREAM_SNAPSHOT
    change: Object = {"metadata": {"finalizers": wanted, "resourceVersion": meta["resourceVersion"]}}
    with contextlib.suppress(NotFound):
        await cluster.patch(kind, meta["namespace"], meta["name"], change)


def _other_finalizers(thing: Object) -> list[str]:
    return [each for each in thing["metadata"].get("finalizers") or () if each != FINALIZER]


def _stored(resource: Resource, seen: Observation, name: str) -> Revision:
    revision = seen.revision(name)
    if revision is None:
        raise RevisionMissing(f"{resource.namespace}/{resource.name}: revision {name} is not stored")
    return revision
