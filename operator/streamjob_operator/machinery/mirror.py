"""Keeps the watched objects in memory, so that a look at a resting job costs the API server nothing.

A mirror may lag behind the API server, as every cache does. That is safe: a decision on an outdated status meets a
conflict when it is stored, and nothing destructive happens before something is stored. The mirror has this process's
own writes at once, so the process never decides on less than it knows. If a listing shows more than the watch has
delivered, or a write meets a conflict, reads go to the API server until the watch has caught up.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from streamjob_operator.cluster.api import AlreadyExists, Cluster, Conflict, NotFound
from streamjob_operator.cluster.kinds import CONTROLLER_REVISION, POD, STREAM_JOB, Kind, Object, version_of
from streamjob_operator.objects.names import REVISION_ANNOTATION, UID_LABEL

MIRRORED = (STREAM_JOB, POD, CONTROLLER_REVISION)
"""The kinds that are mirrored."""

Name = tuple[str, str]
"""Namespace and name."""

_UNKNOWN = 0
_ANNOTATIONS = (REVISION_ANNOTATION,)
_SHORT = 63
"""Characters of a label's value, of a uid and of most names: these come again in other objects."""
_OF_A_PODS_STATUS = (
    "phase",
    "podIP",
    "reason",
    "message",
    "conditions",
    "containerStatuses",
    "initContainerStatuses",
)
_OF_AN_ENTRY = ("type", "status", "reason", "message", "name", "state", "resources")


class _Shelf:
    """The objects of one kind; `behind` names those of which a newer version exists, with their jobs."""

    def __init__(self) -> None:
        self.listed = False
        self.objects: dict[Name, Object] = {}
        self.of_job: defaultdict[str, set[Name]] = defaultdict(set)
        self.behind: dict[Name, tuple[int, str]] = {}
        self.behind_of_job: defaultdict[str, set[Name]] = defaultdict(set)

    def put(self, thing: Object) -> None:
        name, version = _name(thing), version_of(thing)
        known = self.objects.get(name)
        if known is not None and version_of(known) > version:
            return
        self.drop(name)
        self.objects[name] = thing
        self.of_job[_job(thing)].add(name)
        self.settle(name, version)

    def drop(self, name: Name) -> None:
        thing = self.objects.pop(name, None)
        if thing is not None:
            _remove(self.of_job, _job(thing), name)

    def lag(self, thing: Object, version: int) -> None:
        """Note that an object has that version or a newer one, which is not here."""
        name, job = _name(thing), _job(thing)
        self.settle(name)
        self.behind[name] = version, job
        self.behind_of_job[job].add(name)

    def settle(self, name: Name, version: int | None = None) -> None:
        """Record that a version of an object has arrived, or with None that none is expected."""
        wanted, job = self.behind.get(name, (None, ""))
        if wanted is not None and (version is None or wanted <= version):
            del self.behind[name]
            _remove(self.behind_of_job, job, name)


