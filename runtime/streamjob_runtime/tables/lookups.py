"""Joins rows with a table of a database that is asked for their keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamjob.errors import InvalidInput
from streamjob.job.load import LoadedJob
from streamjob.job.spec import OperatorSpec
from streamjob.job.suggest import did_you_mean
from streamjob_runtime.spark.gateway import frame_of, java_context, java_frame, java_schema, our_java
from streamjob_runtime.spark.quoting import quoted
from streamjob_runtime.tables.reading import batch_frame, reading_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

_KEYS = ("tinyint", "smallint", "int", "bigint", "string", "boolean", "date", "decimal")


class InvalidLookup(InvalidInput):
    """The columns of a lookup do not fit its rows and its table; nothing was started."""


@dataclass(frozen=True, slots=True)
class LookupFigures:
    """What a lookup has done.

    Args:
        hits: rows whose key was cached.
        misses: the other rows with a key.
        queries: queries of the database.
        retries: failed queries that were tried again.
        seconds: the time of all queries, in all tasks.
    """

    hits: int
    misses: int
    queries: int
    retries: int
    seconds: float


class Lookup:
    """A lookup of an operator in its query.

    Args:
        table: the table's name.
        java: it in Java.
    """

    def __init__(self, table: str, java: Any) -> None:
        self.table = table
        self._java = java

    def figures(self) -> LookupFigures:
        """Return what it has done since the query was built."""
        hits, misses, queries, retries, nanoseconds = self._java.figures()
        return LookupFigures(hits, misses, queries, retries, nanoseconds / 1e9)


def look_up(spark: SparkSession, job: LoadedJob, operator: OperatorSpec, rows: DataFrame) -> tuple[DataFrame, Lookup]:
    """Return rows with the columns of a table, and the lookup that finds them.

    Args:
        spark: the session.
        job: the job.
        operator: an operator with a lookup.
        rows: the rows of its input.

    Raises:
        InvalidLookup: a column is missing or has another type.
        StreamJobError: the database does not tell the columns of the table; see `reading_table`.
        PySparkException: Spark refuses the rows.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructField, StructType

    lookup = operator.lookup
    assert lookup is not None
    table = job.spec.table(lookup.table)
    policy = table.lookup
    assert policy is not None
    label = f"Operator {operator.name!r}"
    with reading_table(spark, job, table) as options:
        known = batch_frame(spark, table, options).schema
        keys, asked = [], []
        for mine, other in lookup.key_columns():
            own = _field(rows.schema, mine, f"{label}: its input")
            there = _field(known, other, f"{label}: table {table.name!r}")
            _check_key(label, own, there)
            keys.append(rows.schema.names.index(own.name))
            asked.append(there)
        added = []
        for other, name in lookup.added_columns():
            there = _field(known, other, f"{label}: table {table.name!r}")
            asked.append(there)
            added.append(StructField(name, there.dataType, True))
        taken = {name.lower() for name in rows.schema.names}
        for field in added:
            if field.name.lower() in taken:
                what = f"{label}: its rows have a column {field.name!r} already"
                raise InvalidLookup(what, f"give the other one a name: select: [{field.name} AS …]")
            taken.add(field.name.lower())
        java = our_java(spark).Lookup(
            java_context(spark),
            options,
            java_schema(spark, StructType(asked)),
            keys,
            lookup.join == "inner",
            policy.cache_rows,
            round(policy.ttl * 1000),
            round(policy.timeout),
            policy.retries,
        )
    joined = StructType([*(StructField(each.name, each.dataType, True) for each in rows.schema), *added])
    frame = frame_of(spark, java.join(java_frame(rows), java_schema(spark, joined)))
    # Rows from Java have lost the event time, which is in the metadata of a column.
    tagged = [
        f.col(quoted(each.name)).alias(each.name, metadata=each.metadata) if each.metadata else f.col(quoted(each.name))
        for each in (*rows.schema, *added)
    ]
    return frame.select(*tagged), Lookup(table.name, java)


def _field(schema: StructType, name: str, whose: str) -> StructField:
    exact: Mapping[str, StructField] = {each.name: each for each in schema}
    folded = {each.name.lower(): each for each in schema}
    found = exact.get(name) or folded.get(name.lower())
    if found is None:
        raise InvalidLookup(f"{whose} has no column {name!r}", did_you_mean(name, schema.names, "columns"))
    return found


def _check_key(label: str, own: StructField, there: StructField) -> None:
    mine, other = own.dataType.simpleString(), there.dataType.simpleString()
    if not mine.startswith(_KEYS):
        what = f"{label}: the key {own.name!r} is of type {mine.upper()}"
        raise InvalidLookup(what, f"a key is of one of the types {', '.join(_KEYS).upper()}")
    if mine != other:
        what = (
            f"{label}: the key {own.name!r} is of type {mine.upper()}, and {there.name!r} of the table {other.upper()}"
        )
        raise InvalidLookup(what, f"compute a column of the table's type before: CAST({own.name} AS {other.upper()})")
