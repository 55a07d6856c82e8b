"""Looks at the world on behalf of one StreamJob: pods, the driver's control API, the store, revisions, snapshots."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import get_args

from streamjob.client.client import ControlApiError, RequestFailed
from streamjob.client.models import (
    CheckpointingChanges,
    CheckpointingView,
    CheckpointsView,
    JobReport,
    JobView,
    TriggerView,
)
from streamjob.errors import StreamJobError
from streamjob.protocol.lifecycle import JobState
from streamjob.protocol.log.records import LogDamaged
from streamjob.snapshot.record import RecordKind
from streamjob_operator.cluster.api import Cluster, ClusterError, NotFound
from streamjob_operator.cluster.driver_api import DriverAddress, Drivers
from streamjob_operator.cluster.kinds import POD, SECRET, STREAM_SNAPSHOT, Object, version_of
from streamjob_operator.cluster.revisions import list_revisions
from streamjob_operator.decisions.values.decision import Resource
from streamjob_operator.decisions.values.observation import (
    Admission,
    Completion,
    DriverPod,
    ExecutorPod,
    ExecutorSet,
    KnownSnapshot,
    Observation,
    Reach,
    SnapshotOrigin,
    StoredLog,
    StoreProblem,
    StoreTrouble,
)
from streamjob_operator.decisions.values.revision import Revision
from streamjob_operator.evaluation.cache import Evaluations
from streamjob_operator.objects.names import (
    ATTEMPT_LABEL,
    NAME_LABEL,
    PREFLIGHT_LABEL,
    TOKEN_KEY,
    UID_LABEL,
    control_name,
    driver_name,
    labels,
)
from streamjob_operator.reconciling.driver_pods import control_url, driver_pod, seconds_of
from streamjob_operator.reconciling.executor_pods import executor_pod, executor_set
from streamjob_operator.reconciling.pod_dry_run import Admissions
from streamjob_operator.reconciling.pod_events import explained
from streamjob_operator.reconciling.state_check import compatibility
from streamjob_operator.resources.base import Metadata
from streamjob_operator.resources.conditions import ConditionType, find_condition
from streamjob_operator.resources.parts import Storage
from streamjob_operator.resources.snapshot import SnapshotState
from streamjob_operator.resources.status import StreamJobStatus
from streamjob_operator.storage.job_stores import JobStores, trouble_of
from streamjob_operator.storage.log_cache import LogCache

_log = logging.getLogger(__name__)
_TOKENS = 10_000

ORIGIN_LABEL = "streamjob.io/origin"
FINALIZER = "streamjob.io/finalizer"
_ORPHAN = "orphan"
"""The finalizer with which the garbage collector takes owner references off."""
STORAGE_ANNOTATION = "streamjob.io/storage"
"""How a savepoint's files are reached when its StreamJob is gone: that one's `storage`, which names a Secret."""


class SnapshotIndex:
    """The StreamSnapshots by the job that they refer to, as the watch and listings bring them."""

    def __init__(self) -> None:
        self._jobs: defaultdict[tuple[str, str], dict[str, Object]] = defaultdict(dict)

    def put(self, thing: Object) -> tuple[str, str]:
        """Note a StreamSnapshot, and return its job's namespace and name."""
        job = self.job_of(thing)
        known = self._jobs[job].get(thing["metadata"]["name"])
        if known is None or version_of(known) <= version_of(thing):
            self._jobs[job][thing["metadata"]["name"]] = thing
        return job

    def drop(self, thing: Object) -> tuple[str, str]:
        """Note that a StreamSnapshot is gone, and return its job's namespace and name."""
        job = self.job_of(thing)
        self._jobs[job].pop(thing["metadata"]["name"], None)
        return job

    def of(self, namespace: str, name: str) -> tuple[Object, ...]:
        """Return the StreamSnapshots of a job, by name."""
        found = self._jobs.get((namespace, name), {})
        return tuple(found[each] for each in sorted(found))

    @staticmethod
    def job_of(thing: Object) -> tuple[str, str]:
        """Return the namespace and name of the job that a StreamSnapshot refers to."""
        return thing["metadata"]["namespace"], thing["spec"]["jobRef"]["name"]


@dataclass(frozen=True, slots=True)
class _Said:
    """A driver's report."""

    job: JobView | None = None
    checkpoints: CheckpointsView | None = None
    policy: CheckpointingView | None = None
    triggers: Mapping[str, TriggerView] = field(default_factory=dict)


