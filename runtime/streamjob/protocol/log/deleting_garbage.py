"""Deletes objects that no retained checkpoint refers to; for the owner of the log, after a completion.

Objects of snapshots are deleted in three places, each by the only process that knows what may go:

- here, by the running job: the owner of the newest claim knows every file of its next checkpoints;
- in `streamjob.stored.deletion`, by a user, who owns savepoints, or claims the log before a checkpoint is deleted;
  a job deletes its failed savepoint in the same way;
- in `streamjob_operator.storage.disposal`, by the controller, after the job or the StreamSnapshot is deleted.

Sinks delete rows that they have staged (`streamjob.store.staging`), and the probe what it writes
(`streamjob.store.probe`): neither the log nor a list of a snapshot's files refers to these objects.

First all objects are classified; if a retained manifest cannot be read, nothing is deleted. Snapshots claimed by
another job are kept with all their files (`claiming`): each checkpoint is marked by a conditional create before its
manifest is deleted. Then the claim of the log is checked. It may be lost right afterwards, but that does no harm: the
list of deletions has nothing that the newest checkpoint of the log refers to and nothing of a later epoch, and no later
epoch builds on anything else (`registry`). Manifests are deleted before their files, so every snapshot with a manifest
is intact. Markers and records of the log are deleted with the files.

After the first completion of an epoch the whole store is swept, because crashed epochs and stopped owners leave unknown
garbage. From then on the registry knows all objects, and only the end of the log is listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from streamjob.errors import CannotRestore
from streamjob.ids import Key, LogSeq
from streamjob.protocol.log.claiming import mark_for_deletion
from streamjob.protocol.log.ownership import Claim, Completion, IllegalStep, verify
from streamjob.protocol.log.records import JobId, LogDamaged
from streamjob.protocol.log.registry import Registry
from streamjob.protocol.log.retention import prune_below, subsumed
from streamjob.protocol.manifests.stored_manifests import SnapshotMissing, read_completed, read_manifest
from streamjob.snapshot import keys
from streamjob.snapshot.record import LogRecord
from streamjob.store.base import StoreError
from streamjob.store.effects import PAGE_SIZE, Program, delete, list_all, list_page


class CannotCollect(StoreError):
    """A retained or claimed manifest cannot be read, so its files are unknown: nothing is deleted."""


@dataclass(frozen=True, slots=True)
class Collected:
    """The result of a collection: deleted manifests and files; `swept` if the whole store was scanned.

    `subsumed` are the checkpoints that are no longer retained, also those that another job has claimed.
    """

    subsumed: tuple[LogRecord, ...]
    manifests: frozenset[Key]
    files: frozenset[Key]
    swept: bool


@dataclass(frozen=True, slots=True)
class _Survey:
    manifests: frozenset[Key] = frozenset()
    markers: frozenset[Key] = frozenset()
    files: frozenset[Key] = frozenset()


@final
class GarbageCollector:
    """Deletes in one epoch; one call at a time. It continues where a failed call stopped.

    Args:
        registry: the epoch's; shared with the uploads, so under the same lock.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._swept = False
        self._superfluous: set[Key] = set()
        self._freed: set[Key] = set()
        self._manifests: set[Key] = set()
        self._files: set[Key] = set()
        self._markers: set[Key] = set()
        self._pruned_below: LogSeq | None = None

    def collect(self, completion: Completion, num_retained: int) -> Program[Collected]:
        """Delete the garbage after a completion, and prune the log.

        Args:
            completion: the permit; the latest completion of this epoch, or an earlier one.

        Raises:
            Superseded: another owner holds the log; nothing was deleted in this call.
            CannotCollect: a retained or claimed manifest cannot be read; nothing was deleted in this call.
            StoreUnavailable, StoreDenied: not everything was deleted; the next call continues.
        """
        claim, registry = completion.claim, self._registry
        if claim.epoch != registry.epoch:
            raise IllegalStep(f"the registry of epoch {registry.epoch} cannot tell what epoch {claim.epoch} needs")
        claim.check_held()
        swept = not self._swept
        survey = _Survey()
        if swept:
            yield from self._learn_retained(completion, num_retained)
            survey = yield from _list_objects()

        # No effect comes between here and the next one, so uploads and completions in the meantime are included.
        dropped = subsumed(claim.retained, num_retained)
        claim.give_up(dropped, num_retained)
        self._freed |= registry.subsume(record.id for record in dropped if record.id is not None) | survey.files
        retained = {record.manifest for record in claim.retained}
        self._superfluous |= {Key(record.manifest) for record in dropped if record.manifest is not None}
        self._superfluous |= registry.take_stray_manifests()
        self._superfluous |= {key for key in survey.manifests if key not in retained and self._is_garbage(key)}
        self._markers |= {key for key in survey.markers if self._is_stray_marker(key, survey)}
        self._swept = True
        yield from self._spare_claimed(claim.identity.job)

        self._files |= registry.condemn(self._freed)
        self._freed.clear()
        manifests, files = frozenset(self._manifests), frozenset(self._files)
        below = prune_below(claim)
        if manifests or files or self._markers or self._pruned_below is None or below > self._pruned_below:
            yield from self._verify(claim)
            yield from _delete_in_order(manifests)
            self._manifests -= manifests
            self._markers |= {Key(keys.claim_marker(key)) for key in manifests}
            markers = frozenset(self._markers)
            records = yield from self._records_to_prune(below)
            yield from _delete_in_order(files | markers | records)
            self._files -= files
            self._markers -= markers
            self._pruned_below = max(below, self._pruned_below or below)
        return Collected(dropped, manifests, files, swept)

    def _verify(self, claim: Claim) -> Program[None]:
        try:
            yield from verify(claim)
        except LogDamaged as error:
            # The job need not stop: its completions are intact, and it retains the snapshots that it knows.
            raise CannotCollect(f"nothing is deleted: {error.what}", error.fix) from error

    def _learn_retained(self, completion: Completion, num_retained: int) -> Program[None]:
        for record in completion.claim.retained[-num_retained:]:
            assert record.id is not None
            assert record.manifest is not None
            if self._registry.knows(record.id):
                continue
            try:
                manifest = yield from read_completed(record)
            except CannotRestore as error:
                raise CannotCollect(
                    f"nothing is deleted: checkpoint {record.id} is retained, and {error.what}",
                    "it is subsumed by later checkpoints, and then deletion continues",
                ) from error
            self._registry.adopt(manifest, reusable=False)

    def _spare_claimed(self, job: JobId) -> Program[None]:
        """Mark garbage for deletion, except snapshots that another job has claimed."""
        for manifest in sorted(self._superfluous):
            if (yield from mark_for_deletion(manifest, job)):
                self._manifests.add(manifest)
            else:
                try:
                    self._registry.spare((yield from read_manifest(manifest)))
                except SnapshotMissing:
                    # That claim came too late, and the claimer notices it.
                    self._markers.add(Key(keys.claim_marker(manifest)))
                except CannotRestore as error:
                    raise CannotCollect(
                        f"nothing is deleted: another job has claimed {manifest}, and {error.what}",
                        f"restore the object from a backup, or give it up: delete {keys.claim_marker(manifest)}",
                    ) from error
            self._superfluous.discard(manifest)

    def _is_garbage(self, key: Key) -> bool:
        ids = keys.manifest_ids(key)
        if ids is None:
            return False
        epoch, checkpoint = ids
        return epoch < self._registry.epoch or (
            epoch == self._registry.epoch and not self._registry.is_pending(checkpoint)
        )

    def _is_stray_marker(self, key: Key, survey: _Survey) -> bool:
        manifest = keys.marked_manifest(key)
        return manifest is not None and manifest not in survey.manifests and self._is_garbage(manifest)

    def _records_to_prune(self, below: LogSeq) -> Program[frozenset[Key]]:
        if self._pruned_below is not None:
            numbers = [LogSeq(seq) for seq in range(self._pruned_below, below)]
            return frozenset(key(seq) for seq in numbers for key in (keys.log_record, keys.record_copy))
        return (yield from records_below(below))


