"""A Kubernetes API in memory: versions, preconditions, status subresources, finalizers; and faults on demand."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterator
from typing import Any

from streamjob_operator.cluster.api import AlreadyExists, ClusterError, Conflict, NotFound, Refused
from streamjob_operator.cluster.kinds import POD, Kind, Object

Key = tuple[Kind, str, str]


class FakeCluster:
    """Holds objects by kind, namespace and name.

    `faults` are raised by the next requests of a verb, before or after the request is applied; `calls` lists the
    requests; once it `hangs`, no read is answered; `changed` receives every change, like a watch; `rejection` returns
    the error with which an object is rejected, on creation or in a dry run; objects of a `frozen` kind cannot be
    replaced.
    """

    def __init__(self) -> None:
        self.objects: dict[Key, Object] = {}
        self.calls: list[tuple[str, str, str]] = []
        self.faults: dict[str, list[ClusterError]] = {}
        self.lost_replies: dict[str, list[ClusterError]] = {}
        self.hangs = False
        self.changed: Callable[[Kind, Object], None] = lambda _kind, _thing: None
        self.rejection: Callable[[Kind, Object], ClusterError | None] = lambda _kind, _thing: None
        self.frozen: Callable[[Kind], bool] = lambda _kind: False
        self._versions: Iterator[int] = iter(range(1, 10**9))

    def names(self, kind: Kind) -> list[str]:
        return sorted(name for each, _, name in self.objects if each == kind)

    async def get(self, kind: Kind, namespace: str, name: str) -> Object:
        if self.hangs:
            await asyncio.Event().wait()
        with_reply = self._begin("get", kind, name)
        return with_reply(self._find(kind, namespace, name))

    async def list(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        metadata_only: bool = False,
    ) -> list[Object]:
        with_reply = self._begin("list", kind, namespace or "")
        selected = _selector(labels)
        found = [
            thing
            for (each, where, _), thing in sorted(self.objects.items(), key=lambda item: item[0][1:])
            if each == kind and namespace in (None, where) and selected(thing["metadata"].get("labels") or {})
            if _has_fields(thing, fields)
        ]
        return [with_reply({"metadata": thing["metadata"]} if metadata_only else thing) for thing in found]

    async def create(self, kind: Kind, thing: Object, *, dry_run: bool = False) -> Object:
        meta = thing["metadata"]
        with_reply = self._begin("try" if dry_run else "create", kind, meta["name"])
        rejection = self.rejection(kind, thing)
        if rejection is not None:
            raise rejection
        key = (kind, meta["namespace"], meta["name"])
        if key in self.objects:
            raise AlreadyExists(f"{kind.plural} {meta['name']} exists")
        if dry_run:
            return with_reply(thing)
        version = next(self._versions)
        return with_reply(
            self._store(
                key, thing | {"metadata": meta | {"uid": meta.get("uid") or f"uid-{version}", "generation": 1}}, version
            )
        )

    async def replace(self, kind: Kind, thing: Object, *, subresource: str | None = None) -> Object:
        meta = thing["metadata"]
        with_reply = self._begin("replace", kind, meta["name"])
        if self.frozen(kind):
            raise Refused("Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden")
        stored = self._find(kind, meta["namespace"], meta["name"])
        self._check(stored, meta.get("resourceVersion"))
        new = stored | {subresource: thing.get(subresource)} if subresource else stored | thing
        return with_reply(self._store((kind, meta["namespace"], meta["name"]), new))

    async def patch(self, kind: Kind, namespace: str, name: str, change: Object) -> Object:
        with_reply = self._begin("patch", kind, name)
        stored = self._find(kind, namespace, name)
        self._check(stored, change.get("metadata", {}).get("resourceVersion"))
        new = _merge(stored, change)
        key = (kind, namespace, name)
        if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
            del self.objects[key]
            self.changed(kind, new)
            return with_reply(new)
        return with_reply(self._store(key, new))

    async def resize(self, namespace: str, pod: str, container: str, cpu: str) -> Object:
        with_reply = self._begin("resize", POD, pod)
        new = copy.deepcopy(self._find(POD, namespace, pod))
        for each in new["spec"]["containers"]:
            if each["name"] == container:
                each["resources"]["requests"]["cpu"] = each["resources"]["limits"]["cpu"] = cpu
        return with_reply(self._store((POD, namespace, pod), new))

    async def delete(self, kind: Kind, namespace: str, name: str, *, grace: int | None = None) -> None:
        with_reply = self._begin("delete", kind, name)
        key = (kind, namespace, name)
        stored = self.objects.get(key)
        if stored is not None:
            if stored["metadata"].get("finalizers"):
                deleting = stored["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}
                self._store(key, stored | {"metadata": deleting})
            else:
                del self.objects[key]
                self.changed(kind, stored)
        with_reply({})

    def edit(self, kind: Kind, namespace: str, name: str, **sections: Any) -> Object:
        """Change an object like another client; a new `spec` increments its generation."""
        stored = self.objects[(kind, namespace, name)]
        generation = stored["metadata"].get("generation", 1) + ("spec" in sections)
        meta = stored["metadata"] | {"generation": generation}
        return self._store((kind, namespace, name), stored | {"metadata": meta} | sections)

    def _begin(self, verb: str, kind: Kind, name: str) -> Callable[[Object], Object]:
        self.calls.append((verb, kind.plural, name))
        if self.faults.get(verb):
            raise self.faults[verb].pop(0)

        def reply(thing: Object) -> Object:
            if self.lost_replies.get(verb):
                raise self.lost_replies[verb].pop(0)
            return copy.deepcopy(thing)

        return reply

    def _find(self, kind: Kind, namespace: str, name: str) -> Object:
        try:
            return self.objects[(kind, namespace, name)]
        except KeyError:
            raise NotFound(f"{kind.plural} {name} does not exist") from None

    @staticmethod
    def _check(stored: Object, version: str | None) -> None:
        if version is not None and version != stored["metadata"]["resourceVersion"]:
            raise Conflict(f"{stored['metadata']['name']} has changed")

    def _store(self, key: Key, thing: Object, version: int | None = None) -> Object:
        number = next(self._versions) if version is None else version
        new: Object = copy.deepcopy(thing)
        new["metadata"]["resourceVersion"] = str(number)
        self.objects[key] = new
        self.changed(key[0], new)
        return new


def _has_fields(thing: Object, fields: str | None) -> bool:
    for each in (fields or "").split(",") if fields else ():
        path, _, wanted = each.partition("=")
        found: Any = thing
        for key in path.split("."):
            found = found.get(key) or {}
        if found != wanted:
            return False
    return True


def _selector(labels: str | None) -> Callable[[dict[str, str]], bool]:
    """Read a label selector: `key`, or `key=value`, and commas between."""
    terms = [term.partition("=") for term in labels.split(",")] if labels else []
    return lambda found: all(found.get(key) == value if equals else key in found for key, equals, value in terms)


def _merge(target: Any, change: Any) -> Any:
    """Apply a JSON merge patch (RFC 7396)."""
    if not isinstance(change, dict):
        return change
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in change.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge(merged.get(name), value)
    return merged
