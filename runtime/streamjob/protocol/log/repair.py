"""Repair of a damaged log: its records are restored from their copies, or it continues from an intact completion.

A copy has the content of its record, so restoring it affects no process. If this does not repair the log, the lost
history is given up. The repair creates a claim above all records ever written, which fences off every owner, and above
it records that name the intact completions once more. Only the last of these declares that the log begins at the
repair's claim (`oldest`). Until it exists the log stays damaged, and no process starts from a part of it.

Nothing is deleted, and no snapshot is changed. An interrupted repair may be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamjob.errors import CannotRestore, InvalidInput, Superseded
from streamjob.ids import Attempt, CheckpointId, Epoch, Key, LogSeq, Owner
from streamjob.protocol.log.creating import create
from streamjob.protocol.log.offering import is_intact
from streamjob.protocol.log.records import (
    JobId,
    LogDamaged,
    contradiction,
    decode_record,
    encode_record,
    exists_above,
    read,
    sha256_of,
)
from streamjob.protocol.manifests.stored_manifests import (
    NamedManifest,
    find_problems,
    list_shared_sizes,
    read_content,
    read_manifest,
)
from streamjob.snapshot import keys
from streamjob.snapshot.record import LogRecord, RecordKind
from streamjob.store.effects import Program, get, list_all, put
from streamjob.store.hashing import Part

SKIPPED_IDS = 1_000_000
"""Number of ids to skip if the used ones are unknown; sinks remember ids, so none may be used twice."""

_LOOK_AGAIN = "run `streamjob log repair` again"


class NothingToGoOnFrom(CannotRestore):
    """The log is damaged, and no object shows which checkpoint was completed."""


class NotAManifest(InvalidInput):
    """The manifest given as the newest completion is not a restorable manifest of the job."""


@dataclass(frozen=True, slots=True)
class Fence:
    """The claim above all records ever written: its number, epoch and attempt, and the ids that may have been used."""

    seq: LogSeq
    epoch: Epoch
    attempt: Attempt
    last_id: CheckpointId
    previous: str
    """The hash of the record below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a repair.

    `problem` describes the damage; None means that the log is intact, and only `copies`, which differ or are
    missing, have to be written again. `restored` are the contents for damaged records. With a `fence`, the history
    is given up and the log continues from `adopted`. `unnamed` are readable manifests that no readable record
    names.
    """

    job: JobId
    problem: str | None
    restored: Mapping[LogSeq, bytes] = field(default_factory=dict)
    copies: Mapping[LogSeq, bytes] = field(default_factory=dict)
    fence: Fence | None = None
    adopted: tuple[LogRecord, ...] = ()
    unnamed: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return self.problem is None and not self.copies


@dataclass(frozen=True, slots=True)
class _Survey:
    job: JobId
    records: Mapping[LogSeq, bytes]
    copies: Mapping[LogSeq, bytes]

    @property
    def top(self) -> LogSeq:
        return LogSeq(max([*self.records, *self.copies], default=-1))

    def known(self, seq: LogSeq) -> list[tuple[LogRecord, bytes]]:
        """Return the possible contents of a number: its record and its copy, if readable."""
        contents = [content for stored in (self.records, self.copies) if (content := stored.get(seq)) is not None]
        found = []
        for content in dict.fromkeys(contents):
            try:
                found.append((decode_record(seq, content, self.job), content))
            except LogDamaged:
                continue
        return found

    def all_known(self) -> list[LogRecord]:
        return [record for seq in sorted({*self.records, *self.copies}) for record, _ in self.known(seq)]


def plan_repair(job: JobId, newest: str | None = None) -> Program[Plan]:
    """Plan the repair of the log; writes nothing.

    Args:
        newest: the manifest of the last completed checkpoint, as key below the job's root or absolute URI, if no
            readable record names it; None to rely on the records.

    Raises:
        NothingToGoOnFrom: no completion is intact.
        NotAManifest: `newest` cannot be restored from.
        ForeignLog, UnknownRecordVersion: the log cannot be repaired by this version, or under this name.
    """
    problem: str | None = None
    try:
        yield from read(job)
    except LogDamaged as error:
        problem = error.problem
    records = yield from _contents(keys.LOG_PREFIX)
    survey = _Survey(job, records, (yield from _contents(keys.COPIES_PREFIX)))
    chain = _whole_chain(survey)
    if problem is None and newest is not None and (ids := _ids(newest)) is not None and _is_beyond(survey, ids[1]):
        # Nothing in the store shows that the newest records were lost; sinks may have shown it.
        problem, chain = f"it does not name {newest}, which was completed", None
    if problem is None or chain is not None:
        chain = chain or {}
        return Plan(
            job=job,
            problem=problem,
            restored={seq: content for seq, content in chain.items() if survey.records.get(seq) != content},
            copies={seq: content for seq, content in chain.items() if survey.copies.get(seq) != content},
        )
    adopted, unnamed = yield from _intact(survey, newest)
    return Plan(job=job, problem=problem, fence=_fence(survey, adopted, unnamed), adopted=adopted, unnamed=unnamed)


def repair(plan: Plan, owner: Owner, now: float) -> Program[None]:
    """Execute a plan.

    Args:
        owner: random identity for the claim.
        now: seconds since 1970.

    Raises:
        Superseded: the log has changed since the plan was made.
        OutcomeUnknown, StoreUnavailable, StoreDenied: not everything was written; plan again.
    """
    for seq, content in sorted(plan.restored.items()):
        yield from put(keys.log_record(seq), content)
    for seq, content in sorted({**plan.copies, **plan.restored}.items()):
        yield from put(keys.record_copy(seq), content)
    if plan.fence is None:
        return
    for record in _records(plan, plan.fence, owner, now):
        if not (yield from create(record)) or (yield from exists_above(record.seq)):
            raise Superseded(f"the log of job {plan.job} has changed since the plan was made", _LOOK_AGAIN)
        yield from put(keys.record_copy(record.seq), encode_record(record))


def _records(plan: Plan, fence: Fence, owner: Owner, now: float) -> list[LogRecord]:
    """Return the records that give up the lost history, each on top of the previous one."""
    last = LogSeq(fence.seq + len(plan.adopted))
    below = LogRecord(
        seq=fence.seq,
        kind=RecordKind.CLAIM,
        epoch=fence.epoch,
        owner=owner,
        attempt=fence.attempt,
        time=now,
        job=plan.job.name,
        namespace=plan.job.namespace,
        last_id=fence.last_id,
        # The run down to 0 is not intact: only the last record abandons the lost part.
        oldest=fence.seq if fence.seq == last else LogSeq(0),
        previous=fence.previous,
    )
    records = [below]
    for adopted in plan.adopted:
        seq = LogSeq(below.seq + 1)
        changes = {
            "seq": seq,
            "kind": adopted.kind,
            "id": adopted.id,
            "manifest": adopted.manifest,
            "manifest_size": adopted.manifest_size,
            "manifest_sha256": adopted.manifest_sha256,
            "oldest": fence.seq if seq == last else LogSeq(0),
            "previous": sha256_of(encode_record(below)),
        }
        below = below.model_copy(update=changes)
        records.append(below)
    return records


def _contents(prefix: Key) -> Program[dict[LogSeq, bytes]]:
    seq_of = keys.log_seq if prefix == keys.LOG_PREFIX else keys.copied_seq
    found = {}
    for info in (yield from list_all(prefix)):
        if (seq := seq_of(info.key)) is not None:
            found[seq] = yield from get(info.key)
    return found


def _is_beyond(survey: _Survey, checkpoint: CheckpointId) -> bool:
    return all(checkpoint > (record.last_id or record.id or 0) for record in survey.all_known())


def _whole_chain(survey: _Survey) -> dict[LogSeq, bytes] | None:
    """Return the correct records of the log, from its oldest to the highest; None if records or copies lack one."""
    for highest, content in survey.known(survey.top):
        chain = _chain_below(survey, highest, content)
        if chain is not None:
            return chain
    return None


def _chain_below(survey: _Survey, highest: LogRecord, content: bytes) -> dict[LogSeq, bytes] | None:
    chain = {highest.seq: content}
    completed = highest.completes
    upper = highest
    for number in range(highest.seq - 1, (highest.oldest or LogSeq(0)) - 1, -1):
        known = survey.known(LogSeq(number))
        found = next((each for each in known if not contradiction(*each, upper)), None)
        if found is None:
            # In version 1, the log may have been pruned here.
            return chain if completed and highest.oldest is None else None
        upper, chain[LogSeq(number)] = found
        completed = completed or upper.completes
    return chain


def _intact(survey: _Survey, newest: str | None) -> Program[tuple[tuple[LogRecord, ...], tuple[str, ...]]]:
    """Return the completions to continue from, oldest first, and the manifests that no record names."""
    known = survey.all_known()
    # Strays are below: records that sleeping writers have created under pruned numbers.
    oldest = max((record.oldest or 0 for record in known), default=0)
    completions = {str(record.manifest): record for record in known if record.completes and record.seq >= oldest}
    stored = yield from list_shared_sizes()
    hashes: dict[Part, str | None] = {}
    intact: list[LogRecord] = []
    for record in sorted(completions.values(), key=lambda each: each.id or 0):
        if not (yield from find_problems(record, stored)) and (yield from is_intact(record, hashes)):
            intact.append((yield from _named_by_hash(record)))
    unnamed = []
    for info in (yield from list_all(keys.CHECKPOINTS_PREFIX)):
        if keys.manifest_ids(info.key) is not None and info.key not in completions:
            try:
                yield from read_manifest(info.key)
            except CannotRestore:
                continue
            unnamed.append(str(info.key))
    if newest is not None:
        last = yield from _told(survey.job, newest, stored)
        intact = [*(record for record in intact if (record.id or 0) < (last.id or 0)), last]
    if not intact and (completions or unnamed):
        raise NothingToGoOnFrom(
            f"the log of job {survey.job} is damaged, and no completion that its records name is intact",
            "restore objects from a backup; or name the manifest of the last checkpoint that was completed with "
            "--newest; or start under a new name with --from",
        )
    return tuple(intact), tuple(name for name in unnamed if name not in {record.manifest for record in intact})


def _named_by_hash(record: LogRecord) -> Program[LogRecord]:
    assert record.manifest is not None
    named = NamedManifest.of(record.manifest, (yield from read_content(record.manifest)))
    return record.model_copy(update={"manifest_size": named.size, "manifest_sha256": named.sha256})


def _told(job: JobId, newest: str, stored: Mapping[str, int]) -> Program[LogRecord]:
    """Return a record of the completion that a person named as the last one."""
    try:
        manifest = yield from read_manifest(newest)
    except CannotRestore as error:
        raise NotAManifest(f"--newest {newest} cannot be used: {error.what}") from error
    record = LogRecord(
        format_version=1,
        seq=LogSeq(0),
        kind=RecordKind(manifest.kind),
        epoch=manifest.epoch,
        owner=Owner(""),
        attempt=Attempt(0),
        id=manifest.id,
        manifest=newest,
        time=0.0,
    )
    problems = [*(yield from find_problems(record, stored))]
    if JobId(manifest.namespace, manifest.job) != job:
        problems.append(f"it is of job {manifest.namespace}/{manifest.job}")
    if not problems and not (yield from is_intact(record, {})):
        problems.append("a file has changed since it was written: `streamjob snapshots verify` names it")
    if problems:
        raise NotAManifest(f"--newest {newest} cannot be used: {'; '.join(problems)}")
    return (yield from _named_by_hash(record))


def _fence(survey: _Survey, adopted: tuple[LogRecord, ...], unnamed: tuple[str, ...]) -> Fence:
    known = survey.all_known()
    manifests = [ids for name in (*unnamed, *(str(each.manifest) for each in adopted)) if (ids := _ids(name))]
    numbers = {record.seq for record in known}
    first = min([*survey.records, *survey.copies], default=LogSeq(0))
    # Each unreadable record may have been a claim.
    unknown = sum(seq not in numbers for seq in range(first, survey.top + 1))
    epoch = max([*(record.epoch for record in known), *(each[0] for each in manifests)], default=Epoch(0))
    used = [record.last_id or record.id or CheckpointId(0) for record in known]
    last_id = max([*used, *(each[1] for each in manifests), *(each.id or 0 for each in adopted)], default=0)
    highest = survey.known(survey.top)
    certain = bool(highest) and highest[0][0].last_id is not None
    # Number 0 is excluded: a claim with that number is a complete log.
    seq = LogSeq(max(survey.top + 1, 1))
    return Fence(
        seq=seq,
        epoch=Epoch(epoch + unknown + 1),
        attempt=max((record.attempt for record in known), default=Attempt(0)),
        last_id=CheckpointId(last_id if certain else last_id + SKIPPED_IDS),
        previous=sha256_of(survey.records.get(survey.top, b"")),
    )


def _ids(manifest: str) -> tuple[Epoch, CheckpointId] | None:
    return keys.manifest_ids(Key(manifest))
