"""A job's log from a reader's view: one gapless run of records that ends at the highest number.

Every record says how far down the log goes (`oldest`), names the bytes of the record below by their hash, and has a
checksum. So any missing, altered or misplaced record between `oldest` and the highest record is damage, and a reader
reports it: a damaged log is never taken for a shorter one, or for that of a new job. Only the highest record has no
record above that refers to it; a copy next to the log shows its loss.

Old records, including claims, are pruned, so there are free numbers below the run. A writer that slept through the
pruning, or a late request, can still create a record there, and only there. No reader looks there.

Records of version 1 have neither hash nor `oldest`. While one of them is the highest, a run ends above the first number
that is missing, or whose record cannot be below the next (`follows`); it must contain a completion or record 0.
`retention` proves that strays do not count there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from streamjob.errors import CannotRestore, InvalidInput
from streamjob.ids import Attempt, CheckpointId, Epoch, Key, LogSeq
from streamjob.protocol.manifests.decoding import decode
from streamjob.snapshot import keys
from streamjob.snapshot.record import LogRecord, RecordKind
from streamjob.snapshot.sealing import sealed
from streamjob.store.base import ObjectMissing
from streamjob.store.effects import Page, Program, get, list_all, list_page

JOBS_OWN = frozenset({RecordKind.CHECKPOINT, RecordKind.FINAL})
"""The completions whose snapshots belong to the job; a savepoint belongs to its user."""

_WAY_OUT = (
    "nothing was deleted, and nothing is while the log is damaged. Run `streamjob snapshots verify` on the job's "
    "directory first, which reads everything again: a store or a proxy may have given a wrong answer. If it agrees, "
    "run `streamjob log repair`, which first shows its plan; or start under a new name with --from and the URI of a "
    "snapshot"
)


class LogDamaged(CannotRestore):
    """A record of the log is missing, altered, or contradicts its neighbours.

    Args:
        job: the log's job.
        problem: the object and its problem.
    """

    def __init__(self, job: JobId, problem: str) -> None:
        super().__init__(f"the log of job {job} is damaged: {problem}", _WAY_OUT)
        self.problem = problem


class UnknownRecordVersion(CannotRestore):
    """A record of the log has an unknown format."""


class ForeignLog(InvalidInput):
    """The log belongs to another job."""


@dataclass(frozen=True, slots=True)
class JobId:
    """The identity of a log's job."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class LogView:
    """The log as of one reading: the upper end of its run, oldest record first.

    `last_sha256` is the hash of the stored bytes of the highest record.
    """

    job: JobId
    records: tuple[LogRecord, ...] = ()
    last_sha256: str | None = None

    @property
    def last(self) -> LogRecord | None:
        """The highest record: its epoch, owner and attempt are those of the last claim."""
        return self.records[-1] if self.records else None

    @property
    def next_seq(self) -> LogSeq:
        """The number of the next record."""
        return LogSeq(self.last.seq + 1) if self.last else LogSeq(0)

    @property
    def oldest(self) -> LogSeq:
        """The number of the oldest record that the log still needs."""
        if self.last is None:
            return LogSeq(0)
        return self.records[0].seq if self.last.oldest is None else self.last.oldest

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
        """The highest completion: `latest` restores it, and its committables are committed again."""
        completions = self.completions
        return completions[-1] if completions else None

    @property
    def last_id(self) -> CheckpointId:
        """The highest id of a completion, 0 before the first; ids grow along the log."""
        if self.last is not None and self.last.last_id is not None:
            return self.last.last_id
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
    """Return whether `upper` can directly follow `lower`: a claim begins the next epoch, other records continue one."""
    if upper.seq != lower.seq + 1:
        return False
    if upper.kind is RecordKind.CLAIM:
        return upper.epoch == lower.epoch + 1
    return (upper.epoch, upper.owner, upper.attempt) == (lower.epoch, lower.owner, lower.attempt)


def encode_record(record: LogRecord) -> bytes:
    """Return the stored form of a record."""
    return sealed(record.stored_fields())


