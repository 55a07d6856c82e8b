"""The interface that the protocol requires of a store, and its errors.

A store must provide read-after-write and list-after-write consistency, and an atomic `put_if_absent`: if any number of
calls race for a key, exactly one creates the object. The protocol relies on nothing more, and a store makes no
decisions about safety.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from streamjob.errors import InvalidInput, StreamJobError
from streamjob.ids import Key


class StoreError(StreamJobError):
    """A store failed to perform an operation."""


class ObjectMissing(StoreError):
    """The requested object does not exist."""


class StoreUnavailable(StoreError):
    """The store gave no usable answer, even after retries. A write may or may not have been applied."""


class StoreDenied(StoreError):
    """The store refused the credentials or the operation; trying again will not help before somebody changes that."""


class BucketMissing(StoreDenied):
    """The bucket does not exist."""


class CredentialsRejected(StoreDenied):
    """The store does not know the access key, or the secret key does not belong to it."""


class CredentialsExpired(StoreDenied):
    """The session token of temporary credentials has expired."""


class AccessDenied(StoreDenied):
    """The store knows the credentials, and they lack a right."""


class StoreFull(StoreError):
    """No space or quota is left. The write was not applied, and can succeed once space is freed."""


class UnsuitableStore(InvalidInput):
    """The store has no atomic put-if-absent, so it cannot fence off a superseded owner; nothing was started."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object in a listing; `size` is in bytes."""

    key: Key
    size: int


class Store(Protocol):
    """A flat set of immutable objects below one root. Every method may be called from any thread.

    All methods raise StoreUnavailable if the store gives no usable answer within its retries, and StoreDenied if it
    refuses for good.
    """

    @property
    def uri(self) -> str:
        """The root, with a slash at its end: `file:///…/` or `s3://bucket/prefix/`."""
        ...

    def get(self, key: Key) -> bytes:
        """Return an object's content. Raises ObjectMissing."""
        ...

    def get_range(self, key: Key, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`. Raises ObjectMissing, and StoreError if the object is shorter."""
        ...

    def download(self, key: Key, target: Path) -> None:
        """Write an object's content to the file `target`, whose directory exists. Raises ObjectMissing."""
        ...

    def put(self, key: Key, content: bytes | Path) -> None:
        """Create or replace an object with bytes, or with the content of a file."""
        ...

    def put_if_absent(self, key: Key, content: bytes) -> bool:
        """Create an object unless one exists; return whether this call created it. Atomic.

        After StoreUnavailable the object may exist with this content; read it back to find out.
        """
        ...

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose keys begin with `prefix` and sort after `start_after`, in key order."""
        ...

    def delete(self, keys: Iterable[Key]) -> None:
        """Delete objects; missing ones are ignored."""
        ...

    def close(self) -> None:
        """Release connections. The store must not be used afterwards."""
        ...
