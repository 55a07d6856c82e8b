"""The log as readers see it, and who may write to it."""

from __future__ import annotations

from typing import TypeVar

import pytest
from tests.faulty_store import Fault, FaultyStore, ScriptedFaults

from streamjob.errors import ExitCode, Superseded
from streamjob.ids import Attempt, CheckpointId, Epoch, Key, LogSeq, Owner
from streamjob.protocol.log.creating import TRIES, OutcomeUnknown, create
from streamjob.protocol.log.ownership import (
    Claim,
    Completion,
    Identity,
    IllegalStep,
    claim_log,
    complete,
    verify,
)
from streamjob.protocol.log.records import (
    ForeignLog,
    JobId,
    LogDamaged,
    LogView,
    UnknownRecordVersion,
    encode_record,
    find_highest,
    read,
    sha256_of,
)
from streamjob.protocol.manifests.stored_manifests import NamedManifest
from streamjob.snapshot import keys
from streamjob.snapshot.record import LogRecord, RecordKind
from streamjob.store.base import StoreDenied, StoreError, StoreUnavailable
from streamjob.store.effects import List, Program, PutIfAbsent, StoreEffect, drive
from streamjob.testing.memory_store import MemoryStore

JOB = JobId("tests", "job")
T = TypeVar("T")


def identity(owner: str = "one", attempt: int = 0) -> Identity:
    return Identity(job=JOB, owner=Owner(owner), attempt=Attempt(attempt))


def named(place: str) -> NamedManifest:
    return NamedManifest.of(place, b"manifest")


def record(seq: int, epoch: int, checkpoint: int | None = None, owner: str = "one") -> LogRecord:
    return LogRecord(
        seq=LogSeq(seq),
        kind=RecordKind.CLAIM if checkpoint is None else RecordKind.CHECKPOINT,
        epoch=Epoch(epoch),
        owner=Owner(owner),
        attempt=Attempt(0),
        id=None if checkpoint is None else CheckpointId(checkpoint),
        manifest=None if checkpoint is None else keys.manifest(Epoch(epoch), CheckpointId(checkpoint)),
        manifest_size=None if checkpoint is None else 8,
        manifest_sha256=None if checkpoint is None else sha256_of(b"manifest"),
        time=1.0,
        job=JOB.name,
        namespace=JOB.namespace,
    )


def write(store: FaultyStore, *records: LogRecord) -> None:
    """Write records, each on top of the one before, and the first one as if all below it had been pruned."""
    below, last_id = "of a pruned record", CheckpointId(0)
    for written in records:
        last_id = max(last_id, written.id or CheckpointId(0))
        linked = {"oldest": records[0].seq, "last_id": last_id, "previous": below if written.seq else None}
        content = encode_record(written.model_copy(update=linked))
        store.put(keys.log_record(written.seq), content)
        below = sha256_of(content)


def write_version_1(store: FaultyStore, *records: LogRecord) -> None:
    new = {"manifest_size", "manifest_sha256"}
    for written in records:
        old = written.model_copy(update={"format_version": 1})
        content = old.model_dump_json(by_alias=True, exclude_none=True, exclude=new).encode()
        store.put(keys.log_record(written.seq), content)


def checkpoint(
    store: FaultyStore, claim: Claim, number: int, now: float = 2.0, kind: RecordKind = RecordKind.CHECKPOINT
) -> Completion:
    """Complete and commit a checkpoint."""
    manifest = keys.manifest(claim.epoch, CheckpointId(number))
    completion = drive(store, complete(claim, kind, CheckpointId(number), named(manifest), now))
    claim.committed(CheckpointId(number))
    return completion


def seqs(view: LogView) -> list[int]:
    return [found.seq for found in view.records]


@pytest.mark.parametrize(
    ("steps", "since", "starts"),
    [
        ("c", 0.0, 1),
        ("c", 2.0, 0),
        ("cccc", 0.0, 4),
        ("cccc", 3.0, 2),
        ("ckccc", 1.0, 4),
        ("ckccc", 2.0, 3),
        ("ckkckc", 3.0, 2),
    ],
)
def test_a_claim_knows_the_starts_of_a_time(store: FaultyStore, steps: str, since: float, starts: int) -> None:
    """Each step takes a second, from second 1: a claim or a checkpoint."""
    for now, step in enumerate(steps, start=1):
        if step == "c":
            claim = drive(store, claim_log(identity(), float(now)))
            if claim.uncommitted is not None and claim.uncommitted.id is not None:
                claim.committed(claim.uncommitted.id)
        else:
            checkpoint(store, claim, now, now=float(now))

    assert claim.starts_since(since) == starts


