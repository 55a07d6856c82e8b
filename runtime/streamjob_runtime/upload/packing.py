"""Decides how the files of a cut get into the store: reused, uploaded alone, or packed into one object.

A checkpoint needs dozens of files of a few kilobytes (logs, schemas, changelogs), and a request costs more than their
bytes; so the new small ones of a checkpoint are concatenated. An object stays as long as one file in it is referred to,
so files that live long are packed apart from those that the next few checkpoints give up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NewType

from streamjob.snapshot.manifest import FileRef
from streamjob_runtime.channels.in_flight import is_segment
from streamjob_runtime.spark_checkpoint.files import is_uniquely_named

Identity = NewType("Identity", str)
"""What makes two files the same one: the path for files that are named uniquely, the content for others."""

PACK_BELOW = 256 * 1024
PACK_TARGET = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A file of a cut as it lies in its hold.

    Args:
        path: relative to the chain's checkpoint directory.
        size: in bytes.
        sha256: of its content; None where the path alone is its identity, so that it need not be read to know it.
    """

    path: str
    size: int
    sha256: str | None = None

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
        twins: files whose content another file of the plan has, by path, with the path of that file.
    """

    reused: tuple[FileRef, ...]
    alone: tuple[HeldFile, ...]
    packs: tuple[tuple[HeldFile, ...], ...]
    twins: Mapping[str, str]

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


def plan_upload(
    files: Sequence[HeldFile],
    known: Mapping[Identity, FileRef],
    *,
    pack_below: int = PACK_BELOW,
    pack_target: int = PACK_TARGET,
) -> UploadPlan:
    """Return what is reused, what goes up alone and what is packed together.

    Args:
        files: the files of one cut; their paths differ.
        known: files in the store that may be reused; a size that differs is not the same file.
        pack_below: files smaller than this are packed, in bytes.
        pack_target: a pack is closed before it grows beyond this, in bytes.
    """
    reused: list[FileRef] = []
    fresh: list[HeldFile] = []
    twins: dict[str, str] = {}
    first: dict[Identity, str] = {}
    for file in files:
        ref = known.get(file.identity)
        if ref is not None and ref.length == file.size:
            reused.append(ref.model_copy(update={"path": file.path}))
        elif (twin := first.setdefault(file.identity, file.path)) != file.path:
            twins[file.path] = twin
        else:
            fresh.append(file)
    small = [file for file in fresh if file.size < pack_below]
    packs = [
        pack
        for lasting in (True, False)
        for pack in _packs([file for file in small if _is_lasting(file.path) is lasting], pack_target)
    ]
    return UploadPlan(
        reused=tuple(reused),
        alone=tuple(file for file in fresh if file.size >= pack_below),
        packs=tuple(packs),
        twins=twins,
    )


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


def _is_lasting(path: str) -> bool:
    """Whether a file tends to outlive the next snapshot of its store: schemas, metadata and SSTs do."""
    return path == "metadata" or bool({"_metadata", "_stateSchema", "SSTs"} & set(path.split("/")))
