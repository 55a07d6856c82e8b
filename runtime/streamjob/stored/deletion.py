"""Deletes a stored snapshot by hand, without breaking the rule that a file has one owner who may delete it.

A savepoint belongs to its user. It is self-contained: its manifest is deleted first, then its files.

A checkpoint belongs to its job, and a running job may base its next checkpoint on the files of any earlier one. So the
job's log is claimed first. A process that still runs the job can complete nothing after that, and ends as superseded.
The deletion then spares all files that other checkpoints refer to, above all those of the newest. No later epoch builds
on anything but the newest (`protocol.log.registry`), so the deletion does no harm even if the claim is lost at once.
Checkpoints are deleted from the oldest on, as when they are subsumed: the log has no holes, and the next owner sees a
job that had retained fewer.

Snapshots that another job has claimed (`protocol.log.claiming`) belong to that job and are refused here.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamjob.errors import CannotRestore, InvalidInput, Superseded
from streamjob.ids import Attempt, CheckpointId, Key, LogSeq, Owner
from streamjob.protocol.log.claiming import find_claimed, mark_for_deletion
from streamjob.protocol.log.deleting_garbage import CannotCollect, records_below
from streamjob.protocol.log.ownership import Claim, Identity, claim_log, verify
from streamjob.protocol.log.records import JobId
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
from streamjob.snapshot.record import LogRecord, RecordKind
from streamjob.store.base import Store
from streamjob.store.effects import Program, delete, drive, list_all
from streamjob.stored.reading import JobSnapshots, StoredSnapshot


class CannotDelete(InvalidInput):
    """The snapshot must not be deleted, or not with these permissions; nothing was deleted."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result of a deletion: ids, and the number of objects including manifests and records."""

    ids: tuple[CheckpointId, ...]
    objects: int


def delete_snapshot(
    job: JobSnapshots, checkpoint: CheckpointId, *, fence: bool, with_older: bool, owner: Owner, now: float
) -> Deleted:
    """Delete a savepoint, or a checkpoint together with older ones.

    Args:
        job: the job's snapshots as read before.
        checkpoint: the snapshot's id.
        fence: whether the job's log may be claimed, which ends any process that runs the job.
        with_older: whether older checkpoints of the job may be deleted with it.
        owner: random identity for the claim.
        now: seconds since 1970.

    Raises:
        NoSuchSnapshot: the log names no such snapshot.
        CannotDelete: it is the newest completion, it is still needed, another job has claimed it, or a permission is
            missing.
        CannotCollect: the manifest of a remaining checkpoint cannot be read, so its needs are unknown; nothing was
            deleted.
        LogDamaged: the log is damaged; nothing was deleted.
        Superseded: another owner has claimed the log meanwhile; only that owner may delete its files.
        StoreUnavailable, StoreDenied: the deletion is incomplete. Files of a checkpoint without a manifest are garbage,
            which the job's next owner removes.
    """
    subject = job.named(checkpoint)
    assert subject.record is not None
    if subject.newest:
        raise CannotDelete(
            f"{subject.label} is the newest completion of job {job.view.job}: the job restarts from it",
            "delete the whole directory of the job if it is not to start again",
        )
    if subject.record.kind is RecordKind.SAVEPOINT:
        return _delete_savepoint(job, subject)
    older = tuple(
        each.record
        for each in job.snapshots
        if each.record is not None
        and each.record.kind is RecordKind.CHECKPOINT
        and each.record.seq < subject.record.seq
        and not each.gone
    )
    if older and not with_older:
        raise CannotDelete(
            f"older checkpoints than {checkpoint} are retained: {', '.join(str(record.id) for record in older)}",
            "checkpoints are deleted from the oldest on: add --with-older to delete them, too",
        )
    if not fence:
        raise CannotDelete(
            f"{subject.label} belongs to job {job.view.job}, which deletes its own checkpoints while it runs",
            "set checkpointing.numRetained; or, if the job has stopped for good, add --fence: it claims the job's log, "
            "and a process that still runs the job ends as superseded",
        )
    doomed = (*older, subject.record)
    return drive(job.location.store, _delete_checkpoints(_identity(job, owner), doomed, now))


def _identity(job: JobSnapshots, owner: Owner) -> Identity:
    # Use the last claim's attempt number. The controller's numbers only grow, so it can still claim the log later.
    return Identity(job=job.view.job, owner=owner, attempt=job.view.attempt or Attempt(0))


def _delete_checkpoints(identity: Identity, doomed: tuple[LogRecord, ...], now: float) -> Program[Deleted]:
    claim = yield from claim_log(identity, now)
    numbers = {record.seq for record in doomed}
    newest = claim.newest
    if newest is None or newest.seq in numbers:
        raise CannotDelete(f"the log of job {identity.job} has changed meanwhile", "repeat the command")
    kept = [record for record in claim.below.completions if record.seq not in numbers]
    needed: set[Key] = set()
    for record in kept:
        needed |= yield from _needs(record, newest, oldest_doomed=min(numbers))
    needed |= yield from _claimed_files()
    freed: set[Key] = set()
    for record in doomed:
        assert record.manifest is not None
        try:
            freed |= {own_key(name) for name in (yield from read_completed(record)).objects()}
        except CannotRestore:
            # Its files are unknown now; the next owner's sweep finds them, since no other checkpoint needs them.
            continue
    files = {key for key in freed - needed if _is_earlier(key, claim)}
    manifests = tuple(Key(record.manifest) for record in doomed if record.manifest is not None)
    for manifest in manifests:
        if not (yield from mark_for_deletion(manifest, identity.job)):
            raise _claimed(manifest)
    yield from verify(claim)
    yield from delete(manifests)
    yield from delete((*sorted(files), *(Key(keys.claim_marker(manifest)) for manifest in manifests)))
    pruned = yield from _prune(identity, kept, newest, now)
    ids = tuple(record.id for record in doomed if record.id is not None)
    return Deleted(ids, len(manifests) + len(files) + pruned)


