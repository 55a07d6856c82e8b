"""What readers of a sink would not find as it was: columns, before the first batch, and rows, before one is staged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from streamjob.job.connectors.options import option
from streamjob.job.query.quoting import quoted
from streamjob_runtime.sinks.rows.column_mismatches import Mismatch, two_of_one_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField

_GREGORIAN = "1582-10-15"
_SKIPPED = ("1582-10-05", "1582-10-14 23:59:59.999999")
"""Java's old calendar, which files of ORC and JDBC's drivers use, has no such days."""
_DECODED = frozenset({"avro", "csv", "jdbc", "json", "orc", "parquet", "postgresql", "protobuf", "xml"})
"""Formats whose readers decode texts; in others, such as files of text, bytes stay as they are."""
_NOT_HELD = {
    "avro": frozenset({"variant"}),
    "csv": frozenset({"array", "binary", "interval", "map", "struct", "variant"}),
    "orc": frozenset({"variant"}),
}
_TEXT_KEYS = frozenset({
    "boolean", "byte", "char", "decimal", "double", "float", "integer", "long", "short", "string", "varchar",
})  # fmt: skip
_TEXTS = frozenset({"string", "char", "varchar"})
_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})


def unwritable(form: str, columns: Iterable[StructField]) -> Iterator[Mismatch]:
    """Yield the columns that a format does not hold, or that its readers would not find as they were, with fixes."""
    columns = list(columns)
    yield from two_of_one_name(column.name for column in columns)
    for column in columns:
        name, kind = column.name, column.dataType
        if form == "json" and (key := _key_without_text(kind)) is not None:
            yield Mismatch(
                f"the column {name!r} has a map whose keys are {key.upper()}, and JSON has texts for keys",
                f"cast the keys: transform_keys({name}, (k, v) -> CAST(k AS STRING))",
            )
        if form == "orc" and "`" in name:
            yield Mismatch(f"the column {name!r} has a backtick in its name, which ORC does not hold", "rename it")
        if kind.typeName() in _NOT_HELD.get(form, ()):
            function = "base64" if kind.typeName() == "binary" else "to_json"
            yield Mismatch(
                f"the column {name!r} is {kind.simpleString()}, which {form.upper()} does not hold",
                f"make it a text: {function}({name})",
            )


def readable_rows(
    batch: DataFrame,
    writer: str,
    form: str,
    *,
    names: Collection[str] | None = None,
    options: Mapping[str, str] | None = None,
    partition_by: Collection[str] = (),
) -> DataFrame:
    """Return the batch, which fails at a row that readers would not find as it was.

    That is a text that is not UTF-8, such as bytes in Latin-1 that were cast to STRING; a text with NUL for PostgreSQL;
    times that ORC and JDBC write as other ones; and NULL in the only column of a CSV file, for which it would have a
    blank line, which all readers skip.

    Args:
        batch: the rows.
        writer: names the sink in the error.
        form: the format of the sink.
        names: the columns to look at. Default: all.
        options: the options of a writer of files.
        partition_by: the columns that are directories; their case does not matter.
    """
    from pyspark.sql import functions as f

    checked = [each for each in batch.schema.fields if names is None or each.name in names]
    found = [*_unreadable(checked, form)]
    if form == "csv" and options is not None and not option(options, "nullValue"):
        found += _blank_lines(checked, partition_by)
    conditions = [
        f.when(valid, f.lit(True)).otherwise(f.raise_error(f.lit(f"{writer}: a row has {what}")).cast("boolean"))
        for valid, what in found
    ]
    # A filter, other than a new column, leaves the schema as it is.
    return batch.where(reduce(and_, conditions)) if conditions else batch


def _blank_lines(columns: Iterable[StructField], partition_by: Collection[str]) -> Iterator[tuple[Column, str]]:
    from pyspark.sql import functions as f

    parts = {name.lower() for name in partition_by}
    names = [each.name for each in columns if each.name.lower() not in parts]
    if len(names) == 1:
        lost = f"NULL in {names[0]!r}, the only column of its CSV file, and readers skip a blank line"
        yield f.col(quoted(names[0])).isNotNull(), f"{lost}. Set the option nullValue, or write another column as well"


def _unreadable(columns: Iterable[StructField], form: str) -> Iterator[tuple[Column, str]]:
    """Yield what holds for a row that readers find as it is, and the words for a row that they do not."""
    from pyspark.sql import functions as f

    for each in columns if form in _DECODED else ():
        for kinds, holds, words in _checks(form):
            valid = _inside(f.col(quoted(each.name)), each.dataType, kinds, holds)
            if valid is not None:
                yield f.coalesce(valid, f.lit(True)), f"{words} in the column {each.name!r}"


def _checks(form: str) -> Iterator[tuple[frozenset[str], Callable[[Column], Column], str]]:
    """Yield names of types, what their values must be, and the words for one that is not."""
    from pyspark.sql import functions as f

    yield _TEXTS, f.is_valid_utf8, "a text that is not UTF-8, whose bytes decode(…, 'ISO-8859-1') may read,"
    if form == "postgresql":
        nul = f.lit("\0")
        yield _TEXTS, lambda text: ~f.contains(text, nul), "a text with NUL, which PostgreSQL does not hold,"
    if form == "orc":
        words = f"a time before {_GREGORIAN}, which ORC does not hold,"
        yield _TIMES, lambda time: time.cast("timestamp_ntz") >= _time(_GREGORIAN), words
        words = "a fraction of the last second before 1970, which ORC does not hold,"
        yield _TIMES, lambda time: ~_between(time, "1969-12-31 23:59:59.000001", "1969-12-31 23:59:59.999999"), words
    if form == "jdbc":
        words = f"a day from {_SKIPPED[0]} to 1582-10-14, which JDBC does not hold,"
        yield _TIMES, lambda time: ~_between(time, *_SKIPPED), words


def _time(text: str) -> Column:
    from pyspark.sql import functions as f

    return f.lit(text).cast("timestamp_ntz")


def _between(time: Column, first: str, last: str) -> Column:
    return time.cast("timestamp_ntz").between(_time(first), _time(last))


def _inside(column: Column, kind: DataType, kinds: frozenset[str], holds: Callable[[Column], Column]) -> Column | None:
    """Return whether all values of some types inside a column are as they must be; None if there can be none."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        fields = (_inside(column.getField(each.name), each.dataType, kinds, holds) for each in kind.fields)
        known = [f.coalesce(each, f.lit(True)) for each in fields if each is not None]
        return reduce(and_, known) if known else None
    if isinstance(kind, MapType):
        parts = ((f.map_keys(column), kind.keyType), (f.map_values(column), kind.valueType))
        known = [each for values, of in parts if (each := _all(values, of, kinds, holds)) is not None]
        return reduce(and_, known) if known else None
    if isinstance(kind, ArrayType):
        return _all(column, kind.elementType, kinds, holds)
    return holds(column) if kind.typeName() in kinds else None


def _all(column: Column, kind: DataType, kinds: frozenset[str], holds: Callable[[Column], Column]) -> Column | None:
    from pyspark.sql import functions as f

    if _inside(f.lit(None), kind, kinds, holds) is None:
        return None

    def is_held(each: Column) -> Column:
        held = _inside(each, kind, kinds, holds)
        return f.lit(True) if held is None else f.coalesce(held, f.lit(True))

    return f.forall(column, is_held)


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
