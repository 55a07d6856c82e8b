"""Deleting stored snapshots whose job is gone or whose resource is: the controller is then their only owner.

Everything may be interrupted and repeated. A snapshot that another job has claimed is spared, and nothing is deleted
while the claims are unknown.
"""

from __future__ import annotations

from streamjob.errors import CannotRestore, InvalidInput
from streamjob.ids import Attempt, Key, LogSeq, Owner
from streamjob.protocol.log.claiming import CannotClaim, Marker, find_claimed, mark_for_deletion, read_marker
from streamjob.protocol.log.deleting_garbage import CannotCollect, records_below
from streamjob.protocol.log.ownership import Identity, claim_log
from streamjob.protocol.log.records import JobId, read
from streamjob.protocol.log.registry import own_key
from streamjob.protocol.manifests.stored_manifests import (
    MANIFEST_NAME,
    SnapshotMissing,
    is_uri,
    read_completed,
    read_manifest,
)
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import Manifest
from streamjob.snapshot.record import RecordKind
from streamjob.store.base import ObjectMissing
from streamjob.store.effects import Program, delete, get, list_all, put_if_absent

_FILES = "files/"
_MANIFEST = Key(MANIFEST_NAME)
_MARKER = Key(keys.claim_marker(MANIFEST_NAME))


class NotDisposable(InvalidInput):
    """The snapshot must not be deleted; nothing was."""


def dispose_job(job: JobId, owner: Owner, attempt: Attempt, now: float) -> Program[int]:
    """Delete the log, checkpoints, shared files and staged rows of a job; return how many objects that were.

    One record stays, a claim that has given up all below it: a driver that wakes up on a lost node still meets it, and
    so can complete nothing in the log of a later job of this name.

    Args:
        job: whose log it is.
        owner: random identity for the claim.
        attempt: higher than that of every driver.
        now: seconds since 1970.

    Raises:
        Superseded: another process claims the log with a higher attempt.
        LogDamaged: the log is damaged; nothing was deleted.
        CannotCollect: the files of a checkpoint that another job has claimed are unknown; nothing was deleted.
        StoreUnavailable, StoreDenied: not everything was deleted.
    """
    identity = Identity(job=job, owner=owner, attempt=attempt)
    fence = yield from claim_log(identity, now)
    spared: set[Key] = set()
    for manifest in (yield from find_claimed()):
        try:
            needed = (yield from read_manifest(manifest)).objects()
        except SnapshotMissing:
            continue
        except CannotRestore as error:
            raise CannotCollect(f"nothing is deleted: another job has claimed {manifest}, and {error.what}") from error
        spared |= {own_key(name) for name in needed} | {manifest, Key(keys.claim_marker(manifest))}
    checkpoints = [info.key for info in (yield from list_all(keys.CHECKPOINTS_PREFIX))]
    shared = [info.key for info in (yield from list_all(keys.SHARED_PREFIX))]
    staged = [info.key for info in (yield from list_all(keys.STAGED_PREFIX))]
    # From here on the log has nothing below the second claim, and snapshots that it does not name do not exist.
    claim = yield from claim_log(identity, now, again=True, oldest=LogSeq(fence.last_seq + 1))
    records = yield from records_below(claim.oldest)
    gone = 0
    manifests = [key for key in checkpoints if keys.manifest_ids(key) is not None]
    for group in (
        records,
        manifests,
        shared,
        staged,
        [key for key in checkpoints if key not in manifests],
    ):
        doomed = tuple(sorted(key for key in group if key not in spared))
        yield from delete(doomed)
        gone += len(doomed)
    return gone


def find_claim(directory: str, namespace: str) -> Program[Marker | None]:
    """Return the claim of another job on a savepoint that is to be deleted; None for none.

    Args:
        directory: its URI, for messages.
        namespace: who deletes it.

    Raises:
        NotDisposable: it is not theirs to delete, or cannot be read.
        StoreUnavailable, StoreDenied: the claim is unknown.
    """
    if (yield from _disposable(directory, namespace)) is None:
        return None
    try:
        marker = yield from read_marker(_MANIFEST)
    except CannotClaim as error:
        raise NotDisposable(f"whether a job has claimed {directory} is unknown: {error.what}", error.fix) from error
    if marker is None or marker.kind == "claim":
        return marker
    return marker.voided