class Tokens:
    """The tokens of the drivers' control APIs, from their Secrets; one is read again after a refusal."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[str, str] = {}

    async def address(self, job: Object, pod: Object) -> DriverAddress | None:
        """Return where a driver of a StreamJob is asked; None while it cannot be."""
        url = control_url(pod)
        if url is None:
            return None
        owner = Metadata.model_validate(job["metadata"])
        if owner.uid not in self._known:
            try:
                secret = await self._cluster.get(SECRET, owner.namespace, control_name(owner))
            except NotFound:
                return None
            self._known[owner.uid] = base64.b64decode(secret["data"][TOKEN_KEY]).decode().strip()
            while len(self._known) > _TOKENS:
                del self._known[next(iter(self._known))]
        return DriverAddress(url, self._known[owner.uid])

    def forget(self, uid: str) -> None:
        """Have the token of a StreamJob read again: its drivers refused the one that is known."""
        self._known.pop(uid, None)


@dataclass(slots=True)
class Observer:
    """Makes observations.

    Args:
        admissions: asks the API server whether it takes a driver's pod.
        wanted_triggers: returns the ids of the requests whose outcome a decision needs.
        wanted_trials: returns the revisions whose pods the API server is to be asked about at a time.
        wanted_successor: returns the number of the driver whose report a decision needs, beside the running one's.
        clock: seconds since 1970.
    """

    cluster: Cluster
    drivers: Drivers
    tokens: Tokens
    stored: JobStores
    index: SnapshotIndex
    admissions: Admissions
    wanted_triggers: Callable[[StreamJobStatus], Collection[str]]
    wanted_trials: Callable[[StreamJobStatus, float], Collection[str]]
    evaluations: Evaluations
    wanted_successor: Callable[[StreamJobStatus], int | None] = lambda _status: None
    clock: Callable[[], float] = time.time
    _resting: LogCache = field(init=False)

    def __post_init__(self) -> None:
        self._resting = LogCache(clock=self.clock)

    async def observe(self, job: Object, resource: Resource, triggers: Collection[str] = ()) -> Observation:
        """Return the observation of a StreamJob, and the outcomes of further requests to its driver.

        Raises:
            ClusterError: the Kubernetes API does not say; without it there is nothing to decide on.
        """
        revisions, listed = await asyncio.gather(
            list_revisions(self.cluster, job),
            self.cluster.list(POD, resource.namespace, labels=f"{UID_LABEL}={resource.uid}"),
        )
        owned = [pod for pod in listed if _belongs(pod, resource.uid)]
        pods, preflights = [
            tuple([await explained(self.cluster, resource.namespace, each, self.clock()) for each in known])
            for known in (_drivers(owned, ATTEMPT_LABEL), _drivers(owned, PREFLIGHT_LABEL))
        ]
        executors, executor_pods = await self._executors(job, resource, revisions, listed)
        snapshots = tuple(_known(each) for each in self.index.of(resource.namespace, resource.name))
        current = next((pod for pod in owned if _attempt(pod) == resource.status.job_status.attempt), None)
        said = _Said() if current is None else await self._ask(job, resource, current, triggers)
        location, storage = place_of(resource, revisions)
        reach = Reach.STORE if location is None else self.stored.reach(location, storage)
        log, damage, trouble = await self._log(resource, location, storage, pods, said.job)
        return Observation(
            now=self.clock(),
            pods=pods,
            preflights=preflights,
            unowned=await self._unowned(job, resource),
            executors=executors,
            executor_pods=executor_pods,
            job=said.job,
            successor=await self._successor(job, resource, owned),
            checkpoints=said.checkpoints,
            policy=said.policy,
            triggers=said.triggers,
            log=log,
            log_damage=damage,
            reach=reach,
            trouble=trouble,
            snapshots=snapshots,
            revisions=revisions,
            initial=await self._initial(resource),
            compatibility=await compatibility(resource, log, storage, self.stored, self.evaluations),
            admissions=await self._admissions_of(job, resource, revisions, current),
            finalizer=FINALIZER in (job["metadata"].get("finalizers") or ()),
            orphans=leaves_orphans(job),
        )

    async def _unowned(self, job: Object, resource: Resource) -> tuple[DriverPod, ...]:
        """Return the drivers that a StreamJob of this name has left, when it was deleted with `--cascade=orphan`."""
        if resource.deleted or resource.status.job_status.attempt:
            return ()
        name = labels(Metadata.model_validate(job["metadata"]))[NAME_LABEL]
        found = await self.cluster.list(POD, resource.namespace, labels=f"{NAME_LABEL}={name},{ATTEMPT_LABEL}")
        drivers = [driver_pod(pod) for pod in found if not pod["metadata"].get("ownerReferences")]
        # A label may be too short for the name.
        return tuple(pod for pod in drivers if pod is not None and pod.name == driver_name(resource.name, pod.attempt))

    async def _executors(
        self, job: Object, resource: Resource, revisions: Iterable[Revision], pods: Iterable[Object]
    ) -> tuple[ExecutorSet | None, tuple[ExecutorPod, ...]]:
        found = [each for pod in pods if (each := executor_pod(pod)) is not None]
        known = found or resource.status.executors is not None
        if not known and all(each.content.get("executor") is None for each in revisions):
            return None, ()
        seen = [await explained(self.cluster, resource.namespace, each, self.clock()) for each in found]
        return await executor_set(self.cluster, Metadata.model_validate(job["metadata"]), len(seen)), tuple(seen)

    async def _admissions_of(
        self, job: Object, resource: Resource, revisions: Iterable[Revision], running: Object | None
    ) -> tuple[Admission, ...]:
        refused = self.admissions.rejected(resource.uid)
        wanted = self.wanted_trials(resource.status, self.clock())
        attempt = resource.status.job_status.attempt + 1
        found = [
            await self.admissions.try_out(job, each, attempt, running["metadata"]["name"])
            for each in revisions
            if running is not None and each.name in wanted
        ]
        if refused is not None and all(each.revision != refused.revision for each in found):
            found.append(refused)
        return tuple(found)

    async def _ask(self, thing: Object, resource: Resource, pod: Object, also: Collection[str]) -> _Said:
        try:
            address = await self.tokens.address(thing, pod)
            if address is None:
                return _Said()
            wanted = sorted({*self.wanted_triggers(resource.status), *also})
            job = await self.drivers.report(address, wanted)
            if job.attempt != resource.status.job_status.attempt:
                # The address belongs to another driver meanwhile.
                return _Said()
            return await self._completed(address, job, wanted)
        except (ControlApiError, ClusterError) as error:
            if isinstance(error, RequestFailed) and error.status == HTTPStatus.UNAUTHORIZED:
                self.tokens.forget(resource.uid)
            _log.debug("%s/%s: its driver cannot be asked: %s", resource.namespace, resource.name, error)
            return _Said()

    async def _successor(self, thing: Object, resource: Resource, pods: Iterable[Object]) -> JobView | None:
        attempt = self.wanted_successor(resource.status)
        pod = next((pod for pod in pods if attempt is not None and _attempt(pod) == attempt), None)
        if pod is None:
            return None
        try:
            address = await self.tokens.address(thing, pod)
            job = None if address is None else await self.drivers.report(address)
        except (ControlApiError, ClusterError) as error:
            _log.debug("%s/%s: its successor cannot be asked: %s", resource.namespace, resource.name, error)
            return None
        return job if job is not None and job.attempt == attempt else None

    async def _completed(self, address: DriverAddress, job: JobReport, wanted: Iterable[str]) -> _Said:
        """Return a report with the parts that a driver of an older version omits, because it answers one query at a
        time."""
        checkpoints, policy, triggers = job.checkpoints, job.checkpointing, job.triggers
        if checkpoints is None:
            checkpoints = await self.drivers.checkpoints(address)
        if policy is None:
            policy = await self.drivers.patch_checkpointing(address, CheckpointingChanges())
        if triggers is None:
            # One after the other, over one connection: to make a second one takes longer.
            asked = [await self.drivers.trigger(address, each) for each in wanted]
            triggers = {each.trigger_id: each for each in asked if each is not None}
        return _Said(job, checkpoints, policy, {str(each): view for each, view in triggers.items()})

    async def _initial(self, resource: Resource) -> KnownSnapshot | None:
        spec = resource.usable
        if spec is None or spec.initial_snapshot_ref is None:
            return None
        try:
            return _known(await self.cluster.get(STREAM_SNAPSHOT, resource.namespace, spec.initial_snapshot_ref.name))
        except NotFound:
            return None

    async def _log(
        self,
        resource: Resource,
        location: str | None,
        storage: Storage,
        pods: tuple[DriverPod, ...],
        job: JobView | None,
    ) -> tuple[StoredLog | None, str, StoreTrouble | None]:
        """Return the job's log, a description of its damage, if any, and why it cannot be read."""
        told = None if job is None else log_of_driver(job)
        if location is None:
            return told or StoredLog(), "", None
        if self.stored.reach(location, storage) is not Reach.STORE:
            return told or log_as_remembered(resource.status, pods), "", None
        known = told if not _doubtful(resource.status) else None
        if known is None and told is None and not resource.deleted:
            known = self._resting.find(resource.uid, location, pods)
        try:
            if known is not None:
                await self.stored.check_credentials(resource.namespace, storage)
                return known, "", None
            log = await self.stored.log(resource.namespace, resource.name, location, storage)
        except LogDamaged as error:
            return told, "" if told is not None else f"{error.what}; {error.fix}", None
        except StreamJobError as error:
            _log.warning("%s/%s: its log cannot be read: %s", resource.namespace, resource.name, error)
            return told or known, "", trouble_of(error)
        if told is None and not resource.deleted:
            self._resting.keep(resource.uid, location, pods, log)
        return told or log, "", None


