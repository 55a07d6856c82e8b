"""JSON and CSV as every writer of this product forms them, so that each reader finds the value that was written.

Spark's defaults cut timestamps to milliseconds. In CSV they also put a backslash before quotes and drop spaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from streamjob.job.options import option
from streamjob_runtime.spark.quoting import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructField

# Five letters: an offset has seconds where local mean time still counted.
_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_NOTHING_TRIMMED = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
_TEXT_KEYS = frozenset({
    "boolean", "byte", "char", "decimal", "double", "float", "integer", "long", "short", "string", "varchar",
})  # fmt: skip
_NOT_HELD = {
    "avro": frozenset({"variant"}),
    "csv": frozenset({"array", "binary", "interval", "map", "struct", "variant"}),
    "orc": frozenset({"variant"}),
}


def writer_options(form: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options for one of Spark's writers or functions of JSON or CSV; those of other formats as they are.

    Args:
        form: Spark's name of the format.
        given: the options of the job, which win.
    """
    ours: dict[str, str] = {}
    if form == "json":
        ours = _TIMES
    if form == "csv":
        # A quote is doubled, as RFC 4180 says.
        ours = {**_TIMES, **_NOTHING_TRIMMED, "escape": option(given, "quote") or '"'}
    return {**{name: value for name, value in ours.items() if option(given, name) is None}, **given}


def unwritable(form: str, columns: Iterable[StructField]) -> Iterator[tuple[str, str]]:
    """Yield the columns that a format does not hold, or that its readers would not find as they were, with fixes."""
    columns = list(columns)
    lower = [column.name.lower() for column in columns]
    for name in sorted({name for name in lower if lower.count(name) > 1}):
        yield f"the rows have two columns {name!r}", "give each column a name of its own; case does not matter"
    for column in columns:
        name, kind = column.name, column.dataType
        if form == "json" and (key := _key_without_text(kind)) is not None:
            yield (
                f"the column {name!r} has a map whose keys are {key.upper()}, and JSON has texts for keys",
                f"cast the keys: transform_keys({name}, (k, v) -> CAST(k AS STRING))",
            )
        if form == "orc" and "`" in name:
            yield f"the column {name!r} has a backtick in its name, which ORC does not hold", "rename it"
        if kind.typeName() in _NOT_HELD.get(form, ()):
            function = "base64" if kind.typeName() == "binary" else "to_json"
            yield (
                f"the column {name!r} is {kind.simpleString()}, which {form.upper()} does not hold",
                f"make it a text: {function}({name})",
            )


def without_blank_lines(
    batch: DataFrame, form: str, options: Mapping[str, str], partition_by: Sequence[str], writer: str
) -> DataFrame:
    """Return a batch that fails at a row for which a CSV file would have a blank line, which all readers skip.

    That is NULL in the only column of the files. The rows of other formats stay as they are.

    Args:
        batch: the rows.
        form: Spark's name of the format.
        options: the writer's options.
        partition_by: the columns that are directories.
        writer: names the sink in the error.
    """
    from pyspark.sql import functions as f

    parts = {name.lower() for name in partition_by}
    columns = [each for each in batch.schema.fields if each.name.lower() not in parts]
    if form != "csv" or len(columns) != 1 or option(options, "nullValue"):
        return batch
    (only,) = columns
    lost = f"{writer}: a row has NULL in {only.name!r}, the only column of its CSV file, and readers skip a blank line"
    refused = f.raise_error(f.lit(f"{lost}. Set the option nullValue, or write another column as well"))
    kept = f.coalesce(batch[quoted(only.name)], refused.cast(only.dataType))
    return batch.withColumn(only.name, kept)


def _key_without_text(kind: DataType) -> str | None:
    """Return the first type of keys in a type that Spark's JSON does not write as the text of a value."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    inner: list[DataType] = []
    if isinstance(kind, ArrayType):
        inner = [kind.elementType]
    elif isinstance(kind, StructType):
        inner = [each.dataType for each in kind.fields]
    elif isinstance(kind, MapType):
        if kind.keyType.typeName() not in _TEXT_KEYS:
            return kind.keyType.simpleString()
        inner = [kind.valueType]
    return next((found for each in inner if (found := _key_without_text(each)) is not None), None)
