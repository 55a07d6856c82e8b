"""Asks the API server for a driver: whether it would take the pod, and then to make it."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from streamjob.errors import InvalidInput
from streamjob_operator.cluster.api import AlreadyExists, Cluster, NotFound, Refused, Unavailable
from streamjob_operator.cluster.kinds import (
    NETWORK_POLICY,
    POD,
    POD_DISRUPTION_BUDGET,
    SECRET,
    STATEFUL_SET,
    Kind,
    Object,
    kind_of,
)
from streamjob_operator.cluster.quota import excess, fits_without
from streamjob_operator.decisions.values.actions import AdoptDriver, CreateDriver, CreatePreflight, EnsureExecutors
from streamjob_operator.decisions.values.observation import Admission
from streamjob_operator.decisions.values.revision import Revision
from streamjob_operator.objects.names import UID_LABEL, control_name
from streamjob_operator.resources.base import Metadata

_log = logging.getLogger(__name__)
_MOST = 10_000
_IS_FIXED = "updates to statefulset spec for fields other than"
_NO_DRY_RUN = "does not support dry run"

BuildPod = Callable[[Object, Revision, CreateDriver | CreatePreflight], Sequence[Object]]
"""Returns the objects of a driver or preflight of a StreamJob: those that the pod mounts, and last the pod."""
BuildExecutors = Callable[[Object, Revision, int], Sequence[Object]]
"""Returns the objects of a number of executors for a StreamJob, with the set itself last; none if it has none."""

_REPLACED = frozenset({STATEFUL_SET, POD_DISRUPTION_BUDGET})
"""Kinds that follow their job's spec; what a user has removed from a template must not stay in a merged one."""


