"""Hashes local files, and parts of stored objects a few at a time and in bounded memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from streamjob.errors import InvalidInput
from streamjob.store.base import ObjectMissing, StoreDenied, StoreError, StoreUnavailable

_PIECE = 8 << 20
_THREADS = 4

ReadRange = Callable[[str, int, int], bytes]
"""Returns `length` bytes from `offset` of a referenced object; raises like `Store.get_range`."""


@dataclass(frozen=True, slots=True)
class Part:
    """A range of an object; `reference` is its key below the store's root or its absolute URI."""

    reference: str
    offset: int
    length: int


def file_sha256(file: Path) -> str:
    """Return the SHA-256 of a local file's content, 64 hex digits. Raises OSError."""
    with file.open("rb", buffering=0) as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def hash_parts(parts: Sequence[Part], read: ReadRange, must_answer: Callable[[str], bool]) -> list[str | None]:
    """Return the SHA-256 of each part in hexadecimal, None for a part that does not exist.

    Args:
        parts: the ranges to hash; each is read in pieces of 8 MB.
        read: reads a range of an object; called from several threads.
        must_answer: returns whether it is an error if the store of this reference does not answer; otherwise the part
            counts as missing.

    Raises:
        StoreUnavailable, StoreDenied: a store that must answer did not.
    """

    def hashed(part: Part) -> str | None:
        digest = hashlib.sha256()
        end = part.offset + part.length
        try:
            for start in range(part.offset, end, _PIECE):
                digest.update(read(part.reference, start, min(_PIECE, end - start)))
        except ObjectMissing:
            return None
        except (StoreUnavailable, StoreDenied):
            if must_answer(part.reference):
                raise
            return None
        except (StoreError, InvalidInput):
            return None
        return digest.hexdigest()

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="hash") as pool:
        return list(pool.map(hashed, parts))