def sha256_of(content: bytes) -> str:
    """Return the hash by which a record refers to the one below."""
    return hashlib.sha256(content).hexdigest()


def decode_record(seq: LogSeq, content: bytes, job: JobId) -> LogRecord:
    """Return the record stored under a number.

    Raises:
        UnknownRecordVersion: its format is unknown.
        LogDamaged: it is not a record, or is the record of another number.
        ForeignLog: it belongs to another job.
    """
    key = keys.log_record(seq)
    record = decode(
        LogRecord,
        content,
        name=f"{key} of job {job}",
        stored_fields=LogRecord.stored_fields,
        unknown=UnknownRecordVersion,
        corrupt=lambda reason: LogDamaged(job, f"{key} is not a log record: {reason}"),
    )
    named = not record.completes or record.names_a_manifest
    linked = record.format_version == 1 or (
        record.oldest is not None
        and record.oldest <= seq
        and (record.previous is None) == (seq == 0)
        and record.last_id is not None
        and record.last_id >= (record.id or 0)
    )
    if record.seq != seq or not named or not linked:
        raise LogDamaged(
            job,
            f"{key} is not the record of its number: it says seq {record.seq}, kind {record.kind}, id {record.id}, "
            f"manifest {record.manifest}, oldest {record.oldest}, previous {record.previous}",
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

    It costs three listing requests (for a long log some more, growing with the logarithm of its length) and one read
    per record.

    Args:
        checkpoints: read back to this many of the job's own checkpoints, and at least to the newest completion; None
            for the whole run, which is always read while the highest record is of version 1.
        hint: the number of a record that exists or once existed, at which the search may start.

    Raises:
        LogDamaged: records of the log are missing or altered.
        UnknownRecordVersion, ForeignLog: a record that counts cannot be used.
    """
    while True:
        highest = yield from find_highest(hint)
        view, damage = LogView(job), None
        try:
            if highest is None:
                yield from _check_new(job)
            else:
                view = yield from _walk_down(job, highest, checkpoints)
                yield from _check_highest(job, highest)
        except LogDamaged as error:
            damage = error
        if (yield from find_highest(highest)) == highest:
            if damage is not None:
                raise damage
            return view
        # The log has grown meanwhile, and its lower end may have been pruned during the walk.
        hint = highest


def exists_above(seq: LogSeq) -> Program[bool]:
    """Return whether any record with a higher number exists. Once true, it is true for ever: the highest stays."""
    page = yield from list_page(keys.LOG_PREFIX, keys.log_record(seq), limit=1)
    return any(keys.log_seq(info.key) is not None for info in page.objects)


def find_highest(hint: LogSeq | None = None) -> Program[LogSeq | None]:
    """Return the highest number in the log, or `hint` if nothing lies above it, or None for an empty log."""
    highest = hint
    page = yield from _page_above(hint)
    # Nothing is pruned while deletion fails, so the log may be long. Skip ahead in strides that double while records
    # lie beyond, and halve afterwards. The last page's own listing decides, so concurrent additions do no harm.
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


def _check_new(job: JobId) -> Program[None]:
    """Raise LogDamaged if the log has no records, but other objects show that it had some."""
    page = yield from list_page(keys.COPIES_PREFIX, limit=1)
    left = page.objects[0].key if page.objects else (yield from _find_owned_manifest())
    if left is not None:
        raise LogDamaged(job, f"{keys.LOG_PREFIX} has no record, and {left} is there")


def _check_highest(job: JobId, highest: LogSeq) -> Program[None]:
    """Raise LogDamaged if records above the highest one were lost: their copies are there."""
    page = yield from list_page(keys.COPIES_PREFIX, keys.record_copy(highest), limit=1)
    for info in page.objects:
        if (seq := keys.copied_seq(info.key)) is not None:
            raise LogDamaged(job, f"{keys.log_record(seq)} does not exist, and its copy {info.key} does")


def _find_owned_manifest() -> Program[Key | None]:
    """Return the manifest of an own checkpoint that no other job has claimed; None if the job was deleted."""
    found = {info.key for info in (yield from list_all(keys.CHECKPOINTS_PREFIX))}
    manifests = sorted(key for key in found if keys.manifest_ids(key) is not None)
    return next((key for key in manifests if keys.claim_marker(key) not in found), None)


def _walk_down(job: JobId, highest: LogSeq, checkpoints: int | None) -> Program[LogView]:
    records: list[LogRecord] = []
    last_sha256 = ""
    oldest: LogSeq | None = None
    completed = owned = 0
    for number in range(highest, -1, -1):
        seq = LogSeq(number)
        upper = records[-1] if records else None
        if oldest is not None and seq < oldest:
            break
        try:
            content = yield from get(keys.log_record(seq))
        except ObjectMissing:
            damage = yield from _missing(seq, upper, highest)
        else:
            record = decode_record(seq, content, job)
            damage = "" if upper is None else contradiction(record, content, upper)
        if damage:
            # Below the highest record of version 1, this may be where the log was pruned, or its job deleted.
            if upper is not None and oldest is None and (completed or (yield from _was_disposed(seq))):
                break
            raise LogDamaged(job, damage)
        if upper is None:
            oldest, last_sha256 = record.oldest, sha256_of(content)
        records.append(record)
        completed += record.completes
        owned += record.kind in JOBS_OWN
        if checkpoints is not None and oldest is not None and owned >= checkpoints and completed:
            break
    return LogView(job, tuple(reversed(records)), last_sha256)


def _was_disposed(seq: LogSeq) -> Program[bool]:
    """Return whether a job was deleted, given the end of its log: nothing of its own is left below."""
    page = yield from list_page(keys.LOG_PREFIX, limit=1)
    if any((found := keys.log_seq(info.key)) is not None and found <= seq for info in page.objects):
        return False
    return (yield from _find_owned_manifest()) is None


def _missing(seq: LogSeq, upper: LogRecord | None, highest: LogSeq) -> Program[str]:
    """Return what a missing record shows. If it and all below were pruned, copies included, later ones were lost."""
    if upper is None:
        return f"{keys.log_record(seq)} does not exist"
    if upper.oldest is not None:
        lowest = yield from _lowest(keys.LOG_PREFIX, keys.log_seq)
        copied = yield from _lowest(keys.COPIES_PREFIX, keys.copied_seq)
        if lowest is not None and lowest > seq and (copied is None or copied > seq):
            lost = keys.log_record(LogSeq(highest + 1))
            return (
                f"{lost} does not exist, nor its copy: {keys.log_record(seq)} is pruned, "
                f"which happens below later records only, and {keys.log_record(highest)}, the highest, needs it"
            )
    return f"{keys.log_record(seq)} does not exist, and {keys.log_record(upper.seq)} is above it"


def _lowest(prefix: Key, seq_of: Callable[[Key], LogSeq | None]) -> Program[LogSeq | None]:
    page = yield from list_page(prefix, limit=1)
    return next((found for info in page.objects if (found := seq_of(info.key)) is not None), None)


def contradiction(lower: LogRecord, content: bytes, upper: LogRecord) -> str:
    """Return why `upper` cannot have been written after `lower`; empty if it can."""
    names = f"{keys.log_record(lower.seq)} and {keys.log_record(upper.seq)}"
    if upper.previous is not None and upper.previous != sha256_of(content):
        return f"{keys.log_record(lower.seq)} is not the record that {keys.log_record(upper.seq)} was written on top of"
    if not follows(lower, upper):
        return (
            f"{names} contradict each other: {lower.kind} of epoch {lower.epoch}, attempt {lower.attempt} by "
            f"{lower.owner}, below {upper.kind} of epoch {upper.epoch}, attempt {upper.attempt} by {upper.owner}"
        )
    if lower.format_version > upper.format_version:
        return f"{names} contradict each other: the lower one has a later format"
    if (lower.oldest or 0) > (upper.oldest or 0) or (lower.last_id or 0) > (upper.last_id or 0):
        return f"{names} contradict each other: the lower one has a higher id, or a higher oldest record"
    return ""
