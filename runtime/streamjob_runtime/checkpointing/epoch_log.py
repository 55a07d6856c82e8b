"""The log of a job in one epoch, and the files that its checkpoints share: each step as a program, see `store.effects`.

Nothing here reaches a store or a clock. `Ledger` drives the programs on the job's store; the simulation of the tests
drives them step by step, with faults in between.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import partial

from streamjob.ids import ChainUid, CheckpointId, Key, OperatorUid
from streamjob.protocol.log.claiming import CreateOutside, claim_snapshot
from streamjob.protocol.log.committing import Recovered, SinkEffect, recover
from streamjob.protocol.log.completing import complete_snapshot
from streamjob.protocol.log.deleting_garbage import GarbageCollector
from streamjob.protocol.log.ownership import Claim, Completion, unless_superseded, verify
from streamjob.protocol.log.registry import Registry
from streamjob.protocol.log.restore import LATEST, ClaimMode, Resolution, resolve, unusable
from streamjob.protocol.manifests.stored_manifests import read_completed
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import FileRef, Manifest
from streamjob.store.effects import Program, StoreEffect
from streamjob_runtime.checkpointing.upload.packing import FileIdentity, known_files


class EpochLog:
    """A claimed log, with the registry of its epoch.

    Uploads request keys and reusable files from their own threads; completing, committing and collecting happen on one
    thread, which alone changes the claim. `lock` guards the registry: pass it as `guard` to `drive`.

    Args:
        root: the URI of the job's root.
    """

    def __init__(self, claim: Claim, root: str) -> None:
        self.claim = claim
        self.lock = threading.RLock()
        self.incremental = True
        self.last_id = claim.last_id
        """The last used id; ids of new checkpoints are higher."""
        self._root = root
        self._registry = Registry(claim.epoch)
        self._collector = GarbageCollector(self._registry)
        self._completion: Completion | None = None
        self._builds_on: Manifest | None = None

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
        self.last_id = max(self.last_id, resolution.last_id)
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
        """Let ids of new checkpoints be above `last`, which a sink knows from a log that is lost."""
        self.last_id = max(self.last_id, last)

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
        with self.lock:
            self._registry.begin(checkpoint)

    def reusable_files(self, checkpoint: CheckpointId, chain: ChainUid) -> Mapping[FileIdentity, FileRef]:
        """Return a chain's files that need no upload; files that are looked up are kept for the checkpoint."""
        builds_on = self._builds_on if self.incremental else None
        files = known_files([] if builds_on is None else builds_on.files_of(chain))
        return _ReusableFiles(files, partial(self.reuse, checkpoint))

    def reuse(self, checkpoint: CheckpointId, file: FileRef) -> FileRef | None:
        """Return the location of a stored file, kept for the checkpoint; None if it must be uploaded."""
        with self.lock:
            found = self._registry.reuse(checkpoint, file.sha256, file.length)
        if found is None:
            return None
        if (found.object, found.offset) == (file.object, file.offset):
            return file
        return file.model_copy(update={"object": found.object, "offset": found.offset})

    def allocate(self, checkpoint: CheckpointId, sha256: str) -> Key:
        """Return the key for a new object of a checkpoint; the object is protected from now on."""
        with self.lock:
            return self._registry.allocate(checkpoint, sha256)

    def lend(self, sha256: str) -> Key:
        """Return the key for an object that another process of this epoch reads; garbage once the epoch is over."""
        with self.lock:
            return self._registry.lend(sha256)

    def aborted(self, checkpoint: CheckpointId) -> None:
        """Turn a checkpoint's uploads into garbage."""
        with self.lock:
            self._registry.aborted(checkpoint)

    def complete(self, manifest: Manifest, now: float, savepoint: str | None = None) -> Program[None]:
        """Make a snapshot real; all its files must be in the store.

        Args:
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


class _ReusableFiles(Mapping[FileIdentity, FileRef]):
    """Files by identity; a look-up protects its result from deletion, or finds that it must be uploaded."""

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
