"""Reading and writing manifests, and telling what is wrong with a snapshot that cannot be used."""

from __future__ import annotations

from collections.abc import Mapping

from streamjob.errors import CannotRestore
from streamjob.ids import Key
from streamjob.protocol.channels import BrokenLog
from streamjob.protocol.decoding import decode
from streamjob.protocol.stored_streams import check_streams
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import MANIFEST_FORMAT_VERSION, Manifest
from streamjob.store.base import ObjectMissing
from streamjob.store.effects import Program, get, get_uri, list_all

MANIFEST_NAME = "manifest.json"


class SnapshotMissing(CannotRestore):
    """A snapshot has no manifest at its place."""


class SnapshotCorrupt(CannotRestore):
    """A snapshot's manifest cannot be read, or is not that of the snapshot."""


class UnknownManifestVersion(CannotRestore):
    """A manifest has a format that this version does not know."""


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the stored form of a manifest."""
    return manifest.model_dump_json(by_alias=True).encode()


def decode_manifest(reference: str, content: bytes) -> Manifest:
    """Return the manifest stored at a reference.

    Raises:
        UnknownManifestVersion: its format is none that is known here.
        SnapshotCorrupt: it is no manifest, what it says of channels cannot be true, or the key says that it is
            another snapshot's.
    """
    manifest = decode(
        Manifest,
        content,
        name=reference,
        known_version=MANIFEST_FORMAT_VERSION,
        unknown=UnknownManifestVersion,
        corrupt=lambda reason: SnapshotCorrupt(f"{reference} is not a manifest: {reason}"),
    )
    ids = keys.manifest_ids(Key(reference))
    if ids is not None and ids != (manifest.epoch, manifest.id):
        raise SnapshotCorrupt(f"{reference} holds the manifest of checkpoint {manifest.epoch}-{manifest.id}")
    try:
        check_streams(manifest.channels)
    except BrokenLog as error:
        raise SnapshotCorrupt(f"{reference} has channels that cannot be restored: {error}") from error
    return manifest


def read_manifest(reference: str) -> Program[Manifest]:
    """Read a manifest by its key below the job's root or its absolute URI.

    Raises:
        SnapshotMissing, SnapshotCorrupt, UnknownManifestVersion: there is none that can be used.
    """
    try:
        content = yield from (get_uri(reference) if is_uri(reference) else get(Key(reference)))
    except ObjectMissing as error:
        raise SnapshotMissing(f"{reference} does not exist") from error
    return decode_manifest(reference, content)


def list_shared_sizes() -> Program[Mapping[str, int]]:
    """Return the job's shared files and their sizes in bytes: what `find_problems` compares with."""
    return {info.key: info.size for info in (yield from list_all(keys.SHARED_PREFIX))}


def find_problems(reference: str, stored: Mapping[str, int]) -> Program[tuple[str, ...]]:
    """Return what is wrong with a snapshot, one sentence each; nothing if it is whole.

    Objects outside the job's shared files are not looked at, and content is not hashed.

    Args:
        stored: the job's shared files and their sizes in bytes, listed before.
    """
    try:
        manifest = yield from read_manifest(reference)
    except CannotRestore as error:
        return (error.what,)
    needed: dict[str, int] = {}
    for file in manifest.files():
        if not is_uri(file.object) and keys.shared_epoch(Key(file.object)) is not None:
            needed[file.object] = max(needed.get(file.object, 0), file.offset + file.length)
    problems = []
    for key, size in sorted(needed.items()):
        if key not in stored:
            problems.append(f"{key} does not exist")
        elif stored[key] < size:
            problems.append(f"{key} has {stored[key]} bytes, of which {size} are needed")
    return tuple(problems)


def is_uri(reference: str) -> bool:
    """Return whether a reference is an absolute URI rather than a key below the job's root."""
    return "://" in reference
