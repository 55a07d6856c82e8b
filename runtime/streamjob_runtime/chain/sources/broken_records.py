"""Decodes the keys and values of Kafka records, each once, and finds those that cannot be decoded.

Those of files are found by `file_records`; `on_error` of a source says what becomes of them.

Spark moves a filter below the projection that it is about, and would decode each record twice. So what is decoded is
an expression that it computes once, see `Once.java`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamjob.job.connectors.changes import DEBEZIUM
from streamjob.job.connectors.kafka_source import subject_of
from streamjob.job.connectors.options import encodings_of, with_resolved_encodings
from streamjob.job.loading.load import LoadedJob
from streamjob.job.model.encoding_spec import Encoding
from streamjob.job.model.spec import SourceSpec
from streamjob.job.planning.dead_letters import BROKEN, DEAD_LETTER
from streamjob_runtime.chain.sources.changes import is_envelope
from streamjob_runtime.kafka.schemas import SchemaRegistry, check_compiler, decoded, decoder
from streamjob_runtime.spark.gateway import once
from streamjob_runtime.spark.text.error_positions import error_at, position_in

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_KIND = "not-decoded"
OBSERVED = "streamjob-not-decoded:"
"""Before the uid of a source or operator, the name under which Spark reports what it could not decode or compute."""
COUNT = "records"
_NO_UTF8 = "its bytes are no UTF-8"
_NO_CHANGE = "it describes no change of a row"
_READ = "__streamjob_{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecoded:
    """A record that could not be decoded: its source by name, `key` or `value`, its position, and what is wrong."""

    source: str
    part: str
    topic: str
    partition: int
    offset: int
    error: str

    @property
    def record(self) -> str:
        """Its position, as in the field `skip` of a source."""
        return f"{self.topic}/{self.partition}/{self.offset}"


def undecoded_in(text: str) -> Undecoded | None:
    """Return the record that the text of one of Spark's errors is about; None if the error is another one."""
    position = position_in(_KIND, text)
    return Undecoded(**position) if position else None


def with_decoded(job: LoadedJob, source: SourceSpec, frame: DataFrame) -> DataFrame:
    """Return the rows of a Kafka source without the records to skip, and with decoded keys and values.

    A record that cannot be decoded fails the query, or is dropped, or has its original bytes and the error in a further
    column, as the source says. NULL stays NULL.

    Args:
        job: resolves the options of its registries.
        frame: its rows, with the columns of Spark's connector.

    Raises:
        CompilerMissing, UnusableSchema, SchemaMissing, RegistryUnreachable, RegistryRefuses: a schema cannot be had.
        PySparkException: Spark refuses a schema or an option.
    """
    from pyspark.sql import functions as f

    for topic, partition, offset in skipped(source.skip):
        frame = frame.where(
            ~((f.col("topic") == topic) & (f.col("partition") == partition) & (f.col("offset") == offset))
        )
    source = with_resolved_encodings(source, os.environ)
    encodings = encodings_of(source)
    if not encodings:
        return frame
    spark = frame.sparkSession
    read = frame.select(
        "*", *(once(spark, _read(spark, job, source, name)).alias(_READ.format(name)) for name in encodings)
    )
    if source.changes == DEBEZIUM:
        # A value that describes no change counts as not decoded.
        value = f.col(_READ.format("value"))
        kept = is_envelope(source, value.getField("value")) | value.getField("error").isNotNull()
        read = read.withColumn(_READ.format("value"), once(spark, f.when(kept, value)))
    if source.on_error in ("drop", DEAD_LETTER):
        broken = f.lit(False)
        for name, each in encodings.items():
            broken = broken | _is_broken(name, each)
        read = read.observe(OBSERVED + source.uid, f.count_if(broken).alias(COUNT))
    if source.on_error == DEAD_LETTER:
        dead = once(spark, _dead(source, encodings)).alias(BROKEN)
        return read.select(*_columns(frame.columns, encodings), dead)
    whole = f.lit(True)
    for name, each in encodings.items():
        bad = f.lit(False) if source.on_error == "drop" else _failure(source.name, name, each).cast("boolean")
        whole = f.when(_is_broken(name, each), bad).otherwise(whole)
    return read.where(once(spark, whole)).select(*_columns(frame.columns, encodings))


def _columns(columns: Sequence[str], encodings: Mapping[str, Encoding]) -> list[Column]:
    """Return the columns of records, decoded."""
    from pyspark.sql import functions as f

    return [_decoded(name, encodings[name]).alias(name) if name in encodings else f.col(name) for name in columns]


def _dead(source: SourceSpec, encodings: Mapping[str, Encoding]) -> Column:
    """Return the original bytes and the error of a record that cannot be decoded; NULL for the others."""
    from pyspark.sql import functions as f

    error = f.lit(None).cast("string")
    for name, each in encodings.items():
        what = f.concat(f.lit(f"the {name} is not {each.described()}: "), _error(name, each))
        error = f.when(_is_broken(name, each), what).otherwise(error)
    bytes_of = [f.col(name).cast("binary").alias(name) for name in ("key", "value")]
    return f.when(error.isNotNull(), f.struct(*bytes_of, error.alias("error")))


def skipped(records: str | None) -> list[tuple[str, int, int]]:
    """Return the topic, partition and offset of each record in the field `skip` of a source."""
    found = []
    for each in (records or "").split(","):
        if each.strip():
            topic, partition, offset = each.strip().rsplit("/", 2)
            found.append((topic, int(partition), int(offset)))
    return found


def _read(spark: SparkSession, job: LoadedJob, source: SourceSpec, name: str) -> Column:
    """Return the decoded column: a text, or a struct of the `value` and of the `error` in it."""
    from pyspark.sql import functions as f

    if encodings_of(source)[name].format == "text":
        return f.col(name).cast("string")
    return decoded(spark, f.col(name), _decoder(spark, job, source, name))


def _decoder(spark: SparkSession, job: LoadedJob, source: SourceSpec, name: str) -> Any:
    encoding, who = encodings_of(source)[name], f"Source {source.name!r}"
    check_compiler(spark, who, encoding)
    schema, registry = encoding.schema_ddl, None
    if encoding.registry is not None:
        registry = SchemaRegistry(spark, who, job.registry_options(encoding.registry), encoding.format)
        if schema is None:
            _, schema = registry.schema(subject_of(source, name, encoding.registry) or "", encoding.registry.version)
    return decoder(spark, who, encoding, schema or "", registry)


def _is_broken(name: str, encoding: Encoding) -> Column:
    from pyspark.sql import functions as f

    read = f.col(_READ.format(name))
    if encoding.format == "text":
        return ~f.is_valid_utf8(read)
    return f.col(name).isNotNull() & (read.isNull() | read.getField("error").isNotNull())


def _error(name: str, encoding: Encoding) -> Column:
    """Return what is wrong in a broken record."""
    from pyspark.sql import functions as f

    if encoding.format == "text":
        return f.lit(_NO_UTF8)
    return f.coalesce(f.col(_READ.format(name)).getField("error"), f.lit(_NO_CHANGE))


def _decoded(name: str, encoding: Encoding) -> Column:
    from pyspark.sql import functions as f

    read = f.col(_READ.format(name))
    return read if encoding.format == "text" else read.getField("value")


def _failure(source: str, part: str, encoding: Encoding) -> Column:
    from pyspark.sql import functions as f

    position = f.struct(
        f.lit(source).alias("source"),
        f.lit(part).alias("part"),
        "topic",
        "partition",
        "offset",
        _error(part, encoding).alias("error"),
    )
    return f.raise_error(error_at(_KIND, position))
