"""The SHA-256 of staged files: recorded while they are written, and compared before they are published."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from io import FileIO

READERS = 4
"""Files that are read at a time for their hashes."""


class HashingStream:
    """A binary stream for writing that hashes what it passes on to another one.

    Args:
        stream: where the bytes go; closed with this stream.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """The hash of everything written so far, in hexadecimal."""
        return self._digest.hexdigest()

    @property
    def closed(self) -> bool:
        """Whether the stream is closed."""
        return self._stream.closed

    def write(self, content: bytes) -> int:
        """Pass bytes on, and hash them."""
        self._digest.update(content)
        return self._stream.write(content)

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self._stream.tell()

    def flush(self) -> None:
        """Flush the other stream."""
        self._stream.flush()

    def close(self) -> None:
        """Close the other stream."""
        self._stream.close()

    def __enter__(self) -> HashingStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def sha256_of(stream: FileIO) -> str:
    """Return the SHA-256 of the rest of a stream, in hexadecimal."""
    return hashlib.file_digest(stream, "sha256").hexdigest()


def changed(
    staged: Sequence[tuple[str, str | None]], sha256_at: Callable[[str], str | None]
) -> Iterator[tuple[str, str]]:
    """Yield the staged files that have changed, each with a clause about both hashes. Missing files are left out.

    Args:
        staged: the name of each file, and its recorded hash; None for a file staged by a version that recorded none.
        sha256_at: returns the hash of a file, None if there is none; called from several threads.
    """
    known = [(name, recorded) for name, recorded in staged if recorded is not None]
    if not known:
        return
    with ThreadPoolExecutor(min(READERS, len(known)), thread_name_prefix="compare-hashes") as pool:
        for (name, recorded), found in zip(known, pool.map(sha256_at, [name for name, _ in known]), strict=True):
            if found is not None and found != recorded:
                yield name, f"whose SHA-256 is {found} and was {recorded} when it was staged"
