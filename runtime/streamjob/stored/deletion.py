"""Deleting a stored snapshot by hand, within the rule that deletion has one owner.

A savepoint belongs to its user. It is self-contained, and its files are deleted, the manifest first.

A checkpoint belongs to its job, and a job that runs may build its next checkpoint on the files of any earlier one. So
the job's log is claimed first: a process that still runs the job can complete nothing any more and ends as superseded.
What is deleted then spares all that other checkpoints refer to, the newest one above all, and no later epoch builds on
anything but the newest (`protocol.registry`); hence the deletions do no harm even if the claim is lost at once.
Checkpoints go from the oldest on, as when they are subsumed: the log has no holes, and the next owner finds it as if
the job had retained fewer.

What another job has claimed (`protocol.claiming`) is that job's; it is refused here.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamjob.errors import CannotRestore, InvalidInput, Superseded
from streamjob.ids import Attempt, CheckpointId, Key, LogSeq, Owner
from streamjob.protocol.claiming import find_claimed, mark_for_deletion
from streamjob.protocol.collector import CannotCollect, records_below
from streamjob.protocol.log import JobId
from streamjob.protocol.manifests import MANIFEST_NAME, SnapshotMissing, is_uri, read_completed, read_manifest
from streamjob.protocol.ownership import Claim, Identity, claim, verify
from streamjob.protocol.registry import own_key
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import Manifest
from streamjob.snapshot.record import LogRecord, RecordKind
from streamjob.store.base import Store
from streamjob.store.effects import Program, delete, drive, list_all
from streamjob.stored.reading import JobSnapshots, StoredSnapshot


class CannotDelete(InvalidInput):
    """The snapshot must not be deleted, or not like this; nothing was deleted."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """What was deleted: ids, and objects including manifests and records."""

    ids: tuple[CheckpointId, ...]
    objects: int


def delete_snapshot(
    job: JobSnapshots, checkpoint: CheckpointId, *, fence: bool, with_older: bool, owner: Owner, now: float
) -> Deleted:
    """Delete a savepoint, or a checkpoint with those that are older.

    Args:
        job: the job's snapshots, as they were read before.
        checkpoint: the snapshot's id.
        fence: whether the job's log may be claimed, which ends a process that runs the job.
        with_older: whether older checkpoints of the job may be deleted with it.
        owner: random identity for the claim.
        now: seconds since 1970.

    Raises:
        NoSuchSnapshot: the log names no such snapshot.
        CannotDelete: it is the newest completion, it is still needed, another job has claimed it, or a permission above
            is missing.
        CannotCollect: a manifest that stays cannot be read, so nobody knows what it needs; nothing was deleted.
        LogDamaged: the log is damaged; nothing was deleted.
        Superseded: another owner has claimed the log meanwhile; its files are that owner's to delete.
        StoreUnavailable, StoreDenied: not everything was deleted; what is left of a checkpoint without its manifest is
            garbage that the job's next owner sweeps.
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
    return drive(job.place.store, _delete_checkpoints(_identity(job, owner), doomed, now))


def _identity(job: JobSnapshots, owner: Owner) -> Identity:
    # The attempt of the last claim, so that whatever the controller starts later may claim: its attempts only grow.
    return Identity(job=job.view.job, owner=owner, attempt=job.view.attempt or Attempt(0))


def _delete_checkpoints(identity: Identity, doomed: tuple[LogRecord, ...], now: float) -> Program[Deleted]:
    held = yield from claim(identity, now)
    numbers = {record.seq for record in doomed}
    newest = held.newest
    if newest is None or newest.seq in numbers:
        raise CannotDelete(f"the log of job {identity.job} has changed meanwhile", "repeat the command")
    kept = [record for record in held.below.completions if record.seq not in numbers]
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
            # Nobody knows its files any more; the next owner's sweep finds them by what the others need.
            continue
    files = {key for key in freed - needed if _is_earlier(key, held)}
    manifests = tuple(Key(record.manifest) for record in doomed if record.manifest is not None)
    for manifest in manifests:
        if not (yield from mark_for_deletion(manifest, identity.job)):
            raise _claimed(manifest)
    yield from verify(held)
    yield from delete(manifests)
    yield from delete((*sorted(files), *(Key(keys.claim_marker(manifest)) for manifest in manifests)))
    pruned = yield from _prune(identity, kept, newest, now)
    ids = tuple(record.id for record in doomed if record.id is not None)
    return Deleted(ids, len(manifests) + len(files) + pruned)


def _needs(record: LogRecord, newest: LogRecord, oldest_doomed: LogSeq) -> Program[set[Key]]:
    """Return the shared files that a completion needs which stays."""
    assert record.manifest is not None
    if record.kind is RecordKind.SAVEPOINT and record.seq != newest.seq:
        return set()
    try:
        if is_uri(record.manifest):
            return set()
        manifest = yield from read_completed(record)
    except CannotRestore as error:
        if record.seq < oldest_doomed:
            # Deleted before: what is older than the oldest that is retained.
            return set()
        raise CannotCollect(f"nothing is deleted: {record.kind} {record.id} is retained, and {error.what}") from error
    return {own_key(name) for name in manifest.objects()}


def _claimed_files() -> Program[set[Key]]:
    """Return the shared files that checkpoints need which other jobs have claimed."""
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


def _is_earlier(key: Key, held: Claim) -> bool:
    epoch = keys.shared_epoch(key)
    return epoch is not None and epoch < held.epoch


def _prune(identity: Identity, kept: list[LogRecord], newest: LogRecord, now: float) -> Program[int]:
    """Prune the log below the oldest checkpoint that stays, and never the newest completion."""
    checkpoints = [record.seq for record in kept if record.kind is not RecordKind.SAVEPOINT]
    # Only what a record of the log has given up is superfluous.
    try:
        held = yield from claim(identity, now, again=True, oldest=min([*checkpoints, newest.seq]))
    except Superseded:
        # The next owner prunes.
        return 0
    superfluous = yield from records_below(held.oldest)
    yield from delete(tuple(sorted(superfluous)))
    return len(superfluous)


def _delete_savepoint(job: JobSnapshots, subject: StoredSnapshot) -> Deleted:
    """Delete a savepoint's manifest and then the files that it names in its own directory."""
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
    """Delete a savepoint's manifest and then its files; return how many objects that were."""
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
    """Delete a savepoint that was named by its own place, such as a copy; no log is asked.

    Raises:
        CannotDelete: it is no savepoint, it cannot be read, or a job has claimed it.
        StoreUnavailable, StoreDenied: not everything was deleted.
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
    """Delete what a savepoint wrote that failed.

    Args:
        store: at the savepoint's own directory, which nothing else writes to and no log names.

    Raises:
        StoreUnavailable, StoreDenied: something may be left.
    """
    written = [info.key for info in drive(store, list_all(""))]
    manifest = [key for key in written if key == MANIFEST_NAME]
    store.delete(manifest)
    store.delete([key for key in written if key not in manifest])
