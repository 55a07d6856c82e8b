"""Restores the files of a chain's Spark checkpoint into a fresh directory."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from streamjob.errors import CannotRestore
from streamjob.ids import Key
from streamjob.snapshot.manifest import FileRef
from streamjob.store.base import ObjectMissing, Store, StoreDenied, StoreError, StoreUnavailable
from streamjob.store.effects import Locate

READ_BYTES = 8 * 1024 * 1024
"""Bytes of one read, which a download holds in memory per thread."""

MERGE_GAP = 256 * 1024
"""Files of one object with gaps below this size are read together; the bytes in the gaps are dropped.

Reading the gap takes a few milliseconds, while a separate request would take tens before its first byte.
"""

Create = Callable[[FileRef], BinaryIO]


class SnapshotFileMissing(CannotRestore):
    """An object of a snapshot is missing in the store, or too short."""


class SnapshotFileCorrupt(CannotRestore):
    """An object's bytes differ from the uploaded ones."""


class UnsafePath(CannotRestore):
    """A snapshot names a file outside the checkpoint directory, or two files with the same path."""


@dataclass(frozen=True, slots=True)
class DownloadStatistics:
    """The work of a restore: files, and bytes from the store; files that were still held locally cost none."""

    files: int
    downloaded_bytes: int


def download(
    refs: Sequence[FileRef],
    locate: Locate,
    target: Path,
    local_candidates: Sequence[Path] = (),
    threads: int = 8,
    progress: Callable[[int], None] = lambda _: None,
) -> DownloadStatistics:
    """Create a chain's files below `target`; each file or piece is verified by its SHA-256.

    If a local candidate has the same content, it is hard-linked instead.

    Args:
        refs: the files; a file stored in pieces has several entries.
        locate: finds the store of an object.
        target: a directory that does not exist yet or is empty; after an error it contains some of the files.
        local_candidates: directories of holds on the same file system that may have some of the files.
        threads: number of simultaneous reads.
        progress: called with the bytes of each finished read from the store, by several threads.

    Raises:
        SnapshotFileMissing: an object is missing in the store, or too short.
        SnapshotFileCorrupt: a file's content differs from the upload.
        UnsafePath: a path leads out of `target`, or entries with the same path are not pieces of one file.
        StoreUnavailable: the store gave no usable answer.
        StoreDenied: the store refused.
    """
    files = _files(refs)
    for folder in {(target / path).parent for path in files} | {target}:
        folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(threads, thread_name_prefix="download") as pool:
        linked = list(pool.map(lambda parts: _link(parts, target, local_candidates), files.values()))
        missing = [parts for parts, done in zip(files.values(), linked, strict=True) if not done]
        remote = [ref for parts in missing for ref in parts]
        in_pieces = frozenset(parts[0].path for parts in missing if len(parts) > 1)
        for path in in_pieces:
            (target / path).touch(exist_ok=False)

        def create(ref: FileRef) -> BinaryIO:
            """Open a new file, or the place of a piece, for writing; pieces come in any order."""
            stream = (target / ref.path).open("r+b" if ref.path in in_pieces else "xb")
            stream.seek(ref.at)
            return stream

        reads = [pool.submit(_fetch, group, locate, create, progress) for group in merge_reads(remote)]
        try:
            for read in reads:
                read.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return DownloadStatistics(len(files), sum(ref.length for ref in remote))


def merge_reads(
    refs: Iterable[FileRef], *, read_bytes: int = READ_BYTES, gap: int = MERGE_GAP
) -> Iterator[tuple[FileRef, ...]]:
    """Yield groups of files for one read each: neighbours in one object, at most `read_bytes` long in total."""
    group: list[FileRef] = []
    end = 0
    for ref in sorted(refs, key=lambda ref: (ref.object, ref.offset, ref.length)):
        apart = not group or ref.object != group[0].object or ref.offset > end + gap
        if apart or max(end, ref.offset + ref.length) - group[0].offset > read_bytes:
            if group:
                yield tuple(group)
            group, end = [], 0
        group.append(ref)
        end = max(end, ref.offset + ref.length)
    if group:
        yield tuple(group)


