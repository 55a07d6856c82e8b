"""A sink for Kafka whose keys and values are encoded first, by Spark's own functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from streamjob.errors import refuse
from streamjob.ids import BatchId, CheckpointId
from streamjob.job.connectors import kafka_sink
from streamjob.job.connectors.changes import CHANGE_TYPE, is_upsert
from streamjob.job.connectors.kafka_source import subject_of
from streamjob.job.connectors.options import encodings_of, option
from streamjob.job.model.encoding_spec import BINARY, Encoding
from streamjob.job.model.spec import SinkSpec
from streamjob.job.query.quoting import quoted
from streamjob.journal import JournalRecord
from streamjob.sink import (
    ChecksSchema,
    KnowsPublished,
    KnowsTarget,
    Measured,
    Previews,
    PublishesBatches,
    Rescues,
    Sink,
    SinkContext,
    Staged,
)
from streamjob_runtime.kafka.schemas import SchemaRegistry, avro_schema_of, check_compiler, encoded, encoder
from streamjob_runtime.sinks.errors import UnusableSink
from streamjob_runtime.sinks.rehearsing import Rehearses
from streamjob_runtime.sinks.rows.changes import is_deletion
from streamjob_runtime.sinks.rows.readable_rows import readable_rows, unwritable
from streamjob_runtime.spark.gateway import spark_errors
from streamjob_runtime.spark.text.error_text import reason
from streamjob_runtime.spark.text.text_forms import writer_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

_DELETION = "__streamjob_deletion"
_OF_KAFKA = frozenset({"key", "value", "headers", "topic", "partition", "timestamp"})


class EncodingSink:
    """Encodes the rows, and hands them to another sink.

    Args:
        inner: takes the encoded rows.
        spark: starts Spark or returns its session.
        registries: the resolved options of the registries of keys and values, by `key` and `value`.
    """

    def __init__(
        self,
        spec: SinkSpec,
        inner: Sink,
        spark: Callable[[], SparkSession],
        registries: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._spec = spec
        self._inner = inner
        self._spark = spark
        self._registries = registries
        self._encoders: dict[str, Any] = {}

    def open(self, context: SinkContext) -> None:
        """Open the other sink; raises its errors."""
        self._inner.open(context)

    def preview(self, context: SinkContext, schema: StructType | None) -> None:
        """Check what the other sink can check. Raises UnusableSink, and its errors."""
        encoded = None if schema is None else self._encoded_schema(schema)
        if isinstance(self._inner, Previews):
            self._inner.preview(context, encoded)

    def rehearse(self, context: SinkContext, rows: DataFrame) -> None:
        """Rehearse the other sink with encoded rows, without registering a schema; raises its errors."""
        if isinstance(self._inner, Rehearses):
            self._inner.rehearse(context, self._encoded(rows, self._checking))

    def check_schema(self, schema: StructType) -> None:
        """Check that rows with a schema can be encoded. Raises UnusableSink, and the errors of the other sink."""
        encoded = self._encoded_schema(schema)
        if isinstance(self._inner, ChecksSchema):
            self._inner.check_schema(encoded)

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        """Stage the encoded rows; raises the errors of the other sink."""
        return self._inner.stage(self._readable(batch), batch_id)

    def take_journal(self) -> None:
        """Take the journal of the other sink; raises its errors."""
        self._publishing.take_journal()

    def journal(self) -> Sequence[JournalRecord]:
        """Return the journal of the other sink; raises its errors."""
        return self._publishing.journal()

    def journal_id(self) -> str | None:
        """Return the id of the journal of the other sink; None if there is none."""
        return self._inner.journal_id() if isinstance(self._inner, PublishesBatches) else None

    def drop_journal(self) -> int:
        """Empty the journal of the other sink; raises its errors."""
        return self._publishing.drop_journal()

    def measure(self, batch: DataFrame) -> Measured:
        """Measure the encoded rows; raises the errors of the other sink."""
        return self._publishing.measure(self._readable(batch))

    def publish(
        self, batch: DataFrame, record: Callable[[Measured], JournalRecord], *, always: bool = False
    ) -> JournalRecord | None:
        """Publish the encoded rows; raises the errors of the other sink."""
        return self._publishing.publish(self._readable(batch), record, always=always)

    @property
    def _publishing(self) -> PublishesBatches:
        assert isinstance(self._inner, PublishesBatches)
        return self._inner

    def _readable(self, batch: DataFrame) -> DataFrame:
        encodings = encodings_of(self._spec)
        plain = _OF_KAFKA - encodings.keys()
        form = next((each.format for each in encodings.values() if each.format != "text"), "text")
        names = [name for name in batch.columns if name not in plain]
        batch = readable_rows(batch, f"sink {self._spec.name}", form, names=names)
        return self._encoded(batch, self._writing)

    def commit(self, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        """Commit the other sink; raises its errors."""
        self._inner.commit(checkpoint, committables)

    def rescue(self, checkpoint: CheckpointId, committables: Sequence[JsonValue], target: Path) -> int:
        """Write the rows to a file through the other sink; raises its errors, and UnusableSink if it cannot."""
        if not isinstance(self._inner, Rescues):
            raise UnusableSink(f"sink {self._spec.name}: format {self._spec.format} cannot write its rows to a file")
        return self._inner.rescue(checkpoint, committables, target)

    def newest_published(self) -> CheckpointId | None:
        """Ask the other sink; raises its errors."""
        return self._inner.newest_published() if isinstance(self._inner, KnowsPublished) else None

    def target_id(self) -> str | None:
        """Ask the other sink; raises its errors."""
        return self._inner.target_id() if isinstance(self._inner, KnowsTarget) else None

    def abort(self) -> None:
        """Discard what the other sink has not committed; raises its errors."""
        self._inner.abort()

    def close(self) -> None:
        """Close the other sink."""
        self._inner.close()

    def _encoded_schema(self, schema: StructType) -> StructType:
        try:
            rows = self._spark().createDataFrame([], schema)
            self._check_texts(with_values(self._spec, with_keys(self._spec, rows)).schema)
            return self._encoded(rows, self._checking).schema
        except spark_errors() as error:
            raise UnusableSink(
                f"sink {self._spec.name}: its rows cannot be encoded: {reason(error)}",
                "convert the columns to types that the format supports",
            ) from error

    def _check_texts(self, rows: StructType) -> None:
        for name, encoding in encodings_of(self._spec).items():
            if name in rows.names:
                found = unwritable(encoding.format, fields_of(rows[name]))
                refuse(UnusableSink, f"sink {self._spec.name}: {name}:", found)

    def _encoded(self, rows: DataFrame, encoder_of: Callable[[str, StructType], Any]) -> DataFrame:
        """Return rows with encoded keys and values. Raises Spark's errors, and those of `encoder_of`."""
        from pyspark.sql import functions as f

        rows = with_values(self._spec, with_keys(self._spec, rows))
        for name, encoding in encodings_of(self._spec).items():
            if encoding.format in BINARY:
                encoder = encoder_of(name, rows.schema)
                rows = rows.withColumn(name, encoded(rows.sparkSession, f.col(name), encoder))
            else:
                rows = rows.withColumn(name, _as_text(rows, name, encoding))
        return with_tombstones(rows)

    def _writing(self, name: str, rows: StructType) -> Any:
        """Return the encoder of keys or values; the first call registers its schema, where the sink does so."""
        if name not in self._encoders:
            self._encoders[name] = self._encoder(name, rows, register=True)
        return self._encoders[name]

    def _checking(self, name: str, rows: StructType) -> Any:
        return self._encoder(name, rows, register=False)

    def _encoder(self, name: str, rows: StructType, *, register: bool) -> Any:
        encoding, who, spark = encodings_of(self._spec)[name], f"sink {self._spec.name}", self._spark()
        check_compiler(spark, who, encoding)
        schema, number, of = encoding.schema_ddl, None, encoding.registry
        if of is None:
            schema = schema or avro_schema_of(spark, rows, name, name)
        else:
            registry = SchemaRegistry(spark, who, self._registries[name], encoding.format)
            subject = subject_of(self._spec, name, of) or ""
            if schema is None and not of.auto_register:
                number, schema = registry.schema(subject, of.version)
            else:
                schema = schema or avro_schema_of(spark, rows, name, name)
                if of.auto_register and not register:
                    registry.check(subject, schema)
                else:
                    number = registry.id_of(subject, schema, register=of.auto_register)
        return encoder(spark, who, rows, name, encoding, schema, number)


