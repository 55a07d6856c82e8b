"""Ownership of a job's log: claims fence off earlier owners, completions make checkpoints real.

Both are one conditional create at the next number of the log. Whoever loses the number to another has lost the log:
a claimer reads on and tries the next number, a completer stops for good. `Claim` and `Completion` are capabilities:
only `claim` makes the one, only `complete` the other, so nothing completes without a claim, and nothing is deleted
without a completion of one's own.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import TypeVar, final

from streamjob.errors import CannotRestore, Superseded
from streamjob.ids import Attempt, CheckpointId, Epoch, LogSeq, Owner
from streamjob.protocol.log import JOBS_OWN, JobId, LogView, encode_record, exists_above, read
from streamjob.snapshot import keys
from streamjob.snapshot.record import LogRecord, RecordKind
from streamjob.store.base import ObjectMissing, StoreError, StoreUnavailable
from streamjob.store.effects import Program, StoreEffect, get, list_page, put_if_absent

T = TypeVar("T")
E = TypeVar("E")

TRIES = 5
"""How often a write of unknown outcome is looked up and repeated; the store has its own retries, with pauses."""

_ISSUED_HERE = object()


class OutcomeUnknown(StoreError):
    """The store cannot tell whether a record was created, and it may be created late. The epoch cannot go on."""


class IllegalStep(RuntimeError):
    """A step was tried that the protocol does not allow now: a defect of the caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who claims: the job, a random owner, drawn anew for each process, and the pod's attempt."""

    job: JobId
    owner: Owner
    attempt: Attempt


@final
class Claim:
    """The log, held in one epoch; knows what its owner has completed in it, and what is still to be published.

    Made by `claim` only. One completion at a time, and one collection at a time; both may go on side by side, under the
    lock that is the `guard` of `drive`.
    """

    def __init__(self, issued: object, identity: Identity, record: LogRecord, below: LogView) -> None:
        if issued is not _ISSUED_HERE:
            raise IllegalStep("a Claim is made by claiming the log")
        self.identity = identity
        self.record = record
        self.below = below
        self._last = record
        self._newest = below.newest
        self._retained = [found for found in below.completions if found.kind in JOBS_OWN]
        self._unpublished = below.newest
        self._unsettled: LogRecord | None = None
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
    def newest(self) -> LogRecord | None:
        """The log's highest completion."""
        return self._newest

    @property
    def last_id(self) -> CheckpointId:
        """The id of the log's highest completion, 0 before the first; the next one's must be higher."""
        return self.below.last_id if self._newest is None or self._newest.id is None else self._newest.id

    @property
    def retained(self) -> tuple[LogRecord, ...]:
        """The job's own checkpoints that were not given up for deletion, oldest first."""
        return tuple(self._retained)

    @property
    def unpublished(self) -> LogRecord | None:
        """The completion whose committables must be published before anything else is completed."""
        return self._unpublished

    @property
    def finished(self) -> bool:
        """Whether the job's work is done: behind its last completion there is nothing left but to publish it again."""
        return self._newest is not None and self._newest.kind is RecordKind.FINAL

    def published(self, checkpoint: CheckpointId) -> None:
        """Note that every sink has committed a completion. Raises IllegalStep if it is not the unpublished one."""
        if self._unpublished is None or self._unpublished.id != checkpoint:
            raise IllegalStep(f"checkpoint {checkpoint} is not the one that waits for publication")
        self._unpublished = None

    def give_up(self, subsumed: Iterable[LogRecord]) -> None:
        """Note which checkpoints are no longer retained."""
        numbers = {record.seq for record in subsumed}
        self._retained = [record for record in self._retained if record.seq not in numbers]

    def may_name(self, checkpoint: CheckpointId) -> bool:
        """Return whether the log names a checkpoint, or may come to: its record was tried, and not certainly refused.

        Also true while the outcome of another one is unknown: nothing is certain then.
        """
        return self._unsettled is not None or checkpoint <= self.last_id

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
        if self._unsettled is not None:
            if _same_completion(self._unsettled, record):
                return self._unsettled
            raise IllegalStep(
                f"whether {self._unsettled.kind} {self._unsettled.id} completed is unknown: end the epoch"
            )
        if self._unpublished is not None:
            raise IllegalStep(f"{self._unpublished.kind} {self._unpublished.id} is completed and not yet published")
        if record.id is None or record.id <= self.last_id:
            raise IllegalStep(f"id {record.id} is not above {self.last_id}, the last one completed")
        if record.manifest is None or not _in_its_place(record, record.manifest):
            raise IllegalStep(f"{record.manifest!r} is no place for the manifest of {record.kind} {record.id}")
        self._unsettled = record
        return record

    def _settle(self, record: LogRecord, *, created: bool) -> None:
        self._unsettled = None
        if created:
            self._last = self._newest = self._unpublished = record
            if record.kind in JOBS_OWN:
                self._retained.append(record)


