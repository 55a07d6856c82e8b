"""Ownership of a job's log: claims fence off earlier owners, completions make checkpoints real.

Both are one conditional create at the next number of the log. A process that loses this number to another one has lost
the log: a claimer reads on and tries the next number, a completer stops for good. `Claim` and `Completion` are
capabilities: only `claim` creates the one, only `complete` the other. So nothing completes without a claim, and nothing
is deleted without a completion of one's own.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import TypeVar, final

from streamjob.errors import CannotRestore, Superseded
from streamjob.ids import Attempt, CheckpointId, Epoch, LogSeq, Owner
from streamjob.protocol.log.creating import OutcomeUnknown, copy, create, is_followed
from streamjob.protocol.log.records import (
    JOBS_OWN,
    JobId,
    LogDamaged,
    LogView,
    encode_record,
    exists_above,
    read,
    sha256_of,
)
from streamjob.protocol.manifests.stored_manifests import NamedManifest
from streamjob.snapshot import keys
from streamjob.snapshot.record import LogRecord, RecordKind
from streamjob.store.base import ObjectMissing, StoreError
from streamjob.store.effects import Program, StoreEffect, get, list_all

T = TypeVar("T")
E = TypeVar("E")

_ISSUED_HERE = object()


class IllegalStep(RuntimeError):
    """A step was tried that the protocol does not allow now: a defect of the caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The claimer: the job, a random owner, new for each process, and the pod's attempt."""

    job: JobId
    owner: Owner
    attempt: Attempt


@final
class Claim:
    """The log, held in one epoch; knows its owner's completions, and the one that must still be committed.

    Created by `claim` only. One completion and one collection at a time; both may run concurrently, under the lock that
    is the `guard` of `drive`.
    """

    def __init__(
        self, issued: object, identity: Identity, record: LogRecord, below: LogView, num_retained: int | None
    ) -> None:
        if issued is not _ISSUED_HERE:
            raise IllegalStep("a Claim is made by claiming the log")
        self.identity = identity
        self.record = record
        self.below = below
        self._last = record
        self._newest = below.newest
        self._retained = [found for found in below.completions if found.kind in JOBS_OWN]
        self._num_retained = num_retained
        self._uncommitted = below.newest
        self._in_doubt: LogRecord | None = None
        self._lost: Superseded | None = None

    def __repr__(self) -> str:
        return f"Claim({self.identity.job}, epoch {self.epoch}, record {self._last.seq})"

    @property
    def epoch(self) -> Epoch:
        """The epoch that the claim began."""
        return self.record.epoch

    @property
    def last_seq(self) -> LogSeq:
        """The number of the claim's own last record."""
        return self._last.seq

    @property
    def oldest(self) -> LogSeq:
        """The number of the oldest record that the log still needs, according to its highest record."""
        assert self._last.oldest is not None
        return self._last.oldest

    @property
    def newest(self) -> LogRecord | None:
        """The log's highest completion."""
        return self._newest

    @property
    def last_id(self) -> CheckpointId:
        """The highest id in the log so far, 0 before the first; the next one's must be higher."""
        assert self._last.last_id is not None
        return self._last.last_id

    @property
    def retained(self) -> tuple[LogRecord, ...]:
        """The job's own checkpoints that were not given up for deletion, oldest first."""
        return tuple(self._retained)

    @property
    def uncommitted(self) -> LogRecord | None:
        """The completion whose committables must be committed before the next completion."""
        return self._uncommitted

    @property
    def finished(self) -> bool:
        """Whether the job's work is done: its last completion only needs to be committed again."""
        return self._newest is not None and self._newest.kind is RecordKind.FINAL

    def starts_since(self, time: float) -> int:
        """Return how often the job has started since a time, in seconds since 1970.

        Each start has its epoch. The log forgets old records, and with them starts at the beginning of that time.
        """
        first = next((each for each in (*self.below.records, self.record) if each.time >= time), None)
        return 0 if first is None else self.epoch - first.epoch + (first.kind is RecordKind.CLAIM)

    def committed(self, checkpoint: CheckpointId) -> None:
        """Record that every sink has committed a completion. Raises IllegalStep if it is not the uncommitted one."""
        if self._uncommitted is None or self._uncommitted.id != checkpoint:
            raise IllegalStep(f"checkpoint {checkpoint} is not the one that waits to be committed")
        self._uncommitted = None

    def give_up(self, subsumed: Iterable[LogRecord], num_retained: int) -> None:
        """Record which checkpoints are no longer retained, and how many will be retained from now on."""
        self._num_retained = num_retained
        numbers = {record.seq for record in subsumed}
        self._retained = [record for record in self._retained if record.seq not in numbers]

    def may_name(self, checkpoint: CheckpointId) -> bool:
        """Return whether the log names a checkpoint or may do so: its record was tried, and not certainly refused.

        Also true while the outcome of another one is unknown: then nothing is certain.
        """
        return self._in_doubt is not None or checkpoint <= self.last_id

    def check_held(self) -> None:
        """Raise Superseded if the log is known to be lost."""
        if self._lost is not None:
            raise self._lost

    def _lose(self) -> Superseded:
        self._lost = Superseded(
            f"another owner has claimed the log of job {self.identity.job} since epoch {self.epoch} "
            f"(attempt {self.identity.attempt}) began",
        )
        return self._lost

    def _prepare(self, record: LogRecord) -> LogRecord:
        self.check_held()
        if self._in_doubt is not None:
            if _same_completion(self._in_doubt, record):
                return self._in_doubt
            raise IllegalStep(f"whether {self._in_doubt.kind} {self._in_doubt.id} completed is unknown: end the epoch")
        if self._uncommitted is not None:
            raise IllegalStep(f"{self._uncommitted.kind} {self._uncommitted.id} is completed and not yet committed")
        if record.id is None or record.id <= self.last_id:
            raise IllegalStep(f"id {record.id} is not above {self.last_id}, the last one completed")
        if record.manifest is None or not _in_its_place(record, record.manifest):
            raise IllegalStep(f"{record.manifest!r} is no place for the manifest of {record.kind} {record.id}")
        self._in_doubt = record
        return record

    def _oldest_above(self, kind: RecordKind) -> LogSeq:
        """Return the oldest record that the log will need once a completion follows."""
        own = [record.seq for record in self._retained]
        if kind in JOBS_OWN and self._num_retained is not None:
            own = [*own, LogSeq(self.last_seq + 1)][-self._num_retained :]
        # Without a checkpoint to retain, the log is kept from the claim on.
        return max(self.oldest, own[0] if own else self.record.seq)

    def _conclude(self, record: LogRecord, *, created: bool) -> None:
        self._in_doubt = None
        if created:
            self._last = self._newest = self._uncommitted = record
            if record.kind in JOBS_OWN:
                self._retained.append(record)


