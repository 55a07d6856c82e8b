"""What the protocol asks of a store, and the errors that it may meet there.

A store owes: read-after-write and list-after-write consistency, and an atomic `put_if_absent`: of any number of racing
calls for one key exactly one creates the object. Nothing else is relied on. No decision about safety lives in a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from streamjob.errors import InvalidInput, StreamJobError
from streamjob.ids import Key


class StoreError(StreamJobError):
    """A store could not do what it was asked for."""


class ObjectMissing(StoreError):
    """The object that was asked for does not exist."""


class StoreUnavailable(StoreError):
    """The store gave no usable answer, retries included; whether a write was applied is unknown."""


class StoreDenied(StoreError):
    """The store refused the credentials, or they may not do this; trying again will not help."""


class StoreFull(StoreError):
    """No space or quota is left; the write was not applied, and can be once something is freed."""


class UnsuitableStore(InvalidInput):
    """The store has no atomic put-if-absent, so it cannot fence one owner from another; nothing was started."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object in a listing: its key and its size in bytes."""

    key: Key
    size: int


class Store(Protocol):
    """A flat set of immutable objects below one root; every method may be called from any thread.

    All methods raise StoreUnavailable when the store gives no usable answer within its retries, and StoreDenied when
    it refuses for good.
    """

    @property
    def uri(self) -> str:
        """The root, with a slash at its end: `file:///…/` or `s3://bucket/prefix/`."""
        ...

    def get(self, key: Key) -> bytes:
        """Return an object's content. Raises ObjectMissing."""
        ...

    def get_range(self, key: Key, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset` of an object. Raises ObjectMissing; StoreError if it is shorter."""
        ...

    def download(self, key: Key, target: Path) -> None:
        """Write an object's content to the file `target`, whose directory exists. Raises ObjectMissing."""
        ...

    def put(self, key: Key, content: bytes | Path) -> None:
        """Create or replace an object with bytes, or with the content of a file."""
        ...

    def put_if_absent(self, key: Key, content: bytes) -> bool:
        """Create an object unless one exists; return whether this call created it. Atomic.

        After StoreUnavailable the object may exist with this content: read it back to find out.
        """
        ...

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose key begins with `prefix` and sorts behind `start_after`, in key order."""
        ...

    def delete(self, keys: Iterable[Key]) -> None:
        """Delete objects; one that does not exist is deleted already."""
        ...

    def close(self) -> None:
        """Release connections; the store is not used afterwards."""
        ...