def why_claimed(job: JobId, directory: str) -> Program[str | None]:
    """Return why a job that may be gone still needs the savepoint that it has claimed; None if it does not.

    A job claims its log before it looks at the marker, so one that is about to start shows. The store that drives this
    is rooted at the job's root.

    Args:
        job: the claimant.
        directory: URI of the savepoint.

    Raises:
        LogDamaged, UnknownRecordVersion: the claim is unknown.
        StoreUnavailable, StoreDenied: the claim is unknown.
    """
    view = yield from read(job)
    if view.last is None:
        return None
    if view.last.kind is RecordKind.CLAIM:
        # The claim of a disposal gives up all below itself.
        disposed = view.last.seq > 0 and view.last.oldest == view.last.seq and not view.completions
        return None if disposed else f"epoch {view.last.epoch} of its log has not completed anything"
    name = directory.rstrip("/").rpartition("/")[2]
    for record in view.completions:
        if record.kind is RecordKind.SAVEPOINT:
            # It holds all of its files itself.
            continue
        try:
            manifest = yield from read_completed(record)
        except SnapshotMissing:
            continue
        except CannotRestore as error:
            return f"its {record.kind} {record.id} cannot be read: {error.what}"
        if any(f"/{name}/" in reference for reference in manifest.objects() if is_uri(reference)):
            return f"its {record.kind} {record.id} refers to the savepoint's files"
    return None


def void_claim(claim: Marker, directory: str, namespace: str) -> Program[None]:
    """Put the marker of a deletion in the place of a claim. May be repeated.

    Afterwards check again whether the claimant needs the savepoint: a start that met the old marker shows in its log by
    then.

    Args:
        claim: the content of the marker.
        directory: URI of the savepoint, for messages.
        namespace: who deletes it.

    Raises:
        NotDisposable: it is not theirs to delete, or cannot be read.
    """
    manifest = yield from _disposable(directory, namespace)
    if manifest is None or (yield from read_marker(_MANIFEST)) != claim:
        return
    yield from delete((_MARKER,))
    deletion = Marker(kind="deletion", job=manifest.job, namespace=manifest.namespace, voided=claim)
    yield from put_if_absent(_MARKER, deletion.encoded())


def restore_claim(claim: Marker) -> Program[None]:
    """Take a claim's voiding back; one that was not voided is left alone."""
    found = yield from read_marker(_MANIFEST)
    if found is None or found.voided != claim:
        return
    yield from delete((_MARKER,))
    yield from put_if_absent(_MARKER, claim.encoded())


def delete_savepoint(directory: str, namespace: str) -> Program[int]:
    """Delete a savepoint, its manifest first; return how many objects that were. One that is gone is no error.

    The store that drives this is rooted at the savepoint's own directory.

    Args:
        directory: its URI, for messages.
        namespace: who deletes it; a savepoint of a job in another namespace is not theirs.

    Raises:
        NotDisposable: it is no savepoint, another namespace's, cannot be read, or another job has claimed it.
        StoreUnavailable, StoreDenied: not everything was deleted.
    """
    manifest = yield from _disposable(directory, namespace)
    if manifest is None:
        try:
            yield from get(_MARKER)
        except ObjectMissing:
            return 0
        # The manifest was deleted after this marker was created, and the deletion was interrupted.
        files = [info.key for info in (yield from list_all(_FILES))]
        yield from delete(tuple(files))
        yield from delete((_MARKER,))
        return 1 + len(files)
    if not (yield from mark_for_deletion(_MANIFEST, JobId(manifest.namespace, manifest.job))):
        raise NotDisposable(
            f"another job has claimed the savepoint at {directory}: {_MARKER} says which one",
            "delete that marker if the other job does not start from it any more",
        )
    own = tuple(sorted(Key(name) for name in manifest.objects() if not is_uri(name)))
    yield from delete((_MANIFEST,))
    yield from delete(own)
    yield from delete((_MARKER,))
    return 2 + len(own)


def _disposable(directory: str, namespace: str) -> Program[Manifest | None]:
    """Return the manifest of a savepoint that a namespace may delete; None if it is gone."""
    try:
        manifest = yield from read_manifest(MANIFEST_NAME)
    except SnapshotMissing:
        return None
    except CannotRestore as error:
        raise NotDisposable(
            f"the savepoint at {directory} cannot be read, so its files are not known: {error.what}",
            "delete its directory by hand, if it is a savepoint's",
        ) from error
    if manifest.kind != "savepoint":
        raise NotDisposable(f"{directory} holds a {manifest.kind}, and no savepoint", "leave it to its job")
    if manifest.namespace != namespace:
        raise NotDisposable(
            f"{directory} holds a savepoint of namespace {manifest.namespace}, which is not for {namespace} to delete",
            "delete it there, or by hand",
        )
    return manifest