@final
class Completion:
    """A completion of this claim: the permit to commit it, and to delete the resulting garbage."""

    def __init__(self, issued: object, claim: Claim, record: LogRecord) -> None:
        if issued is not _ISSUED_HERE:
            raise IllegalStep("a Completion is made by completing a checkpoint")
        self.claim = claim
        self.record = record

    def __repr__(self) -> str:
        return f"Completion({self.record.kind} {self.record.id}, epoch {self.record.epoch})"


def claim_log(
    identity: Identity,
    now: float,
    *,
    checkpoints: int | None = None,
    num_retained: int | None = None,
    again: bool = False,
    oldest: LogSeq | None = None,
) -> Program[Claim]:
    """Take the log over: begin a new epoch, which fences off all earlier ones.

    A failed claim may be repeated. The claimer of a `finished` log only commits again, unless it starts from
    elsewhere.

    Args:
        now: seconds since 1970.
        checkpoints: the minimum number of the job's own checkpoints that the claim must know; None for all.
        num_retained: how many checkpoints the job retains, as far as known; a collection sets it again.
        again: this owner has held the log, and continues only if no other process has claimed it since: a process that
        slept
            and fails when it wakes must not take the log back from its successor.
        oldest: give up all records below this number, which must not exceed that of the claim.

    Raises:
        Superseded: the last claim has a higher attempt, or with `again` another owner.
        LogDamaged: the log has changed since it was written; it is not claimed.
        ForeignLog, UnknownRecordVersion: the log cannot be used.
        OutcomeUnknown, StoreUnavailable, StoreDenied: the store does not allow the claim now.
    """
    hint: LogSeq | None = None
    while True:
        below = yield from read(identity.job, checkpoints=checkpoints, hint=hint)
        if below.attempt is not None and below.attempt > identity.attempt:
            raise Superseded(
                f"attempt {below.attempt} has claimed the log of job {identity.job}, this is attempt {identity.attempt}"
            )
        if again and below.last is not None and below.last.owner != identity.owner:
            raise Superseded(f"another owner has claimed the log of job {identity.job} since this process held it")
        record = LogRecord(
            seq=below.next_seq,
            kind=RecordKind.CLAIM,
            epoch=Epoch(below.epoch + 1),
            owner=identity.owner,
            attempt=identity.attempt,
            time=now,
            job=identity.job.name,
            namespace=identity.job.namespace,
            last_id=below.last_id,
            oldest=max(below.oldest, oldest or below.oldest),
            previous=below.last_sha256,
        )
        created = yield from create(record)
        # A free number may have been pruned: the claim counts only if no record follows it.
        if created and not (yield from exists_above(record.seq)):
            yield from copy(record)
            return Claim(_ISSUED_HERE, identity, record, below, num_retained)
        hint = record.seq


