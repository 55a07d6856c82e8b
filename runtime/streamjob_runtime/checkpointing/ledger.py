"""The job's log and store in one epoch: the pure protocol, driven on the real store.

Uploads request keys and reusable files from their own threads; completing, committing and collecting happen on one
thread. One lock guards the shared state.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pydantic import JsonValue

from streamjob.clock import Clock
from streamjob.ids import ChainUid, CheckpointId, Epoch, Key, OperatorUid
from streamjob.protocol.claiming import CreateOutside, claim_snapshot
from streamjob.protocol.collector import Collector
from streamjob.protocol.committing import Abort, Commit, Recovered, recover
from streamjob.protocol.completing import complete_snapshot
from streamjob.protocol.log import JobId
from streamjob.protocol.ownership import Claim, Completion, Identity, claim_log, unless_superseded, verify
from streamjob.protocol.registry import Registry
from streamjob.protocol.restore import ClaimMode, Resolution, resolve, unusable
from streamjob.protocol.stored_manifests import read_completed
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import FileRef, Manifest
from streamjob.store.base import Store
from streamjob.store.effects import StoreEffect, drive
from streamjob.store.opening import References, open_object
from streamjob.stored.start_snapshot import home_of
from streamjob_runtime.checkpointing.upload.packing import Identity as FileIdentity
from streamjob_runtime.checkpointing.upload.packing import known_files

T = TypeVar("T")

log = logging.getLogger("streamjob")


@dataclass(frozen=True, slots=True)
class RestoreFrom:
    """The snapshot that a job starts from.

    Args:
        snapshot: `latest`, `none`, or a manifest's key or URI.
        mode: whether the job claims it, or leaves it to its owner.
        require_snapshot: refuse to start fresh.
        allow_non_restored_state: discard the state of operators that the job does not have.
    """

    snapshot: str = "latest"
    mode: ClaimMode = ClaimMode.CLAIM
    require_snapshot: bool = False
    allow_non_restored_state: bool = False


class Committer(Protocol):
    """Commits and aborts in any sink in the log."""

    def commit(self, sink: OperatorUid, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        """Commit the output that a completed checkpoint covers; idempotent."""
        ...

    def abort(self, sink: OperatorUid) -> None:
        """Discard output that earlier epochs staged and no process will commit."""
        ...


class Ledger:
    """A claimed log, with the registry of its epoch; created by `Ledger.claim`.

    Args:
        store: at the job's root.
        claim: the claim of the epoch.
        clock: seconds since 1970.
        num_retained: number of retained checkpoints.
    """

    def __init__(self, store: Store, claim: Claim, clock: Clock, num_retained: int) -> None:
        self.store = store
        self.num_retained = num_retained
        self.incremental = True
        self.references = References(store)
        self._claim = claim
        self._clock = clock
        self._lock = threading.RLock()
        self._registry = Registry(claim.epoch)
        self._collector = Collector(self._registry)
        self._completion: Completion | None = None
        self._builds_on: Manifest | None = None
        self._last_id = claim.last_id

    @staticmethod
    def claim(store: Store, identity: Identity, clock: Clock, num_retained: int, *, again: bool = False) -> Ledger:
        """Claim the job's log; `again` if this owner held it before.

        Raises:
            Superseded: the last claim has a higher attempt, or with `again` another owner.
            ForeignLog, LogDamaged, UnknownRecordVersion: the log cannot be used.
            StoreError: the store does not allow the claim now.
        """
        claim = drive(store, claim_log(identity, clock(), num_retained=num_retained, again=again))
        return Ledger(store, claim, clock, num_retained)

    @property
    def job(self) -> JobId:
        """The log's job."""
        return self._claim.identity.job

    @property
    def epoch(self) -> Epoch:
        """The epoch that the claim began."""
        return self._claim.epoch

    @property
    def finished(self) -> bool:
        """Whether the job's work is done."""
        return self._claim.finished

    @property
    def last_id(self) -> CheckpointId:
        """The last used id; ids of new checkpoints are higher."""
        return self._last_id

    @property
    def newest_epoch(self) -> Epoch | None:
        """The epoch of the newest completion; None if nothing was completed."""
        return None if self._claim.newest is None else self._claim.newest.epoch

    def resolve(self, wanted: RestoreFrom) -> Resolution:
        """Decide which snapshot the epoch starts from.

        Raises:
            Superseded: another owner holds the log, and may have deleted missing files.
            CannotRestore: the snapshot cannot be used or claimed.
        """
        program = unless_superseded(self._claim, self._start_from(wanted))
        resolution = self._read(program)
        self._registry = resolution.registry(self._claim)
        self._collector = Collector(self._registry)
        self._builds_on = resolution.manifest if resolution.reusable else None
        self._last_id = max(self._last_id, resolution.last_id)
        return resolution

    def _start_from(self, wanted: RestoreFrom) -> Generator[StoreEffect | CreateOutside, object, Resolution]:
        resolution = yield from resolve(
            self._claim.below,
            wanted.snapshot,
            root=self.store.uri,
            mode=wanted.mode,
            require_snapshot=wanted.require_snapshot,
        )
        if resolution.to_be_claimed and resolution.reference is not None:
            yield from claim_snapshot(resolution.reference, self._claim.identity.job, self.store.uri)
        return resolution

    def newest_manifest(self) -> Manifest | None:
        """Return the manifest of the newest completion, or None.

        Raises:
            Superseded: another owner holds the log, and may have deleted it.
            CannotRestore: it cannot be read.
        """
        newest = self._claim.newest
        if newest is None or newest.manifest is None:
            return None
        return drive(self.store, unless_superseded(self._claim, read_completed(newest)), fetch=self._fetch)

    def recover(self, committer: Committer, sinks: Mapping[OperatorUid, object], *, fork: bool) -> Recovered:
        """Commit the newest completion again, and discard output staged after it: the first step of an epoch.

        Raises:
            Superseded: another owner holds the log, and may have deleted the newest completion.
            CannotRestore: the newest completion cannot be read.
        """

        def perform(effect: object) -> None:
            if isinstance(effect, Commit):
                committer.commit(effect.sink, effect.checkpoint, effect.committables)
            elif isinstance(effect, Abort):
                committer.abort(effect.sink)

        program = unless_superseded(self._claim, recover(self._claim, sinks, fork=fork))
        return drive(self.store, program, fetch=self._fetch, perform=perform)

    def explain_unusable(self, resolution: Resolution, problem: str) -> Exception | None:
        """Return the error for a newest completion with unusable files; None for another snapshot.

        Raises:
            Superseded: another owner holds the log, and may have deleted the files.
        """
        drive(self.store, verify(self._claim))
        record = resolution.record
        if record is None or record != self._claim.below.newest:
            return None
        return self._read(unusable(self._claim.below, record, [problem]))

    def locate(self, resolution: Resolution) -> Callable[[str], tuple[Store, Key]]:
        """Return a function that finds a resolved snapshot's objects; references start at its own job's root."""
        home = home_of(resolution, self.store)
        return self.references.find if home is self.store else References(home).find

    def begin(self, checkpoint: CheckpointId) -> None:
        """Let a checkpoint start to upload."""
        with self._lock:
            self._registry.begin(checkpoint)

    def reusable_files(self, checkpoint: CheckpointId, chain: ChainUid) -> Mapping[FileIdentity, FileRef]:
        """Return a chain's files that need no upload; files that are looked up are kept for the checkpoint."""
        with self._lock:
            known = self._builds_on if self.incremental else None
            files = list(known.files_of(chain)) if known is not None else []
        return _Reusable(self, checkpoint, known_files(files))

    def reuse(self, checkpoint: CheckpointId, file: FileRef) -> FileRef | None:
        """Return the location of a stored file, kept for the checkpoint; None if it must be uploaded."""
        with self._lock:
            found = self._registry.reuse(checkpoint, file.sha256, file.length)
        if found is None:
            return None
        if (found.object, found.offset) == (file.object, file.offset):
            return file
        return file.model_copy(update={"object": found.object, "offset": found.offset})

    def allocate(self, checkpoint: CheckpointId, sha256: str) -> Key:
        """Return the key for a new object of a checkpoint."""
        with self._lock:
            return self._registry.allocate(checkpoint, sha256)

    def aborted(self, checkpoint: CheckpointId) -> None:
        """Turn a checkpoint's uploads into garbage."""
        with self._lock:
            self._registry.aborted(checkpoint)

    def complete(self, manifest: Manifest, savepoint: str | None = None) -> None:
        """Make a snapshot real; all its files must be in the store.

        Args:
            manifest: the snapshot.
            savepoint: for a savepoint, the log's reference to its manifest, which must be in the store, too.

        Raises:
            Superseded: another owner holds the log.
            OutcomeUnknown: it is not known yet whether it is completed; call again, or end the epoch.
            StoreError: it is not completed.
        """
        program = complete_snapshot(self._claim, self._registry, manifest, self._clock(), savepoint_uri=savepoint)
        completion = drive(self.store, program, guard=self._lock)
        with self._lock:
            self._completion = completion
            if savepoint is None:
                self._builds_on = manifest

    def uri_of(self, manifest: Manifest) -> str:
        """Return the URI of a checkpoint's manifest."""
        return self.store.uri + keys.manifest(manifest.epoch, manifest.id)

    def may_name(self, checkpoint: CheckpointId) -> bool:
        """Return whether the log names a checkpoint or may do so; if not, it is certainly not completed."""
        with self._lock:
            return self._claim.may_name(checkpoint)

    def committed(self, checkpoint: CheckpointId) -> None:
        """Record that every sink has committed a completed checkpoint."""
        with self._lock:
            self._claim.committed(checkpoint)

    def collect(self) -> tuple[CheckpointId, ...]:
        """Delete objects that are no longer needed; return the checkpoints that are no longer retained.

        Raises:
            Superseded: another owner holds the log.
            StoreError: the deletion is incomplete; the next call continues.
        """
        if self._completion is None:
            return ()
        program = self._collector.collect(self._completion, self.num_retained)
        collected = drive(self.store, program, guard=self._lock)
        return tuple(record.id for record in collected.subsumed if record.id is not None)

    def _read(self, program: Generator[StoreEffect | CreateOutside, object, T]) -> T:
        return drive(
            self.store,
            program,
            fetch=self._fetch,
            fetch_range=self._fetch_range,
            progress=log.info,
            perform=self._create_outside,
        )

    def _fetch_range(self, uri: str, offset: int, length: int) -> bytes:
        store, key = self.references.find(uri)
        return store.get_range(key, offset, length)

    def _fetch(self, uri: str) -> bytes:
        store, key = self.references.find(uri)
        return store.get(key)

    def _create_outside(self, effect: CreateOutside) -> bool:
        store, key = open_object(effect.uri)
        try:
            return store.put_if_absent(key, effect.content)
        finally:
            store.close()


class _Reusable(Mapping[FileIdentity, FileRef]):
    """Files by identity; a look-up protects its result from deletion."""

    def __init__(self, ledger: Ledger, checkpoint: CheckpointId, files: Mapping[FileIdentity, FileRef]) -> None:
        self._ledger = ledger
        self._checkpoint = checkpoint
        self._files = files

    def __getitem__(self, identity: FileIdentity) -> FileRef:
        found = self._ledger.reuse(self._checkpoint, self._files[identity])
        if found is None:
            raise KeyError(identity)
        return found

    def __iter__(self) -> Iterator[FileIdentity]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)
