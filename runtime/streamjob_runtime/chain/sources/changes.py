"""Turns records of Kafka that describe changes into rows with the kind of each change, and guards such rows.

Spark takes a change for a row like any other. So an operator that would count it again is refused, and one that
forgets its kind.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from streamjob.errors import InvalidInput
from streamjob.job.connectors.changes import CHANGE_TIME, CHANGE_TYPE, DEBEZIUM, UNAVAILABLE
from streamjob.job.model.spec import SourceSpec
from streamjob.job.planning.dead_letters import BROKEN
from streamjob.job.query.quoting import quoted
from streamjob_runtime.sinks.rows.unavailable import (
    MARK,
    Mark,
    available,
    can_hold,
    is_unavailable,
    marked_type,
    marks_of,
)
from streamjob_runtime.spark.gateway import analyzed_plan, our_java

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_CHANGE = "__streamjob_change"
_MISCOUNTED: Mapping[str, tuple[str, str]] = {
    "aggregation": (
        "aggregates changes: Spark would count a row again when it is updated, and never take back one that is deleted",
        (
            f"read {CHANGE_TYPE} in the query, as in sum(CASE WHEN {CHANGE_TYPE} IN ('delete', 'update_preimage') "
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
    """Return whether a decoded value describes a change of a row; NULL does not."""
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
        frame: its decoded records.
    """
    from pyspark.sql import functions as f

    if source.changes is None:
        return frame
    # A dead letter is passed on as it is, and is no change.
    dead = f.col(BROKEN).isNotNull() if BROKEN in frame.columns else f.lit(False)
    if source.changes != DEBEZIUM:
        kind = f.when(f.col("value").isNull(), "delete").otherwise("update_postimage")
        return _marked(source, frame.withColumn(CHANGE_TYPE, f.when(~dead, kind)))
    value = f.col("value")
    operation, before, after = (_field(source, value, name) for name in ("op", "before", "after"))
    times = _field(source, value, "source").getField("ts_ms"), _field(source, value, "ts_ms")
    at = f.timestamp_millis(f.coalesce(*times))

    completed = _completed(source, frame, before, after)

    def change(kind: str | None, row: Column) -> Column:
        return f.struct(row.alias("value"), f.lit(kind).cast("string").alias(CHANGE_TYPE), at.alias(CHANGE_TIME))

    changes = (
        f.when(dead, f.array(change(None, after)))
        .when(operation.isin("c", "r"), f.array(change("insert", after)))
        .when(
            (operation == "u") & before.isNotNull(),
            f.array(change("update_preimage", before), change("update_postimage", completed)),
        )
        .when(operation == "u", f.array(change("update_postimage", after)))
        .when(operation == "d", f.array(change("delete", before)))
    )
    exploded = frame.withColumn(_CHANGE, f.explode(changes))
    made = {name: f.col(f"{_CHANGE}.{name}") for name in ("value", CHANGE_TYPE, CHANGE_TIME)}
    names = [*frame.columns, CHANGE_TYPE, CHANGE_TIME]
    rows = exploded.select(*(made[name].alias(name) if name in made else f.col(name) for name in names))
    return _marked(source, rows)


def _completed(source: SourceSpec, frame: DataFrame, before: Column, after: Column) -> Column:
    """Return a row after an update, with the columns that the change leaves out as they were before."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    kind = frame.select(after.alias("row")).schema["row"].dataType
    assert isinstance(kind, StructType)
    placeholder, row = source.unavailable_value or UNAVAILABLE, after
    for field in kind.fields:
        if can_hold(field.dataType):
            new, old = after.getField(field.name), before.getField(field.name)
            left_out = is_unavailable(new, field.dataType, placeholder)
            row = row.withField(quoted(field.name), f.when(left_out & old.isNotNull(), old).otherwise(new))
    return row


def _marked(source: SourceSpec, rows: DataFrame) -> DataFrame:
    """Return changes whose values have marks at the fields that a change may leave out."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    kind = rows.schema["value"].dataType
    if not isinstance(kind, StructType):
        return rows
    placeholder, as_null = source.unavailable_value or UNAVAILABLE, source.on_unavailable == "asNull"
    marked = marked_type(kind, lambda column: Mark(source.name, column, placeholder, as_null))
    return rows.withColumn("value", f.col("value").cast(marked))


def with_available(
    what: str, inputs: Mapping[str, DataFrame], compute: Callable[[Mapping[str, DataFrame]], DataFrame]
) -> tuple[DataFrame, Mapping[str, DataFrame]]:
    """Return what a part of a job computes, without the placeholders of columns that it does not only select.

    Args:
        what: the part in messages: `Operator 'x'`.
        inputs: the rows that it reads, by name.
        compute: returns its rows for such inputs. It is called again if it computes with a column that a change may
            leave out.

    Returns:
        Its rows, and the inputs that they are computed from.
    """
    result = compute(inputs)
    marks = set().union(*(marks_of(frame.schema) for frame in inputs.values()))
    if not marks:
        return result, inputs
    plans = [analyzed_plan(frame) for frame in inputs.values()]
    found = our_java(result.sparkSession).MarkedColumns.used(analyzed_plan(result), plans, MARK)
    used = marks & {Mark.from_json(json.loads(mark)) for mark in found}
    if not used:
        return result, inputs
    given = {name: available(frame, f"{what} computes with it", used) for name, frame in inputs.items()}
    return compute(given), given


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