class Mirror:
    """The objects that watches, listings and own writes have brought."""

    def __init__(self) -> None:
        self._shelves: Mapping[Kind, _Shelf] = {kind: _Shelf() for kind in MIRRORED}

    def put(self, kind: Kind, thing: Object) -> None:
        """Note an object as it is, unless a newer version of it is known."""
        shelf, meta = self._shelves.get(kind), thing["metadata"]
        if shelf is None:
            return
        # A pod stays until its process has ended; whatever else is deleted and has no finalizer left, is gone.
        if kind != POD and meta.get("deletionTimestamp") and not meta.get("finalizers"):
            self.drop(kind, thing)
        else:
            shelf.put(_needed(kind, thing))

    def drop(self, kind: Kind, thing: Object) -> None:
        """Note that an object is gone, unless a newer one of its name is known."""
        shelf, name = self._shelves.get(kind), _name(thing)
        if shelf is None:
            return
        known = shelf.objects.get(name)
        if known is None or version_of(known) <= version_of(thing):
            shelf.drop(name)
        shelf.settle(name, version_of(thing))

    def forget(self, kind: Kind, name: Name) -> None:
        """Note that the API server has no such object."""
        shelf = self._shelves.get(kind)
        if shelf is not None:
            shelf.drop(name)
            shelf.settle(name)

    def doubt(self, kind: Kind, thing: Object) -> None:
        """Read an object from the API server next time, because its mirrored version was proved wrong."""
        shelf = self._shelves.get(kind)
        if shelf is not None and _name(thing) not in shelf.behind:
            shelf.lag(thing, _UNKNOWN)

    def versions(self, kind: Kind, uid: str | None = None) -> dict[Name, int]:
        """Return the known versions of all objects or of a job's; pass them to `listed` later."""
        shelf = self._shelves.get(kind)
        if shelf is None:
            return {}
        names = shelf.objects if uid is None else shelf.of_job.get(uid, ())
        return {name: version_of(shelf.objects[name]) for name in names}

    def listed(self, kind: Kind, things: Iterable[Object], before: Mapping[Name, int]) -> list[Object]:
        """Record a listing of all objects of a kind, and return the objects that are gone.

        Args:
            kind: the listed objects.
            things: the objects, or their metadata.
            before: the versions known before the listing; later ones need not appear in it.
        """
        shelf = self._shelves.get(kind)
        if shelf is None:
            return []
        found = {_name(thing): thing for thing in things}
        gone = self._missing(shelf, found, before)
        for name in [name for name in shelf.behind if name not in found]:
            shelf.settle(name)
        for name, thing in found.items():
            known = shelf.objects.get(name)
            if known is None or version_of(known) < version_of(thing):
                shelf.lag(thing, version_of(thing))
        shelf.listed = True
        return gone

    def read(self, kind: Kind, uid: str, things: Iterable[Object], before: Mapping[Name, int]) -> None:
        """Note all objects of a job, as they were read; `before` as for `listed`."""
        shelf = self._shelves.get(kind)
        if shelf is None:
            return
        found = {_name(thing): thing for thing in things}
        self._missing(shelf, found, before)
        for name in [name for name in shelf.behind_of_job.get(uid, ()) if name not in found]:
            shelf.settle(name)
        for thing in found.values():
            self.put(kind, thing)

    @staticmethod
    def _missing(shelf: _Shelf, found: Mapping[Name, Object], before: Mapping[Name, int]) -> list[Object]:
        gone = []
        for name, version in before.items():
            known = shelf.objects.get(name)
            if name not in found and known is not None and version_of(known) == version:
                shelf.drop(name)
                gone.append(known)
        return gone

    def knows(self, kind: Kind, name: Name) -> bool:
        """Return whether an object is as `get` says, as far as is known."""
        shelf = self._shelves.get(kind)
        return shelf is not None and shelf.listed and name not in shelf.behind

    def get(self, kind: Kind, name: Name) -> Object | None:
        """Return an object, or None if there is none."""
        return self._shelves[kind].objects.get(name)

    def all(self, kind: Kind) -> list[Object] | None:
        """Return all objects of a kind, as the watch has brought them; None before they were listed."""
        shelf = self._shelves[kind]
        return list(shelf.objects.values()) if shelf.listed else None

    def knows_all(self, kind: Kind, uid: str) -> bool:
        """Return whether a job has the objects that `of_job` says, as far as is known."""
        shelf = self._shelves.get(kind)
        return shelf is not None and shelf.listed and uid not in shelf.behind_of_job

    def of_job(self, kind: Kind, namespace: str | None, uid: str) -> list[Object]:
        """Return a job's objects of a kind, by name."""
        shelf = self._shelves[kind]
        return [shelf.objects[name] for name in sorted(shelf.of_job.get(uid, ())) if namespace in (None, name[0])]