def _doubtful(status: StreamJobStatus) -> bool:
    """Return whether the store is to be asked although a driver that runs tells the log.

    It did not answer the controller last time, or the driver's own checkpoints fail.
    """
    known = find_condition(status.conditions, ConditionType.STORE_IN_REACH)
    failed = known is not None and known.reason in frozenset(StoreProblem)
    return failed or status.checkpoint.counts.consecutive_failures > 0


def leaves_orphans(thing: Object) -> bool:
    """Return whether an object was deleted so that what it owns stays."""
    meta = thing["metadata"]
    return bool(meta.get("deletionTimestamp")) and _ORPHAN in (meta.get("finalizers") or ())


def place_of(resource: Resource, revisions: Iterable[Revision]) -> tuple[str | None, Storage]:
    """Return the location and access of a job's snapshots: for the deployed revision, otherwise for the spec."""
    name = resource.status.reconciliation.last_reconciled_revision
    deployed = next((each for each in revisions if each.name == name), None)
    if deployed is not None:
        return deployed.location, deployed.storage
    if resource.wanted is not None:
        return resource.wanted.location, resource.wanted.storage
    return None, Storage()


def remembered_storage(storage: Storage) -> str:
    """Return the storage in the annotation."""
    return json.dumps(storage.to_dict(), sort_keys=True)


