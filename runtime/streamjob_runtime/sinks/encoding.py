"""A sink for Kafka whose keys and values are encoded first, by Spark's own functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue

from streamjob.ids import BatchId, CheckpointId
from streamjob.job.spec import Encoding, SinkSpec
from streamjob.sink import ChecksSchema, Previews, Sink, SinkContext, Staged
from streamjob_runtime.sinks.errors import UnusableSink
from streamjob_runtime.spark.gateway import spark_errors
from streamjob_runtime.spark.quoting import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_OF_KAFKA = frozenset({"key", "value", "headers", "topic", "partition", "timestamp"})


class EncodingSink:
    """Encodes the rows, and hands them to another sink.

    Args:
        spec: the sink.
        inner: takes the encoded rows.
        spark: starts Spark or returns its session.
    """

    def __init__(self, spec: SinkSpec, inner: Sink, spark: Callable[[], SparkSession]) -> None:
        self._spec = spec
        self._inner = inner
        self._spark = spark

    def open(self, context: SinkContext) -> None:
        """Open the other sink; raises its errors."""
        self._inner.open(context)

    def preview(self, context: SinkContext, schema: StructType | None) -> None:
        """Check what the other sink can check. Raises UnusableSink, and its errors."""
        encoded = None if schema is None else self._encoded_schema(schema)
        if isinstance(self._inner, Previews):
            self._inner.preview(context, encoded)

    def check_schema(self, schema: StructType) -> None:
        """Check that rows with a schema can be encoded. Raises UnusableSink, and the errors of the other sink."""
        encoded = self._encoded_schema(schema)
        if isinstance(self._inner, ChecksSchema):
            self._inner.check_schema(encoded)

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        """Stage the encoded rows; raises the errors of the other sink."""
        return self._inner.stage(encoded(self._spec, batch), batch_id)

    def commit(self, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        """Let the other sink commit; raises its errors."""
        self._inner.commit(checkpoint, committables)

    def abort(self) -> None:
        """Let the other sink discard what is not committed; raises its errors."""
        self._inner.abort()

    def close(self) -> None:
        """Close the other sink."""
        self._inner.close()

    def _encoded_schema(self, schema: StructType) -> StructType:
        try:
            return encoded(self._spec, self._spark().createDataFrame([], schema)).schema
        except spark_errors() as error:
            reason = str(error).split("\n\nJVM stacktrace", 1)[0].split(";\n", 1)[0].strip()
            raise UnusableSink(
                f"sink {self._spec.name}: its rows cannot be encoded: {reason}",
                "let its input have columns that the format can hold",
            ) from error


def encoded(spec: SinkSpec, rows: DataFrame) -> DataFrame:
    """Return rows with the encoded columns `key` and `value`. Raises Spark's errors.

    Args:
        spec: the sink.
        rows: its rows; without a column `value`, the columns that are not Kafka's make the value.
    """
    from pyspark.sql import functions as f

    if spec.value is not None and "value" not in rows.columns:
        fields = [each for each in rows.columns if each not in _OF_KAFKA]
        one_text = spec.value.format == "text" and len(fields) == 1
        value = f.col(quoted(fields[0])) if one_text else f.struct(*map(quoted, fields))
        rows = rows.select(*(each for each in rows.columns if each in _OF_KAFKA), value.alias("value"))
    for name, encoding in (("key", spec.key), ("value", spec.value)):
        if encoding is not None:
            rows = rows.withColumn(name, _encoded(f.col(name), encoding))
    return rows


def _encoded(column: Column, encoding: Encoding) -> Column:
    from pyspark.sql import functions as f

    if encoding.format == "json":
        return f.to_json(column, dict(encoding.options))
    if encoding.format == "csv":
        return f.to_csv(column, dict(encoding.options))
    return column.cast("string")
