"""The owner of a snapshot that another job starts from in claim mode: a marker next to the manifest records it.

The marker is created with put-if-absent, either by the job that claims the snapshot or by the owner that is about to
delete it. It names its creator, and exactly one of both wins.

- The owner creates its marker, deletes the manifest, and then the files and the marker. If the marker is a claim, the
  snapshot is spared: manifest, files and marker stay.
- The claimer reads the manifest, creates its marker, and reads the manifest again: its marker may be late, when the
  owner has removed its own, and then the manifest is gone already.

All epochs of a job delete in the same way, so a later epoch can continue the deletion of an earlier one. A marker
without a manifest is garbage.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from streamjob.errors import CannotRestore
from streamjob.ids import Key
from streamjob.protocol.log.records import JobId
from streamjob.protocol.manifests.stored_manifests import SnapshotMissing, is_uri, read_manifest
from streamjob.snapshot import keys
from streamjob.store.base import ObjectMissing, StoreDenied, StoreUnavailable
from streamjob.store.effects import Program, StoreEffect, get, list_all, put_if_absent

E = TypeVar("E")

MARKER_FORMAT_VERSION: Literal[1] = 1
TRIES = 5

_NO_CLAIM = "start with --claim-mode no-claim, which leaves the snapshot to its owner"


class CannotClaim(CannotRestore):
    """The job cannot take ownership of the snapshot that it is to start from."""


@dataclass(frozen=True, slots=True)
class CreateOutside:
    """Create the object at an absolute URI unless one exists. Reply: bool; thrown: StoreUnavailable, StoreDenied."""

    uri: str
    content: bytes


class Marker(BaseModel):
    """The content of a marker; for a claim, `root` is the absolute URI of the claiming job's root.

    `voided` is the claim of a deleted job, which a deletion's marker has replaced.
    """

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")

    format_version: Literal[1] = MARKER_FORMAT_VERSION
    kind: Literal["claim", "deletion"]
    job: str
    namespace: str
    root: str = ""
    voided: Marker | None = None

    def encoded(self) -> bytes:
        """Return the stored form."""
        return self.model_dump_json(by_alias=True, exclude_none=True).encode()


def claim_snapshot(reference: str, job: JobId, root: str) -> Generator[StoreEffect | CreateOutside, object, None]:
    """Take ownership of a snapshot, so that its former owner deletes neither it nor its files. May be repeated.

    Args:
        reference: the manifest's key below the job's root, or its absolute URI; it existed a moment ago.
        job: the job that starts from it.
        root: the absolute URI of the job's root.

    Raises:
        CannotClaim: another job has claimed it, or its owner deletes or has deleted it.
        StoreDenied: its location is not writable; once it is, the claim succeeds.
        StoreUnavailable: whether it is claimed is unknown.
    """
    mine = Marker(kind="claim", job=job.name, namespace=job.namespace, root=root)
    marker, content = keys.claim_marker(reference), mine.encoded()
    try:
        if is_uri(marker):
            stored = yield from _create_or_read(lambda: _create_outside(marker, content), marker, content)
        else:
            stored = yield from _create_or_read(lambda: put_if_absent(Key(marker), content), marker, content)
    except StoreDenied as error:
        fix = "; or ".join(each for each in (error.fix, _NO_CLAIM) if each)
        raise type(error)(f"{reference} cannot be marked as claimed: {error.what}", fix) from error
    found = _decode(stored)
    if found is None:
        raise CannotClaim(f"{marker} is not a valid marker, so the owner of the snapshot is unknown", _NO_CLAIM)
    if found.kind == "deletion":
        raise CannotClaim(f"{reference} is being deleted by its job", "start from a later snapshot of that job")
    if found != mine:
        other = f"{found.namespace}/{found.job} at {found.root}"
        raise CannotClaim(f"{reference} is claimed by job {other} already", _NO_CLAIM)
    try:
        yield from read_manifest(reference)
    except SnapshotMissing as error:
        raise CannotClaim(
            f"{reference} was deleted by its job before it could be claimed", "start from a later snapshot of that job"
        ) from error


def mark_for_deletion(manifest: Key, job: JobId) -> Program[bool]:
    """Return whether the owner may delete a snapshot; False if another job has claimed it.

    Raises:
        StoreUnavailable, StoreDenied: the owner is unknown; it must not be deleted.
    """
    marker = Key(keys.claim_marker(manifest))
    content = Marker(kind="deletion", job=job.name, namespace=job.namespace).encoded()
    stored = yield from _create_or_read(lambda: put_if_absent(marker, content), marker, content)
    found = _decode(stored)
    return found is not None and found.kind == "deletion"


def read_marker(manifest: Key) -> Program[Marker | None]:
    """Return the marker next to a manifest; None if there is none.

    Raises:
        CannotClaim: it cannot be read.
    """
    marker = Key(keys.claim_marker(manifest))
    try:
        found = _decode((yield from get(marker)))
    except ObjectMissing:
        return None
    if found is None:
        raise CannotClaim(
            f"{marker} is not a valid marker, so the owner of the snapshot is unknown", "restore it, or delete it"
        )
    return found


def find_claimed() -> Program[tuple[Key, ...]]:
    """Return the manifests of the job's checkpoints that other jobs have claimed or tried to claim."""
    found = []
    for info in (yield from list_all(keys.CHECKPOINTS_PREFIX)):
        manifest = keys.marked_manifest(info.key)
        if manifest is None:
            continue
        try:
            marker = _decode((yield from get(info.key)))
        except ObjectMissing:
            continue
        if marker is None or marker.kind == "claim":
            found.append(manifest)
    return tuple(found)


def _create_outside(uri: str, content: bytes) -> Generator[CreateOutside, object, bool]:
    reply = yield CreateOutside(uri, content)
    assert isinstance(reply, bool)
    return reply


def _create_or_read(
    create: Callable[[], Generator[E, object, bool]], marker: str, content: bytes
) -> Generator[StoreEffect | E, object, bytes]:
    """Create a marker with `content` unless one exists; return the existing one."""
    for _ in range(TRIES):
        if (yield from create()):
            return content
        try:
            return (yield from get(marker))
        except ObjectMissing:
            # The deletion of the snapshot has reached its marker.
            continue
    raise StoreUnavailable("the marker of a snapshot appears and keeps disappearing", "try again")


def _decode(content: bytes) -> Marker | None:
    try:
        return Marker.model_validate_json(content)
    except ValidationError:
        return None
