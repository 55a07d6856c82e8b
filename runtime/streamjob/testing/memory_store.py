"""A store in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from streamjob.ids import Key
from streamjob.store.base import ObjectInfo, ObjectMissing, StoreError


class MemoryStore:
    """A thread-safe `Store` in memory; its objects by absolute URI.

    Args:
        uri: the root, with a slash at its end.
    """

    def __init__(self, uri: str = "memory:///job/") -> None:
        if not uri.endswith("/"):
            raise ValueError(f"{uri!r} must end with a slash")
        self.uri = uri
        self.objects: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def get(self, key: Key) -> bytes:
        """Return an object's content. Raises ObjectMissing."""
        with self._lock:
            try:
                return self.objects[self.uri + key]
            except KeyError:
                raise ObjectMissing(f"{self.uri}{key} does not exist") from None

    def get_range(self, key: Key, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`. Raises ObjectMissing, and StoreError if the object is shorter."""
        part = self.get(key)[offset : offset + length]
        if len(part) != length:
            raise StoreError(f"{self.uri}{key} ends before byte {offset + length}")
        return part

    def download(self, key: Key, target: Path) -> None:
        """Write an object's content to a file. Raises ObjectMissing."""
        target.write_bytes(self.get(key))

    def put(self, key: Key, content: bytes | Path) -> None:
        """Create or replace an object."""
        data = content.read_bytes() if isinstance(content, Path) else bytes(content)
        with self._lock:
            self.objects[self.uri + key] = data

    def put_if_absent(self, key: Key, content: bytes) -> bool:
        """Create an object unless one exists; return whether this call created it."""
        with self._lock:
            if self.uri + key in self.objects:
                return False
            self.objects[self.uri + key] = bytes(content)
            return True

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects that exist when the first one is requested."""
        with self._lock:
            found = [
                ObjectInfo(Key(uri.removeprefix(self.uri)), len(content))
                for uri, content in sorted(self.objects.items())
                if uri.startswith(self.uri + prefix)
            ]
        yield from (info for info in found if info.key > start_after)

    def delete(self, keys: Iterable[Key]) -> None:
        """Delete objects; missing ones are ignored."""
        with self._lock:
            for key in keys:
                self.objects.pop(self.uri + key, None)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