@dataclass(slots=True)
class Admissions:
    """Tries and creates the objects of drivers.

    Args:
        clock: seconds since 1970.
    """

    cluster: Cluster
    build_pod: BuildPod
    build_executors: BuildExecutors
    clock: Callable[[], float] = time.time
    _rejected: dict[str, Admission] = field(default_factory=dict)

    async def try_out(self, job: Object, revision: Revision, attempt: int, running: str) -> Admission:
        """Return whether the API server would take a driver in the place of the one that runs.

        Args:
            job: the StreamJob.
            revision: the driver's revision.
            attempt: its number.
            running: name of the pod that would go first.

        Raises:
            ClusterError: the API server does not answer.
        """
        now = self.clock()
        try:
            objects = self._objects(job, revision, CreateDriver(attempt=attempt, revision=revision.name))
        except InvalidInput as error:
            return Admission(revision=revision.name, time=now, rejection=str(error))
        for thing in objects:
            rejection = await self._create(thing, dry_run=True)
            if rejection is None or _NO_DRY_RUN in rejection:
                continue
            if kind_of(thing) == POD and await self._only_beside(rejection, job["metadata"]["namespace"], running):
                continue
            return Admission(revision=revision.name, time=now, rejection=rejection)
        return Admission(revision=revision.name, time=now)

    async def create(self, job: Object, revision: Revision, action: CreateDriver | CreatePreflight) -> None:
        """Create a pod; objects that exist are success. A rejection is kept, and is seen in the next observation.

        Raises:
            ClusterError: the API server does not answer.
        """
        await self._create_all(job, revision, lambda: self._objects(job, revision, action))

    async def adopt(self, job: Object, action: AdoptDriver) -> None:
        """Make a StreamJob the owner of a driver pod that has none; the driver keeps the token that it has.

        Raises:
            ClusterError: the API server does not answer, or the pod has changed.
        """
        meta = job["metadata"]
        pod = (await self.cluster.get(POD, meta["namespace"], action.name))["metadata"]
        if pod["uid"] != action.uid or pod.get("ownerReferences"):
            return
        former = Metadata(name=meta["name"], namespace=meta["namespace"], uid=pod["labels"][UID_LABEL])
        token = await self.cluster.get(SECRET, meta["namespace"], control_name(former))
        driver = CreateDriver(attempt=action.attempt, revision=action.revision.name)
        *before, wanted = self.build_pod(job, action.revision, driver)
        for thing in before:
            with contextlib.suppress(AlreadyExists):
                await self._make({**thing, "data": token["data"]} if kind_of(thing) == SECRET else thing, dry_run=False)
        change: Object = {
            "metadata": {
                "labels": {UID_LABEL: meta["uid"]},
                "ownerReferences": wanted["metadata"]["ownerReferences"],
                "resourceVersion": pod["resourceVersion"],
            }
        }
        await self.cluster.patch(POD, meta["namespace"], action.name, change)

    async def ensure_executors(self, job: Object, revision: Revision, action: EnsureExecutors) -> None:
        """Create a revision's executors, or change those that there are. A rejection is kept, as for a driver.

        Raises:
            ClusterError: the API server does not answer.
        """
        await self._create_all(job, revision, lambda: self.build_executors(job, revision, action.instances))

    def _objects(self, job: Object, revision: Revision, action: CreateDriver | CreatePreflight) -> Sequence[Object]:
        """Return the objects of a pod, with itself last; a driver has executors."""
        *before, pod = self.build_pod(job, revision, action)
        driven = self.build_executors(job, revision, revision.instances) if isinstance(action, CreateDriver) else ()
        return [*before, *driven, pod]

    async def _create_all(self, job: Object, revision: Revision, build: Callable[[], Sequence[Object]]) -> None:
        uid, now = job["metadata"]["uid"], self.clock()
        try:
            objects = build()
        except InvalidInput as error:
            self._note(uid, Admission(revision=revision.name, time=now, rejection=str(error)))
            return
        for thing in objects:
            rejection = await self._create(thing)
            if rejection is not None:
                self._note(uid, Admission(revision=revision.name, time=now, rejection=rejection))
                return
        self._rejected.pop(uid, None)

    def rejected(self, uid: str) -> Admission | None:
        """Return the rejection of a StreamJob's last driver that was to be created; None if it was taken."""
        return self._rejected.get(uid)

    async def _create(self, thing: Object, *, dry_run: bool = False) -> str | None:
        """Create an object, or try to, and return why the API server does not take it; None if it does."""
        try:
            await self._make(thing, dry_run=dry_run)
        except AlreadyExists:
            # Admission comes before the name is looked up, so this is an answer to a dry run too.
            return None
        except (Refused, NotFound) as error:
            return error.said
        except Unavailable as error:
            # A mandatory webhook that is down rejects every pod until it is repaired.
            if "failed calling webhook" not in error.said:
                raise
            return error.said
        return None

    async def _make(self, thing: Object, *, dry_run: bool) -> None:
        kind, meta = kind_of(thing), thing["metadata"]
        try:
            await self.cluster.create(kind, thing, dry_run=dry_run)
        except AlreadyExists:
            if dry_run or kind not in (NETWORK_POLICY, *_REPLACED):
                raise
            if kind in _REPLACED:
                await self._replace(kind, thing)
                return
            # The settings may have changed since it was made for an earlier driver.
            await self.cluster.patch(NETWORK_POLICY, meta["namespace"], meta["name"], {"spec": thing["spec"]})

    async def _replace(self, kind: Kind, thing: Object) -> None:
        meta = thing["metadata"]
        known = await self.cluster.get(kind, meta["namespace"], meta["name"])
        # Others may have put something there, too: Kueue does.
        both = {
            part: {**(known["metadata"].get(part) or {}), **meta.get(part, {})} for part in ("labels", "annotations")
        }
        try:
            await self.cluster.replace(kind, {**thing, "metadata": {**known["metadata"], **both}})
        except Refused as error:
            if kind == STATEFUL_SET and _IS_FIXED in error.said:
                # The claims of a set cannot be changed. The next creation makes another set.
                await self.cluster.delete(kind, meta["namespace"], meta["name"])
            raise

    async def _only_beside(self, rejection: str, namespace: str, running: str) -> bool:
        """Return whether only a quota is exceeded, and is not once the driver that runs has gone."""
        exceeded = excess(rejection)
        if exceeded is None:
            return False
        try:
            pod = await self.cluster.get(POD, namespace, running)
        except NotFound:
            return False
        return fits_without(exceeded, pod)

    def _note(self, uid: str, admission: Admission) -> None:
        _log.warning("the driver of %s was rejected: %s", admission.revision, admission.rejection)
        self._rejected[uid] = admission
        while len(self._rejected) > _MOST:
            del self._rejected[next(iter(self._rejected))]