def with_values(spec: SinkSpec, rows: DataFrame) -> DataFrame:
    """Return rows with a column `value` if the sink encodes values.

    Args:
        rows: its rows; without a column `value`, the columns that are not Kafka's make the value.
    """
    from pyspark.sql import functions as f

    if spec.value is None or "value" in rows.columns:
        return rows
    kept = (*_OF_KAFKA, _DELETION)
    fields = [each for each in rows.columns if each not in kept]
    one_text = spec.value.format == "text" and len(fields) == 1
    value = f.col(quoted(fields[0])) if one_text else f.struct(*map(quoted, fields))
    return rows.select(*(each for each in rows.columns if each in kept), value.alias("value"))


def with_keys(spec: SinkSpec, rows: DataFrame) -> DataFrame:
    """Return rows with a column `key`, and without the kinds of changes, if the sink applies them by key.

    Args:
        rows: its rows; a further column tells which of them are deletions.
    """
    if not is_upsert(spec):
        return rows
    rows = rows.withColumn("key", _key(spec))
    if CHANGE_TYPE not in rows.columns:
        return rows
    return rows.withColumn(_DELETION, is_deletion(f"sink {spec.name}")).drop(CHANGE_TYPE)


def with_tombstones(rows: DataFrame) -> DataFrame:
    """Return encoded rows in which deletions have no value."""
    from pyspark.sql import functions as f

    if _DELETION not in rows.columns:
        return rows
    return rows.withColumn("value", f.when(~f.col(_DELETION), f.col("value"))).drop(_DELETION)