def _files(refs: Sequence[FileRef]) -> dict[str, list[FileRef]]:
    """Return the pieces of each file by path, in order; most files have one."""
    files: dict[str, list[FileRef]] = {}
    for ref in sorted(refs, key=lambda ref: ref.at):
        path = PurePosixPath(ref.path)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise UnsafePath(f"The snapshot names the file {ref.path!r}, which is unsafe")
        pieces = files.setdefault(str(path), [])
        end = pieces[-1].at + pieces[-1].length if pieces else 0
        if ref.at != end or (pieces and not ref.at):
            raise UnsafePath(
                f"The snapshot names the file {ref.path!r}, which is unsafe: it is there twice, or a piece is missing"
            )
        pieces.append(ref)
    return files


def _link(pieces: Sequence[FileRef], target: Path, candidates: Sequence[Path]) -> bool:
    path = pieces[0].path
    for candidate in candidates:
        file = candidate / path
        try:
            if file.stat().st_size != sum(ref.length for ref in pieces) or not _is_content(pieces, file):
                continue
            os.link(file, target / path)
        except FileNotFoundError:
            continue
        return True
    return False


def _is_content(pieces: Sequence[FileRef], file: Path) -> bool:
    with file.open("rb") as stream:
        if len(pieces) == 1:
            return hashlib.file_digest(stream, "sha256").hexdigest() == pieces[0].sha256
        return all(hashlib.sha256(stream.read(ref.length)).hexdigest() == ref.sha256 for ref in pieces)


def _fetch(group: tuple[FileRef, ...], locate: Locate, create: Create, progress: Callable[[int], None]) -> None:
    store, key = locate(group[0].object)
    if len(group) == 1:
        _write(group[0], store, create, _pieces(group[0], store, key))
    else:
        start = group[0].offset
        length = max(ref.offset + ref.length for ref in group) - start
        whole = memoryview(_read(group[0], store, key, start, length))
        for ref in group:
            _write(ref, store, create, [whole[ref.offset - start : ref.offset - start + ref.length]])
    progress(sum(ref.length for ref in group))


def _pieces(ref: FileRef, store: Store, key: Key) -> Iterator[bytes]:
    for offset in itertools.count(0, READ_BYTES):
        if offset >= ref.length:
            return
        yield _read(ref, store, key, ref.offset + offset, min(READ_BYTES, ref.length - offset))


def _read(ref: FileRef, store: Store, key: Key, offset: int, length: int) -> bytes:
    if length == 0:
        return b""
    try:
        return store.get_range(key, offset, length)
    except ObjectMissing:
        raise SnapshotFileMissing(
            f"The object {ref.object} in {store.uri} does not exist; it holds the file {ref.path}",
            "restore from another checkpoint or savepoint",
        ) from None
    except (StoreUnavailable, StoreDenied):
        raise
    except StoreError as error:
        raise SnapshotFileMissing(
            f"The object {ref.object} in {store.uri} does not hold the whole file {ref.path}: {error.what}",
            "restore from another checkpoint or savepoint",
        ) from error


def _write(ref: FileRef, store: Store, create: Create, pieces: Iterable[bytes | memoryview]) -> None:
    digest = hashlib.sha256()
    with create(ref) as stream:
        for piece in pieces:
            digest.update(piece)
            stream.write(piece)
    if digest.hexdigest() != ref.sha256:
        raise SnapshotFileCorrupt(
            f"The file {ref.path} in the object {ref.object} of {store.uri} is not what was uploaded: its SHA-256 is "
            f"{digest.hexdigest()} instead of {ref.sha256}",
            "restore from another checkpoint or savepoint",
        )
