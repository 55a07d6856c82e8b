"""Sinks whose rows are visible once written."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from streamjob.ids import BatchId, Epoch, OperatorUid
from streamjob.sink import SinkContext
from streamjob_runtime.sinks.at_least_once.batch import BatchSink
from streamjob_runtime.sinks.at_least_once.console import ConsoleSink
from streamjob_runtime.sinks.at_least_once.memory import MemorySink, memory_rows
from streamjob_runtime.sinks.files.file_systems import LocalPlace
from streamjob_runtime.sinks.files.sink import FileSink

pytestmark = pytest.mark.spark


def context(epoch: int = 1, **options: str) -> SinkContext:
    return SinkContext("departures", "default", OperatorUid("report"), Epoch(epoch), options)


def numbers(spark: SparkSession, start: int, end: int) -> DataFrame:
    return spark.range(start, end, numPartitions=2).toDF("id")


@pytest.fixture
def memory(tmp_path: Path) -> str:
    return str(tmp_path)


def test_any_batch_sink_of_spark_is_appended_to(spark: SparkSession, tmp_path: Path) -> None:
    sink = BatchSink("orc", ["parity"])
    sink.open(context(path=str(tmp_path / "out")))
    for batch in range(2):
        rows = numbers(spark, 10 * batch, 10 * batch + 10).selectExpr("id", "id % 2 AS parity")
        staged = sink.stage(rows, BatchId(batch))
        assert staged.committable is None

    assert sorted(row.id for row in spark.read.orc(str(tmp_path / "out")).collect()) == list(range(20))
    assert {path.name for path in (tmp_path / "out").glob("parity=*")} == {"parity=0", "parity=1"}


@pytest.mark.parametrize("form", ["csv", "json", "orc", "parquet", "text"])
def test_rows_that_become_files_are_counted(spark: SparkSession, tmp_path: Path, form: str) -> None:
    rows = spark.range(0, 10, 1, 3).selectExpr("concat(id, '\n\n\"') AS text").where("text NOT LIKE '3%'")
    appending, publishing = BatchSink(form), FileSink(form, LocalPlace(tmp_path / "published"), ())
    appending.open(context(path=str(tmp_path / "appended"), header="true"))
    publishing.open(context(path=str(tmp_path / "published"), header="true"))

    assert appending.stage(rows, BatchId(0)).rows == 9
    assert publishing.stage(rows, BatchId(0)).rows == 9
    assert publishing.stage(rows.where("false"), BatchId(1)).rows == 0


def test_memory_keeps_the_batches_in_their_order(spark: SparkSession, memory: str) -> None:
    sink = MemorySink(memory)
    sink.open(context())
    assert sink.stage(numbers(spark, 0, 3), BatchId(0)).rows == 3
    sink.stage(numbers(spark, 3, 5), BatchId(1))

    assert [row.id for row in memory_rows(memory)] == [0, 1, 2, 3, 4]


def test_memory_replaces_what_ran_behind_the_cut(spark: SparkSession, memory: str) -> None:
    former = MemorySink(memory)
    former.open(context(epoch=1))
    for batch in range(3):
        former.stage(numbers(spark, 10 * batch, 10 * batch + 2), BatchId(batch))
    later = MemorySink(memory)
    later.open(context(epoch=2))
    later.stage(numbers(spark, 10, 13), BatchId(1))

    assert [row.id for row in memory_rows(memory)] == [0, 1, 10, 11, 12]


def test_the_console_shows_the_first_rows_and_counts_all(spark: SparkSession) -> None:
    output = io.StringIO()
    sink = ConsoleSink("report", output)
    sink.open(context(numRows="3", truncate="8"))
    staged = sink.stage(numbers(spark, 0, 10).selectExpr("id", "'[bold]ninety' AS text"), BatchId(4))
    shown = output.getvalue()

    assert staged.rows == 10
    assert "report, batch 4" in shown
    assert shown.count("[bold]n…") == 3
    assert "3 of 10 rows" in shown


def test_the_console_shows_an_empty_batch(spark: SparkSession) -> None:
    output = io.StringIO()
    sink = ConsoleSink("report", output)
    sink.open(context())

    assert sink.stage(numbers(spark, 0, 0), BatchId(0)).rows == 0
    assert "id" in output.getvalue()


def test_the_console_computes_every_partition_although_it_shows_few_rows(spark: SparkSession, tmp_path: Path) -> None:
    def mark(rows: Iterable[int]) -> Iterable[tuple[int]]:
        for number in rows:
            (tmp_path / str(number)).touch()
            yield (number,)

    partitions = spark.sparkContext.parallelize(range(40), 4).mapPartitions(mark)
    sink = ConsoleSink("report", io.StringIO())
    sink.open(context(numRows="1"))
    sink.stage(spark.createDataFrame(partitions, "id bigint", verifySchema=False), BatchId(0))

    assert sorted(int(file.name) for file in tmp_path.iterdir()) == list(range(40))
