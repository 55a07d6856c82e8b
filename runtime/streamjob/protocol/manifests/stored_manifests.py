"""Reading and writing manifests, and describing the problems of an unusable snapshot."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from streamjob.errors import CannotRestore
from streamjob.ids import Key
from streamjob.protocol.emissions.channels import BrokenLog
from streamjob.protocol.manifests.decoding import decode
from streamjob.protocol.manifests.stored_streams import check_streams
from streamjob.snapshot import keys
from streamjob.snapshot.format_versions import FORMAT_VERSION
from streamjob.snapshot.manifest import Manifest
from streamjob.snapshot.record import LogRecord
from streamjob.snapshot.sealing import sealed
from streamjob.store.base import ObjectMissing
from streamjob.store.effects import Program, get, list_all

MANIFEST_NAME = "manifest.json"


class SnapshotMissing(CannotRestore):
    """A snapshot has no manifest at its location."""


class SnapshotCorrupt(CannotRestore):
    """A snapshot's manifest cannot be read, or belongs to another snapshot."""


class UnknownManifestVersion(CannotRestore):
    """A manifest has an unknown format."""


@dataclass(frozen=True, slots=True)
class NamedManifest:
    """A log record's reference to a manifest: its place, its size in bytes and its hash."""

    reference: str
    size: int
    sha256: str

    @staticmethod
    def of(reference: str, content: bytes) -> NamedManifest:
        """Return the log's reference to a manifest with this content."""
        return NamedManifest(reference, len(content), hashlib.sha256(content).hexdigest())


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the stored form of a manifest in the newest version."""
    return sealed(manifest.model_copy(update={"format_version": FORMAT_VERSION}).stored_fields())


def decode_manifest(reference: str, content: bytes) -> Manifest:
    """Return the manifest stored at a reference.

    Raises:
        UnknownManifestVersion: its format is unknown.
        SnapshotCorrupt: it is not a manifest, its channels contradict each other, or the key belongs to another
            snapshot.
    """
    manifest = decode(
        Manifest,
        content,
        name=reference,
        stored_fields=Manifest.stored_fields,
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


def decode_completed(record: LogRecord, content: bytes) -> Manifest:
    """Return the manifest of a completion from the content stored under its key.

    Raises:
        UnknownManifestVersion, SnapshotCorrupt: see `decode_manifest`; or it is not the manifest in the record.
    """
    assert record.manifest is not None
    manifest = decode_manifest(record.manifest, content)
    found = NamedManifest.of(record.manifest, content)
    if record.manifest_sha256 is not None and record.manifest_sha256 != found.sha256:
        raise SnapshotCorrupt(
            f"{record.manifest} is not the manifest that {keys.log_record(record.seq)} names: it has {found.size} "
            f"bytes with SHA-256 {found.sha256}, and {record.manifest_size} with {record.manifest_sha256} are named"
        )
    # A manifest that a repair of the log names again has an earlier epoch; its hash identifies it.
    other_epoch = manifest.epoch > record.epoch or (manifest.epoch < record.epoch and record.format_version == 1)
    if other_epoch or (manifest.id, manifest.kind) != (record.id, record.kind.value):
        raise SnapshotCorrupt(
            f"{record.manifest} is the manifest of {manifest.kind} {manifest.epoch}-{manifest.id}, "
            f"but the log names it for {record.kind} {record.epoch}-{record.id}"
        )
    return manifest


def read_manifest(reference: str) -> Program[Manifest]:
    """Read a manifest by its key below the job's root or its absolute URI.

    Raises:
        SnapshotMissing, SnapshotCorrupt, UnknownManifestVersion: it is missing or unusable.
    """
    return decode_manifest(reference, (yield from read_content(reference)))


def read_completed(record: LogRecord) -> Program[Manifest]:
    """Read the manifest of a completion, and check that it is the recorded one.

    Raises:
        SnapshotMissing, SnapshotCorrupt, UnknownManifestVersion: it is missing or unusable.
    """
    assert record.manifest is not None
    return decode_completed(record, (yield from read_content(record.manifest)))


def read_content(reference: str) -> Program[bytes]:
    """Read the content stored under a manifest's key. Raises SnapshotMissing."""
    try:
        return (yield from get(reference))
    except ObjectMissing as error:
        raise SnapshotMissing(f"{reference} does not exist") from error


def list_shared_sizes() -> Program[Mapping[str, int]]:
    """Return the job's shared files and their sizes in bytes, for `find_problems`."""
    return {info.key: info.size for info in (yield from list_all(keys.SHARED_PREFIX))}


def find_problems(record: LogRecord, stored: Mapping[str, int]) -> Program[tuple[str, ...]]:
    """Return the problems of a completion's snapshot, one sentence each; none if it is intact.

    Does not check objects outside the job's shared files, nor hashes.

    Args:
        stored: the job's shared files and their sizes in bytes.
    """
    try:
        manifest = yield from read_completed(record)
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
    """Return whether a reference is an absolute URI, as opposed to a key below the job's root."""
    return "://" in reference
