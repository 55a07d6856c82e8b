"""A job's log, as a reader sees it: one dense run of records that ends at the highest number.

Old records are pruned, claims among them, so below the run lie free numbers. A writer that slept through the pruning,
or a request that was late, can still create a record there, and only there. Such a stray must never count. A number has
one owner as long as the record exists, so a stray was written on top of a record after which the log went on
differently; hence the strict order that a run keeps from one record to the next (`follows`) is broken right above it,
and readers stop there. The one stray that keeps the order is a claim right below another claim: a claim that completed
nothing says nothing. `retention` has the whole argument.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamjob.errors import CannotRestore, InvalidInput
from streamjob.ids import Attempt, CheckpointId, Epoch, LogSeq
from streamjob.protocol.decoding import decode
from streamjob.snapshot import keys
from streamjob.snapshot.record import LOG_FORMAT_VERSION, LogRecord, RecordKind
from streamjob.store.base import ObjectMissing
from streamjob.store.effects import Page, Program, get, list_page

JOBS_OWN = frozenset({RecordKind.CHECKPOINT, RecordKind.FINAL})
"""The completions whose snapshots belong to the job; a savepoint belongs to its user."""

_FROM_A_BACKUP = "restore the object from a backup of the store; nothing else tells what was completed"


class CorruptRecord(CannotRestore):
    """A record of the log cannot be read as one."""


class UnknownRecordVersion(CannotRestore):
    """A record of the log has a format that this version does not know."""


class ForeignLog(InvalidInput):
    """The log belongs to another job."""


@dataclass(frozen=True, slots=True)
class JobId:
    """Whose log it is."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class LogView:
    """The log as it stood when it was read: the upper end of its run, oldest record first."""

    job: JobId
    records: tuple[LogRecord, ...] = ()

    @property
    def last(self) -> LogRecord | None:
        """The highest record: its epoch, owner and attempt are those of the last claim."""
        return self.records[-1] if self.records else None

    @property
    def next_seq(self) -> LogSeq:
        """The number that the next record gets."""
        return LogSeq(self.last.seq + 1) if self.last else LogSeq(0)

    @property
    def epoch(self) -> Epoch:
        """The epoch of the last claim; 0 before the first."""
        return self.last.epoch if self.last else Epoch(0)

    @property
    def attempt(self) -> Attempt | None:
        """The attempt of the last claim."""
        return self.last.attempt if self.last else None

    @property
    def completions(self) -> tuple[LogRecord, ...]:
        """The completions in the view, oldest first."""
        return tuple(record for record in self.records if record.completes)

    @property
    def newest(self) -> LogRecord | None:
        """The highest completion: what `latest` restores, and whose committables are to be published again."""
        completions = self.completions
        return completions[-1] if completions else None

    @property
    def last_id(self) -> CheckpointId:
        """The highest id of a completion, 0 before the first; ids grow along the log."""
        newest = self.newest
        return CheckpointId(0) if newest is None or newest.id is None else newest.id

    @property
    def finished(self) -> bool:
        """Whether the job's work is done: its last completion is a `final` one."""
        return self.newest is not None and self.newest.kind is RecordKind.FINAL

    def completion_of(self, manifest: str) -> LogRecord | None:
        """Return the completion that names a manifest, or None: then no such checkpoint exists."""
        return next((record for record in self.completions if record.manifest == manifest), None)


def follows(lower: LogRecord, upper: LogRecord) -> bool:
    """Return whether `upper` can stand right above `lower`: a claim begins the next epoch, the rest continues one."""
    if upper.seq != lower.seq + 1:
        return False
    if upper.kind is RecordKind.CLAIM:
        return upper.epoch == lower.epoch + 1
    return (upper.epoch, upper.owner, upper.attempt) == (lower.epoch, lower.owner, lower.attempt)


def encode_record(record: LogRecord) -> bytes:
    """Return the stored form of a record."""
    return record.model_dump_json(by_alias=True, exclude_none=True).encode()


