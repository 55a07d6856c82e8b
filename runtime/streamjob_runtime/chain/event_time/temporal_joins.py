"""Joins rows with the versions that were valid at their event times.

Spark has no such join. It is built on `transformWithState`: rows and versions go into one stream, in which they wait by
key until the watermark has passed their times; see `TemporalJoin.java`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from streamjob.job.connectors.changes import CHANGE_TYPE, DELETIONS, WRITES
from streamjob.job.model.spec import OperatorSpec
from streamjob.job.query.quoting import quoted
from streamjob_runtime.chain.event_time.watermarks import event_time_columns, without_event_time
from streamjob_runtime.spark.gateway import frame_of, java_frame, java_schema, our_java
from streamjob_runtime.tables.keys import InvalidJoin, check_added, check_key, field_of, with_metadata

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

_BEGINS, _ENDS, _PREIMAGE, _ROW, _UNTIMED = range(5)
_NEVER = -1
_TIME = "__streamjob_time"
_EQUAL = "streamjob.equal"
"""The metadata of a key with the columns that are equal, as `StateForms.java` reads them."""


def join_versions(spark: SparkSession, operator: OperatorSpec, rows: DataFrame, versions: DataFrame) -> DataFrame:
    """Return rows with columns of the versions that were valid at their event times.

    Args:
        operator: an operator with a temporal join.
        rows: the rows of its first input.
        versions: the rows of its second one.

    Raises:
        InvalidJoin: an input has no event time, or a column is missing or has another type.
        PySparkException: Spark refuses the rows.
    """
    from pyspark.sql import functions as f

    temporal = operator.temporal_join
    assert temporal is not None
    label = f"Operator {operator.name!r}"
    first, second = (each.name for each in operator.inputs)
    at = event_time(label, first, rows)
    added = []
    for other, name in temporal.added_columns():
        field = field_of(versions.schema, other, f"{label}: its input {second!r}")
        added.append(f.col(quoted(field.name)).alias(name))
    return joined(
        spark,
        label,
        rows,
        versions,
        names=(first, second),
        at=at,
        begins=event_time(label, second, versions),
        on=temporal.key_columns(),
        select=added,
        inner=temporal.join == "inner",
        valid_for=temporal.valid_for,
    )


def event_time(label: str, name: str, frame: DataFrame) -> str:
    """Return the event-time column of an input of a temporal join.

    Args:
        label: the operator in messages.

    Raises:
        InvalidJoin: its rows have no event time, or several, or one that is no TIMESTAMP.
    """
    found = event_time_columns(frame.schema)
    if len(found) != 1:
        what = f"several event times: {', '.join(found)}" if found else "no event time"
        fix = "select one of them" if found else "give it `watermark: {column: …, delay: …}`, and keep that column"
        raise InvalidJoin(f"{label}: it joins versions by event time, and the rows of {name!r} have {what}", fix)
    kind = frame.schema[found[0]].dataType.simpleString()
    if kind != "timestamp":
        what = f"{label}: it joins versions by event time, and that of {name!r} is {found[0]!r} of type {kind.upper()}"
        raise InvalidJoin(what, "declare the watermark on a TIMESTAMP: of a window, use window_time(window)")
    return found[0]


def joined(
    spark: SparkSession,
    label: str,
    rows: DataFrame,
    versions: DataFrame,
    *,
    names: tuple[str, str],
    at: str,
    begins: str,
    on: Sequence[tuple[str, str]],
    select: Sequence[Column],
    inner: bool,
    valid_for: float | None,
) -> DataFrame:
    """Return rows with columns of versions.

    Args:
        label: the operator in messages.
        rows: the rows, with different names of columns.
        versions: the versions; if they have a column with kinds of changes, it says which of them end.
        names: the inputs with the rows and with the versions, in messages.
        at: the event time of rows.
        begins: the event time of versions.
        on: the key: columns of rows and of versions.
        select: columns of versions.
        inner: whether rows without a version are dropped.
        valid_for: for how many seconds a version is valid; None for until the next one.

    Raises:
        InvalidJoin: see `join_versions`.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructField, StructType

    if CHANGE_TYPE in rows.columns:
        what = (
            f"{label}: it joins versions with the changes of rows: a row that is deleted later has been joined already"
        )
        raise InvalidJoin(what, f"leave changes out before: WHERE {CHANGE_TYPE} = 'insert'")
    keys = []
    for mine, other in on:
        own = field_of(rows.schema, mine, f"{label}: its input {names[0]!r}")
        there = field_of(versions.schema, other, f"{label}: its input {names[1]!r}")
        check_key(label, own, there, "the versions")
        keys.append((own, there))
    added = without_event_time(versions.select(*select).schema)
    check_added(label, rows.schema, added)
    key = StructType([StructField(f"key{number}", own.dataType, True) for number, (own, _) in enumerate(keys)])
    is_known = reduce(and_, (f.col(name).isNotNull() for name in key.names), f.lit(True))
    row = _nullable(without_event_time(rows.schema))
    version = _nullable(added)
    left = rows.select(
        f.coalesce(f.unix_micros(quoted(at)), f.lit(0)).alias("at"),
        f.when(f.col(quoted(at)).isNull(), _UNTIMED).otherwise(_ROW).alias("kind"),
        f.struct(*(f.col(quoted(name)).alias(name, metadata={}) for name in rows.columns)).alias("row"),
        f.lit(None).cast(version).alias("version"),
        *(_key(own, there, own.name, number) for number, (own, there) in enumerate(keys)),
        f.col(quoted(at)).alias(_TIME),
    )
    if inner:
        left = left.where(f.col(_TIME).isNotNull() & is_known)
    right = versions.select(
        f.unix_micros(quoted(begins)).alias("at"),
        _change(label, versions).alias("kind"),
        f.lit(None).cast(row).alias("row"),
        f.struct(*select).cast(version).alias("version"),
        *(_key(own, there, there.name, number) for number, (own, there) in enumerate(keys)),
        # Without event time here, Spark does not drop versions that come late: they count for later rows.
        f.lit(None).cast("timestamp").alias(_TIME),
    ).where(f.col("at").isNotNull() & is_known)
    java = our_java(spark).TemporalJoin.join(
        java_frame(left.union(right)),
        java_schema(spark, key),
        java_schema(spark, row),
        java_schema(spark, version),
        inner,
        _NEVER if valid_for is None else round(valid_for * 1_000_000),
    )
    return with_metadata(frame_of(spark, java), (*rows.schema, *added))


def _key(own: StructField, there: StructField, column: str, number: int) -> Column:
    """Return a column of the key; its metadata tell the form of the state of which columns it is."""
    from pyspark.sql import functions as f

    return f.col(quoted(column)).alias(f"key{number}", metadata={_EQUAL: f"{own.name} = {there.name}"})


def _change(label: str, versions: DataFrame) -> Column:
    from pyspark.sql import functions as f

    if CHANGE_TYPE not in versions.columns:
        return f.lit(_BEGINS)
    kind = f.lower(f.col(CHANGE_TYPE))
    wrong = f.concat(
        f.lit(f"{label}: a version has the {CHANGE_TYPE} "),
        f.coalesce(f.col(CHANGE_TYPE), f.lit("NULL")),
        f.lit(f", and a change is one of {', '.join((*WRITES, *DELETIONS))}"),
    )
    return (
        f.when(kind.isin(*WRITES), _BEGINS)
        .when(kind == "delete", _ENDS)
        .when(kind.isin(*DELETIONS), _PREIMAGE)
        .otherwise(f.raise_error(wrong).cast("int"))
    )


def _nullable(schema: StructType) -> StructType:
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(each.name, each.dataType, True) for each in schema])
