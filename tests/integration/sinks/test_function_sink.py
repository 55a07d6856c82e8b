"""A sink that is a function: what it is called with, how often, and what remains in the store."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import DataFrame, SparkSession

from streamjob.ids import BatchId, CheckpointId, Epoch, OperatorUid
from streamjob.job.model.spec import OutputMode
from streamjob.sink import SinkContext, Staged, StagedRowsGone
from streamjob.store.local import LocalStore
from streamjob.store.staging import StoreStaging
from streamjob_runtime.sinks.at_least_once.function import FunctionFailed, FunctionSink
from streamjob_runtime.sinks.errors import UnusableSink
from streamjob_runtime.spark.text.user_functions import WrongFunction

pytestmark = pytest.mark.spark

REPORT = OperatorUid("report")
Calls = list[tuple[int, list[int]]]


class Place:
    """A function that notes its calls, and the sinks of several epochs that call it."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark = spark
        self.store = LocalStore(directory / "store")
        self.out = str(directory / "out")
        self.calls: Calls = []
        self._scratch = directory / "scratch"

    def note(self, batch: DataFrame, batch_id: int) -> None:
        self.calls.append((batch_id, sorted(row.id for row in batch.collect())))

    def open(
        self, epoch: int = 1, mode: OutputMode = "append", function: Callable[[DataFrame, int], object] | None = None
    ) -> FunctionSink:
        sink = FunctionSink("report", lambda: function or self.note, "writers:report", mode, lambda: self.spark)
        sink.open(SinkContext("departures", "default", REPORT, Epoch(epoch), {}, self.staging(epoch)))
        return sink

    def staging(self, epoch: int) -> StoreStaging:
        return StoreStaging(self.store, REPORT, Epoch(epoch), self._scratch)

    def stage(self, sink: FunctionSink, *numbers: int, batch: int = 0) -> Staged:
        frame = self.spark.createDataFrame([(number,) for number in numbers], "id bigint")
        return sink.stage(frame, BatchId(batch))

    def left(self) -> int:
        return len(list(self.staging(9).list()))


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    return Place(spark, tmp_path)


def commit(sink: FunctionSink, checkpoint: int, *staged: Staged) -> None:
    committables = [each.committable for each in staged if each.committable is not None]
    sink.commit(CheckpointId(checkpoint), committables)


def test_the_function_is_called_once_with_the_rows_of_a_checkpoint(place: Place) -> None:
    sink = place.open()
    staged = [place.stage(sink, 1, 2), place.stage(sink), place.stage(sink, 3)]
    assert [each.rows for each in staged] == [2, 0, 1]
    assert place.calls == []

    commit(sink, 7, *staged)
    commit(sink, 8)

    assert place.calls == [(7, [1, 2, 3])]


def test_each_batch_of_updates_is_a_call_of_its_own(place: Place) -> None:
    sink = place.open(mode="update")

    commit(sink, 7, place.stage(sink, 1, 2), place.stage(sink, 2, 3))

    assert place.calls == [(7_000_000, [1, 2]), (7_000_001, [2, 3])]


def test_of_whole_results_the_last_one_counts(place: Place) -> None:
    sink = place.open(mode="complete")

    commit(sink, 7, place.stage(sink, 1), place.stage(sink, 1, 2))

    assert place.calls == [(7, [1, 2])]


def test_a_call_that_did_not_return_comes_again_with_the_same_id_and_rows(place: Place) -> None:
    def killed(batch: DataFrame, batch_id: int) -> None:
        place.note(batch, batch_id)
        raise KeyboardInterrupt

    first = place.open(1, function=killed)
    staged = place.stage(first, 1, 2)
    with pytest.raises(KeyboardInterrupt):
        commit(first, 7, staged)

    commit(place.open(2), 7, staged)
    commit(place.open(3), 7, staged)

    assert place.calls == [(7, [1, 2]), (7, [1, 2])]


def test_a_call_that_has_returned_does_not_come_again(place: Place) -> None:
    first = place.open(1, "update")
    staged = [place.stage(first, 1), place.stage(first, 2)]

    def killed(batch: DataFrame, batch_id: int) -> None:
        place.note(batch, batch_id)
        if batch_id == 7_000_001:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        commit(place.open(2, "update", killed), 7, *staged)
    later = place.open(3, "update")
    commit(later, 7, *staged)
    later.abort()

    assert place.calls == [(7_000_000, [1]), (7_000_001, [2]), (7_000_001, [2])]


def test_rows_are_kept_until_the_next_checkpoint_and_no_longer(place: Place) -> None:
    first = place.open(1)
    place.stage(first, 0)
    due = place.stage(first, 1)
    later = place.open(2)
    commit(later, 7, due)
    later.abort()
    commit(place.open(3), 7, due)
    assert place.calls == [(7, [1])]

    commit(later, 8, place.stage(later, 2))
    commit(later, 9)

    assert place.calls == [(7, [1]), (8, [2])]
    assert place.left() == 0


def test_lost_rows_are_an_error_before_the_call(place: Place) -> None:
    first = place.open(1)
    staged = place.stage(first, 1)
    place.staging(1).delete([each.name for each in place.staging(1).list()])

    with pytest.raises(StagedRowsGone, match="sink report: rows of checkpoint 7 are not in the store: 1/"):
        commit(place.open(2), 7, staged)
    assert place.calls == []


