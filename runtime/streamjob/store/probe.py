"""Tests before a job starts whether its store can fence off a superseded owner.

Some servers ignore `If-None-Match`. Others check it and write in two steps, so that all racing writers succeed. On
either, two processes could both complete checkpoints of one job, unnoticed.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from streamjob.ids import Key
from streamjob.store.base import Store, StoreError, StoreUnavailable, UnsuitableStore

PROBE_PREFIX = "probe/"

_PROBE = re.compile(r"probe/(\d{12})-[^/]+/[^/]+")
_LEFT_BEHIND = 3600
_RACERS = 8
_FIX = "use a local directory, or an S3 server that honours If-None-Match: * (AWS and current S3-compatible ones do)"


def probe(store: Store, unique: str, now: float) -> None:
    """Return normally if the store's put-if-absent appears atomic; sends about twelve requests.

    Probe objects live below `probe/` in the store's root. They are removed, together with objects that a killed process
    left there at least an hour ago.

    Args:
        unique: random text that no other prober uses, without slashes.
        now: seconds since 1970.

    Raises:
        UnsuitableStore: more than one of several creations of one object succeeded, or the object has other content.
        StoreDenied: the store refuses the credentials, or they may not create, read, list and delete.
        StoreUnavailable: the store gives no usable answer, so the result is unknown.
    """
    mine = f"{PROBE_PREFIX}{int(now):012d}-{unique}/"
    try:
        _create_twice(store, Key(f"{mine}twice"))
        _race(store, Key(f"{mine}race"))
        found = [entry.key for entry in store.list(PROBE_PREFIX)]
        missing = {f"{mine}twice", f"{mine}race"} - set(found)
        if missing:
            raise UnsuitableStore(f"{store.uri} does not list an object that was just created", _FIX)
    except BaseException:
        # The first error is the relevant one.
        with contextlib.suppress(StoreError):
            store.delete([Key(f"{mine}twice"), Key(f"{mine}race")])
        raise
    store.delete([key for key in found if key.startswith(mine) or _left_behind(key, now)])


def _create_twice(store: Store, key: Key) -> None:
    contents = [b"first", b"second"]
    created = [_create(store, key, content) for content in contents]
    if created != [True, False] or store.get(key) != contents[0]:
        raise UnsuitableStore(
            f"{store.uri} creates an object that exists already: it ignores the condition of a put-if-absent", _FIX
        )


def _race(store: Store, key: Key) -> None:
    contents = [f"racer {number}".encode() for number in range(_RACERS)]
    with ThreadPoolExecutor(_RACERS, thread_name_prefix="store-probe") as pool:
        created = list(pool.map(lambda content: _create(store, key, content), contents))
    _judge_race(store, key, contents, created)


def _judge_race(store: Store, key: Key, contents: Sequence[bytes], created: Sequence[bool]) -> None:
    winners = [content for content, won in zip(contents, created, strict=True) if won]
    if len(winners) != 1 or store.get(key) != winners[0]:
        raise UnsuitableStore(
            f"{store.uri} let {len(winners)} of {len(contents)} racing put-if-absents of one object succeed: "
            "its condition is not atomic",
            _FIX,
        )


def _create(store: Store, key: Key, content: bytes) -> bool:
    try:
        return store.put_if_absent(key, content)
    except StoreUnavailable:
        # Each racer writes its own content, so the content identifies the winner.
        if not any(entry.key == key for entry in store.list(key)):
            raise
        return store.get(key) == content


def _left_behind(key: str, now: float) -> bool:
    match = _PROBE.fullmatch(key)
    return match is not None and int(match[1]) < now - _LEFT_BEHIND