def log_of_driver(job: JobView) -> StoredLog | None:
    """Return the content of the log as a driver that owns it reports its newest completion; None if it does not.

    A driver that runs knows the log better than a reading that costs requests, for nothing is completed without it.
    """
    last = job.last_checkpoint
    if job.state is not JobState.RUNNING or job.epoch is None or last is None:
        return None
    newest = Completion(
        id=last.id,
        kind=RecordKind(last.kind.value),
        path=last.path,
        epoch=job.epoch,
        attempt=job.attempt,
        time=last.completed,
    )
    return StoredLog(attempt=job.attempt, newest=newest)


def log_as_remembered(status: StreamJobStatus, pods: Sequence[DriverPod]) -> StoredLog:
    """Return the last report of drivers about a log that only they can read.

    The next driver finds anything that is missing here, because it resolves `latest` in the log itself.
    """
    attempt, last = status.job_status.attempt, status.checkpoint.last_completed
    known = [pod.completion for pod in pods if pod.completion is not None]
    if last is not None:
        remembered = Completion(
            id=last.id,
            kind=RecordKind(last.kind.value),
            path=last.path,
            epoch=last.epoch or 0,
            attempt=attempt if last.attempt is None else last.attempt,
            time=0.0 if last.completed is None else last.completed.timestamp(),
        )
        known.append(remembered)
    newest = max(known, key=lambda each: (each.attempt, each.id), default=None)
    if newest is not None and any(pod.attempt == attempt and pod.outcome is JobState.FINISHED for pod in pods):
        newest = replace(newest, kind=RecordKind.FINAL)
    return StoredLog(attempt=attempt or None, newest=newest, remembered=True)


def _attempt(pod: Object) -> int | None:
    found = driver_pod(pod)
    return None if found is None else found.attempt


def _drivers(pods: Iterable[Object], label: str) -> list[DriverPod]:
    return [found for pod in pods if (found := driver_pod(pod, label)) is not None]


def _belongs(pod: Object, uid: str) -> bool:
    """Whether a pod was made for this very StreamJob, and not for one of its name that is gone."""
    return any(owner.get("uid") == uid for owner in pod["metadata"].get("ownerReferences") or ())


def _known(thing: Object) -> KnownSnapshot:
    meta, spec, status = thing["metadata"], thing["spec"], thing.get("status") or {}
    origin = (meta.get("labels") or {}).get(ORIGIN_LABEL)
    known: SnapshotOrigin = next((each for each in get_args(SnapshotOrigin) if each == origin), "manual")
    return KnownSnapshot(
        name=meta["name"],
        kind="checkpoint" if spec.get("checkpoint") is not None else "savepoint",
        origin=known,
        created=seconds_of(meta.get("creationTimestamp")) or 0.0,
        state=SnapshotState(status.get("state") or "Pending"),
        path=status.get("path"),
        size=status.get("sizeBytes"),
        completed=seconds_of(status.get("resultTimestamp")),
        deleting=bool(meta.get("deletionTimestamp")),
    )