@final
class Completion:
    """A completion of this claim: the permit to publish it, and to delete what it makes superfluous."""

    def __init__(self, issued: object, claim: Claim, record: LogRecord) -> None:
        if issued is not _ISSUED_HERE:
            raise IllegalStep("a Completion is made by completing a checkpoint")
        self.claim = claim
        self.record = record

    def __repr__(self) -> str:
        return f"Completion({self.record.kind} {self.record.id}, epoch {self.record.epoch})"


def claim(identity: Identity, now: float, *, checkpoints: int | None = None, again: bool = False) -> Program[Claim]:
    """Take the log over: begin a new epoch, which fences off all earlier ones.

    A failed claim may be repeated at will. Whoever claims a log that is `finished` only publishes again,
    unless it starts from elsewhere.

    Args:
        now: seconds since 1970.
        checkpoints: how many of the job's own checkpoints the claim must know of, at least; None for all.
        again: this owner has held the log, and goes on only if nobody else has claimed it since: a process that slept
            and fails when it wakes must not take the log back from its successor.

    Raises:
        Superseded: the last claim has a higher attempt, or with `again` another owner.
        ForeignLog, CorruptRecord, UnknownRecordVersion: the log cannot be used.
        OutcomeUnknown, StoreUnavailable, StoreDenied: the store does not let it be claimed now.
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
        )
        created = yield from _create(record)
        # A number that was free may have been pruned: the claim counts only if the log does not go on above it.
        if created and not (yield from exists_above(record.seq)):
            return Claim(_ISSUED_HERE, identity, record, below)
        hint = record.seq


def complete(held: Claim, kind: RecordKind, checkpoint: CheckpointId, manifest: str, now: float) -> Program[Completion]:
    """Make a checkpoint real: create the next record of the log, which names its manifest.

    Everything that the manifest refers to, and the manifest, must be in the store, and the last completion published.

    Args:
        manifest: a key below the job's root, the one for this epoch and id; for a savepoint a place outside
            `checkpoints/`: a savepoint is never deleted with the job's checkpoints.
        now: seconds since 1970.

    Raises:
        Superseded: another owner holds the log, now and for ever. Whether the completion counts is that owner's to see.
        OutcomeUnknown: whether the checkpoint is completed may never be known here. Call again with the same arguments,
            or end the epoch; the next claim tells.
        StoreDenied: the checkpoint is not completed.
        IllegalStep: the last completion is not published, its outcome is unknown, or an argument cannot be right.
    """
    repeated = held._unsettled is not None
    record = held._prepare(
        LogRecord(
            seq=LogSeq(held.last_seq + 1),
            kind=kind,
            epoch=held.epoch,
            owner=held.identity.owner,
            attempt=held.identity.attempt,
            id=checkpoint,
            manifest=manifest,
            time=now,
            job=held.identity.job.name,
            namespace=held.identity.job.namespace,
        )
    )
    try:
        created = yield from _create(record)
        overtaken = not created or (yield from _settled_above(record))
    except OutcomeUnknown:
        raise
    except StoreError as error:
        if repeated:
            # This call was refused; the one before may have been applied all the same, or will be.
            raise OutcomeUnknown(
                f"whether {record.kind} {record.id} of job {held.identity.job} completed is unknown: {error.what}",
                "nothing is lost: the next claim of the log finds out",
            ) from error
        held._settle(record, created=False)
        raise
    held._settle(record, created=not overtaken)
    if overtaken:
        raise held._lose()
    return Completion(_ISSUED_HERE, held, record)


def verify(held: Claim) -> Program[None]:
    """Check that the claim is still the last one. Raises Superseded if not.

    It may be lost right afterwards: what is done next must be harmless then, too.
    """
    held.check_held()
    page = yield from list_page(keys.LOG_PREFIX, keys.log_record(held.last_seq), limit=2)
    above = [seq for info in page.objects if (seq := keys.log_seq(info.key)) is not None and seq > held.last_seq]
    # A completion of this very claim may be under way beside, and its record created already.
    under_way = held._unsettled
    if above and under_way is not None and above == [under_way.seq]:
        try:
            if (yield from get(keys.log_record(under_way.seq))) == encode_record(under_way):
                return
        except ObjectMissing:
            pass
    if above:
        raise held._lose()


def unless_superseded(held: Claim, program: Generator[E, object, T]) -> Generator[StoreEffect | E, object, T]:
    """Run a program that reads snapshots; if it finds one unusable, see first whether the log is still held.

    A successor deletes what it no longer needs: what a superseded owner misses is no damage.

    Raises:
        Superseded: the log is lost.
        CannotRestore: the log is held, and the program raised this.
    """
    try:
        return (yield from program)
    except CannotRestore:
        yield from verify(held)
        raise


def _create(record: LogRecord) -> Program[bool]:
    """Create a record; return False if another has its number."""
    key, content = keys.log_record(record.seq), encode_record(record)
    unknown: StoreError | None = None
    for _ in range(TRIES):
        taken = False
        try:
            if (yield from put_if_absent(key, content)):
                return True
            taken = True
        except StoreUnavailable as error:
            unknown = error
        except StoreError as error:
            if unknown is None:
                raise
            unknown = error
        try:
            stored = yield from get(key)
        except ObjectMissing:
            if taken:
                # Pruned since: whoever pruned it holds the log.
                return False
        except StoreError as error:
            unknown = error
        else:
            return stored == content
    raise OutcomeUnknown(
        f"whether {key} of job {record.namespace}/{record.job} was created is unknown: {_reason(unknown)}",
        "nothing is lost: the next claim of the log finds out",
    ) from unknown


def _settled_above(record: LogRecord) -> Program[bool]:
    """Return whether the log goes on above a record that was just created."""
    unknown: StoreError | None = None
    for _ in range(TRIES):
        try:
            return (yield from exists_above(record.seq))
        except StoreError as error:
            unknown = error
    raise OutcomeUnknown(
        f"whether {keys.log_record(record.seq)} of job {record.namespace}/{record.job} counts is unknown: "
        f"{_reason(unknown)}",
        "nothing is lost: the next claim of the log finds out",
    ) from unknown


def _reason(error: StoreError | None) -> str:
    return error.what if error else "the store contradicts itself"


def _same_completion(one: LogRecord, other: LogRecord) -> bool:
    return (one.seq, one.kind, one.id, one.manifest) == (other.seq, other.kind, other.id, other.manifest)


def _in_its_place(record: LogRecord, manifest: str) -> bool:
    if record.kind is RecordKind.SAVEPOINT:
        return not manifest.startswith((keys.CHECKPOINTS_PREFIX, keys.SHARED_PREFIX, keys.LOG_PREFIX))
    return record.kind in JOBS_OWN and manifest == keys.manifest(record.epoch, record.id or CheckpointId(0))
