"""The event time that a chain reports to its readers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest
from tests.integration.channels.chains import Chain, Transport

from streamjob.ids import OperatorUid
from streamjob_runtime.spark.gateway import watermark_node

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

OpenStream = Callable[..., Transport]
RunChain = Callable[..., Chain]
FIRST, SECOND = OperatorUid("0"), OperatorUid("1")


class Observed:
    """A query that notes its watermarks inside each batch, before and after the batch's action."""

    def __init__(
        self,
        spark: SparkSession,
        transport: OpenStream,
        chain: RunChain,
        build: Callable[[Sequence[DataFrame]], DataFrame],
        inputs: int = 1,
    ) -> None:
        self._spark = spark
        self._streams = [transport(f"input-{number}") for number in range(inputs)]
        schema = spark.createDataFrame([], "key string, at timestamp").schema
        frames = [
            stream.stream.reader("reader", schema).frame.withWatermark("at", "5 seconds") for stream in self._streams
        ]
        self.previews: list[dict[OperatorUid, int]] = []
        self.outputs: list[int | None] = []
        nodes = [watermark_node(frame) for frame in frames]
        self._chain = chain(build(frames), on_batch=self._note, nodes=nodes)
        self._chain.catch_up()
        self._forget()

    def batch(self, *times: int | None) -> None:
        """Give each input a row at a time in seconds, or none; forget what earlier batches told."""
        self._forget()
        for stream, at in zip(self._streams, times, strict=True):
            if at is not None:
                stream.put(self._spark.sql(f"SELECT 'a' AS key, timestamp_seconds({at}) AS at"))
                stream.serve("reader")
        self._chain.catch_up()

    @property
    def rows(self) -> list[object]:
        return self._chain.rows

    def read(self) -> dict[OperatorUid, int]:
        return self._chain.watermarks.read(self._chain.query)

    def _forget(self) -> None:
        self.previews.clear()
        self.outputs.clear()

    def _note(self, chain: Chain, frame: DataFrame, number: int) -> None:
        chain.collect(frame, number)
        self.previews.append(chain.watermarks.preview(chain.query))
        self.outputs.append(chain.watermarks.output(chain.query))


def test_without_state_the_output_obeys_the_watermark_behind_the_batch(
    spark: SparkSession, transport: OpenStream, chain: RunChain
) -> None:
    run = Observed(spark, transport, chain, lambda frames: frames[0].where("at IS NULL"))

    run.batch(100)
    assert run.previews[0] == {FIRST: 95_000}
    assert run.outputs[0] == 95_000

    run.batch(60)
    assert run.previews[0] == {FIRST: 95_000}
    assert run.outputs[0] == 95_000


def test_the_preview_is_what_spark_makes_of_the_batch(
    spark: SparkSession, transport: OpenStream, chain: RunChain
) -> None:
    run = Observed(spark, transport, chain, lambda frames: frames[0].union(frames[1]), inputs=2)

    for times in [(100, None), (None, 90), (110, 120), (50, 60)]:
        run.batch(*times)
        assert run.previews[-1] == run.read()


def test_an_input_without_a_watermark_holds_the_output_back(
    spark: SparkSession, transport: OpenStream, chain: RunChain
) -> None:
    run = Observed(spark, transport, chain, lambda frames: frames[0].union(frames[1]), inputs=2)

    run.batch(100, None)
    assert run.outputs[0] is None

    run.batch(None, 90)
    assert run.outputs[0] == 85_000


@pytest.mark.core
def test_with_state_the_output_obeys_the_watermark_that_the_batch_ran_with(
    spark: SparkSession, transport: OpenStream, chain: RunChain
) -> None:
    from pyspark.sql import functions

    run = Observed(
        spark, transport, chain, lambda frames: frames[0].groupBy(functions.window("at", "10 seconds")).count()
    )

    run.batch(100)

    # The batch without data that follows emits what the new watermark has passed.
    assert run.previews == [{FIRST: 95_000}, {FIRST: 95_000}]
    assert run.outputs == [None, 95_000]

    run.batch(130)

    assert run.outputs == [95_000, 125_000]
    assert len(run.rows) == 1


def test_a_join_holds_rows_back_and_with_them_its_output_watermark(
    spark: SparkSession, transport: OpenStream, chain: RunChain
) -> None:
    from pyspark.sql import functions

    def join(frames: Sequence[DataFrame]) -> DataFrame:
        left, right = frames[0].toDF("k", "left_at"), frames[1].toDF("key", "right_at")
        near = functions.expr("k = key AND right_at BETWEEN left_at AND left_at + INTERVAL 20 SECONDS")
        return left.join(right, near, "left")

    run = Observed(spark, transport, chain, join, inputs=2)

    run.batch(100, 100)

    # A row of the left side at 75 s still waits for one of the right side at 95 s.
    assert run.outputs[0] is None
    assert run.outputs[-1] in (74_999, 75_000)


def test_a_query_without_watermarks_has_no_output_watermark(
    spark: SparkSession, transport: OpenStream, chain: RunChain
) -> None:
    stream = transport()
    stream.put(spark.range(3))
    stream.serve("reader")
    told: list[object] = []

    def note(run: Chain, frame: DataFrame, number: int) -> None:
        run.collect(frame, number)
        told.append((run.watermarks.preview(run.query), run.watermarks.output(run.query)))

    chain(stream.stream.reader("reader", spark.range(0).schema).frame, on_batch=note).catch_up()

    assert told[-1] == ({}, None)


def test_the_highest_watermark_counts_where_spark_is_told_so(
    spark: SparkSession, transport: OpenStream, chain: RunChain
) -> None:
    policy = "spark.sql.streaming.multipleWatermarkPolicy"
    spark.conf.set(policy, "max")
    try:
        run = Observed(spark, transport, chain, lambda frames: frames[0].union(frames[1]), inputs=2)
        run.batch(100, None)
    finally:
        spark.conf.unset(policy)

    assert run.outputs[0] == 95_000