def test_a_function_that_is_gone_is_missed_only_if_it_has_to_be_called(place: Place) -> None:
    first = place.open(1)
    staged = place.stage(first, 1)
    commit(first, 7, staged)

    def find() -> Any:
        raise UnusableSink("there is no function")

    removed = FunctionSink("report", find, "writers:report", "append", lambda: place.spark)
    removed.open(SinkContext("departures", "default", REPORT, Epoch(2), {}, place.staging(2)))
    commit(removed, 7, staged)

    with pytest.raises(UnusableSink):
        commit(removed, 8, place.stage(removed, 2))
    with pytest.raises(UnusableSink):
        removed.preview(removed.context, None)


def test_batches_of_updates_wait_while_the_function_runs(place: Place) -> None:
    begun, go_on = Event(), Event()

    def slow(batch: DataFrame, batch_id: int) -> None:
        begun.set()
        assert go_on.wait(60)

    sink = place.open(mode="update", function=slow)
    staged = place.stage(sink, 1)
    with ThreadPoolExecutor(2) as pool:
        committing = pool.submit(commit, sink, 7, staged)
        assert begun.wait(60)
        staging = pool.submit(place.stage, sink, 2)
        with pytest.raises(TimeoutError):
            staging.result(0.5)
        go_on.set()
        committing.result(60)
        assert staging.result(60).rows == 1


def test_the_function_may_do_with_its_rows_what_a_batch_allows(place: Place, spark: SparkSession) -> None:
    found: list[Any] = []

    def report(batch: DataFrame, batch_id: int) -> None:
        batch.persist()
        batch.createOrReplaceTempView("updates")
        found.append(batch.sparkSession.sql("SELECT sum(id) AS total FROM updates").first())
        batch.write.mode("overwrite").parquet(place.out)
        batch.limit(1).write.format("noop").mode("overwrite").save()
        found.append(batch.count())
        batch.unpersist()

    sink = place.open(function=report)
    commit(sink, 7, place.stage(sink, *range(100)))

    assert found == [(4950,), 100]
    assert spark.read.parquet(place.out).count() == 100
    assert not spark.catalog.tableExists("updates")


def test_values_of_each_type_come_as_they_were(place: Place, spark: SparkSession) -> None:
    columns = (
        "`a.b` bigint, `b``c` string, d decimal(38,10), e double, f boolean, g date, h timestamp, i timestamp_ntz, "
        "j binary, k array<struct<x: int, y: string>>, l map<string, double>, m tinyint, n interval day to second"
    )
    at = datetime.datetime(1, 1, 1, 0, 0, 0, 1)
    row = (1, "naïve ☃", Decimal("1.5"), 0.1, True, datetime.date(9999, 12, 31), datetime.datetime(2026, 1, 1), at,
           b"\x00", [(1, "a"), None], {"a": None}, -1, datetime.timedelta(days=-1, microseconds=1))  # fmt: skip
    rows = spark.createDataFrame([row, (None,) * len(row)], columns).selectExpr("*", """parse_json('{"x":1}') AS o""")
    found: list[DataFrame] = []
    sink = place.open(function=lambda batch, batch_id: found.append(batch.cache()) or batch.count())  # type: ignore[func-returns-value]
    sink.check_schema(rows.schema)

    commit(sink, 7, sink.stage(rows, BatchId(0)))

    assert found[0].schema == rows.schema
    assert sorted(map(str, found[0].collect())) == sorted(map(str, rows.collect()))


def test_columns_that_cannot_wait_in_the_store_are_refused_at_the_start(place: Place, spark: SparkSession) -> None:
    schema = spark.sql("SELECT make_interval(1) AS i, 1 AS n").schema.add("v", VectorUDT())

    with pytest.raises(UnusableSink) as refused:
        place.open().check_schema(schema)

    assert refused.value.what == (
        "sink report: its function cannot be given the column 'i' of type INTERVAL; "
        "its function cannot be given the column 'v' of type VECTOR"
    )
    assert refused.value.fix == "cast it in an operator before the sink, such as to STRING"


def test_an_error_names_the_sink_the_function_and_the_batch(place: Place) -> None:
    def mistaken(batch: DataFrame, batch_id: int) -> None:
        raise KeyError("airport")

    def cut_off(batch: DataFrame, batch_id: int) -> None:
        raise ConnectionResetError("the server hung up")

    sink = place.open(function=mistaken)
    with pytest.raises(WrongFunction) as wrong:
        commit(sink, 7, place.stage(sink, 1))
    sink = place.open(function=cut_off)
    with pytest.raises(FunctionFailed) as failed:
        commit(sink, 7, place.stage(sink, 1))

    said = "sink report: the function writers:report failed with batch 7: "
    assert wrong.value.what.startswith(said)
    assert wrong.value.what.endswith("KeyError: 'airport'")
    assert failed.value.what.startswith(f"{said}ConnectionResetError: the server hung up")


def test_rows_that_are_given_up_are_written_to_a_file(place: Place, tmp_path: Path) -> None:
    sink = place.open()
    staged = place.stage(sink, 1, 2)

    rescued = sink.rescue(CheckpointId(7), [staged.committable], tmp_path / "rows")

    assert rescued == 2
    assert sorted((tmp_path / "rows").read_text().splitlines()) == ['{"id":1}', '{"id":2}']
    assert place.calls == []
