"""A batch that is planned by hand runs first, and the sources go on where they were."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from streamjob.ids import BatchId
from streamjob_runtime.spark.checkpoint_dir.forced_batch import BatchAlreadyPlanned, force_batch
from streamjob_runtime.spark.checkpoint_dir.hold import hold
from streamjob_runtime.spark.checkpoint_dir.logs import last_committed, read_commit, read_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from tests.integration.spark_checkpoint.conftest import Lab

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROCESSING_TIME = {"processingTime": "0 seconds"}
AVAILABLE_NOW = {"availableNow": True}


def now_ms() -> int:
    return int(time.time() * 1000)


def windows(lab: Lab) -> DataFrame:
    counts = lab.input().groupBy(functions.window("ts", "10 seconds"), "k").count()
    return counts.selectExpr("cast(window.start as string) w", "k", "count")


def cut_before_due_windows_fire(lab: Lab) -> Path:
    """Restore the batch whose commit raises the watermark over two windows that it has not fired."""
    lab.put([("a", "00:00:00", 1), ("b", "00:00:12", 1)])
    lab.put([("a", "00:01:00", 1)])
    checkpoint = lab.directory()
    holds = {}

    def hold_previous(number: int) -> None:
        if number > 0:
            holds[number - 1] = hold(checkpoint, BatchId(number - 1), lab.directory("hold"))

    run = lab.run(windows(lab), checkpoint, before_batch=hold_previous)
    assert run.rows == {0: [], 1: [], 2: [("2024-01-01 00:00:00", "a", "1"), ("2024-01-01 00:00:10", "b", "1")]}
    return lab.restore(holds[1])


@pytest.mark.parametrize("trigger", [PROCESSING_TIME, AVAILABLE_NOW], ids=["processingTime", "availableNow"])
def test_windows_that_are_due_at_a_restart_fire(lab: Lab, trigger: dict[str, Any]) -> None:
    restored = cut_before_due_windows_fire(lab)

    assert force_batch(restored, now_ms()) == 2
    run = lab.run(windows(lab), restored, trigger=trigger)

    assert run.rows[2] == [("2024-01-01 00:00:00", "a", "1"), ("2024-01-01 00:00:10", "b", "1")]
    assert not any(run.rows[number] for number in run.rows if number > 2)


def test_without_a_forced_batch_due_windows_wait_for_new_data(lab: Lab) -> None:
    restored = cut_before_due_windows_fire(lab)

    run = lab.run(windows(lab), restored, trigger=PROCESSING_TIME)

    assert run.rows == {}


def test_a_batch_is_not_planned_twice(lab: Lab) -> None:
    restored = cut_before_due_windows_fire(lab)
    force_batch(restored, now_ms())

    with pytest.raises(BatchAlreadyPlanned):
        force_batch(restored, now_ms())


def files(lab: Lab, step: int) -> DataFrame:
    for i in range(3):
        lab.put([("k", "00:00:00", 10 * step + i)])
    return lab.input(delay=None).select("v")


def rate(lab: Lab, step: int) -> DataFrame:
    options = {"rowsPerBatch": "5", "numPartitions": "1", "startTimestamp": "0", "advanceMillisPerBatch": "1000"}
    return lab.spark.readStream.format("rate-micro-batch").options(**options).load().select("value")


def python_source(lab: Lab, step: int) -> DataFrame:
    # Local classes are pickled by value: Spark's Python workers cannot import a test module.
    class Span(InputPartition):
        def __init__(self, start: int, end: int) -> None:
            super().__init__(None)
            self.start = start
            self.end = end

    class Reader(DataSourceStreamReader):
        def __init__(self, limit: Path) -> None:
            self.limit = limit

        def initialOffset(self) -> dict[str, Any]:
            return {"n": 0}

        def latestOffset(self, *args: Any) -> dict[str, Any]:
            return {"n": int(self.limit.read_text())}

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
            return [Span(start["n"], end["n"])]

        def read(self, partition: Any) -> Iterator[tuple[int]]:
            yield from ((n,) for n in range(partition.start, partition.end))

    class Counter(DataSource):
        @classmethod
        def name(cls) -> str:
            return "counter"

        def schema(self) -> str:
            return "n bigint"

        def streamReader(self, schema: Any) -> DataSourceStreamReader:
            return Reader(Path(self.options["path"]))

    limit = lab.root / "limit"
    limit.write_text(str(7 * (step + 1)))
    lab.spark.dataSource.register(Counter)
    return lab.spark.readStream.format("counter").load(str(limit))


SOURCES: dict[str, tuple[Callable[[Lab, int], DataFrame], dict[str, Any], list[list[int]]]] = {
    "file source": (files, AVAILABLE_NOW, [[0, 1, 2], [10, 11, 12], [20, 21, 22]]),
    "rate-micro-batch": (rate, AVAILABLE_NOW, [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11, 12, 13, 14]]),
    "Python data source": (python_source, PROCESSING_TIME, [[*range(7)], [*range(7, 14)], [*range(14, 21)]]),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_skips_and_repeats_nothing_after_a_forced_batch(lab: Lab, name: str) -> None:
    make, trigger, expected = SOURCES[name]
    checkpoint = lab.directory()

    seen = []
    for step in range(3):
        if step:
            last = last_committed(checkpoint)
            assert last is not None
            checkpoint = lab.restore(hold(checkpoint, last, lab.directory("hold")))
            assert force_batch(checkpoint, now_ms()) == last + 1
        run = lab.run(make(lab, step), checkpoint, trigger=trigger)
        if step:
            assert run.rows[min(run.rows)] == [], "the forced batch had data"
        seen.append(sorted(int(row[0]) for row in run.all_rows()))

    assert seen == expected


def test_a_source_that_does_not_support_available_now_is_read_in_the_run_behind_the_forced_batch(lab: Lab) -> None:
    checkpoint = lab.directory()
    lab.run(python_source(lab, 0), checkpoint, trigger=AVAILABLE_NOW)
    force_batch(checkpoint, now_ms())

    forced = lab.run(python_source(lab, 1), checkpoint, trigger=AVAILABLE_NOW)
    after = lab.run(python_source(lab, 1), checkpoint, trigger=AVAILABLE_NOW)

    assert forced.rows == {1: []}
    assert after.all_rows() == sorted((str(n),) for n in range(7, 14))


def test_a_batch_is_forced_in_an_offset_log_that_names_the_sources(lab: Lab) -> None:
    lab.spark.conf.set("spark.sql.streaming.offsetLog.formatVersion", "2")
    try:
        restored = cut_before_due_windows_fire(lab)
        assert read_offsets(restored, BatchId(1)).version == "v2"
        force_batch(restored, now_ms())
        run = lab.run(windows(lab), restored)
    finally:
        lab.spark.conf.unset("spark.sql.streaming.offsetLog.formatVersion")

    assert run.rows == {2: [("2024-01-01 00:00:00", "a", "1"), ("2024-01-01 00:00:10", "b", "1")]}


def test_a_forced_batch_commits_the_offsets_and_watermark_that_it_was_given(lab: Lab) -> None:
    restored = cut_before_due_windows_fire(lab)
    before = read_offsets(restored, BatchId(1))
    announced = read_commit(restored, BatchId(1)).next_watermark_ms

    force_batch(restored, timestamp_ms=now_ms())
    lab.run(windows(lab), restored)

    after = read_offsets(restored, BatchId(2))
    assert after.sources == before.sources
    assert after.metadata["batchWatermarkMs"] == announced
    assert read_commit(restored, BatchId(2)).next_watermark_ms == announced


def test_files_that_the_file_source_listed_behind_the_cut_are_read_once_each(lab: Lab) -> None:
    for i in range(25):
        lab.put([("k", "00:00:00", i)])
    checkpoint = lab.directory()
    holds = {}

    def hold_an_earlier_one(number: int) -> None:
        if number in (8, 10, 11, 13, 21, 22):
            holds[number - 2 + 1] = hold(checkpoint, BatchId(number - 1), lab.directory("hold"))

    lab.run(lab.input(delay=None).select("v"), checkpoint, before_batch=hold_an_earlier_one)
    assert (checkpoint / "sources/0/24").exists(), "the source log does not run ahead"

    for number, held in holds.items():
        sources = [path for path in held.files if path.startswith("sources/")]
        run = lab.run(lab.input(delay=None).select("v"), lab.restore(held))
        assert [row for n in sorted(run.rows) for row in run.rows[n]] == [(str(i),) for i in range(number + 1, 25)]
        assert len(run.rows) == 24 - number, "files of several batches were read as one"
        assert len(sources) <= 10