def _needs(record: LogRecord, newest: LogRecord, oldest_doomed: LogSeq) -> Program[set[Key]]:
    """Return the shared files that a remaining completion needs."""
    assert record.manifest is not None
    if record.kind is RecordKind.SAVEPOINT and record.seq != newest.seq:
        return set()
    try:
        if is_uri(record.manifest):
            return set()
        manifest = yield from read_completed(record)
    except CannotRestore as error:
        if record.seq < oldest_doomed:
            # Already deleted: it is older than the oldest retained one.
            return set()
        raise CannotCollect(f"nothing is deleted: {record.kind} {record.id} is retained, and {error.what}") from error
    return {own_key(name) for name in manifest.objects()}


def _claimed_files() -> Program[set[Key]]:
    """Return the shared files of checkpoints that other jobs have claimed."""
    needed: set[Key] = set()
    for manifest in (yield from find_claimed()):
        try:
            needed |= {own_key(name) for name in (yield from read_manifest(manifest)).objects()}
        except SnapshotMissing:
            continue
        except CannotRestore as error:
            raise CannotCollect(f"nothing is deleted: another job has claimed {manifest}, and {error.what}") from error
    return needed


def _claimed(manifest: str) -> CannotDelete:
    return CannotDelete(
        f"another job has claimed {manifest}: {keys.claim_marker(manifest)} says which one",
        "delete that marker if the other job does not start from the snapshot any more",
    )


def _is_earlier(key: Key, claim: Claim) -> bool:
    epoch = keys.shared_epoch(key)
    return epoch is not None and epoch < claim.epoch


def _prune(identity: Identity, kept: list[LogRecord], newest: LogRecord, now: float) -> Program[int]:
    """Prune the log below the oldest remaining checkpoint, but never the newest completion."""
    checkpoints = [record.seq for record in kept if record.kind is not RecordKind.SAVEPOINT]
    # Only records that a later record has given up may be deleted.
    try:
        claim = yield from claim_log(identity, now, again=True, oldest=min([*checkpoints, newest.seq]))
    except Superseded:
        # The next owner prunes the log instead.
        return 0
    superfluous = yield from records_below(claim.oldest)
    yield from delete(tuple(sorted(superfluous)))
    return len(superfluous)


def _delete_savepoint(job: JobSnapshots, subject: StoredSnapshot) -> Deleted:
    """Delete a savepoint's manifest and then its files in its own directory."""
    assert subject.id is not None
    if subject.manifest is None:
        raise CannotDelete(
            f"{subject.label} cannot be read, so its files are not known: {subject.problem}",
            f"delete the directory of {subject.uri} by hand, if it is there",
        )
    root = subject.home.uri
    for other in job.snapshots:
        if other is subject or other.manifest is None:
            continue
        if any(name.startswith(root) for name in other.manifest.objects()):
            raise CannotDelete(
                f"{other.label} of job {job.view.job} refers to files of {subject.label}",
                "wait until it is subsumed: a job that claimed a savepoint needs it until then",
            )
    return Deleted((subject.id,), _delete_files(subject, subject.manifest, job.view.job))


def _delete_files(subject: StoredSnapshot, manifest: Manifest, job: JobId) -> int:
    """Delete a savepoint's manifest and then its files; return the number of objects."""
    store = subject.home.store()
    try:
        if not drive(store, mark_for_deletion(Key(MANIFEST_NAME), job)):
            raise _claimed(subject.uri)
        store.delete([Key(MANIFEST_NAME)])
        files = [Key(name) for name in sorted(manifest.objects()) if not is_uri(name)]
        store.delete([*files, Key(keys.claim_marker(MANIFEST_NAME))])
    finally:
        store.close()
    return 1 + len(files)


def delete_alone(subject: StoredSnapshot) -> Deleted:
    """Delete a savepoint, such as a copy, that was named by its own location. No log is read.

    Raises:
        CannotDelete: it is not a savepoint, it cannot be read, or a job has claimed it.
        StoreUnavailable, StoreDenied: the deletion is incomplete.
    """
    manifest = subject.manifest
    if manifest is None:
        raise CannotDelete(
            f"{subject.uri} cannot be read, so its files are not known: {subject.problem}",
            "delete its directory by hand, if it is a savepoint's",
        )
    if manifest.kind != "savepoint":
        raise CannotDelete(
            f"{subject.uri} is a checkpoint: only its job's log shows whether it may be deleted",
            "name the job's location and the checkpoint's id",
        )
    return Deleted((manifest.id,), _delete_files(subject, manifest, JobId(manifest.namespace, manifest.job)))


def discard_savepoint(store: Store) -> None:
    """Delete the files of a failed savepoint.

    Args:
        store: the store at the savepoint's own directory, which no one else writes to and no log names.

    Raises:
        StoreUnavailable, StoreDenied: some files may remain.
    """
    written = [info.key for info in drive(store, list_all(""))]
    manifest = [key for key in written if key == MANIFEST_NAME]
    store.delete(manifest)
    store.delete([key for key in written if key not in manifest])
