"""The inputs of a running job: their partitions, their late records, and those that are idle."""

from __future__ import annotations

import pytest
from tests.unit.runtime.fake_runtime import NOW
from tests.unit.runtime.three_chains import CLEAN, FLIGHTS, SLOW, JobOfThreeChains, world

from streamjob.ids import BatchId, OperatorUid
from streamjob.protocol.emissions.channels import END_OF_TIME_MS
from streamjob.protocol.emissions.cuts import Batch
from streamjob_runtime.chain.event_time.event_times import PartitionTime, StrayTimes
from streamjob_runtime.chain.sources.discovered_files import UnreadFiles
from streamjob_runtime.control.views import held_back_by
from streamjob_runtime.kafka.positions import TopicPartition
from streamjob_runtime.monitoring.query_progress import Positions

__all__ = ["world"]


def test_how_far_each_partition_of_a_source_is_read_and_lags_is_told(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    world.chains[FLIGHTS].query.add(
        30, positions={"orders": {"0": 97, "1": 40}}, latest={"orders": {"0": 100, "1": 40}}
    )
    world.control.observe()

    (source,) = world.chain(FLIGHTS).inputs
    assert [(each.topic, each.partition, each.position, each.lag) for each in source.partitions] == [
        ("orders", 0, 97, 3),
        ("orders", 1, 40, 0),
    ]
    assert source.lag_records == 3


def test_what_is_unread_behind_a_restore_is_told_before_the_first_batch(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    (uid,) = (each.uid for each in world.chain(FLIGHTS).inputs)
    begun = {TopicPartition("orders", 0): 90, TopicPartition("orders", 1): 40}
    world.runner.epoch.begun = {uid: Positions(begun, {**begun, TopicPartition("orders", 0): 100})}
    world.control.observe()
    restored = world.chain(FLIGHTS).inputs[0]
    world.chains[FLIGHTS].query.add(10, positions={"orders": {"0": 100}}, latest={"orders": {"0": 103}})
    world.control.observe()

    assert (restored.lag_records, [each.lag for each in restored.partitions]) == (10, [10, 0])
    assert world.chain(FLIGHTS).inputs[0].lag_records == 3


def test_the_lag_is_unknown_where_a_batch_has_not_told_the_end_of_a_partition(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    world.chains[FLIGHTS].query.add(30, positions={"orders": {"0": 97, "1": 40}}, latest={"orders": {"0": 100}})
    world.control.observe()

    (source,) = world.chain(FLIGHTS).inputs
    assert [each.lag for each in source.partitions] == [3, None]
    assert source.lag_records is None


class Bucket:
    """Replaces the files of a source in a bucket, by reading."""

    def __init__(self, *unread: UnreadFiles | None) -> None:
        self.readings = list(unread)

    def unread(self, directory: int) -> UnreadFiles | None:
        return self.readings[directory]


def test_the_unread_files_of_a_bucket_are_told_as_they_are_also_while_no_batch_ends(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    bucket = Bucket(None)
    world.chains[FLIGHTS].dataflow.discovered = {OperatorUid("flights"): bucket}
    seen = []
    for each in (None, UnreadFiles(3, 1200, round(NOW * 1000) - 5000), UnreadFiles(0, 0)):
        bucket.readings = [each]
        world.control.observe()
        (source,) = world.chain(FLIGHTS).inputs
        seen.append((source.files_unread, source.bytes_unread, source.lag_seconds))

    assert seen == [(None, None, None), (3, 1200, 5.0), (0, 0, 0.0)]


def test_the_files_of_a_source_that_is_read_twice_are_those_of_both_readings(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    flights = OperatorUid("flights")
    chain = world.chains[FLIGHTS]
    chain.dataflow.sources, chain.dataflow.directories = (flights, flights), (0, 1)
    ms = round(NOW * 1000)
    chain.dataflow.discovered = {flights: Bucket(UnreadFiles(1, 10, ms - 2000), UnreadFiles(2, 20, ms - 4000))}
    world.control.observe()

    (source,) = world.chain(FLIGHTS).inputs
    assert (source.files_unread, source.bytes_unread, source.lag_seconds) == (3, 30, 4.0)


def test_the_size_of_a_record_is_that_in_the_files_whose_size_is_known_over_all_epochs(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    world.control.observe()
    before = world.chain(FLIGHTS).inputs[0].record_bytes
    # The first batch after a restart was planned before it.
    world.chains[FLIGHTS].query.add(1000)
    world.chains[FLIGHTS].query.add(10, bytes_read=500)
    world.control.observe()
    world.begin_epoch()
    world.chains[FLIGHTS].query.add(30, bytes_read=700)
    world.control.observe()

    assert (before, world.chain(FLIGHTS).inputs[0].record_bytes) == (None, 30.0)


def test_records_that_are_dropped_as_late_are_counted_by_operator_over_batches_and_epochs(
    world: JobOfThreeChains,
) -> None:
    world.begin_epoch()
    assert world.chain(SLOW).records_dropped_late == {}
    world.chains[SLOW].query.add(30, late=2)
    world.chains[SLOW].query.add(30, late=0)
    world.chains[CLEAN].query.add(30)
    world.control.observe()
    assert world.chain(SLOW).records_dropped_late == {"slow": 2}
    assert world.chain(CLEAN).records_dropped_late == {}
    world.begin_epoch()
    world.chains[SLOW].query.add(30, late=3)
    world.control.observe()

    assert world.chain(SLOW).records_dropped_late == {"slow": 5}


def test_an_input_tells_how_long_it_has_brought_no_record(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    world.control.observe()
    world.clock.now += 30
    world.control.observe()
    assert world.chain(FLIGHTS).inputs[0].idle_seconds == 30
    world.chains[FLIGHTS].query.add(30)
    world.control.observe()

    assert world.chain(FLIGHTS).inputs[0].idle_seconds == 0
    assert not world.chain(FLIGHTS).inputs[0].holds_watermark_back


def test_the_time_in_which_a_batch_is_planned_and_runs_is_no_silence_of_an_input(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    query, emission = world.chains[FLIGHTS].query, world.runner.epoch.emission
    query.status = {"message": "Getting offsets from FileStreamSource[file:/in]"}
    world.control.observe()
    world.clock.now += 30
    world.control.observe()
    planning = world.chain(FLIGHTS).inputs[0]
    emission.begin(FLIGHTS, BatchId(0))
    query.status = {"message": "Waiting for data to arrive"}
    world.control.observe()
    world.clock.now += 30
    world.control.observe()
    running = world.chain(FLIGHTS).inputs[0]
    emission.emit(FLIGHTS, Batch(batch=BatchId(0)))
    world.clock.now += 15
    world.control.observe()
    waiting = world.chain(FLIGHTS).inputs[0]

    assert (planning.idle_seconds, running.idle_seconds, waiting.idle_seconds) == (None, None, 75)


def test_an_input_that_a_batch_looked_at_in_vain_was_silent_until_the_batch_began(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    query = world.chains[FLIGHTS].query
    query.status = {"message": "Processing new data"}
    world.control.observe()
    world.clock.now += 30
    query.add(20, from_chains=20)
    world.control.observe()

    # The batch took 250 ms.
    assert world.chain(FLIGHTS).inputs[0].idle_seconds == 29.75


def test_a_partition_with_unread_rows_does_not_hold_the_watermark_back(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    chain = world.chains[FLIGHTS]
    (uid,) = (each.uid for each in world.chain(FLIGHTS).inputs)
    times = {0: PartitionTime(5000, 60.0), 1: PartitionTime(1000, 60.0)}
    chain.partition_times = {uid: {TopicPartition("t", number): each for number, each in times.items()}}
    chain.query.add(1, positions={"t": {"0": 5, "1": 3}}, latest={"t": {"0": 5, "1": 900}})
    world.control.observe()

    assert [each.holds_watermark_back for each in world.chain(FLIGHTS).inputs[0].partitions] == [False, False]


def test_an_input_that_is_left_out_of_the_watermark_does_not_hold_it_back(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    (uid,) = (each.uid for each in world.chain(FLIGHTS).inputs)
    world.chains[FLIGHTS].watermarks = {uid: 1000, OperatorUid("other"): 5000}
    world.control.observe()
    world.clock.now += 30
    world.control.observe()
    held_back = world.chain(FLIGHTS).inputs[0]
    world.chains[FLIGHTS].idle_inputs = frozenset({uid})
    world.control.observe()
    left_out = world.chain(FLIGHTS).inputs[0]

    assert (held_back.idle, held_back.holds_watermark_back) == (False, False)
    assert (left_out.idle, left_out.holds_watermark_back) == (True, False)


def test_a_partition_without_rows_that_is_behind_the_others_holds_the_watermark_back(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    chain = world.chains[FLIGHTS]
    (uid,) = (each.uid for each in world.chain(FLIGHTS).inputs)
    times = {0: PartitionTime(5000, 60.0), 1: PartitionTime(None, 60.0), 2: PartitionTime(1000, 60.0)}
    chain.partition_times = {uid: {TopicPartition("t", number): each for number, each in times.items()}}
    chain.query.add(1, positions={"t": {"0": 5, "1": 0, "2": 3, "3": 9}})
    world.control.observe()
    read = world.chain(FLIGHTS).inputs[0].partitions

    assert [each.holds_watermark_back for each in read] == [False, True, False, False]
    # Nobody has looked since the last batch began, 250 ms ago.
    assert [(each.watermark_ms, each.idle_seconds) for each in read] == [
        (5000, 59.75),
        (None, 59.75),
        (1000, 59.75),
        (None, None),
    ]


def test_late_rows_and_those_ahead_of_the_clock_are_added_up_over_the_epochs(world: JobOfThreeChains) -> None:
    for _ in range(2):
        world.begin_epoch()
        (uid,) = (each.uid for each in world.chain(FLIGHTS).inputs)
        world.chains[FLIGHTS].strays = {uid: StrayTimes(ahead=1, farthest_ms=9000, late=20, late_by_ms=70)}
        world.control.observe()
    seen = world.chain(FLIGHTS).inputs[0]

    assert (seen.records_ahead, seen.farthest_ms, seen.records_late, seen.late_by_ms) == (2, 9000, 40, 70)


FAST, SILENT, OTHER = OperatorUid("fast"), OperatorUid("silent"), OperatorUid("other")


@pytest.mark.parametrize(
    ("watermarks", "idle", "ended", "held_back"),
    [
        ({FAST: 5000, SILENT: 0}, {SILENT: 60.0}, (), {SILENT}),
        ({FAST: 5000, SILENT: 4000, OTHER: 4500}, {SILENT: 60.0, OTHER: 60.0}, (), {SILENT}),
        ({FAST: 5000, SILENT: 4000}, {SILENT: 3.0}, (), set()),
        ({FAST: 5000, SILENT: 4000}, {SILENT: 60.0}, (SILENT,), set()),
        ({FAST: 5000, SILENT: 5000}, {FAST: 60.0, SILENT: 60.0}, (), set()),
        ({SILENT: 0}, {SILENT: 60.0}, (), set()),
        ({FAST: END_OF_TIME_MS, SILENT: 4000}, {SILENT: 60.0}, (FAST,), set()),
        ({FAST: END_OF_TIME_MS, SILENT: 4000, OTHER: 4500}, {SILENT: 60.0}, (FAST,), {SILENT}),
        ({}, {}, (), set()),
    ],
    ids=[
        "never a record",
        "the last of several",
        "not idle yet",
        "ended",
        "all idle",
        "alone",
        "the other has ended",
        "one of two others has ended",
        "no watermark",
    ],
)
def test_an_idle_input_whose_watermark_is_behind_the_others_holds_it_back(
    watermarks: dict[OperatorUid, int],
    idle: dict[OperatorUid, float],
    ended: tuple[OperatorUid, ...],
    held_back: set[OperatorUid],
) -> None:
    assert held_back_by(watermarks, idle, ended) == held_back


def test_a_source_without_partitions_has_no_lag_in_records(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    world.chains[FLIGHTS].query.add(30, positions={"logOffset": 3}, latest=None)
    world.control.observe()

    (source,) = world.chain(FLIGHTS).inputs
    assert source.partitions == ()
    assert source.lag_records is None


def test_reports_of_positions_that_failed_are_told_of_the_source(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    world.runner.job.offset_reports.begin(OperatorUid("flights"))
    world.runner.job.offset_reports.failed(OperatorUid("flights"), "no broker answers")

    assert world.chain(FLIGHTS).inputs[0].offset_report_failures == 1
    assert world.chain(SLOW).inputs[0].offset_report_failures is None
