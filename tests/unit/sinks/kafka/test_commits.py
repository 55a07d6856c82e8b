"""The Kafka sink's conclusions from the newest record and the staged rows, whenever a process dies or wakes up."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.sinks.kafka.brokers import UID, BrokersAndStore, commit

from streamjob.ids import CheckpointId, Epoch
from streamjob.sink import NO_TARGET
from streamjob.store.staging import StoreStaging
from streamjob.testing.interception import Crash
from streamjob_runtime.sinks.errors import StagedRowsGone, UnreadableRecord
from streamjob_runtime.sinks.kafka.commits import (
    NAMES_KEPT,
    CommitRecord,
    following,
    is_done_before,
    partition_of,
    read_record,
)
from streamjob_runtime.sinks.kafka.errors import ProducerFenced

RECORD = CommitRecord(epoch=2, checkpoint=7, batches=("2/b", "2/a"))


@pytest.mark.parametrize(
    ("record", "checkpoint", "expected"),
    [
        (None, 1, False),
        (RECORD, 8, False),
        # A record does not name all earlier batches, also not all of its own checkpoint.
        (RECORD, 7, True),
        # An older snapshot was brought back: its rows were deleted when they had been committed.
        (RECORD, 6, True),
    ],
)
def test_a_batch_that_is_nowhere_is_done_if_a_later_checkpoint_is(
    record: CommitRecord | None, checkpoint: int, expected: bool
) -> None:
    assert is_done_before(record, CheckpointId(checkpoint)) is expected


def test_a_record_names_the_batches_of_its_commit_and_some_of_those_before() -> None:
    record = following(RECORD, Epoch(3), CheckpointId(8), ["3/d", "3/c"])

    assert record == CommitRecord(epoch=3, checkpoint=8, batches=("3/d", "3/c", "2/b", "2/a"))


@pytest.mark.parametrize("batches", [1, NAMES_KEPT + 10])
def test_a_record_never_leaves_out_a_batch_of_its_own_and_does_not_grow_forever(batches: int) -> None:
    before = CommitRecord(epoch=1, checkpoint=1, batches=tuple(f"1/{each}" for each in range(NAMES_KEPT)))
    names = [f"2/{each}" for each in range(batches)]

    record = following(before, Epoch(2), CheckpointId(2), names)

    assert record.batches[:batches] == tuple(names)
    assert len(record.batches) == max(batches, NAMES_KEPT)


def test_a_record_comes_back_as_it_was_stored() -> None:
    assert read_record(RECORD.model_dump_json(), "sink alerts") == RECORD
    assert read_record(None, "sink alerts") is None


def test_a_record_of_a_later_version_is_not_guessed_at() -> None:
    with pytest.raises(UnreadableRecord, match="newest record in the commits topic"):
        read_record('{"formatVersion": 2}', "sink alerts")


def test_the_partition_of_a_sink_stays_the_same_in_all_processes() -> None:
    assert partition_of("default/departures/alerts", 16) == 12


def test_a_job_made_anew_under_the_same_name_publishes_its_first_checkpoints(tmp_path: Path) -> None:
    world = BrokersAndStore(tmp_path)
    for checkpoint in (1, 2, 3):
        commit(world.open(1), checkpoint, [world.stage(1, f"old {checkpoint}")])
    world.store.objects.clear()

    anew = world.open(1)
    commit(anew, 1, [world.stage(1, "new 1")])

    assert world.rows == ["old 1", "old 2", "old 3", "new 1"]


def test_a_store_that_is_brought_back_from_a_copy_publishes_nothing_again(tmp_path: Path) -> None:
    world = BrokersAndStore(tmp_path)
    sink = world.open(1)
    first = world.stage(1, "1")
    copy = dict(world.store.objects)
    commit(sink, 1, [first])
    commit(sink, 2, [world.stage(1, "2")])
    world.store.objects = copy

    commit(world.open(2), 1, [first])

    assert world.rows == ["1", "2"]


def test_a_sink_that_the_job_has_otherwise_now_publishes_its_last_checkpoint_beside_the_one_in_its_place(
    tmp_path: Path,
) -> None:
    world = BrokersAndStore(tmp_path)
    committables = [world.stage(1, "1")]
    sink, former = world.open(2), world.open(2)
    commit(former, 1, committables)
    former.abort()
    former.close()

    commit(sink, 2, [world.stage(2, "2")])

    assert world.rows == ["1", "2"]


def test_what_a_former_process_commits_at_the_last_moment_is_not_published_again(tmp_path: Path) -> None:
    world = BrokersAndStore(tmp_path)
    former, batch = world.open(1), world.stage(1, "1")
    copy = dict(world.store.objects)
    sink = world.open(2)

    def commit_late() -> None:
        world.before_fencing = lambda: None
        commit(former, 1, [batch])
        world.store.objects = copy

    world.before_fencing = commit_late
    commit(sink, 1, [batch])

    assert world.rows == ["1"]


def test_rows_that_are_lost_are_an_error_and_nothing_of_the_checkpoint_is_published(tmp_path: Path) -> None:
    world = BrokersAndStore(tmp_path)
    kept = world.stage(1, "kept")
    lost = world.stage(1, "lost")
    world.store.delete([info.key for info in world.store.list(f"staged/alerts/{lost['names'][0]}")])

    with pytest.raises(StagedRowsGone, match="rows of checkpoint 1 are neither committed nor staged"):
        commit(world.open(1), 1, [kept, lost])

    assert world.rows == []


def test_a_batch_of_several_objects_is_published_in_their_order_and_leaves_none(tmp_path: Path) -> None:
    world = BrokersAndStore(tmp_path)

    commit(world.open(1), 1, [world.stage(1, "1", "2", "3"), world.stage(1, "4")])

    assert world.rows == ["1", "2", "3", "4"]
    assert world.staged() == 0


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_any_object_of_a_batch_that_is_lost_is_an_error_and_nothing_is_published(tmp_path: Path, lost: int) -> None:
    world = BrokersAndStore(tmp_path)
    batch = world.stage(1, "1", "2", "3")
    StoreStaging(world.store, UID, Epoch(1), tmp_path).delete([batch["names"][lost]])

    with pytest.raises(StagedRowsGone, match=f"neither committed nor staged at {batch['names'][lost]}"):
        commit(world.open(1), 1, [batch])

    assert world.rows == []


def test_an_object_with_other_rows_than_were_staged_is_an_error_and_nothing_is_published(tmp_path: Path) -> None:
    world = BrokersAndStore(tmp_path)

    with pytest.raises(StagedRowsGone):
        commit(world.open(1), 1, [{**world.stage(1, "1"), "rows": 2}])

    assert world.rows == []


def test_a_committable_of_an_older_version_is_published(tmp_path: Path) -> None:
    world = BrokersAndStore(tmp_path)
    (name,) = world.stage(1, "1")["names"]

    commit(world.open(2), 1, [{"formatVersion": 1, "name": name, "rows": 1}])

    assert world.rows == ["1"]
    assert world.staged() == 0


def test_objects_that_a_process_left_when_it_died_after_its_commit_are_deleted_by_the_next(tmp_path: Path) -> None:
    world = BrokersAndStore(tmp_path)
    batch = world.stage(1, "1", "2")
    copy = dict(world.store.objects)
    commit(world.open(1), 1, [batch])
    world.store.objects = copy

    commit(world.open(2), 1, [batch])

    assert world.rows == ["1", "2"]
    assert world.staged() == 0


def test_an_abort_deletes_what_lower_epochs_have_staged_and_no_more(tmp_path: Path) -> None:
    world = BrokersAndStore(tmp_path)
    for epoch in (1, 2, 3):
        world.stage(epoch, "row")

    world.open(2).abort()

    assert [each.key.split("/")[2] for each in world.store.list("staged/")] == ["2", "3"]


def test_rows_that_could_not_be_deleted_go_before_the_next_transaction_begins(tmp_path: Path) -> None:
    world = BrokersAndStore(tmp_path)
    sink = world.open(1)
    first = world.stage(1, "1")
    copy = dict(world.store.objects)
    commit(sink, 1, [first])
    world.store.objects = copy

    successor = world.open(2)
    commit(successor, 2, [world.stage(2, "2")])

    assert world.rows == ["1", "2"]
    assert world.staged() == 0


Deaths = st.lists(st.integers(0, 20), max_size=3)


@settings(max_examples=300, deadline=None)
@given(checkpoints=st.lists(st.tuples(st.integers(0, 3), Deaths, st.booleans()), min_size=1, max_size=5))
def test_each_row_is_published_once_whenever_processes_die_or_wake_up(
    checkpoints: list[tuple[int, list[int], bool]],
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        world = BrokersAndStore(Path(scratch))
        epoch, number, expected = 1, 0, list[str]()
        sink = world.open(epoch)
        for checkpoint, (batches, deaths, wakes) in enumerate(checkpoints, start=1):
            parts = [[f"{number + each}/{part}" for part in range(1 + each % 3)] for each in range(batches)]
            rows = [row for batch in parts for row in batch]
            number += batches
            committables = [world.stage(epoch, *batch) for batch in parts]
            world.stage(epoch, "never covered")
            expected += rows
            former = None
            for death in [*deaths, None, None]:
                world.dies_in = death
                try:
                    commit(sink, checkpoint, committables)
                    break
                except (Crash, ProducerFenced):
                    pass
                former, epoch = sink, epoch + 1
                world.dies_in = None
                sink = world.open(epoch)
            world.dies_in = None
            if former is not None:
                sink.abort()
            if wakes and former is not None:
                # It may take the right to publish from its successor, which then starts again.
                with suppress(ProducerFenced):
                    commit(former, checkpoint, committables)
            assert world.rows == expected

        sink = world.open(epoch + 1)
        commit(sink, len(checkpoints), committables)
        sink.abort()
        assert world.rows == expected
        assert world.staged() == 0


def test_a_topic_that_the_brokers_are_to_make_is_no_target_yet(tmp_path: Path) -> None:
    world = BrokersAndStore(tmp_path)
    assert world.open(1).target_id() == "id-of-alerts"
    world.topic_id = None
    assert world.open(2).target_id() == NO_TARGET