def complete(
    claim: Claim, kind: RecordKind, checkpoint: CheckpointId, manifest: NamedManifest, now: float
) -> Program[Completion]:
    """Make a checkpoint real: create the next log record, which names its manifest.

    Everything that the manifest refers to, and the manifest, must be in the store, and the last completion committed.

    Args:
        manifest: at a key below the job's root, the one for this epoch and id; for a savepoint at a place outside
            `checkpoints/`: a savepoint is never deleted with the job's checkpoints.
        now: seconds since 1970.

    Raises:
        Superseded: another owner holds the log, now and for ever. That owner finds out whether the completion counts.
        OutcomeUnknown: it may never be known here whether the checkpoint is completed. Call again with the same
            arguments, or end the epoch; the next claim tells.
        StoreDenied: the checkpoint is not completed.
        IllegalStep: the last completion is not committed, its outcome is unknown, or an argument cannot be right.
    """
    repeated = claim._in_doubt is not None
    record = claim._prepare(
        LogRecord(
            seq=LogSeq(claim.last_seq + 1),
            kind=kind,
            epoch=claim.epoch,
            owner=claim.identity.owner,
            attempt=claim.identity.attempt,
            id=checkpoint,
            manifest=manifest.reference,
            manifest_size=manifest.size,
            manifest_sha256=manifest.sha256,
            time=now,
            job=claim.identity.job.name,
            namespace=claim.identity.job.namespace,
            last_id=checkpoint,
            oldest=claim._oldest_above(kind),
            previous=sha256_of(encode_record(claim._last)),
        )
    )
    try:
        created = yield from create(record)
        overtaken = not created or (yield from is_followed(record))
    except OutcomeUnknown:
        raise
    except StoreError as error:
        if repeated:
            # This call was refused, but the previous one may have been applied, or will be.
            raise OutcomeUnknown(
                f"whether {record.kind} {record.id} of job {claim.identity.job} completed is unknown: {error.what}",
                "nothing is lost: the next claim of the log finds out",
            ) from error
        claim._conclude(record, created=False)
        raise
    claim._conclude(record, created=not overtaken)
    if overtaken:
        raise claim._lose()
    yield from copy(record)
    return Completion(_ISSUED_HERE, claim, record)


def verify(claim: Claim) -> Program[None]:
    """Check that the claim is still the last one, and that no needed record is missing.

    The claim may be lost right afterwards: the next actions must be harmless even then.

    Raises:
        Superseded: the claim is not the last one.
        LogDamaged: a record is missing.
    """
    claim.check_held()
    # Current values: a concurrent completion may add a record, and give up old ones.
    needed, last = claim.oldest, claim.last_seq
    listed = yield from list_all(keys.LOG_PREFIX, keys.log_record(LogSeq(needed - 1)) if needed else "")
    found = {seq for info in listed if (seq := keys.log_seq(info.key)) is not None}
    above = {seq for seq in found if seq > claim.last_seq}
    # A concurrent completion of this claim may have created its record already.
    under_way = claim._in_doubt
    if above and under_way is not None and above == {under_way.seq}:
        try:
            if (yield from get(keys.log_record(under_way.seq))) == encode_record(under_way):
                above = set()
        except ObjectMissing:
            pass
    if above:
        raise claim._lose()
    missing = [seq for seq in range(claim.oldest, last + 1) if seq not in found]
    if missing:
        raise LogDamaged(claim.identity.job, f"{keys.log_record(LogSeq(missing[0]))} does not exist any more")


def unless_superseded(claim: Claim, program: Generator[E, object, T]) -> Generator[StoreEffect | E, object, T]:
    """Run a program that reads snapshots; if it finds one unusable, check first whether the log is still held.

    A successor deletes objects that it no longer needs, so a missing object is not damage to a superseded owner.

    Raises:
        Superseded: the log is lost.
        CannotRestore: the log is held, and the program raised this.
    """
    try:
        return (yield from program)
    except CannotRestore:
        yield from verify(claim)
        raise


def _same_completion(one: LogRecord, other: LogRecord) -> bool:
    named = ("seq", "kind", "id", "manifest", "manifest_sha256")
    return all(getattr(one, field) == getattr(other, field) for field in named)


def _in_its_place(record: LogRecord, manifest: str) -> bool:
    if record.kind is RecordKind.SAVEPOINT:
        return not manifest.startswith((keys.CHECKPOINTS_PREFIX, keys.SHARED_PREFIX, keys.LOG_PREFIX))
    return record.kind in JOBS_OWN and manifest == keys.manifest(record.epoch, record.id or CheckpointId(0))
