"""Runs queries that join versions: `JOIN rates FOR SYSTEM_TIME AS OF orders.at`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamjob.job.model.spec import OperatorSpec
from streamjob.job.query.quoting import quoted
from streamjob.job.query.temporal_sql import MARK, BadClause, Versions, marked
from streamjob_runtime.chain.event_time.temporal_joins import event_time, joined
from streamjob_runtime.chain.event_time.watermarks import event_time_columns
from streamjob_runtime.spark.gateway import frame_of, java_frame, java_session, our_java
from streamjob_runtime.tables.keys import InvalidJoin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_INNER = {"INNER": True, "LEFT OUTER": False}


def query_result(spark: SparkSession, operator: OperatorSpec) -> DataFrame:
    """Return the result of an operator's query over the views of the session.

    Raises:
        InvalidJoin: a join with versions cannot be computed.
        PySparkException: Spark refuses the query.
    """
    assert operator.sql is not None
    label = f"Operator {operator.name!r}"
    try:
        text, versions = (found := marked(operator.sql)).text, found.versions
    except BadClause as error:
        raise InvalidJoin(f"{label}: {error}", error.fix) from None
    if not versions:
        return spark.sql(operator.sql)
    query = our_java(spark).TemporalQuery(java_session(spark), text, MARK, [each.name for each in versions])
    for _ in versions:
        if (number := query.next()) < 0:
            raise InvalidJoin(
                f"{label}: it has FOR SYSTEM_TIME AS OF outside of a join, in WITH, or in an expression",
                "join the versions in FROM, or in a subquery there",
            )
        _replace(spark, label, query, versions[number])
    return frame_of(spark, query.result())


def _replace(spark: SparkSession, label: str, query: Any, versions: Versions) -> None:
    from pyspark.sql import functions as f

    if (inner := _INNER.get(query.kind())) is None:
        fix = "write JOIN or LEFT JOIN"
        raise InvalidJoin(f"{label}: it joins the versions of {versions.name!r} with {query.kind()} JOIN", fix)
    rows, known = frame_of(spark, query.rows()), frame_of(spark, query.versions())
    name = ".".join(versions.time[:-1]) or "the rows"
    column = query.column(list(versions.time))
    # A copy of the event time is event time, too.
    at = column if column in event_time_columns(rows.schema) else event_time(label, name, rows)
    if column != at:
        what = f"{label}: it joins versions AS OF {'.'.join(versions.time)}, and the event time of the rows is {at!r}"
        raise InvalidJoin(what, f"write AS OF {at}, or declare the watermark on the other column")
    keys = query.keys()
    if keys is None:
        raise InvalidJoin(
            f"{label}: it joins the versions of {versions.name!r} on a condition that is no key",
            "write ON rows.a = versions.b AND …, each column with its table; select a field or an expression as a "
            "column before, and put the rest of the condition into WHERE",
        )
    kept = list(query.read())
    taken = {each.lower() for each in rows.columns}
    selected = [
        f.col(quoted(each)).alias(f"{each}__{number}" if each.lower() in taken else each)
        for number, each in enumerate(kept)
    ]
    frame = joined(
        spark,
        label,
        rows,
        known,
        names=(name, versions.name),
        at=at,
        begins=event_time(label, versions.name, known),
        on=[(mine, other) for mine, other in keys],
        select=selected,
        inner=inner,
        valid_for=versions.valid_for,
    )
    query.replace(java_frame(frame), kept)