def test_an_empty_log_has_no_epoch_and_no_completion(store: FaultyStore) -> None:
    view = drive(store, read(JOB))

    assert (view.epoch, view.next_seq, view.newest, view.last_id) == (0, 0, None, 0)


def test_the_first_claim_begins_epoch_1(store: FaultyStore) -> None:
    claim = drive(store, claim_log(identity(), 1.0))

    assert (claim.epoch, claim.last_seq, claim.finished) == (1, 0, False)


def test_a_claim_knows_the_completions_below_it(store: FaultyStore) -> None:
    first = drive(store, claim_log(identity(), 1.0))
    checkpoint(store, first, 4)
    checkpoint(store, first, 7)

    second = drive(store, claim_log(identity("two"), 2.0))

    assert (second.epoch, second.last_seq, second.last_id) == (2, 3, 7)
    assert [found.id for found in second.retained] == [4, 7]
    assert second.uncommitted == second.newest == second.below.newest


def test_in_version_1_only_the_dense_run_that_ends_at_the_highest_record_counts(store: FaultyStore) -> None:
    write_version_1(store, record(0, 1), record(1, 1, 1), record(5, 3), record(6, 3, 8))

    assert seqs(drive(store, read(JOB))) == [5, 6]


def test_in_version_1_a_completion_that_a_sleeper_wrote_into_the_pruned_part_does_not_count(store: FaultyStore) -> None:
    write_version_1(store, record(4, 1, 3), record(5, 3, owner="three"), record(6, 3, 8, owner="three"))

    assert seqs(drive(store, read(JOB))) == [5, 6]


def test_in_version_1_a_completion_below_a_completion_of_another_epoch_does_not_count(store: FaultyStore) -> None:
    write_version_1(store, record(4, 1, 3), record(5, 2, 8, owner="two"))

    assert seqs(drive(store, read(JOB))) == [5]


def test_in_version_1_a_completion_of_the_epoch_by_another_owner_does_not_count(store: FaultyStore) -> None:
    write_version_1(store, record(4, 2, owner="sleeper"), record(5, 2, 8, owner="two"))

    assert seqs(drive(store, read(JOB))) == [5]


def test_a_reader_goes_back_as_far_as_it_needs_and_no_further(store: FaultyStore) -> None:
    claim = drive(store, claim_log(identity(), 1.0))
    for number in range(1, 9):
        checkpoint(store, claim, number)
    store.calls.clear()

    assert seqs(drive(store, read(JOB, checkpoints=2))) == [7, 8]
    assert store.calls["get"] == 2


def test_a_reader_reads_again_if_the_log_is_pruned_under_it(store: FaultyStore) -> None:
    write_version_1(store, record(0, 1), record(1, 1, 1))
    reading = read(JOB)
    effect = next(reading)
    while isinstance(effect, List):
        effect = reading.send(drive(store, _once(effect)))
    # Between the listing and the first read a successor claims, completes and prunes.
    write_version_1(store, record(2, 2, owner="two"), record(3, 2, 2, owner="two"))
    store.delete([keys.log_record(LogSeq(0))])

    assert seqs(drive(store, _resumed(reading, effect))) == [1, 2, 3]


def _once(effect: StoreEffect) -> Program[object]:
    """Perform one effect."""
    return (yield effect)


@pytest.mark.parametrize("length", [0, 1, 999, 1000, 1001, 2500, 40_000])
def test_the_end_of_a_long_log_is_found_with_few_requests(length: int) -> None:
    store = FaultyStore(MemoryStore())
    for number in range(length):
        store.put(keys.log_record(LogSeq(number)), b"")

    assert drive(store, find_highest()) == (length - 1 if length else None)
    assert store.calls["list"] <= 15


def test_a_hint_saves_the_search(store: FaultyStore) -> None:
    for number in range(5000):
        store.put(keys.log_record(LogSeq(number)), b"")

    assert drive(store, find_highest(LogSeq(4990))) == 4999
    assert store.calls["list"] == 1


