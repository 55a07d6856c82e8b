"""Checks joins with versions: two different inputs, both with event time, and rows that are appended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from streamjob.job.checks.subject import Subject, where
from streamjob.job.model.problem import Problem
from streamjob.job.model.spec import OperatorSpec
from streamjob.job.query.sql import NotAQuery, read_query
from streamjob.job.query.temporal_sql import BadClause, marked

_KINDS = ("JOIN", "INNER JOIN", "LEFT JOIN")


def joins(subject: Subject) -> Iterator[Problem]:
    """A temporal join has rows and versions as inputs, and both have event time."""
    for operator in subject.spec.operators:
        if operator.temporal_join is not None:
            yield from _join(subject, operator)
        elif operator.sql is not None:
            yield from _query(subject, operator, operator.sql)


def _join(subject: Subject, operator: OperatorSpec) -> Iterator[Problem]:
    names = [edge.name for edge in operator.inputs]
    if len(names) != 2 or names[0] == names[1]:
        what = f"has a temporalJoin and the inputs {', '.join(names)}"
        yield Problem(where(operator), what, "name two inputs: the rows, and then the versions")
        return
    if operator.name in subject.loops:
        fix = "join before the loop, or behind it"
        yield Problem(where(operator), "joins versions, and the rows of a loop have no event time", fix)
        return
    if operator.output_mode != "append":
        what = f"has a temporalJoin and outputMode {operator.output_mode}: it joins each row once"
        yield Problem(where(operator), what, "leave outputMode out")
    if operator.watermark is not None:
        what = "has a watermark, and its rows keep the event time of its first input"
        yield Problem(where(operator), what, "leave it out")
    yield from _without_watermark(subject, operator, names)


def _query(subject: Subject, operator: OperatorSpec, sql: str) -> Iterator[Problem]:
    try:
        if not marked(sql).versions:
            return
    except BadClause as error:
        yield Problem(where(operator), f"its SQL cannot join versions: {error}", error.fix)
        return
    try:
        query = read_query(sql, static=subject.spec.table_names())
    except NotAQuery:
        return  # It is a problem of its own.
    if operator.output_mode != "append":
        what = f"its SQL has FOR SYSTEM_TIME AS OF and outputMode {operator.output_mode}: it joins each row once"
        yield Problem(where(operator), what, "leave outputMode out")
    for join in query.temporal_joins:
        (name,) = join.inputs
        if name in subject.spec.table_names():
            what = f"its SQL has FOR SYSTEM_TIME AS OF, and {name!r} is a table, which has no versions"
            yield Problem(where(operator), what, "make it a source with a watermark, or leave the clause out")
        if join.kind not in _KINDS:
            what = f"its SQL has {join.kind} with FOR SYSTEM_TIME AS OF: versions are joined to rows"
            yield Problem(where(operator), what, "write JOIN or LEFT JOIN")
    if operator.name in subject.loops:
        fix = "join before the loop, or behind it"
        yield Problem(where(operator), "joins versions, and the rows of a loop have no event time", fix)
    else:
        yield from _without_watermark(subject, operator, [edge.name for edge in operator.inputs])


def _without_watermark(subject: Subject, operator: OperatorSpec, names: Iterable[str]) -> Iterator[Problem]:
    for name in names:
        if subject.sources_of([name]) and not subject.have_event_time([name]):
            what = f"joins versions by event time, and its input {name!r} has no watermark"
            yield Problem(where(operator), what, "give the input `watermark: {column: …, delay: …}`")
