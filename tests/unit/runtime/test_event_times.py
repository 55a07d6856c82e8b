"""The watermarks of a chain's inputs follow the event times that its batches have shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from streamjob.ids import BatchId, OperatorUid
from streamjob.job.model.spec import Watermark
from streamjob_runtime.chain.dataflow import Dataflow
from streamjob_runtime.chain.event_time.event_times import EventTimes, ObservedInput, PartitionTime, StrayTimes
from streamjob_runtime.chain.event_time.watermarks import InputWatermarks
from streamjob_runtime.kafka.positions import TopicPartition

T = OperatorUid("t")
P0, P1 = TopicPartition("topic", 0), TopicPartition("topic", 1)
QUERY: Any = SimpleNamespace(_jsq=None)


class World:
    """A chain with one source, a topic of two partitions, whose batches a test describes."""

    def __init__(self, directory: Path, *, end: Mapping[str, int] | None = None, **watermark: Any) -> None:
        self.directory = directory
        self.now: dict[OperatorUid, int] = {}
        self.time = 0.0
        self.seen: dict[str, Any] = {}
        self.batch = BatchId(-1)
        times = SimpleNamespace(take=lambda query: json.dumps({"ahead": 0, "late": 0, "lateBy": 0, **self.seen}))
        declared = Watermark(column="at", delay=1, **watermark)
        ends: Any = {} if end is None else {T: {"offsets": {"topic": dict(end)}}}
        observed = {T: ObservedInput(times, declared, by_partition=True)}
        query: Any = None
        self.dataflow = Dataflow(query, "append", (T,), (0,), {T: "node"}, ends, observed=observed)
        self.times = self.of({})

    def of(self, before: Mapping[OperatorUid, Mapping[TopicPartition, int]]) -> EventTimes:
        watermarks = cast("InputWatermarks", SimpleNamespace(advance=self._advance, advance_waiting=self._advance))
        return EventTimes(self.dataflow, watermarks, before, self.batch, lambda: self.time)

    def _advance(self, query: object, watermarks: Mapping[OperatorUid, int]) -> None:
        self.now.update(watermarks)

    def read(self, positions: Mapping[str, int] | None, **seen: Any) -> frozenset[OperatorUid]:
        """Let a batch end at some positions, and show some times."""
        self.batch = BatchId(self.batch + 1)
        log = self.directory / "offsets"
        log.mkdir(exist_ok=True)
        offsets = "-" if positions is None else json.dumps({"topic": dict(positions)})
        (log / str(self.batch)).write_text("v1\n{}\n" + offsets)
        self.seen = seen
        brought = self.times.pass_in_batch(QUERY, self.directory, self.batch, self.time)
        self.times.note(self.batch)
        return brought


def seen(**times: int) -> dict[str, Any]:
    partitions = {name.removeprefix("p"): time for name, time in times.items()}
    return {"latest": max(times.values()), "partitions": {"topic": partitions}}


def test_the_watermark_is_that_of_the_slowest_partition_less_the_delay(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert world.read({"0": 5, "1": 0}, **seen(p0=9000)) == {T}
    assert world.now == {}

    world.read({"0": 5, "1": 3}, **seen(p1=4000))
    assert world.now == {T: 3000}


def test_the_watermarks_of_partitions_go_on_behind_a_restore(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.read({"0": 5, "1": 3}, **seen(p0=9000, p1=4000))
    stored = world.times.behind(BatchId(0))
    assert stored == {T: {P0: 8000, P1: 3000}}

    world.times = world.of(stored)
    assert world.read(None) == frozenset()
    world.read({"0": 5, "1": 7}, **seen(p1=20_000))
    assert world.now == {T: 8000}


def test_between_batches_the_watermark_passes_a_partition_that_has_become_idle(tmp_path: Path) -> None:
    world = World(tmp_path, idle_timeout=30)
    world.read({"0": 5, "1": 3}, **seen(p0=9000, p1=4000))
    world.time = 20.0
    world.read({"0": 6, "1": 3}, **seen(p0=11_000))
    assert world.times.partition_times() == {T: {P0: PartitionTime(10_000, 0.0), P1: PartitionTime(3000, 20.0)}}

    world.time = 30.0
    world.times.pass_between_batches(QUERY)
    assert world.now == {T: 10_000}
    assert world.times.partition_times() == {T: {P0: PartitionTime(10_000, 10.0)}}


def test_partitions_of_a_bounded_source_count_until_their_end(tmp_path: Path) -> None:
    world = World(tmp_path, end={"0": 5, "1": 9})
    world.read({"0": 5, "1": 3}, **seen(p0=2000, p1=4000))
    assert world.now == {T: 3000}

    world.read({"0": 5, "1": 9}, **seen(p1=6000))
    assert world.now == {T: 5000}


def test_shuffled_rows_tell_no_partition_and_the_latest_of_them_counts(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.read({"0": 5, "1": 3}, latest=9000)

    assert world.now == {T: 8000}
    assert world.times.partition_times() == {}


def test_times_that_are_late_or_far_ahead_are_counted(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert world.read({"0": 5, "1": 3}, ahead=2, farthest=900_000) == frozenset()
    world.read({"0": 6, "1": 3}, ahead=1, farthest=800_000, late=3, lateBy=70, **seen(p0=1))

    assert world.times.strays == {T: StrayTimes(3, 900_000, 3, 70)}
    assert world.now == {}