def test_a_record_of_an_unknown_version_is_refused(store: FaultyStore) -> None:
    store.put(keys.log_record(LogSeq(0)), b'{"formatVersion": 3, "seq": 0}')

    with pytest.raises(UnknownRecordVersion, match="format version 3") as raised:
        drive(store, claim_log(identity(), 1.0))
    assert raised.value.exit_code is ExitCode.CANNOT_RESTORE


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"formatVersion": 1}',
        encode_record(record(7, 1)),
        encode_record(record(0, 1, 1).model_copy(update={"manifest": None})),
    ],
    ids=["empty", "list", "no version", "bytes", "fields missing", "another number", "completion without manifest"],
)
def test_what_is_no_record_is_refused(store: FaultyStore, content: bytes) -> None:
    store.put(keys.log_record(LogSeq(0)), content)

    with pytest.raises(LogDamaged, match=r"log/0{20}\.json"):
        drive(store, claim_log(identity(), 1.0))


def test_the_log_of_another_job_is_refused(store: FaultyStore) -> None:
    drive(store, claim_log(Identity(job=JobId("tests", "other"), owner=Owner("o"), attempt=Attempt(0)), 1.0))

    with pytest.raises(ForeignLog, match="tests/other"):
        drive(store, claim_log(identity(), 1.0))


def test_a_claimer_that_loses_a_number_reads_on_and_takes_the_next(store: FaultyStore) -> None:
    claiming = claim_log(identity("two"), 2.0)
    effect = next(claiming)
    while not isinstance(effect, PutIfAbsent):
        effect = claiming.send(drive(store, _once(effect)))
    drive(store, claim_log(identity("one"), 1.0))

    claim = drive(store, _resumed(claiming, effect))

    assert (claim.epoch, claim.last_seq) == (2, 1)


def _resumed(program: Program[T], effect: StoreEffect) -> Program[T]:
    """Go on with a program that was stopped before an effect."""
    try:
        while True:
            try:
                reply = yield effect
            except StoreError as error:
                effect = program.throw(error)
            else:
                effect = program.send(reply)
    except StopIteration as end:
        result: T = end.value
    return result


def test_a_claimer_that_slept_through_pruning_does_not_take_a_free_number_for_its_own(store: FaultyStore) -> None:
    claiming = claim_log(identity("sleeper"), 1.0)
    effect = next(claiming)
    while not isinstance(effect, PutIfAbsent):
        effect = claiming.send(drive(store, _once(effect)))
    write(store, record(6, 3, owner="three"), record(7, 3, 9, owner="three"))

    claim = drive(store, _resumed(claiming, effect))

    assert (claim.epoch, claim.last_seq, claim.last_id) == (4, 8, 9)


def test_a_number_that_was_taken_and_pruned_is_not_taken_again(store: FaultyStore) -> None:
    write(store, record(0, 1, owner="other"))
    creating = create(record(0, 1))
    effect = creating.send(drive(store, _once(next(creating))))
    store.delete([keys.log_record(LogSeq(0))])

    assert not drive(store, _resumed(creating, effect))
    assert list(store.list(keys.LOG_PREFIX)) == []


def test_a_claimer_with_a_lower_attempt_than_the_last_claim_is_superseded(store: FaultyStore) -> None:
    drive(store, claim_log(identity("new", attempt=3), 1.0))

    with pytest.raises(Superseded, match="attempt 3") as raised:
        drive(store, claim_log(identity("old", attempt=2), 2.0))
    assert raised.value.exit_code is ExitCode.SUPERSEDED


def test_a_claimer_with_the_same_attempt_may_claim_again(store: FaultyStore) -> None:
    drive(store, claim_log(identity("one", attempt=3), 1.0))

    assert drive(store, claim_log(identity("again", attempt=3), 2.0)).epoch == 2


def test_a_completer_that_meets_anothers_claim_stops_for_good(store: FaultyStore) -> None:
    claim = drive(store, claim_log(identity(), 1.0))
    drive(store, claim_log(identity("two"), 2.0))

    with pytest.raises(Superseded):
        checkpoint(store, claim, 1)
    store.calls.clear()
    with pytest.raises(Superseded):
        checkpoint(store, claim, 2)
    assert not store.calls


