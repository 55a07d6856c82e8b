"""A store in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from streamjob.ids import Key
from streamjob.store.base import ObjectInfo, ObjectMissing, StoreError


class MemoryBucket:
    """Objects by absolute URI, shared by the stores of one bucket."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.objects: dict[str, bytes] = {}


class MemoryStore:
    """A thread-safe `Store` in memory.

    Args:
        uri: the root, with a slash at its end.
        bucket: the objects; a new bucket if None.
    """

    def __init__(self, uri: str = "memory:///job/", bucket: MemoryBucket | None = None) -> None:
        if not uri.endswith("/"):
            raise ValueError(f"{uri!r} must end with a slash")
        self._uri = uri
        self._bucket = bucket or MemoryBucket()

    @property
    def uri(self) -> str:
        """The root, with a slash at its end."""
        return self._uri

    @property
    def bucket(self) -> MemoryBucket:
        """The shared objects."""
        return self._bucket

    def get(self, key: Key) -> bytes:
        """Return an object's content. Raises ObjectMissing."""
        return self._read(self._uri + key)

    def get_range(self, key: Key, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`. Raises ObjectMissing, and StoreError if the object is shorter."""
        part = self.get(key)[offset : offset + length]
        if len(part) != length:
            raise StoreError(f"{self._uri}{key} ends before byte {offset + length}")
        return part

    def download(self, key: Key, target: Path) -> None:
        """Write an object's content to a file. Raises ObjectMissing."""
        target.write_bytes(self.get(key))

    def put(self, key: Key, content: bytes | Path) -> None:
        """Create or replace an object."""
        data = content.read_bytes() if isinstance(content, Path) else bytes(content)
        with self._bucket.lock:
            self._bucket.objects[self._uri + key] = data

    def put_if_absent(self, key: Key, content: bytes) -> bool:
        """Create an object unless one exists; return whether this call created it."""
        with self._bucket.lock:
            if self._uri + key in self._bucket.objects:
                return False
            self._bucket.objects[self._uri + key] = bytes(content)
            return True

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects that exist when the first one is requested."""
        with self._bucket.lock:
            found = [
                ObjectInfo(Key(uri.removeprefix(self._uri)), len(content))
                for uri, content in sorted(self._bucket.objects.items())
                if uri.startswith(self._uri + prefix)
            ]
        yield from (info for info in found if info.key > start_after)

    def delete(self, keys: Iterable[Key]) -> None:
        """Delete objects; missing ones are ignored."""
        with self._bucket.lock:
            for key in keys:
                self._bucket.objects.pop(self._uri + key, None)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _read(self, uri: str) -> bytes:
        with self._bucket.lock:
            try:
                return self._bucket.objects[uri]
            except KeyError:
                raise ObjectMissing(f"{uri} does not exist") from None
