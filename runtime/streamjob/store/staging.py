"""Stages a sink's rows as objects in the store of its job's snapshots.

These objects belong to their sink alone: neither the log nor the garbage collector refers to them, and no key is used
twice. So a late or repeated deletion does no harm.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from streamjob.ids import Epoch, Key, OperatorUid
from streamjob.sink import StagedObject
from streamjob.snapshot import keys
from streamjob.store.base import ObjectMissing, Store, StoreError

_NAME = re.compile(r"(\d+)/([0-9a-f]+)")


class StoreStaging:
    """The staging of one sink in one epoch.

    Args:
        store: the store at the job's root.
        sink: the sink's uid.
        epoch: the epoch that stages.
        scratch: the local directory; created on first use.
        draw: draws the random part of a name, in hexadecimal digits.
    """

    def __init__(
        self,
        store: Store,
        sink: OperatorUid,
        epoch: Epoch,
        scratch: Path,
        *,
        draw: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self._store = store
        self._sink = sink
        self._epoch = epoch
        self._scratch = scratch
        self._draw = draw

    @property
    def scratch(self) -> Path:
        """A local directory of this sink and epoch, which exists."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        return self._scratch

    def put(self, content: bytes | Path) -> str:
        """Stage bytes, or the content of a file; return the name. Raises StoreError."""
        part = self._draw()
        self._store.put(keys.staged_object(self._sink, self._epoch, part), content)
        return f"{self._epoch}/{part}"

    def fetch(self, name: str, target: Path) -> bool:
        """Write an object's content to a file; return False if there is no such object. Raises StoreError."""
        try:
            self._store.download(self._key(name), target)
        except ObjectMissing:
            return False
        return True

    def list(self) -> Iterator[StagedObject]:
        """Yield the objects that the sink has staged, in all epochs. Raises StoreError."""
        for info in self._store.list(keys.staged_prefix(self._sink)):
            if (ids := keys.staged_ids(info.key)) is not None:
                yield StagedObject(f"{ids[0]}/{ids[1]}", ids[0])

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; missing ones are ignored. Raises StoreError."""
        if doomed := [self._key(name) for name in names]:
            self._store.delete(doomed)

    def _key(self, name: str) -> Key:
        match = _NAME.fullmatch(name)
        if match is None:
            raise StoreError(f"{name!r} names nothing that sink {self._sink} has staged")
        return keys.staged_object(self._sink, Epoch(int(match[1])), match[2])
