"""The log of a job in one epoch, and the files that its checkpoints share: each step as a program, see `store.effects`.

Nothing here reaches a store, a clock, a lock or a thread. `Ledger` drives the programs on the job's store; the
simulation of the tests drives them step by step, with faults in between.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

from streamjob.ids import ChainUid, CheckpointId, Key, OperatorUid
from streamjob.protocol.log.claiming import CreateOutside, claim_snapshot
from streamjob.protocol.log.committing import Recovered, SinkEffect, recover
from streamjob.protocol.log.completing import complete_snapshot
from streamjob.protocol.log.deleting_garbage import GarbageCollector
from streamjob.protocol.log.ownership import Claim, Completion, Identity, claim_log, unless_superseded, verify
from streamjob.protocol.log.registry import Registry
from streamjob.protocol.log.restore import LATEST, ClaimMode, Resolution, resolve, unusable
from streamjob.protocol.manifests.stored_manifests import read_completed
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import FileRef, Manifest
from streamjob.store.effects import Program, StoreEffect
from streamjob_runtime.checkpointing.upload.packing import Identity as FileIdentity
from streamjob_runtime.checkpointing.upload.packing import known_files


class EpochLog:
    """A claimed log, with the registry of its epoch; created by `claim_epoch`.

    Args:
        claim: the claim of the epoch.
        root: the URI of the job's root.
    """

    def __init__(self, claim: Claim, root: str) -> None:
        self.claim = claim
        self._root = root
        self._registry = Registry(claim.epoch)
        self._collector = GarbageCollector(self._registry)
        self._completion: Completion | None = None
        self._builds_on: Manifest | None = None
        self._last_id = claim.last_id

    @property
    def last_id(self) -> CheckpointId:
        """The last used id; ids of new checkpoints are higher."""
        return self._last_id

    def resolve(
        self,
        wanted: str = LATEST,
        *,
        mode: ClaimMode = ClaimMode.CLAIM,
        require_snapshot: bool = False,
    ) -> Generator[StoreEffect | CreateOutside, object, Resolution]:
        """Decide which snapshot the epoch starts from.

        Args:
            wanted: `latest`, `none`, or a manifest's key or URI.
            mode: who owns the snapshot from then on.
            require_snapshot: refuse to start fresh.

        Raises:
            Superseded: another owner holds the log, and may have deleted missing files.
            CannotRestore: the snapshot cannot be used or claimed.
        """
        program = self._start_from(wanted, mode, require_snapshot)
        resolution = yield from unless_superseded(self.claim, program)
        self._registry = resolution.registry(self.claim)
        self._collector = GarbageCollector(self._registry)
        self._builds_on = resolution.manifest if resolution.reusable else None
        self._last_id = max(self._last_id, resolution.last_id)
        return resolution

    def _start_from(
        self, wanted: str, mode: ClaimMode, require_snapshot: bool
    ) -> Generator[StoreEffect | CreateOutside, object, Resolution]:
        resolution = yield from resolve(
            self.claim.below, wanted, root=self._root, mode=mode, require_snapshot=require_snapshot
        )
        if resolution.to_be_claimed and resolution.reference is not None:
            yield from claim_snapshot(resolution.reference, self.claim.identity.job, self._root)
        return resolution

    def skip_ids(self, last: CheckpointId) -> None:
        """Let ids of new checkpoints be above `last`."""
        self._last_id = max(self._last_id, last)

    def newest_manifest(self) -> Program[Manifest | None]:
        """Return the manifest of the newest completion, or None.

        Raises:
            Superseded: another owner holds the log, and may have deleted it.
            CannotRestore: it cannot be read.
        """
        newest = self.claim.newest
        if newest is None or newest.manifest is None:
            return None
        return (yield from unless_superseded(self.claim, read_completed(newest)))

    def recover(
        self, sinks: Iterable[OperatorUid], *, fork: bool
    ) -> Generator[StoreEffect | SinkEffect, object, Recovered]:
        """Commit the newest completion again, and discard output staged after it: the first step of an epoch.

        Args:
            sinks: the job's.
            fork: the epoch does not start from the newest completion.

        Raises:
            Superseded: another owner holds the log, and may have deleted the newest completion.
            CannotRestore: the newest completion cannot be read.
        """
        return (yield from unless_superseded(self.claim, recover(self.claim, sinks, fork=fork)))

    def explain_unusable(self, resolution: Resolution, problem: str) -> Program[Exception | None]:
        """Return the error for a newest completion with unusable files; None for another snapshot.

        Raises:
            Superseded: another owner holds the log, and may have deleted the files.
        """
        yield from verify(self.claim)
        record = resolution.record
        if record is None or record != self.claim.below.newest:
            return None
        return (yield from unusable(self.claim.below, record, [problem]))

    def begin(self, checkpoint: CheckpointId) -> None:
        """Start the upload of a checkpoint."""
        self._registry.begin(checkpoint)

    def known_files(self, chain: ChainUid) -> Mapping[FileIdentity, FileRef]:
        """Return the files of a chain in the snapshot that the next checkpoint builds on; none if it builds on none."""
        return known_files([] if self._builds_on is None else self._builds_on.files_of(chain))

    def reuse(self, checkpoint: CheckpointId, file: FileRef) -> FileRef | None:
        """Return the location of a stored file, kept for the checkpoint; None if it must be uploaded."""
        found = self._registry.reuse(checkpoint, file.sha256, file.length)
        if found is None:
            return None
        if (found.object, found.offset) == (file.object, file.offset):
            return file
        return file.model_copy(update={"object": found.object, "offset": found.offset})

    def allocate(self, checkpoint: CheckpointId, sha256: str) -> Key:
        """Return the key for a new object of a checkpoint."""
        return self._registry.allocate(checkpoint, sha256)

    def lend(self, sha256: str) -> Key:
        """Return the key for an object that another process of this epoch reads."""
        return self._registry.lend(sha256)

    def aborted(self, checkpoint: CheckpointId) -> None:
        """Turn a checkpoint's uploads into garbage."""
        self._registry.aborted(checkpoint)

    def complete(self, manifest: Manifest, now: float, savepoint: str | None = None) -> Program[None]:
        """Make a snapshot real; all its files must be in the store.

        Args:
            manifest: the snapshot.
            now: seconds since 1970.
            savepoint: for a savepoint, the log's reference to its manifest, which must be in the store, too.

        Raises:
            Superseded: another owner holds the log.
            OutcomeUnknown: it is not known yet whether it is completed; call again, or end the epoch.
            StoreError: it is not completed.
        """
        program = complete_snapshot(self.claim, self._registry, manifest, now, savepoint_uri=savepoint)
        self._completion = yield from program
        if savepoint is None:
            self._builds_on = manifest

    def uri_of(self, manifest: Manifest) -> str:
        """Return the URI of a checkpoint's manifest."""
        return self._root + keys.manifest(manifest.epoch, manifest.id)

    def may_name(self, checkpoint: CheckpointId) -> bool:
        """Return whether the log names a checkpoint or may do so; if not, it is certainly not completed."""
        return self.claim.may_name(checkpoint)

    def committed(self, checkpoint: CheckpointId) -> None:
        """Record that every sink has committed a completed checkpoint."""
        self.claim.committed(checkpoint)

    def collect(self, num_retained: int) -> Program[tuple[CheckpointId, ...]]:
        """Delete objects that are no longer needed; return the checkpoints that are no longer retained.

        Args:
            num_retained: number of retained checkpoints.

        Raises:
            Superseded: another owner holds the log.
            StoreError: the deletion is incomplete; the next call continues.
        """
        if self._completion is None:
            return ()
        collected = yield from self._collector.collect(self._completion, num_retained)
        return tuple(record.id for record in collected.subsumed if record.id is not None)


