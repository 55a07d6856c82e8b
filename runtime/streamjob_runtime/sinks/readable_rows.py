"""Fails a batch at a row with a value that readers of a sink would not find as it was, before a row is staged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from streamjob_runtime.spark.quoting import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_GREGORIAN = "1582-10-15"
_SKIPPED = ("1582-10-05", "1582-10-14 23:59:59.999999")
"""Java's old calendar, which files of ORC and JDBC's drivers use, has no such days."""
_DECODED = frozenset({"avro", "csv", "jdbc", "json", "orc", "parquet", "postgresql", "protobuf", "xml"})
"""Formats whose readers decode texts; in others, such as files of text, bytes stay as they are."""
_TEXTS = frozenset({"string", "char", "varchar"})
_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})


def readable_rows(batch: DataFrame, writer: str, form: str, names: Collection[str] | None = None) -> DataFrame:
    """Return the batch, which fails at a row that readers would not find as it was.

    That is a text that is not UTF-8, such as bytes in Latin-1 that were cast to STRING; a text with NUL for PostgreSQL;
    and times that ORC and JDBC write as other ones.

    Args:
        batch: the rows.
        writer: names the sink in the error.
        form: the format of the sink.
        names: the columns to look at. Default: all.
    """
    from pyspark.sql import functions as f

    conditions = []
    for each in batch.schema.fields if form in _DECODED else ():
        if names is not None and each.name not in names:
            continue
        column = f.col(quoted(each.name))
        for kinds, holds, words in _checks(form):
            valid = _inside(column, each.dataType, kinds, holds)
            if valid is not None:
                error = f.raise_error(f.lit(f"{writer}: a row has {words} in the column {each.name!r}"))
                conditions.append(f.when(f.coalesce(valid, f.lit(True)), f.lit(True)).otherwise(error.cast("boolean")))
    # A filter, other than a new column, leaves the schema as it is.
    return batch.where(reduce(and_, conditions)) if conditions else batch


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
