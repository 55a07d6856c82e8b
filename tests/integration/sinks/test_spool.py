"""Several sinks get one batch, which is computed once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from streamjob.ids import BatchId, CheckpointId, Epoch, OperatorUid
from streamjob.sink import SinkContext
from streamjob_runtime.sinks.at_least_once.batch import BatchSink
from streamjob_runtime.sinks.at_least_once.memory import MemorySink, memory_rows
from streamjob_runtime.sinks.files.file_systems import LocalPlace
from streamjob_runtime.sinks.files.sink import FileSink
from streamjob_runtime.sinks.rows.spool import spooled, stage_in_all

pytestmark = pytest.mark.spark

SCHEMA = "id bigint NOT NULL, tags array<struct<name:string NOT NULL, n:int>>, at timestamp"


def context(**options: str) -> SinkContext:
    return SinkContext("departures", "default", OperatorUid("report"), Epoch(1), options)


def counted(spark: SparkSession, marks: Path) -> DataFrame:
    """Return a batch of two partitions that leaves a file each time that one of them is computed."""
    marks.mkdir()

    def mark(rows: Iterable[int]) -> Iterable[Row]:
        (marks / uuid4().hex).touch()
        yield from (Row(id=number, tags=[Row(name="a", n=number)], at=None) for number in rows)

    numbers = spark.sparkContext.parallelize(range(10), 2).mapPartitions(mark)
    return spark.createDataFrame(numbers, SCHEMA, verifySchema=False)


def held_blocks(spark: SparkSession) -> set[int]:
    return set(spark.sparkContext._jsc.getPersistentRDDs().keySet())


@pytest.fixture
def memory(tmp_path: Path) -> str:
    return str(tmp_path)


def test_a_batch_is_computed_once_for_all_sinks(spark: SparkSession, tmp_path: Path, memory: str) -> None:
    files, rows, pass_through = FileSink("parquet", LocalPlace(tmp_path / "out")), MemorySink(memory), BatchSink("noop")
    for sink in (files, rows, pass_through):
        sink.open(context())
    staged = stage_in_all([files.stage, rows.stage, pass_through.stage], counted(spark, tmp_path / "marks"), BatchId(0))
    files.commit(CheckpointId(1), [staged[0].committable])

    assert len(list((tmp_path / "marks").iterdir())) == 2
    assert sorted(row.id for row in memory_rows(memory)) == list(range(10))
    assert sorted(row.id for row in spark.read.parquet(str(tmp_path / "out")).collect()) == list(range(10))


def test_one_sink_gets_the_batch_itself(spark: SparkSession, tmp_path: Path, memory: str) -> None:
    before = held_blocks(spark)
    sink = MemorySink(memory)
    sink.open(context())
    staged = stage_in_all([sink.stage], counted(spark, tmp_path / "marks"), BatchId(0))

    assert [each.rows for each in staged] == [10]
    assert len(list((tmp_path / "marks").iterdir())) == 2
    assert held_blocks(spark) == before


def test_the_schema_is_kept_exactly_and_nothing_stays_behind(spark: SparkSession, tmp_path: Path) -> None:
    batch = counted(spark, tmp_path / "marks")
    before = held_blocks(spark)
    with spooled(batch) as held:
        assert held.schema == batch.schema
        assert held.count() == 10
        assert len(held_blocks(spark) - before) == 1

    assert held_blocks(spark) == before


def test_a_failing_sink_leaves_nothing_behind(spark: SparkSession, tmp_path: Path) -> None:
    before = held_blocks(spark)
    with pytest.raises(RuntimeError), spooled(counted(spark, tmp_path / "marks")):
        raise RuntimeError

    assert held_blocks(spark) == before


def test_a_stateful_query_feeds_several_sinks(spark: SparkSession, tmp_path: Path, memory: str) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.json").write_text("".join(f'{{"id": {each}}}\n' for each in range(10)))
    files, rows = FileSink("parquet", LocalPlace(tmp_path / "out")), MemorySink(memory)
    committables = []
    for sink in (files, rows):
        sink.open(context())

    def publish(batch: DataFrame, batch_id: int) -> None:
        committables.append(stage_in_all([files.stage, rows.stage], batch, BatchId(batch_id))[0].committable)

    source = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", "1").json(str(tmp_path / "in"))
    query = (
        source.dropDuplicates(["id"])
        .writeStream.foreachBatch(publish)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    files.commit(CheckpointId(1), [each for each in committables if each is not None])

    assert not query.isActive
    assert query.exception() is None
    assert len(committables) >= 3
    assert sorted(row.id for row in memory_rows(memory)) == list(range(10))
    assert sorted(row.id for row in spark.read.parquet(str(tmp_path / "out")).collect()) == list(range(10))