def claim_epoch(
    identity: Identity, root: str, now: float, num_retained: int, *, again: bool = False
) -> Program[EpochLog]:
    """Claim the job's log; `again` if this owner held it before.

    Args:
        identity: the job and who claims its log.
        root: the URI of the job's root.
        now: seconds since 1970.
        num_retained: number of retained checkpoints.
        again: whether this owner held the log before.

    Raises:
        Superseded: the last claim has a higher attempt, or with `again` another owner.
        ForeignLog, LogDamaged, UnknownRecordVersion: the log cannot be used.
        StoreError: the store does not allow the claim now.
    """
    claim = yield from claim_log(identity, now, num_retained=num_retained, again=again)
    return EpochLog(claim, root)


class ReusableFiles(Mapping[FileIdentity, FileRef]):
    """Files by identity; a look-up protects its result from deletion.

    Args:
        files: see `EpochLog.known_files`.
        reuse: keeps a file for a checkpoint, see `EpochLog.reuse`.
    """

    def __init__(self, files: Mapping[FileIdentity, FileRef], reuse: Callable[[FileRef], FileRef | None]) -> None:
        self._files = files
        self._reuse = reuse

    def __getitem__(self, identity: FileIdentity) -> FileRef:
        found = self._reuse(self._files[identity])
        if found is None:
            raise KeyError(identity)
        return found

    def __iter__(self) -> Iterator[FileIdentity]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)