def decode_record(seq: LogSeq, content: bytes, job: JobId) -> LogRecord:
    """Return the record stored under a number.

    Raises:
        UnknownRecordVersion: its format is none that is known here.
        CorruptRecord: it is no record, or not the one of this number.
        ForeignLog: it belongs to another job.
    """
    key = keys.log_record(seq)
    name = f"{key} of job {job}"
    record = decode(
        LogRecord,
        content,
        name=name,
        known_version=LOG_FORMAT_VERSION,
        unknown=UnknownRecordVersion,
        corrupt=lambda reason: CorruptRecord(f"{name} is not a log record: {reason}", _FROM_A_BACKUP),
    )
    complete = record.kind is RecordKind.CLAIM or (record.id is not None and record.manifest is not None)
    if record.seq != seq or not complete:
        raise CorruptRecord(
            f"{name} is not the record of its number: it says seq {record.seq}, kind {record.kind}, "
            f"id {record.id}, manifest {record.manifest}",
            _FROM_A_BACKUP,
        )
    owner = JobId(record.namespace or job.namespace, record.job or job.name)
    if owner != job:
        raise ForeignLog(
            f"the location holds the log of job {owner}, not of {job} ({key})",
            "give each job a location, namespace and name of its own",
        )
    return record


def read(job: JobId, *, checkpoints: int | None = None, hint: LogSeq | None = None) -> Program[LogView]:
    """Read the upper end of the log's run.

    It costs two listing requests (for a long log some more, growing with the logarithm of its length) and one read
    per record.

    Args:
        checkpoints: reach back to this many of the job's own checkpoints, and to the newest completion at least; None
            for the whole run.
        hint: the number of a record that exists or existed once, from where the search may start.

    Raises:
        UnknownRecordVersion, CorruptRecord, ForeignLog: a record that counts cannot be used.
    """
    while True:
        highest = yield from find_highest(hint)
        if highest is None:
            return LogView(job)
        records = yield from _walk_down(job, highest, checkpoints)
        moved = yield from find_highest(highest)
        if records and moved == highest:
            return LogView(job, tuple(reversed(records)))
        # The log went on meanwhile, and its lower end may have been pruned under the walk.
        hint = highest


def exists_above(seq: LogSeq) -> Program[bool]:
    """Return whether any record with a higher number exists. Once true, it is true for ever: the highest stays."""
    page = yield from list_page(keys.LOG_PREFIX, keys.log_record(seq), limit=1)
    return any(keys.log_seq(info.key) is not None for info in page.objects)


def find_highest(hint: LogSeq | None = None) -> Program[LogSeq | None]:
    """Return the highest number in the log, or `hint` if nothing lies above it, or None for an empty log."""
    highest = hint
    page = yield from _page_above(hint)
    # Nothing is pruned while nothing can be deleted, so the log may be long: skip ahead in strides that double while
    # records lie beyond, and halve afterwards. The last page's own listing decides, so what is added meanwhile does no
    # harm.
    stride = 2 * len(page.objects)
    growing = True
    while page.more:
        highest = _highest_in(page, highest)
        if stride <= len(page.objects):
            page = yield from list_page(keys.LOG_PREFIX, page.objects[-1].key)
            continue
        beyond = yield from _page_above(LogSeq((highest or 0) + stride))
        growing = growing and bool(beyond.objects)
        stride = 2 * stride if growing else stride // 2
        page = beyond if beyond.objects else page
    return _highest_in(page, highest)


def _page_above(seq: LogSeq | None) -> Program[Page]:
    return list_page(keys.LOG_PREFIX, "" if seq is None else keys.log_record(seq))


def _highest_in(page: Page, otherwise: LogSeq | None) -> LogSeq | None:
    found = [seq for info in page.objects if (seq := keys.log_seq(info.key)) is not None]
    return found[-1] if found else otherwise


def _walk_down(job: JobId, highest: LogSeq, checkpoints: int | None) -> Program[list[LogRecord]]:
    records: list[LogRecord] = []
    owned = 0
    for number in range(highest, -1, -1):
        seq = LogSeq(number)
        try:
            content = yield from get(keys.log_record(seq))
        except ObjectMissing:
            break
        record = decode_record(seq, content, job)
        if records and not follows(record, records[-1]):
            break
        records.append(record)
        owned += record.kind in JOBS_OWN
        if checkpoints is not None and owned >= checkpoints and any(found.completes for found in records):
            break
    return records