def _key(spec: SinkSpec) -> Column:
    """Return the key of the rows of an upserting sink; fails the batch for a row without one."""
    from pyspark.sql import functions as f

    names = kafka_sink.key_columns(spec.options)
    columns = [f.col(quoted(name)) for name in names or ("key",)]
    if not names:
        (key,) = columns
    elif len(names) == 1 and (spec.key is None or spec.key.format == "text"):
        key = columns[0].cast("string")
    else:
        key = f.struct(*columns)
    missing = f.raise_error(f.lit(f"sink {spec.name}: a row has NULL in its key, by which mode: upsert replaces rows"))
    return f.when(reduce(and_, (each.isNotNull() for each in columns)), key).otherwise(missing)


def fields_of(column: StructField) -> list[StructField]:
    """Return the fields of a struct; of any other column, the column itself."""
    from pyspark.sql.types import StructType

    return column.dataType.fields if isinstance(column.dataType, StructType) else [column]


def _as_text(rows: DataFrame, name: str, encoding: Encoding) -> Column:
    from pyspark.sql import functions as f

    column = f.col(name)
    if encoding.format == "json":
        return f.to_json(column, writer_options("json", encoding.options))
    if encoding.format == "csv":
        line = f.to_csv(column, writer_options("csv", encoding.options))
        fields = fields_of(rows.schema[name])
        if len(fields) > 1 or option(encoding.options, "nullValue"):
            return line
        # `to_csv` fails on it.
        no_text = column.isNotNull() & column.getField(fields[0].name).isNull()
        return f.when(no_text, "").otherwise(line)
    return column.cast("string")
