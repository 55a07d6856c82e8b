"""Knows the objects that a source has read, in 32 bytes for each.

An object is known by a hash of its key of 128 bits: among a million keys, two have the same one with a probability of
1e-27. A hash of 64 bits tells another version of it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamjob_runtime.discovery.objects import Classified, Found

_RECORD = np.dtype([("first", "<u8"), ("second", "<u8"), ("content", "<u8"), ("modified", "<i8")])
"""The halves of the key's hash, the hash of version and size, and the time in ms since 1970."""
RECORD_SIZE = _RECORD.itemsize
"""Bytes of a record, and of the head that comes before the records."""
NEVER = -(1 << 63)
"""A time in ms before that of any object."""

_ANY = 0
"""In place of the hash of version and size: each version was read."""
_HEAD = struct.Struct("<16sqq")
_MAGIC = b"streamjob known\n"
_FORMAT = 1
_MOST_ADDED = 10_000
"""Additions wait in a dictionary, at eight times the memory, until they are more than this and 5 % of the records."""


class Known:
    """The objects that were read: of each key the version that was read last. Not for several threads."""

    def __init__(self) -> None:
        self._horizon_ms = NEVER
        self._set_records(np.empty(0, _RECORD))
        # The records behind the others by their keys' hashes.
        self._added: dict[bytes, bytes] = {}

    @classmethod
    def of(cls, content: bytes | Path) -> Known:
        """Return what records tell, of each key the last one.

        Args:
            content: a head and records, or a file with them; see `to_records`.

        Raises:
            ValueError: the content has another format, or is cut short.
        """
        known = cls()
        known._horizon_ms, records = _read(content)
        known._set_records(_last_ones(records))
        return known

    def __len__(self) -> int:
        self._merge()
        return int(self._records.size)

    def __contains__(self, key: object) -> bool:
        packed = _hash_of(str(key))
        return packed in self._added or bool(self._find(np.frombuffer(packed + bytes(16), _RECORD))[0] >= 0)

    def add(self, found: Found) -> None:
        """Remember an object that was read, instead of another version of it."""
        packed = record(found)
        self._added[packed[:16]] = packed
        if len(self._added) > max(_MOST_ADDED, self._records.size // 20):
            self._merge()

    def classify(self, objects: Sequence[Found]) -> Classified:
        """Return those objects of a listing that are not known as they are, in its order."""
        packed = [record(found) for found in objects]
        asked = np.frombuffer(b"".join(packed), _RECORD)
        at = self._find(asked)
        is_known = at >= 0
        is_same = is_known.copy()
        content = self._records["content"][at[is_known]]
        is_same[is_known] = (content == asked["content"][is_known]) | (content == _ANY)
        if self._added:
            for number, each in enumerate(packed):
                if (added := self._added.get(each[:16])) is not None:
                    is_known[number], is_same[number] = True, added[16:24] in (each[16:24], bytes(8))
        result = Classified()
        for number in np.flatnonzero(~is_same).tolist():
            found = objects[number]
            if is_known[number]:
                result.replaced.append(found)
            elif found.modified_ms >= self._horizon_ms:
                result.new.append(found)
        return result

    def add_any_version(self, key: str) -> None:
        """Remember an object that was read, of which nothing but the key is known: any version counts as read."""
        packed = _hash_of(key)
        self._added[packed] = packed + bytes(8) + NEVER.to_bytes(8, "little", signed=True)

    def forget(self, before_ms: int) -> int:
        """Forget the objects that were written before a time in ms since 1970; return their number.

        From then on, an object from before that time is never a new one.
        """
        self._merge()
        self._horizon_ms = max(self._horizon_ms, before_ms)
        kept = _is_alive(self._records, before_ms)
        forgotten = int(kept.size - np.count_nonzero(kept))
        if forgotten:
            self._set_records(self._records[kept])
        return forgotten

    def to_records(self) -> bytes:
        """Return a head, and a record of each object in no order that has a meaning."""
        self._merge()
        return b"".join((head(self._horizon_ms), self._records.data))

    def _set_records(self, records: NDArray[np.void]) -> None:
        """Take records that are in the order of the keys' hashes."""
        self._records = records
        # A search in a field of the records would copy it each time.
        self._first = np.ascontiguousarray(records["first"])

    def _merge(self) -> None:
        if not self._added:
            return
        added = _last_ones(np.frombuffer(b"".join(self._added.values()), _RECORD))
        at = self._find(added)
        self._records[at[at >= 0]] = added[at >= 0]
        new = added[at < 0]
        self._set_records(np.insert(self._records, np.searchsorted(self._first, new["first"]), new))
        self._added.clear()

    def _find(self, asked: NDArray[np.void]) -> NDArray[np.intp]:
        """Return the places of the records with the same keys; -1 for none."""
        places = np.full(asked.size, -1)
        at = np.searchsorted(self._first, asked["first"])
        left = np.arange(asked.size)
        # One turn, but for keys that have the first half of their hashes in common.
        while left.size:
            left = left[at[left] < self._first.size]
            left = left[self._first[at[left]] == asked["first"][left]]
            hit = self._records["second"][at[left]] == asked["second"][left]
            places[left[hit]] = at[left[hit]]
            left = left[~hit]
            at[left] += 1
        return places


def record(found: Found) -> bytes:
    """Return the record of an object that was read."""
    content = blake2b(f"{found.size} {found.version}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return _hash_of(found.key) + content + found.modified_ms.to_bytes(8, "little", signed=True)


def _hash_of(key: str) -> bytes:
    # Names of local files may contain bytes that are no UTF-8.
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _is_alive(records: NDArray[Any], horizon_ms: int) -> NDArray[np.bool_]:
    """Return which records are not from before a time; those that Spark's own stream has read have none."""
    alive: NDArray[np.bool_] = (records["modified"] >= horizon_ms) | (records["modified"] == NEVER)
    return alive


def head(horizon_ms: int = NEVER) -> bytes:
    """Return what comes before records.

    Args:
        horizon_ms: the time in ms since 1970 before which objects were forgotten.
    """
    return _HEAD.pack(_MAGIC, _FORMAT, horizon_ms)


def share_alive(file: Path, horizon_ms: int) -> float:
    """Return the share of a file's records that are neither of a later version's key nor from before a time.

    Args:
        file: a head and records.
        horizon_ms: the time in ms since 1970.

    Raises:
        ValueError: the file has another format, or is cut short.
    """
    _, records = _read(file)
    # Sorted, since numpy's unique takes forty times as long.
    keys = np.sort(records["first"][_is_alive(records, horizon_ms)])
    return float(keys.size - np.count_nonzero(keys[1:] == keys[:-1])) / max(records.size, 1)


def _read(content: bytes | Path) -> tuple[int, NDArray[Any]]:
    """Return the time before which objects were forgotten, and the records."""
    # A mapped file is not in memory a second time while its records are sorted.
    whole = np.memmap(content, np.uint8, "r") if isinstance(content, Path) else np.frombuffer(content, np.uint8)
    if whole.size < RECORD_SIZE or whole.size % RECORD_SIZE:
        raise ValueError(f"its {whole.size} bytes are not a number of records")
    magic, version, horizon_ms = _HEAD.unpack(whole[:RECORD_SIZE].tobytes())
    if (magic, version) != (_MAGIC, _FORMAT):
        raise ValueError(f"it begins with {magic!r} and format {version} instead of {_MAGIC!r} and {_FORMAT}")
    return horizon_ms, whole[RECORD_SIZE:].view(_RECORD)


def _last_ones(records: NDArray[Any]) -> NDArray[Any]:
    """Return the last record of each key, in the order of the keys' hashes."""
    ordered = records[np.lexsort((records["second"], records["first"]))]
    is_last = np.ones(ordered.size, bool)
    is_last[:-1] = (ordered["first"][1:] != ordered["first"][:-1]) | (ordered["second"][1:] != ordered["second"][:-1])
    return ordered if is_last.all() else ordered[is_last]
