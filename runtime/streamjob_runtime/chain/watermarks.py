"""The watermark of each input of a running query, which Spark keeps in memory only.

Spark persists one watermark a query, the smallest. After a restart an input that has ended, or is silent, has none, and
holds the query's watermark where it was: windows that were about to close stay open. So each input's own watermark is
in the manifest, and is put back inside the first batch after a restore.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from streamjob.ids import OperatorUid
from streamjob_runtime.spark.gateway import java_query, our_java, watermark_node
from streamjob_runtime.spark.quoting import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructField, StructType

_DELAY = "spark.watermarkDelayMs"  # by this key in a column's metadata Spark knows event time
_NEVER = "9000000000000 seconds"  # the longest delay there is: what Spark observes in rows moves no watermark


class InputWatermarks:
    """Reads and raises the watermarks of a query's inputs.

    Args:
        spark: the session that the query runs in.
        nodes: the id of each input's watermark node, see `spark.gateway.watermark_node`.
    """

    def __init__(self, spark: SparkSession, nodes: Mapping[OperatorUid, str]) -> None:
        self._watermarks = our_java(spark).Watermarks
        self._nodes = dict(nodes)
        self._inputs = {node: uid for uid, node in nodes.items()}

    def read(self, query: StreamingQuery) -> dict[OperatorUid, int]:
        """Return the watermark of each input that has had one, in milliseconds since 1970."""
        return self._by_input(self._watermarks.read(java_query(query))) if self._nodes else {}

    def preview(self, query: StreamingQuery) -> dict[OperatorUid, int]:
        """Return the watermarks, in milliseconds since 1970, as they will be behind the batch that runs.

        Call it inside a batch of the query, after the action that read all of its rows.
        """
        return self._by_input(self._watermarks.preview(java_query(query))) if self._nodes else {}

    def output(self, query: StreamingQuery) -> int | None:
        """Return the watermark that the rows of later batches obey, in milliseconds since 1970; None without one.

        Call it as `preview`. Without state it is the query's watermark behind this batch; with state, what its
        operators make of the watermark that this batch runs with.
        """
        milliseconds: int | None = self._watermarks.output(java_query(query))
        return milliseconds

    def advance(self, query: StreamingQuery, watermarks: Mapping[OperatorUid, int]) -> None:
        """Raise watermarks to the given ones, in milliseconds since 1970; call it inside a batch of the query only."""
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
    """Return the columns that carry event time, in their order."""
    return tuple(column.name for column in schema.fields if _DELAY in column.metadata)


def with_event_time(frame: DataFrame, schema: StructType, columns: Sequence[str]) -> tuple[DataFrame, str | None]:
    """Return a DataFrame some of whose columns carry event time, under a watermark that its rows never move.

    Args:
        frame: rows without a watermark.
        schema: their schema; where it marks a column as event time, it tells the delay as well.
        columns: the columns that are to carry event time.

    Returns:
        The DataFrame and its watermark node, None if no column carries event time.
    """
    if not columns:
        return frame, None
    from pyspark.sql import functions

    watermarked = frame.withWatermark(quoted(columns[0]), _NEVER)

    def column(field: StructField) -> Column:
        # Spark's withWatermark marks one column, and with the delay that it was given; the producer's delay counts
        # where duplicates are dropped within it.
        plain = functions.col(quoted(field.name))
        return plain.alias(field.name, metadata={_DELAY: 0, **field.metadata}) if field.name in columns else plain

    return watermarked.select([column(field) for field in schema.fields]), watermark_node(watermarked)


def without_event_time(schema: StructType) -> StructType:
    """Return a schema none of whose columns carries event time."""
    from pyspark.sql.types import StructField, StructType

    def plain(column: StructField) -> StructField:
        metadata = {key: value for key, value in column.metadata.items() if key != _DELAY}
        return StructField(column.name, column.dataType, column.nullable, metadata)

    return StructType([plain(column) for column in schema.fields])
