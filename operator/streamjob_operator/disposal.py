"""Deleting stored snapshots whose job is gone or whose resource is: the controller is then their only owner.

Everything may be interrupted and repeated. What another job has claimed is spared, and whoever cannot tell deletes
nothing.
"""

from __future__ import annotations

from streamjob.errors import CannotRestore, InvalidInput
from streamjob.ids import Attempt, Key, Owner
from streamjob.protocol.claiming import find_claimed, mark_for_deletion
from streamjob.protocol.collector import CannotCollect
from streamjob.protocol.log import JobId
from streamjob.protocol.manifests import MANIFEST_NAME, SnapshotMissing, is_uri, read_manifest
from streamjob.protocol.ownership import Identity, claim, verify
from streamjob.protocol.registry import own_key
from streamjob.snapshot import keys
from streamjob.store.base import ObjectMissing
from streamjob.store.effects import Program, delete, get, list_all

_FILES = "files/"


class NotDisposable(InvalidInput):
    """The snapshot must not be deleted; nothing was."""


def dispose_job(job: JobId, owner: Owner, attempt: Attempt, now: float) -> Program[int]:
    """Delete the log, checkpoints, shared files and staged rows of a job; return how many objects that were.

    One record stays, the claim: a driver that wakes up on a lost node still meets it, and so can complete nothing in
    the log of a later job of this name.

    Args:
        job: whose log it is.
        owner: random identity for the claim.
        attempt: higher than that of every driver.
        now: seconds since 1970.

    Raises:
        Superseded: somebody claims the log with a higher attempt.
        CannotCollect: nobody knows what a checkpoint needs that another job has claimed; nothing was deleted.
        StoreUnavailable, StoreDenied: not everything was deleted.
    """
    held = yield from claim(Identity(job=job, owner=owner, attempt=attempt), now)
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
    records = [info.key for info in (yield from list_all(keys.LOG_PREFIX))]
    yield from verify(held)
    gone = 0
    manifests = [key for key in checkpoints if keys.manifest_ids(key) is not None]
    # Records first: what the log does not name does not exist, so nothing is ever named without its files.
    for group in (
        [key for key in records if key != keys.log_record(held.record.seq)],
        manifests,
        shared,
        staged,
        [key for key in checkpoints if key not in manifests],
    ):
        doomed = tuple(sorted(key for key in group if key not in spared))
        yield from delete(doomed)
        gone += len(doomed)
    return gone


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
    marker = Key(keys.claim_marker(MANIFEST_NAME))
    try:
        manifest = yield from read_manifest(MANIFEST_NAME)
    except SnapshotMissing:
        try:
            yield from get(marker)
        except ObjectMissing:
            return 0
        # The manifest was deleted behind this marker, and the deletion was interrupted.
        files = [info.key for info in (yield from list_all(_FILES))]
        yield from delete(tuple(files))
        yield from delete((marker,))
        return 1 + len(files)
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
    if not (yield from mark_for_deletion(Key(MANIFEST_NAME), JobId(manifest.namespace, manifest.job))):
        raise NotDisposable(
            f"another job has claimed the savepoint at {directory}: {marker} says which one",
            "delete that marker if the other job does not start from it any more",
        )
    own = tuple(sorted(Key(name) for name in manifest.objects() if not is_uri(name)))
    yield from delete((Key(MANIFEST_NAME),))
    yield from delete(own)
    yield from delete((marker,))
    return 2 + len(own)
