"""The job's log in one epoch, driven on its store."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from streamjob.clock import Clock
from streamjob.ids import CheckpointId, Epoch, OperatorUid
from streamjob.protocol.log.claiming import CreateOutside
from streamjob.protocol.log.committing import Abort, Commit, Recovered
from streamjob.protocol.log.ownership import Identity, claim_log, verify
from streamjob.protocol.log.restore import ClaimMode, Resolution
from streamjob.snapshot.manifest import Manifest
from streamjob.store.base import Store
from streamjob.store.effects import Locate, StoreEffect, drive
from streamjob.store.opening import References, open_object
from streamjob.stored.start_snapshot import home_of
from streamjob_runtime.checkpointing.epoch_log import EpochLog

if TYPE_CHECKING:
    from streamjob_runtime.chain.emissions.outputs import FormerOutputs

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
        strict: refuse state that can be changed to its new form only with a gap.
    """

    snapshot: str = "latest"
    mode: ClaimMode = ClaimMode.CLAIM
    require_snapshot: bool = False
    allow_non_restored_state: bool = False
    strict: bool = False


class Ledger:
    """Performs the steps of an `EpochLog` on its store; a method raises what the step of the same name raises.

    Args:
        store: at the job's root.
        clock: seconds since 1970.
        num_retained: number of retained checkpoints.
    """

    def __init__(self, store: Store, log: EpochLog, clock: Clock, num_retained: int) -> None:
        self.store = store
        self.log = log
        self.num_retained = num_retained
        self.references = References(store)
        self._clock = clock

    @staticmethod
    def claim(store: Store, identity: Identity, clock: Clock, num_retained: int, *, again: bool = False) -> Ledger:
        """Claim the job's log; `again` if this owner held it before. Raises what `claim_log` raises."""
        claim = drive(store, claim_log(identity, clock(), num_retained=num_retained, again=again))
        return Ledger(store, EpochLog(claim, store.uri), clock, num_retained)

    @property
    def epoch(self) -> Epoch:
        """The epoch that the claim began."""
        return self.log.claim.epoch

    def resolve(self, wanted: RestoreFrom) -> Resolution:
        """Decide which snapshot the epoch starts from."""
        return self._read(self.log.resolve(wanted.snapshot, mode=wanted.mode, require_snapshot=wanted.require_snapshot))

    def verify(self) -> None:
        """Check that no other process has claimed the log since. Raises Superseded."""
        drive(self.store, verify(self.log.claim))

    def newest_manifest(self) -> Manifest | None:
        """Return the manifest of the newest completion, or None."""
        return drive(self.store, self.log.newest_manifest(), find=self.references.find)

    def recover(self, outputs: FormerOutputs, sinks: Mapping[OperatorUid, object], *, fork: bool) -> Recovered:
        """Commit the newest completion again, and discard output staged after it: the first step of an epoch."""

        def perform(effect: object) -> None:
            if isinstance(effect, Commit):
                outputs.commit(effect.checkpoint, effect.output)
            elif isinstance(effect, Abort):
                outputs.abort(effect.sink)

        return drive(self.store, self.log.recover(sinks, fork=fork), find=self.references.find, perform=perform)

    def explain_unusable(self, resolution: Resolution, problem: str) -> Exception | None:
        """Return the error for a newest completion with unusable files; None for another snapshot."""
        return self._read(self.log.explain_unusable(resolution, problem))

    def locate(self, resolution: Resolution) -> Locate:
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

    def complete(self, manifest: Manifest, savepoint: str | None = None) -> None:
        """Make a snapshot real; all its files must be in the store."""
        drive(self.store, self.log.complete(manifest, self._clock(), savepoint), guard=self.log.lock)

    def collect(self) -> tuple[CheckpointId, ...]:
        """Delete objects that are no longer needed; return the checkpoints that are no longer retained."""
        return drive(self.store, self.log.collect(self.num_retained), guard=self.log.lock)

    def _read(self, program: Generator[StoreEffect | CreateOutside, object, T]) -> T:
        return drive(
            self.store,
            program,
            find=self.references.find,
            progress=log.info,
            perform=self._create_outside,
        )

    def _create_outside(self, effect: CreateOutside) -> bool:
        store, key = open_object(effect.uri)
        try:
            return store.put_if_absent(key, effect.content)
        finally:
            store.close()