def records_below(below: LogSeq) -> Program[frozenset[Key]]:
    """Return the existing log records below a number, and their copies."""
    doomed: set[Key] = set()
    for prefix, seq_of in ((keys.LOG_PREFIX, keys.log_seq), (keys.COPIES_PREFIX, keys.copied_seq)):
        after, more = "", True
        while more:
            page = yield from list_page(prefix, after)
            found = [info.key for info in page.objects if (seq := seq_of(info.key)) is not None and seq < below]
            doomed.update(found)
            more = page.more and len(found) == len(page.objects)
            after = page.objects[-1].key if page.objects else after
    return frozenset(doomed)


def _list_objects() -> Program[_Survey]:
    files = yield from list_all(keys.SHARED_PREFIX)
    # A marker sorts before its manifest: if the manifest is missing here, it was already gone when the marker was
    # listed.
    found = [info.key for info in (yield from list_all(keys.CHECKPOINTS_PREFIX))]
    return _Survey(
        frozenset(key for key in found if keys.manifest_ids(key) is not None),
        frozenset(key for key in found if keys.marked_manifest(key) is not None),
        frozenset(info.key for info in files),
    )


def _delete_in_order(doomed: frozenset[Key]) -> Program[None]:
    ordered = sorted(doomed)
    for start in range(0, len(ordered), PAGE_SIZE):
        yield from delete(tuple(ordered[start : start + PAGE_SIZE]))
