"""The job's log in one epoch, driven on its store.

Uploads request keys and reusable files from their own threads; completing, committing and collecting happen on one
thread. One lock guards the shared state.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from streamjob.clock import Clock
from streamjob.ids import ChainUid, CheckpointId, Epoch, Key, OperatorUid
from streamjob.protocol.log.claiming import CreateOutside
from streamjob.protocol.log.committing import Abort, Commit, Recovered
from streamjob.protocol.log.ownership import Identity
from streamjob.protocol.log.records import JobId
from streamjob.protocol.log.restore import ClaimMode, Resolution
from streamjob.snapshot.manifest import FileRef, Manifest, SinkState
from streamjob.store.base import Store
from streamjob.store.effects import StoreEffect, drive
from streamjob.store.opening import References, open_object
from streamjob.stored.start_snapshot import home_of
from streamjob_runtime.checkpointing.epoch_log import EpochLog, ReusableFiles, claim_epoch
from streamjob_runtime.checkpointing.upload.packing import Identity as FileIdentity

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

    def commit(self, checkpoint: CheckpointId, output: Sequence[SinkState]) -> None:
        """Commit the output that a completed checkpoint covers; idempotent."""
        ...

    def abort(self, sink: OperatorUid) -> None:
        """Discard output that earlier epochs staged and no process will commit."""
        ...


class Ledger:
    """The log of a job in one epoch on its store, for several threads; created by `Ledger.claim`.

    Args:
        store: at the job's root.
        log: the claimed log.
        clock: seconds since 1970.
        num_retained: number of retained checkpoints.
    """

    def __init__(self, store: Store, log: EpochLog, clock: Clock, num_retained: int) -> None:
        self.store = store
        self.num_retained = num_retained
        self.incremental = True
        self.references = References(store)
        self._log = log
        self._clock = clock
        self._lock = threading.RLock()

    @staticmethod
    def claim(store: Store, identity: Identity, clock: Clock, num_retained: int, *, again: bool = False) -> Ledger:
        """Claim the job's log; `again` if this owner held it before. Raises what `claim_epoch` raises."""
        return Ledger(
            store,
            drive(store, claim_epoch(identity, store.uri, clock(), num_retained, again=again)),
            clock,
            num_retained,
        )

    @property
    def job(self) -> JobId:
        """The log's job."""
        return self._log.claim.identity.job

    @property
    def epoch(self) -> Epoch:
        """The epoch that the claim began."""
        return self._log.claim.epoch

    @property
    def finished(self) -> bool:
        """Whether the job's work is done."""
        return self._log.claim.finished

    @property
    def last_id(self) -> CheckpointId:
        """The last used id; ids of new checkpoints are higher."""
        return self._log.last_id

    def starts_since(self, time: float) -> int:
        """Return how often the job has started since a time, as far as the log knows; see `Claim.starts_since`."""
        return self._log.claim.starts_since(time)

    @property
    def newest_epoch(self) -> Epoch | None:
        """The epoch of the newest completion; None if nothing was completed."""
        newest = self._log.claim.newest
        return None if newest is None else newest.epoch

    def resolve(self, wanted: RestoreFrom) -> Resolution:
        """Decide which snapshot the epoch starts from. Raises what `EpochLog.resolve` raises."""
        program = self._log.resolve(wanted.snapshot, mode=wanted.mode, require_snapshot=wanted.require_snapshot)
        return self._read(program)

    def skip_ids(self, last: CheckpointId) -> None:
        """Let ids of new checkpoints be above `last`, which a sink knows from a log that is lost."""
        self._log.skip_ids(last)

    def newest_manifest(self) -> Manifest | None:
        """Return the manifest of the newest completion, or None. Raises what `EpochLog.newest_manifest` raises."""
        return drive(self.store, self._log.newest_manifest(), fetch=self._fetch)

    def recover(self, committer: Committer, sinks: Mapping[OperatorUid, object], *, fork: bool) -> Recovered:
        """Commit the newest completion again, and discard output staged after it: the first step of an epoch.

        Raises what `EpochLog.recover` raises.
        """

        def perform(effect: object) -> None:
            if isinstance(effect, Commit):
                committer.commit(effect.checkpoint, effect.output)
            elif isinstance(effect, Abort):
                committer.abort(effect.sink)

        return drive(self.store, self._log.recover(sinks, fork=fork), fetch=self._fetch, perform=perform)

    def explain_unusable(self, resolution: Resolution, problem: str) -> Exception | None:
        """Return the error for a newest completion with unusable files; None for another snapshot.

        Raises what `EpochLog.explain_unusable` raises.
        """
        return self._read(self._log.explain_unusable(resolution, problem))

    def locate(self, resolution: Resolution) -> Callable[[str], tuple[Store, Key]]:
        """Return a function that finds a resolved snapshot's objects; references start at its own job's root."""
        home = home_of(resolution, self.store)
        return self.references.find if home is self.store else References(home).find

    def home(self, resolution: Resolution) -> str:
        """Return the URI from which a resolved snapshot's relative references start."""
        home = home_of(resolution, self.store)
        uri = home.uri
        if home is not self.store:
            home.close()
        return uri

    def begin(self, checkpoint: CheckpointId) -> None:
        """Start the upload of a checkpoint."""
        with self._lock:
            self._log.begin(checkpoint)

    def reusable_files(self, checkpoint: CheckpointId, chain: ChainUid) -> Mapping[FileIdentity, FileRef]:
        """Return a chain's files that need no upload; files that are looked up are kept for the checkpoint."""
        with self._lock:
            files = self._log.known_files(chain) if self.incremental else {}
        return ReusableFiles(files, partial(self.reuse, checkpoint))

    def reuse(self, checkpoint: CheckpointId, file: FileRef) -> FileRef | None:
        """Return the location of a stored file, kept for the checkpoint; None if it must be uploaded."""
        with self._lock:
            return self._log.reuse(checkpoint, file)

    def allocate(self, checkpoint: CheckpointId, sha256: str) -> Key:
        """Return the key for a new object of a checkpoint."""
        with self._lock:
            return self._log.allocate(checkpoint, sha256)

    def lend(self, sha256: str) -> Key:
        """Return the key for an object that another process of this epoch reads; garbage once the epoch is over."""
        with self._lock:
            return self._log.lend(sha256)

    def aborted(self, checkpoint: CheckpointId) -> None:
        """Turn a checkpoint's uploads into garbage."""
        with self._lock:
            self._log.aborted(checkpoint)

    def complete(self, manifest: Manifest, savepoint: str | None = None) -> None:
        """Make a snapshot real; all its files must be in the store. Raises what `EpochLog.complete` raises.

        Args:
            manifest: the snapshot.
            savepoint: for a savepoint, the log's reference to its manifest, which must be in the store, too.
        """
        drive(self.store, self._log.complete(manifest, self._clock(), savepoint), guard=self._lock)

    def uri_of(self, manifest: Manifest) -> str:
        """Return the URI of a checkpoint's manifest."""
        return self._log.uri_of(manifest)

    def may_name(self, checkpoint: CheckpointId) -> bool:
        """Return whether the log names a checkpoint or may do so; if not, it is certainly not completed."""
        with self._lock:
            return self._log.may_name(checkpoint)

    def committed(self, checkpoint: CheckpointId) -> None:
        """Record that every sink has committed a completed checkpoint."""
        with self._lock:
            self._log.committed(checkpoint)

    def collect(self) -> tuple[CheckpointId, ...]:
        """Delete objects that are no longer needed; return the checkpoints that are no longer retained.

        Raises what `EpochLog.collect` raises.
        """
        return drive(self.store, self._log.collect(self.num_retained), guard=self._lock)

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
