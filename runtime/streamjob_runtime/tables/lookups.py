"""Joins rows with a table of a database that is asked for their keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamjob.job.loading.load import LoadedJob
from streamjob.job.model.spec import OperatorSpec
from streamjob_runtime.spark.gateway import frame_of, java_context, java_frame, java_schema, our_java
from streamjob_runtime.tables.keys import check_added, check_key, field_of, with_metadata
from streamjob_runtime.tables.reading import batch_frame, reading_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class LookupFigures:
    """The work of a lookup.

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
    """A lookup of an operator in its query."""

    def __init__(self, table: str, java: Any) -> None:
        self.table = table
        self._java = java

    def figures(self) -> LookupFigures:
        """Return what it has done since the query was built."""
        hits, misses, queries, retries, nanoseconds = self._java.figures()
        return LookupFigures(hits, misses, queries, retries, nanoseconds / 1e9)


def look_up(spark: SparkSession, job: LoadedJob, operator: OperatorSpec, rows: DataFrame) -> tuple[DataFrame, Lookup]:
    """Return rows with the columns of a table, and the lookup that finds them.

    Raises:
        InvalidJoin: a column is missing or has another type.
        StreamJobError: the database does not tell the columns of the table; see `reading_table`.
        PySparkException: Spark refuses the rows.
    """
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
            own = field_of(rows.schema, mine, f"{label}: its input")
            there = field_of(known, other, f"{label}: table {table.name!r}")
            check_key(label, own, there, "the table")
            keys.append(rows.schema.names.index(own.name))
            asked.append(there)
        added = StructType([])
        for other, name in lookup.added_columns():
            there = field_of(known, other, f"{label}: table {table.name!r}")
            asked.append(there)
            added.add(StructField(name, there.dataType, True))
        check_added(label, rows.schema, added)
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
    return with_metadata(frame, (*rows.schema, *added)), Lookup(table.name, java)