def test_a_completer_that_slept_through_pruning_notices_that_the_log_goes_on_above(store: FaultyStore) -> None:
    claim = drive(store, claim_log(identity(), 1.0))
    write(store, record(5, 3, owner="three"), record(6, 3, 9, owner="three"))

    with pytest.raises(Superseded):
        checkpoint(store, claim, 1)
    assert seqs(drive(store, read(JOB))) == [5, 6]


@pytest.mark.parametrize("fault", list(Fault))
def test_a_lost_reply_is_settled_by_reading_the_record_back(store: FaultyStore, fault: Fault) -> None:
    claim = drive(store, claim_log(identity(), 1.0))
    store.plan = ScriptedFaults([fault], verbs=["put_if_absent"])

    assert checkpoint(store, claim, 1).record.seq == 1
    assert seqs(drive(store, read(JOB))) == [0, 1]


def test_a_lost_reply_of_a_claim_is_settled_by_reading_the_record_back(store: FaultyStore) -> None:
    store.plan = ScriptedFaults([Fault.AFTER], verbs=["put_if_absent"])

    assert drive(store, claim_log(identity(), 1.0)).epoch == 1


def test_another_owners_record_is_not_taken_for_ones_own(store: FaultyStore) -> None:
    claim = drive(store, claim_log(identity(), 1.0))
    write(store, record(1, 1, 1, owner="impostor"))

    with pytest.raises(Superseded):
        checkpoint(store, claim, 1)


def test_a_completion_whose_outcome_stays_unknown_says_so(store: FaultyStore) -> None:
    claim = drive(store, claim_log(identity(), 1.0))
    store.plan = lambda verb, key: Fault.AFTER

    with pytest.raises(OutcomeUnknown, match="is unknown"):
        checkpoint(store, claim, 1)
    assert store.calls["put_if_absent"] == 1 + TRIES


def test_after_an_unknown_outcome_only_the_same_completion_may_be_tried_again(store: FaultyStore) -> None:
    claim = drive(store, claim_log(identity(), 1.0))
    store.plan = lambda verb, key: Fault.AFTER
    with pytest.raises(OutcomeUnknown):
        checkpoint(store, claim, 1)
    store.plan = lambda verb, key: None

    with pytest.raises(IllegalStep, match="end the epoch"):
        checkpoint(store, claim, 2)
    assert checkpoint(store, claim, 1, now=99.0).record.time == 2.0


def test_a_completion_that_cannot_be_verified_is_of_unknown_outcome(store: FaultyStore) -> None:
    claim = drive(store, claim_log(identity(), 1.0))
    store.plan = ScriptedFaults([Fault.BEFORE] * TRIES, verbs=["list"])

    with pytest.raises(OutcomeUnknown):
        checkpoint(store, claim, 1)
    assert checkpoint(store, claim, 1).record.seq == 1


def test_a_refused_completion_may_be_followed_by_another(store: FaultyStore) -> None:
    claim = drive(store, claim_log(identity(), 1.0))

    def refuse(verb: str, key: str) -> None:
        if verb == "put_if_absent":
            raise StoreDenied("credentials have expired")

    store.plan = refuse
    with pytest.raises(StoreDenied):
        checkpoint(store, claim, 1)
    store.plan = lambda verb, key: None

    assert checkpoint(store, claim, 2).record.seq == 1


def test_a_refusal_behind_an_unknown_outcome_does_not_settle_it(store: FaultyStore) -> None:
    claim = drive(store, claim_log(identity(), 1.0))
    store.plan = lambda verb, key: Fault.AFTER
    with pytest.raises(OutcomeUnknown):
        checkpoint(store, claim, 1)

    def refuse(verb: str, key: str) -> None:
        raise StoreDenied("credentials have expired")

    store.plan = refuse
    with pytest.raises(OutcomeUnknown, match="expired"):
        checkpoint(store, claim, 1)
    store.plan = lambda verb, key: None
    assert checkpoint(store, claim, 1).record.seq == 1


def test_nothing_is_completed_before_the_last_completion_is_committed(store: FaultyStore) -> None:
    claim = drive(store, claim_log(identity(), 1.0))
    drive(store, complete(claim, RecordKind.CHECKPOINT, CheckpointId(1), named("checkpoints/1-1/manifest.json"), 2.0))

    with pytest.raises(IllegalStep, match="not yet committed"):
        checkpoint(store, claim, 2)


