"""Decides how the files of a cut get into the store: reused, uploaded alone, or packed into one object.

A checkpoint needs dozens of files of a few kilobytes (logs, schemas, changelogs), and a request costs more than their
bytes. So the small new ones of a checkpoint are concatenated. An object stays as long as one of its files is referred
to. So long-lived files are packed separately from those that the next few checkpoints give up, and files that survive
in too many packs are packed again (`repacking`).

A file that grows by appending, such as the log of the file source, would be uploaded whole each time. Instead it is
uploaded in pieces whose bounds do not move as it grows, so the earlier pieces are in the store already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NewType

from streamjob.snapshot.manifest import FileRef
from streamjob_runtime.chain.channels.in_flight import is_segment
from streamjob_runtime.checkpointing.upload.repacking import packs_of, packs_to_rewrite
from streamjob_runtime.spark.checkpoint_dir.files import is_uniquely_named
from streamjob_runtime.spark.checkpoint_dir.sources import grows_by_appending

FileIdentity = NewType("FileIdentity", str)
"""Equal for files that are the same: the path of uniquely named files, the content of others."""

PACK_BELOW = 256 * 1024
PACK_TARGET = 8 * 1024 * 1024
LARGEST_PIECE = 256 * 1024
LEAST_PIECE = 16 * 1024
WHOLE_BELOW = 64 * 1024
"""Files that grow by appending are uploaded whole below this size, in bytes."""

FilePosition = tuple[str, int]
"""A file's path, and the offset of a piece in it; 0 for a whole file."""


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A file of a cut in its hold, or a piece of one.

    Args:
        path: relative to the chain's checkpoint directory.
        size: in bytes.
        sha256: the hash of its content; None if the path alone is its identity, so that it need not be read.
        at: the offset of the piece in the file; 0 for a whole file.
    """

    path: str
    size: int
    sha256: str | None = None
    at: int = 0

    @property
    def position(self) -> FilePosition:
        """Its unique position within its cut."""
        return self.path, self.at

    @property
    def identity(self) -> FileIdentity:
        """Its identity, which equal files share."""
        return by_path(self.path) if self.sha256 is None else by_content(self.sha256, self.size)


@dataclass(frozen=True, slots=True)
class UploadPlan:
    """The plan for uploading the files of a cut.

    Args:
        reused: files in the store, in the form of the manifest.
        alone: files that become separate objects.
        packs: groups of files; each group becomes one object, in this order.
        twins: files with the same content as another file of the plan: by position, with the position of the other.
    """

    reused: tuple[FileRef, ...]
    alone: tuple[HeldFile, ...]
    packs: tuple[tuple[HeldFile, ...], ...]
    twins: Mapping[FilePosition, FilePosition]

    @property
    def size(self) -> int:
        """Bytes to upload."""
        return sum(file.size for file in (*self.alone, *(file for pack in self.packs for file in pack)))

    @property
    def objects(self) -> int:
        """Number of objects to create."""
        return len(self.alone) + len(self.packs)


def by_path(path: str) -> FileIdentity:
    """Return the identity of a uniquely named file."""
    return FileIdentity(f"path:{path}")


def by_content(sha256: str, size: int) -> FileIdentity:
    """Return the identity of a file whose name may be reused for other content."""
    return FileIdentity(f"sha256:{sha256}:{size}")


def known_files(refs: Iterable[FileRef]) -> dict[FileIdentity, FileRef]:
    """Return the files of a chain's earlier completed checkpoints by identity, for `plan_upload`; later ones win."""
    known: dict[FileIdentity, FileRef] = {}
    for ref in refs:
        known[by_content(ref.sha256, ref.length)] = ref
        if is_uniquely_named(ref.path) or is_segment(ref.path):
            known[by_path(ref.path)] = ref
    return known


def pieces(size: int) -> Iterator[tuple[int, int]]:
    """Yield offset and length of the pieces of a file that grows by appending.

    After pieces of the maximum size, the rest is cut according to its binary digits. So a byte is part of a new piece
    only once per size, five times, however large the file becomes. The exception are the last bytes, fewer than
    `LEAST_PIECE`.

    Args:
        size: the file's size in bytes.
    """
    if size < WHOLE_BELOW:
        yield 0, size
        return
    at, length = 0, LARGEST_PIECE
    while at < size:
        while length > max(size - at, LEAST_PIECE):
            length //= 2
        yield at, min(length, size - at)
        at += length


def plan_upload(
    files: Sequence[HeldFile],
    known: Mapping[FileIdentity, FileRef],
    *,
    pack_below: int = PACK_BELOW,
    pack_target: int = PACK_TARGET,
) -> UploadPlan:
    """Return which files are reused, uploaded alone and packed together.

    Args:
        files: the files of one cut, with different positions.
        known: reusable files in the store; a file with another size is not the same.
        pack_below: files smaller than this are packed, in bytes.
        pack_target: maximum size of a pack in bytes, and of the data that is packed again.
    """
    reused: list[tuple[HeldFile, FileRef]] = []
    fresh: list[HeldFile] = []
    for file in files:
        ref = known.get(file.identity)
        if ref is not None and ref.length == file.size:
            reused.append((file, ref))
        else:
            fresh.append(file)
    given_up = packs_to_rewrite(packs_of((ref for _, ref in reused), pack_below), pack_target)
    again = [replace(file, sha256=ref.sha256) for file, ref in reused if ref.object in given_up]
    first: dict[FileIdentity, FilePosition] = {}
    twins: dict[FilePosition, FilePosition] = {}
    new: list[HeldFile] = []
    for file in (*again, *fresh):
        if (twin := first.setdefault(file.identity, file.position)) == file.position:
            new.append(file)
        else:
            twins[file.position] = twin
    outlived = {file.position for file in again}
    small = [file for file in new if file.size < pack_below]
    lasting = [file for file in small if file.position in outlived or _is_lasting(file)]
    passing = [file for file in small if file.position not in outlived and not _is_lasting(file)]
    return UploadPlan(
        reused=tuple(_at(ref, file) for file, ref in reused if ref.object not in given_up),
        alone=tuple(file for file in new if file.size >= pack_below),
        packs=(*_packs(lasting, pack_target), *_packs(passing, pack_target)),
        twins=twins,
    )


def _at(ref: FileRef, file: HeldFile) -> FileRef:
    if (ref.path, ref.at) == file.position:
        return ref
    return ref.model_copy(update={"path": file.path, "at": file.at})


def _packs(files: Sequence[HeldFile], target: int) -> Iterator[tuple[HeldFile, ...]]:
    pack: list[HeldFile] = []
    size = 0
    for file in files:
        if pack and size + file.size > target:
            yield tuple(pack)
            pack, size = [], 0
        pack.append(file)
        size += file.size
    if pack:
        yield tuple(pack)


def _is_lasting(file: HeldFile) -> bool:
    """Whether a file usually outlives the next snapshot of its store: schemas, metadata and SSTs do."""
    if grows_by_appending(file.path):
        return file.size >= (LEAST_PIECE if file.at else WHOLE_BELOW)
    return file.path == "metadata" or bool({"_metadata", "_stateSchema", "SSTs"} & set(file.path.split("/")))