@dataclass(slots=True)
class MirroredCluster:
    """The Kubernetes API, with a mirror for the reads of every reconciliation. Objects must not be changed."""

    cluster: Cluster
    mirror: Mirror

    async def get(self, kind: Kind, namespace: str, name: str) -> Object:
        """Return an object; StreamJobs from the mirror. Raises NotFound."""
        key = namespace, name
        if kind == STREAM_JOB and self.mirror.knows(kind, key):
            known = self.mirror.get(kind, key)
            if known is None:
                raise NotFound(f"there is no {kind.kind} {namespace}/{name}")
            return known
        try:
            found = await self.cluster.get(kind, namespace, name)
        except NotFound:
            self.mirror.forget(kind, key)
            raise
        self.mirror.put(kind, found)
        return found

    async def list(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        metadata_only: bool = False,
    ) -> list[Object]:
        """Return the objects of a namespace or of all, that a label selector selects; a job's from the mirror."""
        key, _, uid = (labels or "").partition("=")
        if metadata_only or fields is not None or key != UID_LABEL:
            return await self.cluster.list(kind, namespace, labels=labels, fields=fields, metadata_only=metadata_only)
        if self.mirror.knows_all(kind, uid):
            return self.mirror.of_job(kind, namespace, uid)
        before = self.mirror.versions(kind, uid)
        found = await self.cluster.list(kind, namespace, labels=labels)
        self.mirror.read(kind, uid, found, before)
        return found

    async def create(self, kind: Kind, thing: Object, *, dry_run: bool = False) -> Object:
        """Create an object, or only check whether it could be. Raises AlreadyExists."""
        if dry_run:
            return await self.cluster.create(kind, thing, dry_run=True)
        try:
            written = await self.cluster.create(kind, thing)
        except AlreadyExists:
            self.mirror.doubt(kind, thing)
            raise
        self.mirror.put(kind, written)
        return written

    async def replace(self, kind: Kind, thing: Object, *, subresource: str | None = None) -> Object:
        """Replace an object, if it still has the `resourceVersion` that is given. Raises NotFound, Conflict."""
        try:
            written = await self.cluster.replace(kind, thing, subresource=subresource)
        except (NotFound, Conflict):
            self.mirror.doubt(kind, thing)
            raise
        self.mirror.put(kind, written)
        return written

    async def patch(self, kind: Kind, namespace: str, name: str, change: Object) -> Object:
        """Apply a JSON merge patch. Raises NotFound, Conflict."""
        try:
            written = await self.cluster.patch(kind, namespace, name, change)
        except (NotFound, Conflict):
            self.mirror.doubt(kind, {"metadata": {"namespace": namespace, "name": name}})
            raise
        self.mirror.put(kind, written)
        return written

    async def resize(self, namespace: str, pod: str, container: str, cpu: str) -> Object:
        """Give a running pod's container another request and limit of processors. Raises NotFound."""
        written = await self.cluster.resize(namespace, pod, container, cpu)
        self.mirror.put(POD, written)
        return written

    async def delete(self, kind: Kind, namespace: str, name: str, *, grace: int | None = None) -> None:
        """Ask for an object's deletion."""
        await self.cluster.delete(kind, namespace, name, grace=grace)
        if kind == CONTROLLER_REVISION:
            # It has no finalizers, and nothing in it is waited for.
            self.mirror.forget(kind, (namespace, name))


def _needed(kind: Kind, thing: Object) -> Object:
    """Return the retained part of an object: managed fields and most of a pod are never read."""
    meta = {key: value for key, value in thing["metadata"].items() if key != "managedFields"}
    if kind != POD:
        shared: Object = _with_shared_strings({**thing, "metadata": meta})
        return shared
    annotations = meta.get("annotations") or {}
    meta["annotations"] = {key: annotations[key] for key in _ANNOTATIONS if key in annotations}
    kept: dict[str, Any] = {key: thing[key] for key in ("apiVersion", "kind") if key in thing}
    status = thing.get("status")
    if status is not None:
        kept["status"] = {key: _part(status[key]) for key in _OF_A_PODS_STATUS if key in status}
    if containers := (thing.get("spec") or {}).get("containers"):
        kept["spec"] = {"containers": _part(containers)}
    driver: Object = _with_shared_strings({**kept, "metadata": meta})
    return driver


def _part(value: Any) -> Any:
    """Return the retained part of a pod's status: of lists, the names and states of their entries."""
    if not isinstance(value, list):
        return value
    return [{key: each[key] for key in _OF_AN_ENTRY if key in each} for each in value]


def _with_shared_strings(value: Any) -> Any:
    """Return a JSON value in which names and short texts are the same strings everywhere; each event has its own."""
    if isinstance(value, dict):
        return {sys.intern(name): _with_shared_strings(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_shared_strings(each) for each in value]
    return sys.intern(value) if isinstance(value, str) and len(value) <= _SHORT else value


def _name(thing: Object) -> Name:
    return thing["metadata"].get("namespace", ""), thing["metadata"]["name"]


def _job(thing: Object) -> str:
    """Return the uid of the job that an object belongs to, by its label."""
    return str((thing["metadata"].get("labels") or {}).get(UID_LABEL, ""))


def _remove(index: dict[str, set[Name]], job: str, name: Name) -> None:
    index[job].discard(name)
    if not index[job]:
        del index[job]