def test_nothing_is_completed_before_the_completion_below_the_claim_is_committed_again(store: FaultyStore) -> None:
    checkpoint(store, drive(store, claim_log(identity(), 1.0)), 1)
    claim = drive(store, claim_log(identity("two"), 2.0))

    with pytest.raises(IllegalStep, match="not yet committed"):
        checkpoint(store, claim, 2)


def test_ids_grow_across_epochs(store: FaultyStore) -> None:
    checkpoint(store, drive(store, claim_log(identity(), 1.0)), 5)
    claim = drive(store, claim_log(identity("two"), 2.0))
    claim.committed(CheckpointId(5))

    with pytest.raises(IllegalStep, match="not above 5"):
        checkpoint(store, claim, 5)
    assert checkpoint(store, claim, 6).record.id == 6


@pytest.mark.parametrize(
    ("kind", "manifest"),
    [
        (RecordKind.CHECKPOINT, "checkpoints/9-1/manifest.json"),
        (RecordKind.CHECKPOINT, "s3://bucket/elsewhere/manifest.json"),
        (RecordKind.SAVEPOINT, "checkpoints/1-1/manifest.json"),
        (RecordKind.CLAIM, "checkpoints/1-1/manifest.json"),
    ],
)
def test_a_manifest_has_its_place(store: FaultyStore, kind: RecordKind, manifest: str) -> None:
    claim = drive(store, claim_log(identity(), 1.0))

    with pytest.raises(IllegalStep, match="no place"):
        drive(store, complete(claim, kind, CheckpointId(1), named(manifest), 2.0))


def test_a_finished_job_is_recognised_however_often_it_is_claimed_again(store: FaultyStore) -> None:
    checkpoint(store, drive(store, claim_log(identity(), 1.0)), 1, kind=RecordKind.FINAL)

    for number in range(3):
        claim = drive(store, claim_log(identity(f"later-{number}"), 2.0, checkpoints=1))
        assert claim.finished
        assert claim.uncommitted is not None
        assert claim.uncommitted.kind is RecordKind.FINAL


def test_capabilities_cannot_be_made_by_hand(store: FaultyStore) -> None:
    claim = drive(store, claim_log(identity(), 1.0))

    with pytest.raises(IllegalStep):
        Claim(object(), identity(), claim.record, claim.below, None)
    with pytest.raises(IllegalStep):
        Completion(object(), claim, claim.record)


def test_a_claim_is_verified_against_the_log(store: FaultyStore) -> None:
    claim = drive(store, claim_log(identity(), 1.0))
    drive(store, verify(claim))
    drive(store, claim_log(identity("two"), 2.0))

    with pytest.raises(Superseded):
        drive(store, verify(claim))


def test_ones_own_completion_under_way_is_no_other_owners_claim(store: FaultyStore) -> None:
    claim = drive(store, claim_log(identity(), 1.0))
    completing = complete(claim, RecordKind.CHECKPOINT, CheckpointId(1), named("checkpoints/1-1/manifest.json"), 2.0)
    drive(store, _once(next(completing)))

    drive(store, verify(claim))
    drive(store, claim_log(identity("two"), 2.0))
    with pytest.raises(Superseded):
        drive(store, verify(claim))


def test_another_owners_record_at_the_number_under_way_is_noticed(store: FaultyStore) -> None:
    claim = drive(store, claim_log(identity(), 1.0))
    next(complete(claim, RecordKind.CHECKPOINT, CheckpointId(1), named("checkpoints/1-1/manifest.json"), 2.0))
    drive(store, claim_log(identity("two"), 2.0))

    with pytest.raises(Superseded):
        drive(store, verify(claim))


def test_a_store_that_is_away_fails_a_claim_and_a_later_one_succeeds(store: FaultyStore) -> None:
    store.plan = ScriptedFaults([Fault.BEFORE], verbs=["list"])
    with pytest.raises(StoreUnavailable):
        drive(store, claim_log(identity(), 1.0))

    assert drive(store, claim_log(identity(), 1.0)).epoch == 1


def test_strangers_in_the_folder_of_the_log_are_passed_over(store: FaultyStore) -> None:
    store.put(Key("log/README"), b"hello")

    claim = drive(store, claim_log(identity(), 1.0))

    drive(store, verify(claim))
    assert claim.epoch == 1
