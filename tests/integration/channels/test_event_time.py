"""Event time fires after a channel as it does in a single query with the channel's producer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.channels.chains import Chain, Transport
from tests.integration.core import core

from streamjob.ids import OperatorUid
from streamjob_runtime.chain.event_time.watermarks import event_time_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

OpenStream = Callable[..., Transport]
RunChain = Callable[..., Chain]
Step = Sequence[tuple[str, int, bool]]
"""Rows of one batch: a key, a time in seconds, and whether the producer lets the row through."""

COLUMNS = "key string, at timestamp, keep boolean"
DELAY = "5 seconds"


class Split:
    """The same input in two forms: one query over all of it, and a producer for each input with one consumer."""

    def __init__(
        self,
        spark: SparkSession,
        transport: OpenStream,
        chain: RunChain,
        *,
        inputs: int,
        produce: Callable[[DataFrame], DataFrame],
        consume: Callable[[Sequence[DataFrame]], DataFrame],
    ) -> None:
        self._spark = spark
        self._schema = spark.createDataFrame([], COLUMNS).schema
        self._raw = [transport(f"raw-{number}") for number in range(inputs)]
        self._out = [transport(f"out-{number}") for number in range(inputs)]
        made = [produce(self._read(raw, "producer")) for raw in self._raw]
        readings = [
            out.stream.reader("consumer", frame.schema, event_time_columns(frame.schema))
            for out, frame in zip(self._out, made, strict=True)
        ]
        self._producers = [
            chain(frame, f"producer-{number}", on_batch=self._forward(number)) for number, frame in enumerate(made)
        ]
        self._consumer = chain(
            consume([reading.frame for reading in readings]),
            "consumer",
            on_batch=self._consume,
            nodes=[reading.node for reading in readings],
        )
        self._fused = chain(consume([produce(self._read(raw, "fused")) for raw in self._raw]), "fused")

    def step(self, *inputs: Step) -> tuple[list[Any], list[Any]]:
        """Give each input a batch; return what the one query and what the consumer makes of it."""
        before = len(self._fused.rows), len(self._consumer.rows)
        for raw, rows in zip(self._raw, inputs, strict=True):
            if rows:
                values = ", ".join(f"('{key}', timestamp_seconds({at}), {keep})" for key, at, keep in rows)
                raw.put(self._spark.sql(f"SELECT * FROM VALUES {values} AS rows(key, at, keep)").coalesce(1))
                raw.serve("producer", "fused")
        self._fused.catch_up()
        for producer in self._producers:
            producer.catch_up()
        for out in self._out:
            out.serve("consumer")
        self._consumer.catch_up()
        return sorted(self._fused.rows[before[0] :], key=str), sorted(self._consumer.rows[before[1] :], key=str)

    def _read(self, raw: Transport, consumer: str) -> DataFrame:
        return raw.stream.reader(consumer, self._schema).frame.withWatermark("at", DELAY)

    def _forward(self, number: int) -> Callable[[Chain, DataFrame, int], None]:
        out = self._out[number]

        def forward(chain: Chain, frame: DataFrame, batch: int) -> None:
            segments = out.put(frame, batch)
            watermark = chain.watermarks.output(chain.query)
            if watermark is not None and (out.watermark is None or watermark > out.watermark):
                out.watermark = watermark
                if not segments:
                    out.mark()

        return forward

    def _consume(self, chain: Chain, frame: DataFrame, batch: int) -> None:
        known = {OperatorUid(str(n)): out.watermark for n, out in enumerate(self._out) if out.watermark is not None}
        chain.watermarks.advance(chain.query, known)
        chain.collect(frame, batch)


def kept(frame: DataFrame) -> DataFrame:
    # Spark moves a filter that does not look at the event time below the watermark, which then does not see those rows.
    return frame.where("keep OR at IS NULL").drop("keep")


def window(frames: Sequence[DataFrame]) -> DataFrame:
    from pyspark.sql import functions

    return frames[0].groupBy(functions.window("at", "10 seconds"), "key").count()


def session(frames: Sequence[DataFrame]) -> DataFrame:
    from pyspark.sql import functions

    return frames[0].groupBy(functions.session_window("at", "5 seconds"), "key").count()


def distinct(frames: Sequence[DataFrame]) -> DataFrame:
    return frames[0].dropDuplicates(["key", "at"])


def distinct_within_watermark(frames: Sequence[DataFrame]) -> DataFrame:
    return frames[0].dropDuplicatesWithinWatermark(["key"])


def window_of_windows(frames: Sequence[DataFrame]) -> DataFrame:
    from pyspark.sql import functions

    return frames[0].groupBy(functions.window("window", "30 seconds")).agg(functions.sum("count").alias("total"))


STEPS: Sequence[Step] = (
    [("a", 100, True), ("b", 101, True), ("a", 104, True)],
    [("a", 104, True), ("a", 112, True), ("c", 99, True)],
    [("x", 127, False)],
    [("late", 101, True), ("a", 128, True)],
    [("a", 104, True), ("b", 133, True)],
    [("x", 170, False)],
    [("a", 171, True)],
    [("x", 400, False)],
)


@pytest.mark.parametrize(
    "consume", core([window, session, distinct, distinct_within_watermark], window, kept=[session])
)
def test_an_operator_behind_a_channel_fires_as_it_does_without(
    spark: SparkSession,
    transport: OpenStream,
    chain: RunChain,
    consume: Callable[[Sequence[DataFrame]], DataFrame],
) -> None:
    split = Split(spark, transport, chain, inputs=1, produce=kept, consume=consume)

    results = [split.step(rows) for rows in STEPS]

    assert [split_rows for _, split_rows in results] == [fused_rows for fused_rows, _ in results]
    assert sum(len(fused_rows) for fused_rows, _ in results) >= 5


def test_a_state_behind_a_state_fires_as_it_does_in_one_query(
    spark: SparkSession, transport: OpenStream, chain: RunChain
) -> None:
    split = Split(
        spark,
        transport,
        chain,
        inputs=1,
        produce=lambda frame: window([frame.where("keep")]),
        consume=window_of_windows,
    )

    results = [split.step(rows) for rows in STEPS]

    assert [split_rows for _, split_rows in results] == [fused_rows for fused_rows, _ in results]
    assert sum(len(fused_rows) for fused_rows, _ in results) >= 2


@pytest.mark.parametrize("kind", core(["inner", "left", "full"], kept=["left", "full"]))
def test_a_join_behind_two_channels_fires_as_it_does_without(
    spark: SparkSession, transport: OpenStream, chain: RunChain, kind: str
) -> None:
    from pyspark.sql import functions

    def join(frames: Sequence[DataFrame]) -> DataFrame:
        left = frames[0].toDF("left_key", "left_at")
        right = frames[1].toDF("right_key", "right_at")
        near = functions.expr(
            "left_key = right_key AND right_at BETWEEN left_at - INTERVAL 4 SECONDS AND left_at + INTERVAL 10 SECONDS"
        )
        return left.join(right, near, kind)

    split = Split(spark, transport, chain, inputs=2, produce=kept, consume=join)
    silent: Step = []

    results = [
        split.step([("a", 100, True), ("b", 101, True)], [("a", 97, True), ("c", 103, True)]),
        split.step([("c", 104, True)], silent),
        split.step([("x", 140, False)], silent),
        split.step(silent, [("x", 130, False), ("b", 109, True)]),
        split.step([("late", 105, True), ("d", 150, True)], [("late", 105, True)]),
        split.step([("x", 300, False)], [("x", 300, False)]),
    ]

    assert [split_rows for _, split_rows in results] == [fused_rows for fused_rows, _ in results]
    assert sum(len(fused_rows) for fused_rows, _ in results) >= 2


def test_rows_do_not_move_the_watermark_behind_a_channel(
    spark: SparkSession, transport: OpenStream, chain: RunChain
) -> None:
    stream = transport()
    frame = spark.sql("SELECT 'a' AS key, TIMESTAMP'9999-12-31 23:59:59Z' AS at")
    reading = stream.stream.reader("reader", frame.schema, ["at"])
    run = chain(window([reading.frame]), nodes=[reading.node])
    stream.put(frame)
    stream.serve("reader")
    run.catch_up()

    assert run.rows == []
    assert run.watermarks.read(run.query) == {}


def test_a_window_may_be_the_event_time_of_a_channel(
    spark: SparkSession, transport: OpenStream, chain: RunChain
) -> None:
    from pyspark.sql import functions

    frame = spark.sql("SELECT TIMESTAMP'2026-01-01 00:00:03Z' AS at, 7L AS count").select(
        functions.window("at", "10 seconds"), "count"
    )
    stream = transport()
    stream.put(frame)
    stream.mark()
    end = 1_767_225_630_000  # 2026-01-01 00:00:30Z, in ms
    run = chain(
        window_of_windows([(reading := stream.stream.reader("reader", frame.schema, ["window"])).frame]),
        nodes=[reading.node],
        on_batch=lambda chain, rows, number: (
            chain.watermarks.advance(chain.query, {OperatorUid("0"): end}) if chain.query.lastProgress else None,
            chain.collect(rows, number),
        )[1],
    )
    stream.serve("reader")
    run.catch_up()
    stream.mark()
    stream.serve("reader")
    run.catch_up()

    assert [row[1] for row in run.rows] == [7]


def test_every_column_of_event_time_is_one_behind_a_channel(spark: SparkSession, transport: OpenStream) -> None:
    frame = spark.sql("SELECT TIMESTAMP'2026-01-01 00:00:00Z' AS a, 1 AS b, TIMESTAMP'2026-01-01 00:00:00Z' AS c")
    marked = transport().stream.reader("reader", frame.schema, ["a", "c"]).frame

    again = transport("again").stream.reader("reader", marked.schema, ["c"]).frame

    assert event_time_columns(marked.schema) == ("a", "c")
    assert event_time_columns(again.schema) == ("c",)
