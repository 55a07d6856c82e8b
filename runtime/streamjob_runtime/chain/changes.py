"""Turns records of Kafka that describe changes into rows with the kind of each change, and guards such rows.

Spark takes a change for a row like any other. So an operator that would count it again is refused, and one that
forgets its kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from streamjob.errors import InvalidInput
from streamjob.job.changes import CHANGE_TIME, CHANGE_TYPE, DEBEZIUM
from streamjob.job.dead_letters import BROKEN
from streamjob.job.spec import SourceSpec
from streamjob_runtime.spark.gateway import analyzed_plan, our_java

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_CHANGE = "__streamjob_change"
_MISCOUNTED: Mapping[str, tuple[str, str]] = {
    "aggregation": (
        "aggregates changes: Spark would count a row again when it is updated, and never take back one that is deleted",
        (
            f"let the query read {CHANGE_TYPE}, as in sum(CASE WHEN {CHANGE_TYPE} IN ('delete', 'update_preimage') "
            "THEN -amount ELSE amount END); or write the changes to a table (mode: upsert), and aggregate there"
        ),
    ),
    "deduplication": (
        "removes duplicates of changes: Spark would drop a row that is inserted again after its deletion",
        "leave it out: a sink with mode: upsert keeps one row for each key",
    ),
    "join": (
        "joins changes with another stream: Spark would keep the results of rows that are updated or deleted later",
        (
            "write the changes to a table (mode: upsert), and join with that; or keep the newest row of each key in a "
            "function with state"
        ),
    ),
    "limit": ("limits changes: Spark would pass on the first ones, and lose what changes later", "leave LIMIT out"),
}


class ChangesMiscounted(InvalidInput):
    """A part of a job treats changes as rows of their own; nothing was started."""


def envelope_of(source: SourceSpec) -> SourceSpec:
    """Return a source whose values are decoded with the fields that Debezium puts around a row."""
    value = source.value
    if source.changes != DEBEZIUM or value is None or value.format != "json":
        return source
    row = f"STRUCT<{value.schema_ddl}>"
    fields = f"before {row}, after {row}, op STRING, ts_ms BIGINT, source STRUCT<ts_ms BIGINT>"
    # With schemas, Debezium's converter puts all of it into a payload.
    envelope = value.model_copy(update={"schema_ddl": f"{fields}, payload STRUCT<{fields}>"})
    return source.model_copy(update={"value": envelope})


def is_envelope(source: SourceSpec, value: Column) -> Column:
    """Return whether a decoded value describes a change of a row; NULL does not.

    Args:
        source: the source.
        value: the fields of Debezium.
    """
    from pyspark.sql import functions as f

    operation, after, before = (_field(source, value, name) for name in ("op", "after", "before"))
    return f.coalesce(
        (operation.isin("c", "r", "u") & after.isNotNull())
        | ((operation == "d") & before.isNotNull())
        | (operation == "m"),
        f.lit(False),
    )


def with_changes(source: SourceSpec, frame: DataFrame) -> DataFrame:
    """Return a source's rows with the kind of each change, if the source has changes.

    Args:
        source: the source.
        frame: its decoded records.
    """
    from pyspark.sql import functions as f

    if source.changes is None:
        return frame
    # A dead letter is passed on as it is, and is no change.
    dead = f.col(BROKEN).isNotNull() if BROKEN in frame.columns else f.lit(False)
    if source.changes != DEBEZIUM:
        kind = f.when(f.col("value").isNull(), "delete").otherwise("update_postimage")
        return frame.withColumn(CHANGE_TYPE, f.when(~dead, kind))
    value = f.col("value")
    operation, before, after = (_field(source, value, name) for name in ("op", "before", "after"))
    times = _field(source, value, "source").getField("ts_ms"), _field(source, value, "ts_ms")
    at = f.timestamp_millis(f.coalesce(*times))

    def change(kind: str | None, row: Column) -> Column:
        return f.struct(row.alias("value"), f.lit(kind).cast("string").alias(CHANGE_TYPE), at.alias(CHANGE_TIME))

    changes = (
        f.when(dead, f.array(change(None, after)))
        .when(operation.isin("c", "r"), f.array(change("insert", after)))
        .when(
            (operation == "u") & before.isNotNull(),
            f.array(change("update_preimage", before), change("update_postimage", after)),
        )
        .when(operation == "u", f.array(change("update_postimage", after)))
        .when(operation == "d", f.array(change("delete", before)))
    )
    exploded = frame.withColumn(_CHANGE, f.explode(changes))
    made = {name: f.col(f"{_CHANGE}.{name}") for name in ("value", CHANGE_TYPE, CHANGE_TIME)}
    names = [*frame.columns, CHANGE_TYPE, CHANGE_TIME]
    return exploded.select(*(made[name].alias(name) if name in made else f.col(name) for name in names))


def _field(source: SourceSpec, value: Column, name: str) -> Column:
    from pyspark.sql import functions as f

    if source.value is None or source.value.format != "json":
        return value.getField(name)
    return f.coalesce(value.getField("payload").getField(name), value.getField(name))


def check_changes(what: str, result: DataFrame, inputs: Mapping[str, DataFrame], spark: SparkSession) -> None:
    """Check what a part of a job does with changes.

    Args:
        what: the part in messages: `Operator 'x'`.
        result: the rows that it returns.
        inputs: the rows that it reads, by name.
        spark: the session.

    Raises:
        ChangesMiscounted: it counts changes as rows of their own, or forgets that they are changes.
    """
    changing = {name: frame for name, frame in inputs.items() if CHANGE_TYPE in frame.columns}
    if not changing:
        return
    java, plan = our_java(spark).Changes, analyzed_plan(result)
    if (how := java.miscounted(plan, CHANGE_TYPE)) is not None:
        found, fix = _MISCOUNTED[how]
        raise ChangesMiscounted(f"{what} {found}", fix)
    for name, frame in changing.items():
        if java.forgets(plan, analyzed_plan(frame), CHANGE_TYPE):
            raise ChangesMiscounted(
                f"{what} drops the column {CHANGE_TYPE} of {name!r} without reading it: deleted rows would come back",
                f"select it, too; or leave deletions out: WHERE {CHANGE_TYPE} IN ('insert', 'update_postimage')",
            )
