"""Decides how the files of a cut get into the store: reused, uploaded alone, or packed into one object.

A checkpoint needs dozens of files of a few kilobytes (logs, schemas, changelogs), and a request costs more than their
bytes; so the new small ones of a checkpoint are concatenated. An object stays as long as one file in it is referred to,
so files that live long are packed apart from those that the next few checkpoints give up, and what lives on in too many
packs is packed again (`repacking`).

A file that grows by appending, such as the log of the file source, would go up whole each time. It goes up in pieces
whose bounds do not move as it grows, so that those behind which it grew are in the store already.
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

Identity = NewType("Identity", str)
"""What makes two files the same one: the path for files that are named uniquely, the content for others."""

PACK_BELOW = 256 * 1024
PACK_TARGET = 8 * 1024 * 1024
LARGEST_PIECE = 256 * 1024
LEAST_PIECE = 16 * 1024
WHOLE_BELOW = 64 * 1024
"""Files that grow by appending go up whole below this size, in bytes."""

FilePosition = tuple[str, int]
"""A file's path, and where in the file a piece of it begins; 0 for a whole file."""


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A file of a cut as it lies in its hold, or a piece of one.

    Args:
        path: relative to the chain's checkpoint directory.
        size: in bytes.
        sha256: of its content; None where the path alone is its identity, so that it need not be read to know it.
        at: where in the file the piece begins; 0 for a whole file.
    """

    path: str
    size: int
    sha256: str | None = None
    at: int = 0

    @property
    def position(self) -> FilePosition:
        """What tells it from all others of its cut."""
        return self.path, self.at

    @property
    def identity(self) -> Identity:
        """What makes another file the same as this one."""
        return by_path(self.path) if self.sha256 is None else by_content(self.sha256, self.size)


@dataclass(frozen=True, slots=True)
class UploadPlan:
    """What is to be done for the files of a cut.

    Args:
        reused: files that the store has, as the manifest is to refer to them.
        alone: files that become an object each.
        packs: groups of files; each group becomes one object, in this order.
        twins: files whose content another file of the plan has, by position, with the position of that file.
        repacked: files among those that are packed which the store has, in packs that are to be given up.
    """

    reused: tuple[FileRef, ...]
    alone: tuple[HeldFile, ...]
    packs: tuple[tuple[HeldFile, ...], ...]
    twins: Mapping[FilePosition, FilePosition]
    repacked: int = 0

    @property
    def size(self) -> int:
        """Bytes to upload."""
        return sum(file.size for file in (*self.alone, *(file for pack in self.packs for file in pack)))

    @property
    def objects(self) -> int:
        """Objects to create."""
        return len(self.alone) + len(self.packs)


def by_path(path: str) -> Identity:
    """Return the identity of a file that is named uniquely."""
    return Identity(f"path:{path}")


def by_content(sha256: str, size: int) -> Identity:
    """Return the identity of a file whose name may be used again for another content."""
    return Identity(f"sha256:{sha256}:{size}")


def known_files(refs: Iterable[FileRef]) -> dict[Identity, FileRef]:
    """Return the files of earlier completed checkpoints of a chain by identity, for `plan_upload`; later ones win."""
    known: dict[Identity, FileRef] = {}
    for ref in refs:
        known[by_content(ref.sha256, ref.length)] = ref
        if is_uniquely_named(ref.path) or is_segment(ref.path):
            known[by_path(ref.path)] = ref
    return known


def pieces(size: int) -> Iterator[tuple[int, int]]:
    """Yield where the pieces of a file that grows by appending begin, and how long they are.

    Behind pieces of the largest size the rest is cut as its binary digits say. So a byte is in a new piece as often as
    there are sizes, five times, however large the file becomes; but for the last ones, fewer than `LEAST_PIECE`.

    Args:
        size: of the file, in bytes.
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
    known: Mapping[Identity, FileRef],
    *,
    pack_below: int = PACK_BELOW,
    pack_target: int = PACK_TARGET,
) -> UploadPlan:
    """Return what is reused, what goes up alone and what is packed together.

    Args:
        files: the files of one cut; their positions differ.
        known: files in the store that may be reused; a size that differs is not the same file.
        pack_below: files smaller than this are packed, in bytes.
        pack_target: a pack is closed before it grows beyond this, in bytes; and so much is packed again at most.
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
    first: dict[Identity, FilePosition] = {}
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
        repacked=len(again),
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
    """Whether a file tends to outlive the next snapshot of its store: schemas, metadata and SSTs do."""
    if grows_by_appending(file.path):
        return file.size >= (LEAST_PIECE if file.at else WHOLE_BELOW)
    return file.path == "metadata" or bool({"_metadata", "_stateSchema", "SSTs"} & set(file.path.split("/")))
