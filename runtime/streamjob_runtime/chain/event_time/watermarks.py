"""Reads and restores the watermark of each input of a running query, which Spark keeps in memory only.

Spark persists one watermark per query, the smallest. After a restart, an ended or idle input has none and holds the
query's watermark back, so windows that were about to close stay open. So each input's own watermark is in the manifest,
and is restored inside the first batch after a restore.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from streamjob.ids import OperatorUid
from streamjob.job.query.quoting import quoted
from streamjob_runtime.spark.gateway import java_query, java_session, our_java, watermark_node

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

_DELAY = "spark.watermarkDelayMs"  # the key in a column's metadata by which Spark recognises event time
_NO_TIME = "__streamjob_no_time"
_NEVER = "9000000000000 seconds"  # the maximum delay: the rows that Spark observes never advance the watermark


class InputWatermarks:
    """Reads and raises the watermarks of a query's inputs.

    Args:
        nodes: the id of each input's watermark node, see `spark.gateway.watermark_node`.
        output_delay_ms: how far the event time of the query's output may be behind its watermark.
    """

    def __init__(self, spark: SparkSession, nodes: Mapping[OperatorUid, str], output_delay_ms: int = 0) -> None:
        self._watermarks = our_java(spark).Watermarks
        self._watermarks.prepare(java_session(spark))
        self._nodes = dict(nodes)
        self._output_delay_ms = output_delay_ms
        self._inputs = {node: uid for uid, node in nodes.items()}

    def read(self, query: StreamingQuery) -> dict[OperatorUid, int]:
        """Return the watermark of each input that has had one, in milliseconds since 1970."""
        return self._by_input(self._watermarks.read(java_query(query))) if self._nodes else {}

    def preview(self, query: StreamingQuery) -> dict[OperatorUid, int]:
        """Return the watermarks after the running batch, in milliseconds since 1970.

        Call it inside a batch of the query, after the action that has read all its rows.
        """
        return self._by_input(self._watermarks.preview(java_query(query))) if self._nodes else {}

    def output(self, query: StreamingQuery) -> int | None:
        """Return the minimum event time of later rows, in milliseconds since 1970; None without a watermark.

        Call it like `preview`. Without state, this is the query's watermark after this batch; with state, the watermark
        that its operators output for the watermark of this batch.
        """
        milliseconds: int | None = self._watermarks.output(java_query(query))
        return None if milliseconds is None else milliseconds - self._output_delay_ms

    def advance_waiting(self, query: StreamingQuery, watermarks: Mapping[OperatorUid, int]) -> None:
        """Raise watermarks to the given ones, in milliseconds since 1970, if the query waits for data.

        Its own watermark follows at once. If the query does not wait, nothing happens.
        """
        pairs = [f"{self._nodes[uid]}={milliseconds}" for uid, milliseconds in watermarks.items() if uid in self._nodes]
        if pairs:
            self._watermarks.advanceWaiting(java_query(query), ",".join(pairs))

    def begin(self, query: StreamingQuery, before: Mapping[OperatorUid, int]) -> None:
        """Let a query without a watermark begin at the lowest one, not at 1970; call it in its first batch.

        Args:
            before: the watermarks of the inputs when the chain started, in milliseconds since 1970.
        """
        self._watermarks.begin(java_query(query), 0 in before.values())

    def advance(self, query: StreamingQuery, watermarks: Mapping[OperatorUid, int]) -> None:
        """Raise watermarks to the given ones, in milliseconds since 1970; call it only inside a batch of the query."""
        for uid, milliseconds in watermarks.items():
            if uid in self._nodes:
                self._watermarks.advance(java_query(query), self._nodes[uid], milliseconds)

    def _by_input(self, pairs: str) -> dict[OperatorUid, int]:
        result = {}
        for node, _, milliseconds in (pair.partition("=") for pair in pairs.split(",") if pair):
            if node in self._inputs:
                result[self._inputs[node]] = int(milliseconds)
        return result


def event_time_columns(schema: StructType) -> tuple[str, ...]:
    """Return the columns with event time, in order."""
    return tuple(column.name for column in schema.fields if _DELAY in column.metadata)


def with_event_time(frame: DataFrame, schema: StructType, columns: Sequence[str]) -> tuple[DataFrame, str]:
    """Return a DataFrame in which some columns have event time, with a watermark that its rows never advance.

    Args:
        frame: rows without a watermark.
        schema: their schema; if it marks a column as event time, it also contains the delay.
        columns: the columns with event time; without any, only the query has a watermark.

    Returns:
        The DataFrame and its watermark node.
    """
    if columns:
        watermarked = frame.withWatermark(quoted(columns[0]), _NEVER)
    else:
        from pyspark.sql import functions

        nothing = functions.lit(None).cast("timestamp")
        watermarked = frame.withColumn(_NO_TIME, nothing).withWatermark(_NO_TIME, _NEVER)
    # Spark's withWatermark marks one column, with its given delay; but the producer's delay counts for deduplication
    # within the watermark.
    delays = {each.name: each.metadata.get(_DELAY, 0) for each in schema.fields if each.name in columns}
    return marked(watermarked, schema.names, delays), watermark_node(watermarked)


def marked(frame: DataFrame, names: Sequence[str], delays: Mapping[str, int]) -> DataFrame:
    """Return some columns of a DataFrame, some of them marked as event time.

    Args:
        delays: the delay of each column with event time, in milliseconds.
    """
    from pyspark.sql import functions

    def column(name: str) -> Column:
        plain = functions.col(quoted(name))
        metadata = {**frame.schema[name].metadata, _DELAY: delays[name]} if name in delays else {}
        return plain.alias(name, metadata=metadata) if metadata else plain

    return frame.select([column(name) for name in names])


def without_event_time(schema: StructType) -> StructType:
    """Return a schema without event time columns."""
    from pyspark.sql.types import StructField, StructType

    def plain(column: StructField) -> StructField:
        metadata = {key: value for key, value in column.metadata.items() if key != _DELAY}
        return StructField(column.name, column.dataType, column.nullable, metadata)

    return StructType([plain(column) for column in schema.fields])
