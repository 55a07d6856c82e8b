"""Prepares rows for the tasks that write them: text formats become lines in Spark, which formats all values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from streamjob.job.connectors.bucket_files import compression_of
from streamjob.job.connectors.options import option, without
from streamjob.job.query.quoting import quoted
from streamjob_runtime.sinks.bucket.encoding import Encoding
from streamjob_runtime.sinks.rows.column_mismatches import CAST, two_of_one_name
from streamjob_runtime.sinks.rows.readable_rows import unwritable
from streamjob_runtime.spark.text.text_forms import writer_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

_PLAIN = frozenset({
    "binary", "boolean", "byte", "char", "date", "decimal", "double", "float", "integer", "long", "short", "string",
    "timestamp", "timestamp_ntz", "varchar",
})  # fmt: skip
_OURS = frozenset({"compression", "encoding", "header", "linesep", "path"})


def mismatches(file_format: str, schema: StructType, partition_by: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the reasons why rows cannot be written, with fixes.

    Args:
        schema: the rows' columns.
        partition_by: the names of the partition columns; their case does not matter.
    """
    lower = [name.lower() for name in schema.names]
    yield from two_of_one_name(lower)
    missing = [name for name in partition_by if name.lower() not in lower]
    for name in missing:
        yield f"the rows have no column {name!r} to partition by", f"name columns of theirs: {', '.join(schema.names)}"
    parts = {name.lower() for name in partition_by}
    data = [each for each in schema.fields if each.name.lower() not in parts]
    if not data:
        yield "all columns of the rows are in partitionBy", "leave a column for the files"
    for each in schema.fields:
        if each.name.lower() in parts and each.dataType.typeName() not in _PLAIN - {"binary"}:
            kind = each.dataType.simpleString()
            yield f"the column {each.name!r} in partitionBy is {kind}", "partition by numbers, dates, times or strings"
    if file_format == "text":
        if len(data) != 1 or data[0].dataType.typeName() not in ("string", "char", "varchar"):
            yield "a text file holds one column of strings", "make it: concat_ws(…), or choose another format"
        return
    for each in data:
        if (unknown := _unknown(each.dataType)) is not None:
            yield f"the column {each.name!r} is {unknown}, which {file_format} files in a bucket do not hold", CAST
        else:
            yield from unwritable(file_format, [each])


def prepared(batch: DataFrame, file_format: str, options: Mapping[str, str], partition_by: Sequence[str]) -> DataFrame:
    """Return the rows in the form that tasks take: the columns of the files, then the partition values as text."""
    from pyspark.sql import functions as f

    parts = [_field(batch, name) for name in partition_by]
    data = [batch[quoted(name)] for name in _data_names(batch, partition_by)]
    # Spark writes an empty string to the directory of NULL.
    texts = [batch[quoted(name)].cast("string") for name in parts]
    values = [f.when(text != "", text).alias(f"__streamjob_partition_{number}") for number, text in enumerate(texts)]
    if file_format == "parquet":
        return batch.select(*data, *values)
    formatting = _formatting(file_format, options)
    if file_format == "json":
        return batch.select(f.to_json(f.struct(*data), formatting).alias("line"), *values)
    if file_format == "csv":
        return batch.select(f.to_csv(f.struct(*data), formatting).alias("line"), *values)
    return batch.select(data[0].alias("line"), *values)


def encoding_of(
    batch: DataFrame, file_format: str, options: Mapping[str, str], partition_by: Sequence[str]
) -> Encoding:
    """Return how the tasks encode the rows of a batch; runs no Spark job over it."""
    compression = compression_of(file_format, options) or "none"
    names = _data_names(batch, partition_by)
    if file_format == "parquet":
        schema = batch.select(*[batch[quoted(name)] for name in names]).schema
        # Spark reads these two: without them it would guess the calendar of old dates, and lose some types.
        metadata = {
            "org.apache.spark.version": batch.sparkSession.version,
            "org.apache.spark.sql.parquet.row.metadata": schema.json(),
        }
        return Encoding(file_format, compression, metadata)
    line_end = option(options, "lineSep") or "\n"
    head = None
    if file_format == "csv" and (option(options, "header") or "").lower() == "true":
        head = _csv_head(batch, names, options)
    return Encoding(file_format, compression, {}, head, line_end)


def _formatting(file_format: str, options: Mapping[str, str]) -> dict[str, str]:
    return writer_options(file_format, without(options, *_OURS))


def _csv_head(batch: DataFrame, names: Sequence[str], options: Mapping[str, str]) -> str:
    from pyspark.sql import functions as f

    columns = [f.lit(name).alias(f"c{number}") for number, name in enumerate(names)]
    line = f.to_csv(f.struct(*columns), _formatting("csv", options))
    row = batch.sparkSession.sql("SELECT 1").select(line).head()
    assert row is not None, "one row was selected"
    return str(row[0])


def _data_names(batch: DataFrame, partition_by: Sequence[str]) -> list[str]:
    parts = {name.lower() for name in partition_by}
    return [name for name in batch.columns if name.lower() not in parts]


def _field(batch: DataFrame, name: str) -> str:
    return next(each for each in batch.columns if each.lower() == name.lower())


def _unknown(kind: DataType) -> str | None:
    """Return the name of the first type inside a type that cannot be written; None if there is none."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    inner: list[DataType] = []
    if isinstance(kind, ArrayType):
        inner = [kind.elementType]
    elif isinstance(kind, MapType):
        inner = [kind.keyType, kind.valueType]
    elif isinstance(kind, StructType):
        inner = [each.dataType for each in kind.fields]
    elif kind.typeName() not in _PLAIN:
        return kind.simpleString()
    return next((found for each in inner if (found := _unknown(each)) is not None), None)
