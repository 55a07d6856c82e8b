"""Stages a sink's rows as objects in the store of its job's snapshots.

These objects belong to their sink alone: neither the log nor the garbage collector refers to them, and no key is used
twice. So a late or repeated deletion does no harm. A name ends with the SHA-256 of the object's content. A
committable contains the name, so damage is detected.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from streamjob.ids import Epoch, Key, OperatorUid
from streamjob.sink import StagedObject, StagedRowsGone
from streamjob.snapshot import keys
from streamjob.store.base import ObjectMissing, Store, StoreError
from streamjob.store.hashing import file_sha256
from streamjob.store.opening import open_location

_NAME = re.compile(r"(\d+)/([0-9a-f]+)")


def _put(store: Store, sink: OperatorUid, epoch: Epoch, content: bytes | Path) -> str:
    sha256 = file_sha256(content) if isinstance(content, Path) else hashlib.sha256(content).hexdigest()
    part = secrets.token_hex(16) + sha256
    store.put(keys.staged_object(sink, epoch, part), content)
    return f"{epoch}/{part}"


def _key_of(sink: OperatorUid, name: str) -> Key:
    match = _NAME.fullmatch(name)
    if match is None:
        raise StoreError(f"{name!r} names nothing that sink {sink} has staged")
    return keys.staged_object(sink, Epoch(int(match[1])), match[2])


def _check(sink: OperatorUid, key: Key, found: str) -> None:
    """Compare the SHA-256 of an object's content with that in its key. Raises StagedRowsGone."""
    recorded = keys.staged_sha256(key)
    if recorded is not None and found != recorded:
        raise StagedRowsGone(
            f"sink {sink}: {key} is damaged: its SHA-256 is {found}, and was {recorded} when it was staged",
            "bring it back from a copy of the store",
        )


@lru_cache(maxsize=4)
def _store_of(uri: str) -> Store:
    return open_location(uri).store()


@dataclass(frozen=True, slots=True)
class StoreTaskStaging:
    """Stages objects of one sink in one epoch from Spark's tasks; each process opens the store once.

    Args:
        uri: of the store at the job's root.
        epoch: the epoch that stages.
    """

    uri: str
    sink: OperatorUid
    epoch: Epoch

    def put(self, content: bytes | Path) -> str:
        """Stage bytes, or the content of a file; return the name. Raises StoreError."""
        return _put(_store_of(self.uri), self.sink, self.epoch, content)

    def get(self, name: str) -> bytes:
        """Return the content of an object, of any epoch.

        Raises:
            StagedRowsGone: there is no such object, or its content has changed since it was staged.
            StoreError: the store fails.
        """
        key = _key_of(self.sink, name)
        try:
            content = _store_of(self.uri).get(key)
        except ObjectMissing as error:
            raise StagedRowsGone(
                f"sink {self.sink}: {key} is not in the store", "bring it back from a copy of the store"
            ) from error
        _check(self.sink, key, hashlib.sha256(content).hexdigest())
        return content


class StoreStaging:
    """The staging of one sink in one epoch.

    Args:
        store: the store at the job's root.
        epoch: the epoch that stages.
        scratch: the local directory; created on first use.
    """

    def __init__(self, store: Store, sink: OperatorUid, epoch: Epoch, scratch: Path) -> None:
        self._store = store
        self._sink = sink
        self._epoch = epoch
        self._scratch = scratch

    @property
    def scratch(self) -> Path:
        """A local directory of this sink and epoch, which exists."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        return self._scratch

    def put(self, content: bytes | Path) -> str:
        """Stage bytes, or the content of a file; return the name. Raises StoreError."""
        return _put(self._store, self._sink, self._epoch, content)

    def in_tasks(self) -> StoreTaskStaging:
        """Return what stages objects from tasks, in the same store and epoch."""
        return StoreTaskStaging(self._store.uri, self._sink, self._epoch)

    def fetch(self, name: str, target: Path) -> bool:
        """Write an object's content to a file; return False if there is no such object.

        Raises:
            StagedRowsGone: the content has changed since it was staged.
            StoreError: the store fails.
        """
        key = _key_of(self._sink, name)
        try:
            self._store.download(key, target)
        except ObjectMissing:
            return False
        _check(self._sink, key, file_sha256(target))
        return True

    def list(self) -> Iterator[StagedObject]:
        """Yield the objects that the sink has staged, in all epochs. Raises StoreError."""
        for info in self._store.list(keys.staged_prefix(self._sink)):
            if (ids := keys.staged_ids(info.key)) is not None:
                yield StagedObject(f"{ids[0]}/{ids[1]}", ids[0])

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; missing ones are ignored. Raises StoreError."""
        if doomed := [_key_of(self._sink, name) for name in names]:
            self._store.delete(doomed)
