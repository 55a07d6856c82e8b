"""Which checkpoints are retained, and what is deleted of the others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.faulty_store import Fault, FaultyStore, ScriptedFaults
from tests.unit.protocol.life import JobEpoch, key_of, objects, once, spoil, stored, without_recovery

from streamjob.errors import Superseded
from streamjob.ids import Attempt, CheckpointId, Epoch, LogSeq, Owner
from streamjob.protocol.log.creating import OutcomeUnknown
from streamjob.protocol.log.deleting_garbage import CannotCollect, Collected, GarbageCollector
from streamjob.protocol.log.ownership import IllegalStep
from streamjob.protocol.log.registry import Registry
from streamjob.protocol.log.retention import subsumed
from streamjob.protocol.manifests.stored_manifests import encode_manifest
from streamjob.snapshot.record import LogRecord, RecordKind
from streamjob.store.base import StoreUnavailable
from streamjob.store.effects import Delete, Program, StoreEffect, drive


def checkpoint_records(count: int) -> Iterator[LogRecord]:
    for number in range(1, count + 1):
        yield LogRecord(
            seq=LogSeq(number),
            kind=RecordKind.CHECKPOINT,
            epoch=Epoch(1),
            owner=Owner("o"),
            attempt=Attempt(0),
            id=CheckpointId(number),
            manifest=f"checkpoints/1-{number}/manifest.json",
            time=0.0,
        )


@pytest.mark.parametrize(("count", "num_retained", "dropped"), [(0, 1, []), (2, 3, []), (4, 3, [1]), (4, 1, [1, 2, 3])])
def test_the_newest_checkpoints_are_retained(count: int, num_retained: int, dropped: list[int]) -> None:
    assert [record.id for record in subsumed(list(checkpoint_records(count)), num_retained)] == dropped


def test_manifests_are_deleted_before_their_files(store: FaultyStore) -> None:
    owner = JobEpoch(store, num_retained=1)
    first = owner.checkpoint("a")
    owner.checkpoint("b")
    store.plan = ScriptedFaults([None, Fault.BEFORE], verbs=["delete"])
    with pytest.raises(StoreUnavailable):
        owner.collect()

    assert key_of(first) not in stored(store, "checkpoints/")
    assert objects(first) <= stored(store, "shared/")


def test_a_completion_that_is_tried_again_brings_back_no_manifest_that_a_successor_has_deleted(
    store: FaultyStore,
) -> None:
    owner = JobEpoch(store)
    first = owner.begin("a")
    store.plan = lambda verb, key: Fault.AFTER if key.startswith("log/") else None
    with pytest.raises(OutcomeUnknown):
        owner.complete(first)
    store.plan = lambda verb, key: None
    successor = JobEpoch(store, num_retained=1)
    successor.checkpoint("b")
    successor.collect()

    with pytest.raises(Superseded):
        owner.complete(first)
    assert key_of(first) not in stored(store, "checkpoints/")


def test_at_least_one_checkpoint_is_retained() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        subsumed(list(checkpoint_records(2)), 0)


def test_savepoints_neither_count_nor_are_deleted(store: FaultyStore) -> None:
    owner = JobEpoch(store, num_retained=1)
    kept = owner.checkpoint("a")
    owner.savepoint("s3://savepoints/job-2-x/manifest.json")
    owner.savepoint("s3://savepoints/job-3-x/manifest.json")

    assert owner.collect().subsumed == ()
    assert stored(store, "shared/") == objects(kept)
    assert stored(store, "elsewhere/") == {"elsewhere/job-2-x", "elsewhere/job-3-x"}


def test_a_subsumed_checkpoint_goes_with_the_files_that_only_it_refers_to(store: FaultyStore) -> None:
    owner = JobEpoch(store)
    first = owner.checkpoint("own", "shared")
    second, third = owner.checkpoint("shared", "b"), owner.checkpoint("shared", "c")

    collected = owner.collect()

    assert [record.id for record in collected.subsumed] == [first.id]
    assert stored(store, "shared/") == objects(second, third)
    assert stored(store, "checkpoints/") == {key_of(second), key_of(third)}


def test_the_first_collection_sweeps_what_crashed_epochs_left(store: FaultyStore) -> None:
    crashed = JobEpoch(store)
    crashed.checkpoint("a")
    begun = crashed.begin("uploaded")
    store.put(key_of(begun), encode_manifest(begun))
    owner = JobEpoch(store, num_retained=1)
    kept = owner.checkpoint("b")

    assert owner.collect().swept
    assert stored(store, "shared/") == objects(kept)
    assert stored(store, "checkpoints/") == {key_of(kept)}


def test_only_the_first_collection_of_an_epoch_lists_the_store(store: FaultyStore) -> None:
    owner = JobEpoch(store, num_retained=1)
    owner.checkpoint("a")
    owner.collect()
    owner.checkpoint("b")
    owner.collect()
    owner.checkpoint("c")
    store.calls.clear()

    assert not owner.collect().swept
    assert dict(store.calls) == {"list": 1, "put_if_absent": 1, "delete": 2}


def test_files_of_an_aborted_checkpoint_are_deleted_in_the_same_epoch(store: FaultyStore) -> None:
    owner = JobEpoch(store, num_retained=1)
    owner.checkpoint("a")
    owner.collect()
    aborted = owner.begin("b")
    store.put(key_of(aborted), encode_manifest(aborted))
    owner.registry.aborted(aborted.id)
    kept = owner.checkpoint("c")
    owner.collect()

    assert stored(store, "shared/") == objects(kept)
    assert stored(store, "checkpoints/") == {key_of(kept)}


def test_a_manifest_that_is_about_to_be_completed_is_not_swept(store: FaultyStore) -> None:
    owner = JobEpoch(store)
    owner.checkpoint("a")
    pending = owner.begin("b")
    store.put(key_of(pending), encode_manifest(pending))
    owner.collect()

    assert key_of(pending) in stored(store, "checkpoints/")


@pytest.mark.parametrize("how", ["manifest missing", "manifest corrupt", "unknown version"])
def test_a_retained_manifest_that_cannot_be_read_stops_deletion_until_it_is_subsumed(
    store: FaultyStore, how: str
) -> None:
    first = JobEpoch(store)
    spoilt = first.checkpoint("a")
    first.checkpoint("b")
    owner = JobEpoch(store, num_retained=3)
    spoil(store, spoilt, how)
    owner.checkpoint("c")
    store.calls.clear()

    with pytest.raises(CannotCollect, match="checkpoint 1 is retained"):
        owner.collect()
    assert "delete" not in store.calls
    owner.checkpoint("d")
    assert owner.collect().swept
    assert key_of(spoilt) not in stored(store, "checkpoints/")


def test_nothing_is_deleted_once_the_log_is_lost(store: FaultyStore) -> None:
    owner = JobEpoch(store, num_retained=1)
    owner.checkpoint("a")
    owner.checkpoint("b")
    without_recovery(store)
    store.calls.clear()

    with pytest.raises(Superseded):
        owner.collect()
    assert "delete" not in store.calls


def test_deletion_that_a_stopped_owner_resumes_spares_all_that_its_successor_builds_on(store: FaultyStore) -> None:
    stopped = JobEpoch(store, num_retained=1)
    stopped.checkpoint("a", "kept")
    stopped.checkpoint("b", "kept")
    program = stopped.collector.collect(stopped.completion, 1)
    pending = next(program)
    while not isinstance(pending, Delete):
        pending = program.send(drive(store, once(pending)))
    successor = JobEpoch(store)
    kept = successor.checkpoint("a", "b", "kept")

    assert drive(store, _resumed(program, pending)).files
    assert objects(kept) <= stored(store, "shared/")


def _resumed(program: Program[Collected], effect: StoreEffect) -> Program[Collected]:
    """Go on with a program that was stopped before an effect."""
    try:
        while True:
            effect = program.send((yield effect))
    except StopIteration as end:
        result: Collected = end.value
    return result


@pytest.mark.parametrize("fault", list(Fault))
def test_a_failed_deletion_is_made_up_for_in_the_next_collection(store: FaultyStore, fault: Fault) -> None:
    owner = JobEpoch(store, num_retained=1)
    owner.checkpoint("a")
    owner.checkpoint("b")
    store.plan = ScriptedFaults([fault], verbs=["delete"])
    with pytest.raises(StoreUnavailable):
        owner.collect()
    kept = owner.checkpoint("c")
    owner.collect()

    assert stored(store, "shared/") == objects(kept)
    assert stored(store, "checkpoints/") == {key_of(kept)}


def test_files_stay_as_long_as_their_manifest_could_not_be_deleted(store: FaultyStore) -> None:
    owner = JobEpoch(store, num_retained=1)
    first = owner.checkpoint("a")
    owner.checkpoint("b")
    store.plan = ScriptedFaults([Fault.BEFORE], verbs=["delete"])
    with pytest.raises(StoreUnavailable):
        owner.collect()

    assert objects(first) <= stored(store, "shared/")


def test_a_collector_needs_the_registry_of_its_epoch(store: FaultyStore) -> None:
    owner = JobEpoch(store)
    owner.checkpoint("a")

    with pytest.raises(IllegalStep):
        drive(store, GarbageCollector(Registry(Epoch(7))).collect(owner.completion, 1))
