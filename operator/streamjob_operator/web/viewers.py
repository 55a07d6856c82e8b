"""Asks the API server who a viewer is and what the viewer may do; its answers are good for a short while."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from hashlib import sha256
from typing import Generic, TypeVar

from streamjob.errors import StreamJobError
from streamjob.page.audiences import AUDIENCES
from streamjob_operator.cluster.api import Cluster
from streamjob_operator.cluster.kinds import STREAM_JOB, SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW, Object
from streamjob_operator.web.rights import Verb, Viewer, expiry, may_write

_KNOWN_SECONDS = 60.0
_REFUSED_SECONDS = 10.0
_RIGHT_SECONDS = 30.0
_MOST = 5000
_AT_ONCE = 8
_WAITING = 64
_LONGEST_TOKEN = 16_384
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class TooManyReviews(StreamJobError):
    """So many requests wait for the API server's word that no more are taken."""


class _Remembered(Generic[_Key, _Value]):
    """Values that are good for some seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._values: OrderedDict[_Key, tuple[float, _Value]] = OrderedDict()

    def get(self, key: _Key) -> tuple[_Value] | None:
        found = self._values.get(key)
        return None if found is None or self._clock() >= found[0] else (found[1],)

    def put(self, key: _Key, value: _Value, seconds: float) -> None:
        self._values[key] = self._clock() + seconds, value
        self._values.move_to_end(key)
        while len(self._values) > _MOST:
            self._values.popitem(last=False)


class Viewers:
    """Recognizes viewers, and knows their rights.

    Args:
        clock: seconds of a clock that never goes back.
        now: seconds since 1970, for the expiry of tokens.
    """

    def __init__(self, cluster: Cluster, clock: Callable[[], float], now: Callable[[], float]) -> None:
        self._cluster = cluster
        self._now = now
        self._viewers: _Remembered[bytes, Viewer | None] = _Remembered(clock)
        self._rights: _Remembered[tuple[Viewer, Verb, str, str], bool] = _Remembered(clock)
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0

    async def viewer(self, token: str) -> Viewer | None:
        """Return whom a token belongs to; None if the API server does not know it.

        Raises:
            TooManyReviews: ask again later.
            ClusterError: the API server could not be asked.
        """
        if not token or len(token) > _LONGEST_TOKEN:
            return None
        key = sha256(token.encode("utf-8", "surrogatepass")).digest()
        known = self._viewers.get(key)
        if known is None:
            found = await self._ask(lambda: self._review(token))
            self._viewers.put(key, found, _KNOWN_SECONDS if found else _REFUSED_SECONDS)
            known = (found,)
        (viewer,) = known
        expired = viewer is not None and viewer.expires is not None and self._now() >= viewer.expires
        return None if expired else viewer

    async def may(self, viewer: Viewer, verb: Verb, namespace: str = "", name: str = "") -> bool:
        """Return whether a viewer may do something with a StreamJob, with those of a namespace, or with all.

        Raises:
            TooManyReviews: ask again later.
            ClusterError: the API server could not be asked.
        """
        if verb is Verb.UPDATE and not viewer.may_write:
            return False
        key = (viewer, verb, namespace, name)
        known = self._rights.get(key)
        if known is None:
            known = (await self._ask(lambda: self._access(viewer, verb, namespace, name)),)
            self._rights.put(key, known[0], _RIGHT_SECONDS)
        return known[0]

    async def readable(self, viewer: Viewer, namespaces: Iterable[str]) -> frozenset[str] | None:
        """Return the namespaces whose StreamJobs a viewer may list; None for all.

        Raises:
            TooManyReviews: ask again later.
            ClusterError: the API server could not be asked.
        """
        if await self.may(viewer, Verb.LIST):
            return None
        wanted = sorted(set(namespaces))
        # In groups: an answer for a thousand namespaces must not shut others out.
        found: set[str] = set()
        for start in range(0, len(wanted), _AT_ONCE):
            group = wanted[start : start + _AT_ONCE]
            allowed = await asyncio.gather(*(self.may(viewer, Verb.LIST, each) for each in group))
            found |= {each for each, may in zip(group, allowed, strict=True) if may}
        return frozenset(found)

    async def _ask(self, question: Callable[[], Awaitable[_Value]]) -> _Value:
        if self._waiting >= _WAITING:
            raise TooManyReviews(f"{_WAITING} requests wait for the API server already", "Try again in a moment.")
        self._waiting += 1
        try:
            async with self._places:
                return await question()
        finally:
            self._waiting -= 1

    async def _review(self, token: str) -> Viewer | None:
        for audiences in (AUDIENCES, ()):
            spec: Object = {"token": token} | ({"audiences": list(audiences)} if audiences else {})
            review = {"apiVersion": TOKEN_REVIEW.api_version, "kind": TOKEN_REVIEW.kind, "metadata": {}, "spec": spec}
            status = (await self._cluster.create(TOKEN_REVIEW, review)).get("status") or {}
            granted = frozenset(status.get("audiences") or ())
            # An authenticator that knows no audiences must not make a token one for this page.
            if status.get("authenticated") and (not audiences or granted & set(audiences)):
                return _viewer(status.get("user") or {}, may_write(granted if audiences else ()), expiry(token))
        return None

    async def _access(self, viewer: Viewer, verb: Verb, namespace: str, name: str) -> bool:
        resource = {"group": STREAM_JOB.group, "resource": STREAM_JOB.plural, "verb": verb.value}
        resource |= {key: value for key, value in (("namespace", namespace), ("name", name)) if value}
        review: Object = {
            "apiVersion": SUBJECT_ACCESS_REVIEW.api_version,
            "kind": SUBJECT_ACCESS_REVIEW.kind,
            "metadata": {},
            "spec": {
                "user": viewer.name,
                "uid": viewer.uid,
                "groups": list(viewer.groups),
                "extra": {key: list(values) for key, values in viewer.extra},
                "resourceAttributes": resource,
            },
        }
        status = (await self._cluster.create(SUBJECT_ACCESS_REVIEW, review)).get("status") or {}
        return bool(status.get("allowed")) and not status.get("denied")


def _viewer(user: Object, write: bool, expires: float | None) -> Viewer | None:
    name = user.get("username")
    if not name:
        return None
    extra = tuple(sorted((key, tuple(values)) for key, values in (user.get("extra") or {}).items()))
    groups = tuple(user.get("groups") or ())
    return Viewer(str(name), str(user.get("uid") or ""), groups, extra, may_write=write, expires=expires)
