"""Rows written to a stream come out of it unchanged, as far as its consumers may read."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.integration.channels.chains import Chain, Transport

from streamjob.ids import BatchId
from streamjob_runtime.spark.gateway import java_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

OpenStream = Callable[..., Transport]
RunChain = Callable[..., Chain]


def numbers(spark: SparkSession, start: int, end: int, partitions: int = 1) -> DataFrame:
    return spark.range(start, end, 1, partitions)


def allocated(spark: SparkSession) -> int:
    memory: int = java_of(spark).org.apache.spark.sql.util.ArrowUtils.rootAllocator().getAllocatedMemory()
    return memory


@pytest.fixture
def held_before(spark: SparkSession) -> int:
    """Bytes that other tests of the same session hold."""
    return allocated(spark)


def test_rows_come_out_in_the_order_in_which_they_went_in(
    spark: SparkSession, transport: OpenStream, chain: RunChain
) -> None:
    stream = transport()
    segments = stream.put(numbers(spark, 0, 25_000))
    stream.serve("reader")

    run = chain(stream.stream.reader("reader", spark.range(0).schema).frame)
    run.catch_up()

    assert [segment.records for segment in segments] == [10_000, 10_000, 5_000]
    assert [segment.length for segment in segments] == [
        (stream.directory / segment.name).stat().st_size for segment in segments
    ]
    assert run.rows == [(number,) for number in range(25_000)]


def test_a_batch_is_one_spark_job_and_partitions_without_rows_write_nothing(
    spark: SparkSession, transport: OpenStream
) -> None:
    stream = transport()
    context = spark.sparkContext
    context.setJobGroup("one batch", "")

    segments = stream.put(numbers(spark, 0, 8, partitions=4).where("id >= 6"))

    assert len(context.statusTracker().getJobIdsForGroup("one batch")) == 1
    assert [segment.records for segment in segments] == [2]
    assert stream.files == [segments[0].name]


def test_a_batch_without_rows_has_no_segments(spark: SparkSession, transport: OpenStream) -> None:
    stream = transport()

    assert stream.stream.write(numbers(spark, 0, 0), BatchId(3)) == ()
    assert stream.files == []


def test_a_batch_that_is_kept_in_memory_is_not_computed_again(
    spark: SparkSession, transport: OpenStream, chain: RunChain
) -> None:
    from pyspark.sql import functions

    stream = transport("first"), transport("second")
    stream[0].put(numbers(spark, 0, 3))
    stream[0].serve("reader")
    random = functions.udf(lambda _: uuid.uuid4().hex).asNondeterministic()
    seen: list[str] = []

    def write_after_another_action(_: Chain, frame: DataFrame, number: int) -> None:
        frame.persist()
        seen.extend(row[0] for row in frame.collect())
        stream[1].put(frame, number)
        frame.unpersist()

    source = stream[0].stream.reader("reader", spark.range(0).schema).frame
    made = source.select(random("id").alias("name"))
    chain(made, "first", on_batch=write_after_another_action).catch_up()
    stream[1].serve("reader")
    copy = chain(stream[1].stream.reader("reader", made.schema).frame, "second")
    copy.catch_up()

    assert len(seen) == 3
    assert [row[0] for row in copy.rows] == seen


def test_a_segment_ends_when_it_is_large(spark: SparkSession, transport: OpenStream) -> None:
    from pyspark.sql import functions

    rows = numbers(spark, 0, 40).select(functions.repeat(functions.lit("x"), 1 << 20).alias("text"))

    segments = transport().put(rows)

    assert sum(segment.records for segment in segments) == 40
    assert max(segment.records for segment in segments) < 20


def test_a_task_that_fails_leaves_no_files(spark: SparkSession, transport: OpenStream, held_before: int) -> None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    stream = transport()
    failing = numbers(spark, 0, 30_000).selectExpr("if(id < 25000, id, raise_error('broken row')) AS id")

    with pytest.raises((Py4JJavaError, PySparkException), match="broken row"):
        stream.put(failing)

    assert stream.files == []
    assert allocated(spark) <= held_before


def test_a_consumer_reads_up_to_its_own_frontier(spark: SparkSession, transport: OpenStream, chain: RunChain) -> None:
    stream = transport()
    stream.put(numbers(spark, 0, 5))
    stream.mark()
    stream.put(numbers(spark, 5, 9))
    schema = spark.range(0).schema
    held = chain(stream.stream.reader("held", schema).frame, "held")
    free = chain(stream.stream.reader("free", schema).frame, "free")

    stream.serve("held", frontier=2)
    stream.serve("free")
    held.catch_up()
    free.catch_up()
    first = list(held.rows)
    stream.serve("held")
    held.catch_up()

    assert first == [(number,) for number in range(5)]
    assert held.rows == free.rows == [(number,) for number in range(9)]
    assert held.positions() == free.positions() == ['{"pos":3}']


def test_a_consumer_that_is_not_served_reads_nothing(
    spark: SparkSession, transport: OpenStream, chain: RunChain
) -> None:
    stream = transport()
    stream.put(numbers(spark, 0, 5))

    run = chain(stream.stream.reader("reader", spark.range(0).schema).frame)
    run.catch_up()

    assert run.rows == []
    assert run.positions() == ['{"pos":0}']


def test_a_batch_has_no_more_records_than_it_may_but_always_an_entry_with_some(
    spark: SparkSession, transport: OpenStream, chain: RunChain
) -> None:
    stream = transport()
    stream.mark()
    for start, end in [(0, 9), (9, 11), (11, 13), (13, 14)]:
        stream.put(numbers(spark, start, end))
    stream.mark()
    stream.serve("reader", max_records=4)

    run = chain(stream.stream.reader("reader", spark.range(0).schema).frame)
    run.catch_up()

    assert [len(batch) for batch in run.batches] == [9, 4, 1]
    assert run.rows == [(number,) for number in range(14)]
    assert run.positions() == ['{"pos":6}']


def test_entries_without_records_make_a_batch_without_rows(
    spark: SparkSession, transport: OpenStream, chain: RunChain
) -> None:
    stream = transport()
    stream.mark()
    stream.serve("reader")
    run = chain(stream.stream.reader("reader", spark.range(0).schema).frame)
    run.catch_up()

    stream.mark()
    stream.serve("reader")
    run.catch_up()

    assert run.batches == [[], []]
    assert run.positions() == ['{"pos":2}']


def test_a_restarted_consumer_goes_on_at_its_position(
    spark: SparkSession, transport: OpenStream, chain: RunChain
) -> None:
    stream = transport("before")
    schema = spark.range(0).schema
    stream.put(numbers(spark, 0, 3))
    stream.mark()
    stream.serve("reader")
    chain(stream.stream.reader("reader", schema).frame).catch_up()

    later = transport("after", base=stream.next)
    later.put(numbers(spark, 3, 5))
    later.serve("reader")
    run = chain(later.stream.reader("reader", schema).frame)
    run.catch_up()

    assert run.rows == [(3,), (4,)]
    assert run.positions() == ['{"pos":3}']


def test_a_consumer_whose_entries_are_gone_fails_and_says_so(
    spark: SparkSession, transport: OpenStream, chain: RunChain
) -> None:
    from pyspark.errors import StreamingQueryException

    stream = transport()
    stream.put(numbers(spark, 0, 3))
    stream.put(numbers(spark, 3, 5))
    stream.stream.drop(1)
    stream.serve("reader")
    run = chain(stream.stream.reader("reader", spark.range(0).schema).frame)

    with pytest.raises(StreamingQueryException, match="holds entries 1 to 1, not 0 to 1"):
        run.catch_up()


def test_entries_that_are_dropped_take_their_files_with_them(spark: SparkSession, transport: OpenStream) -> None:
    stream = transport()
    stream.put(numbers(spark, 0, 3))
    stream.mark()
    kept = stream.put(numbers(spark, 3, 5))

    stream.stream.drop(2)
    stream.stream.drop(1)

    assert stream.files == [kept[0].name]


def test_entries_are_appended_at_the_next_index_only(spark: SparkSession, transport: OpenStream) -> None:
    from py4j.protocol import Py4JJavaError

    stream = transport(base=7)

    with pytest.raises(Py4JJavaError, match="got entry 6; its next one is 7"):
        stream.stream.append(6, ())
    with pytest.raises(Py4JJavaError, match="has no entries up to 8"):
        stream.serve("reader", frontier=8)


def test_a_stream_is_open_once_until_it_is_closed(spark: SparkSession, transport: OpenStream) -> None:
    from py4j.protocol import Py4JJavaError

    first = transport("name")

    with pytest.raises(Py4JJavaError, match="is open already"):
        transport("name")
    first.stream.close()
    transport("name")


def test_segments_are_read_in_parallel_and_each_task_keeps_their_order(
    spark: SparkSession, transport: OpenStream, chain: RunChain
) -> None:
    stream = transport()
    for start in range(0, 1000, 200):
        stream.put(numbers(spark, start, start + 200))
    stream.serve("reader")
    tasks: list[list[list[int]]] = []

    def look(_: Chain, frame: DataFrame, number: int) -> None:
        tasks.append(frame.rdd.map(lambda row: int(row[0])).glom().collect())

    chain(stream.stream.reader("reader", spark.range(0).schema).frame, on_batch=look).catch_up()

    assert [len(batch) for batch in tasks] == [2]
    assert [number for task in tasks[0] for number in task] == list(range(1000))


def test_a_handful_of_records_is_one_task(spark: SparkSession, transport: OpenStream, chain: RunChain) -> None:
    stream = transport()
    stream.put(numbers(spark, 0, 100, partitions=2))
    stream.serve("reader")
    tasks: list[int] = []

    def look(_: Chain, frame: DataFrame, number: int) -> None:
        tasks.append(frame.rdd.getNumPartitions())

    chain(stream.stream.reader("reader", spark.range(0).schema).frame, on_batch=look).catch_up()

    assert tasks == [1]


@pytest.mark.parametrize("plan", ["all", "some", "largest"])
def test_no_buffer_is_left_behind(
    spark: SparkSession, transport: OpenStream, chain: RunChain, held_before: int, plan: str
) -> None:
    from pyspark.sql import functions

    stream = transport()
    stream.put(numbers(spark, 0, 25_000).select(functions.col("id").cast("string").alias("text")))
    stream.serve("reader")
    seen: list[object] = []
    plans: dict[str, Callable[[DataFrame], object]] = {
        "all": lambda frame: len(frame.collect()),
        "some": lambda frame: len(frame.take(3)),
        # An aggregate without keys holds on to a value of one segment while it reads the next.
        "largest": lambda frame: frame.agg(functions.max("text")).first(),
    }

    def look(_: Chain, frame: DataFrame, number: int) -> None:
        seen.append(plans[plan](frame))

    schema = spark.createDataFrame([], "text string").schema
    chain(stream.stream.reader("reader", schema).frame, on_batch=look).catch_up()

    assert seen == [{"all": 25_000, "some": 3, "largest": ("9999",)}[plan]]
    assert allocated(spark) <= held_before
