"""A damaged log is made whole from its copies, or goes on from what is intact; nothing is deleted for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.faulty_store import Fault, FaultyStore
from tests.unit.protocol.life import JOB, JobEpoch, key_of, stored
from tests.unit.protocol.test_damaged_logs import crashed, record, seen, version_1

from streamjob.errors import Superseded
from streamjob.ids import Attempt, CheckpointId, Key, LogSeq, Owner
from streamjob.protocol.log.claiming import claim_snapshot
from streamjob.protocol.log.committing import Commit
from streamjob.protocol.log.ownership import Identity, claim_log
from streamjob.protocol.log.records import JobId, LogDamaged, read
from streamjob.protocol.log.repair import SKIPPED_IDS, NotAManifest, NothingToGoOnFrom, Plan, plan_repair, repair
from streamjob.protocol.log.restore import resolve
from streamjob.snapshot import keys
from streamjob.snapshot.record import RecordKind
from streamjob.store.base import StoreError
from streamjob.store.effects import drive
from streamjob.testing.memory_store import MemoryStore


def planned(store: FaultyStore, newest: str | None = None) -> Plan:
    before = contents(store)
    plan = drive(store, plan_repair(JOB, newest))
    assert contents(store) == before
    return plan


def repaired(store: FaultyStore, newest: str | None = None) -> Plan:
    plan = planned(store, newest)
    before = contents(store)
    drive(store, repair(plan, Owner("repair"), 9.0))
    after = contents(store)
    assert {key: after.get(key) for key in before if not key.startswith("log")} == {
        key: content for key, content in before.items() if not key.startswith("log")
    }
    assert planned(store).problem is None
    return plan


def contents(store: FaultyStore) -> dict[str, bytes]:
    return {key: store.get(Key(key)) for key in stored(store, "")}


def lose(store: FaultyStore, *seqs: int) -> None:
    """Lose records and their copies."""
    for seq in seqs:
        store.delete([record(seq), keys.record_copy(LogSeq(seq))])


def test_a_whole_log_needs_no_repair(store: FaultyStore) -> None:
    crashed(store)

    assert planned(store).empty


@pytest.mark.parametrize("how", ["deleted", "altered", "emptied", "cut short", "another's"])
@pytest.mark.parametrize("seq", [1, 2, 3])
def test_a_record_is_put_back_from_its_copy(store: FaultyStore, seq: int, how: str) -> None:
    crashed(store)
    whole, view, content = contents(store), seen(store), store.get(record(seq))
    store.delete([record(seq)])
    match how:
        case "altered":
            store.put(record(seq), content.replace(b"tests", b"tasts"))
        case "emptied":
            store.put(record(seq), b"")
        case "cut short":
            store.put(record(seq), content[:-10])
        case "another's":
            store.put(record(seq), store.get(record(4 - seq if seq != 2 else 1)))
    with pytest.raises(LogDamaged):
        seen(store)

    plan = repaired(store)

    assert plan.restored == {seq: content}
    assert plan.fence is None
    assert (seen(store), contents(store)) == (view, whole)


def test_an_owner_that_runs_is_not_disturbed_by_records_that_are_put_back(store: FaultyStore) -> None:
    owner = JobEpoch(store, num_retained=3)
    owner.checkpoint("a")
    owner.checkpoint("b")
    store.delete([record(2)])
    repaired(store)

    owner.checkpoint("c")
    assert [found.id for found in seen(store).completions] == [1, 2, 3]


def test_a_copy_that_differs_is_written_again(store: FaultyStore) -> None:
    crashed(store)
    store.put(keys.record_copy(LogSeq(2)), b"")

    assert planned(store).problem is None
    assert repaired(store).copies.keys() == {2}
    assert planned(store).empty


def test_a_copy_that_is_missing_is_written_again(store: FaultyStore) -> None:
    crashed(store)
    before = contents(store)
    store.delete([keys.record_copy(LogSeq(2))])

    repaired(store)

    assert contents(store) == before


def test_without_a_copy_the_log_goes_on_from_the_newest_intact_completion(store: FaultyStore) -> None:
    owner = JobEpoch(store)
    first = owner.checkpoint("a")
    owner.checkpoint("b")
    last = JobEpoch(store)
    lose(store, 2)

    plan = repaired(store)

    assert plan.unnamed == ("checkpoints/1-2/manifest.json",)
    view = seen(store)
    assert [(found.seq, found.kind) for found in view.records] == [(4, RecordKind.CLAIM), (5, RecordKind.CHECKPOINT)]
    assert view.newest is not None
    assert (view.newest.manifest, view.newest.id, view.epoch, view.last_id) == (key_of(first), 1, 4, 2)
    with pytest.raises(Superseded):
        last.checkpoint("c")
    successor = JobEpoch(store)
    assert [effect.checkpoint for effect in successor.sink if isinstance(effect, Commit)] == [1]
    assert (successor.resolution.fork, successor.checkpoint("c").id) == (False, 3)
    assert successor.collect().swept


def test_a_lost_number_above_all_that_can_be_read_leaves_ids_out(store: FaultyStore) -> None:
    owner = JobEpoch(store)
    owner.checkpoint("a")
    owner.checkpoint("b")
    for prefix in (keys.log_record, keys.record_copy):
        store.put(prefix(LogSeq(2)), b"")

    repaired(store)

    assert JobEpoch(store).checkpoint("c").id == 2 + SKIPPED_IDS + 1


def test_what_a_person_knows_to_be_completed_is_gone_on_from(store: FaultyStore) -> None:
    second = crashed(store).resolution.reference
    lose(store, 2)

    repaired(store, second)

    assert [(found.id, found.manifest) for found in seen(store).completions] == [
        (1, "checkpoints/1-1/manifest.json"),
        (2, second),
    ]
    assert JobEpoch(store).resolution.reference == second


def test_a_completion_that_nothing_in_the_store_shows_is_gone_on_from_if_a_person_knows_it(store: FaultyStore) -> None:
    second = crashed(store).resolution.reference
    lose(store, 2, 3)
    assert planned(store).empty, "the log of a young job that lost its newest records looks whole"

    repaired(store, second)

    assert JobEpoch(store).resolution.reference == second
    assert planned(store, "checkpoints/1-1/manifest.json").empty


def test_what_cannot_be_restored_from_is_not_gone_on_from(store: FaultyStore) -> None:
    second = crashed(store).resolution.manifest
    assert second is not None
    lose(store, 2)
    store.delete([Key(next(second.files()).object)])

    with pytest.raises(NotAManifest, match="does not exist"):
        planned(store, key_of(second))
    with pytest.raises(NotAManifest, match="does not exist"):
        planned(store, "checkpoints/7-7/manifest.json")


def test_several_completions_and_savepoints_are_named_again(store: FaultyStore) -> None:
    owner = JobEpoch(store, num_retained=4)
    for content in "abcd":
        owner.checkpoint(content)
    JobEpoch(store)
    lose(store, 4)

    plan = repaired(store)

    assert [each.id for each in plan.adopted] == [1, 2, 3]
    assert [found.id for found in seen(store).completions] == [1, 2, 3]
    assert JobEpoch(store).resolution.last_id == 4


def test_the_log_of_a_crashed_job_of_version_1_goes_on_from_what_is_intact(store: FaultyStore) -> None:
    crashed(store)
    version_1(store)
    store.delete([record(2)])

    plan = repaired(store, "checkpoints/1-2/manifest.json")

    assert plan.fence is not None
    assert plan.fence.last_id == 2 + SKIPPED_IDS
    assert JobEpoch(store).resolution.reference == "checkpoints/1-2/manifest.json"


def test_a_log_of_which_nothing_is_left_needs_a_person_who_knows(store: FaultyStore) -> None:
    crashed(store)
    lose(store, 0, 1, 2, 3)
    with pytest.raises(NothingToGoOnFrom, match="no completion"):
        planned(store)

    repaired(store, "checkpoints/1-2/manifest.json")
    assert JobEpoch(store).resolution.reference == "checkpoints/1-2/manifest.json"


def test_a_job_that_has_completed_nothing_begins_with_nothing(store: FaultyStore) -> None:
    JobEpoch(store)
    for prefix in (keys.log_record, keys.record_copy):
        store.put(prefix(LogSeq(0)), b"")
    with pytest.raises(LogDamaged):
        seen(store)

    assert repaired(store).adopted == ()
    assert JobEpoch(store).checkpoint("a").id > SKIPPED_IDS


def test_a_log_that_goes_on_meanwhile_is_left_alone(store: FaultyStore) -> None:
    owner = JobEpoch(store)
    owner.checkpoint("a")
    owner.checkpoint("b")
    lose(store, 1)
    plan = planned(store)
    owner.checkpoint("c")

    with pytest.raises(Superseded, match="has changed since"):
        drive(store, repair(plan, Owner("repair"), 9.0))


def interrupted(damaged: dict[str, bytes]) -> Iterator[FaultyStore]:
    """Yield stores on which a repair stopped before each of its writes."""
    for step in range(100):
        store = FaultyStore(MemoryStore())
        for key, content in damaged.items():
            store.put(Key(key), content)
        plan = planned(store)
        left = iter([None] * step)
        store.plan = lambda verb, key, left=left: next(left, Fault.BEFORE)  # type: ignore[misc]
        try:
            drive(store, repair(plan, Owner("repair"), 9.0))
        except StoreError:
            store.plan = lambda verb, key: None
            yield store
        else:
            assert step > 5
            return


def test_a_repair_that_is_interrupted_leaves_no_log_of_a_new_job(store: FaultyStore) -> None:
    owner = JobEpoch(store)
    owner.checkpoint("a")
    owner.checkpoint("b")
    JobEpoch(store)
    lose(store, 2)
    states: set[object] = set()
    for half in interrupted(contents(store)):
        try:
            found = drive(half, read(JOB)).newest
            states.add(found and found.id)
        except LogDamaged:
            states.add("damaged")
        repaired(half)
        assert JobEpoch(half).resolution.last_id >= 1

    assert "damaged" in states
    assert states <= {"damaged", CheckpointId(1)}


def test_beside_a_damaged_log_a_job_of_another_name_starts_from_the_snapshot(store: FaultyStore) -> None:
    crashed(store)
    lose(store, 2)
    other, reference = JobId("tests", "another"), f"{store.uri}checkpoints/1-2/manifest.json"
    elsewhere = FaultyStore(MemoryStore("memory:///another/"))
    claim = drive(elsewhere, claim_log(Identity(job=other, owner=Owner("o"), attempt=Attempt(0)), 1.0))

    program = resolve(claim.below, reference, root="memory:///another/")
    found = drive(elsewhere, program, find=lambda uri: (store, Key(uri.removeprefix(store.uri))))
    drive(store, claim_snapshot("checkpoints/1-2/manifest.json", other, "memory:///another/"))

    assert found.to_be_claimed
    assert found.last_id == 2
