"""Checks operators: their code, their inputs, and their output modes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamjob.job.checks.functions import REFERENCE, WATERMARK, WATERMARK_FIX
from streamjob.job.checks.subject import Subject, unread_dead_letters, where
from streamjob.job.model.problem import Problem
from streamjob.job.model.spec import OperatorSpec, SourceSpec, Watermark
from streamjob.job.model.suggest import did_you_mean
from streamjob.job.planning.dead_letters import DEAD_LETTER
from streamjob.job.query.event_time import keeps_event_time
from streamjob.job.query.sql import NotAQuery, Query, read_query, stateful_parts, without_texts

_WINDOW = re.compile(r"\b(?:session_)?window\s*\(", re.IGNORECASE)
_ALL_COLUMNS = re.compile(r"(?<!count\()\*|\ball\b|\bgroup\s+by\s+\d", re.IGNORECASE)
_CHANGING = "for results that change, set outputMode: update, and mode: upsert with a key in the sink"
_INSTEAD = {
    "ORDER BY": "leave it out, and sort where the result is read",
    "a window function (OVER)": "for the newest row of each key, aggregate by max_by(struct(…), time) with GROUP BY "
    "key, outputMode: update and a sink with mode: upsert; for the best rows of a window, by max_by(…) or "
    "slice(array_sort(collect_list(…)), 1, n) with GROUP BY window(…)",
    "LEFT ANTI JOIN": "write LEFT JOIN, and keep the rows in which the other side's columns are NULL",
    "an aggregation of DISTINCT values": "write approx_count_distinct(…), or count the rows of a view with SELECT "
    "DISTINCT",
    "a subquery in an expression": "write a join",
}
"""Replacements for keywords that streaming queries do not support."""


def code(subject: Subject) -> Iterator[Problem]:
    """An operator is a query or a function."""
    for operator in subject.spec.operators:
        written = operator.uid in subject.functions
        ways: dict[str, object] = {"sql": operator.sql, "sqlFile": operator.sql_file, "python": operator.python}
        ways |= {"lookup": operator.lookup, "temporalJoin": operator.temporal_join}
        given = [name for name, value in ways.items() if value is not None]
        if len(given) > 1:
            both = f"{'both ' if len(given) == 2 else ''}{' and '.join(given)}"
            yield Problem(where(operator), f"has {both}", "keep one of them")
        elif not given:
            fix = "give it sql: 'SELECT …', python: module:function, lookup: {…} or temporalJoin: {…}"
            yield Problem(where(operator), "has no code", fix)
        elif operator.sql_file is not None:
            what = f"its sqlFile {operator.sql_file!r} cannot be read here: only a job file has other files next to it"
            fix = "write the query as `sql`, or put both files into the image and name the job's as mainApplicationFile"
            yield Problem(where(operator), what, fix)
        elif operator.python is None and operator.tables is not None:
            fix = "leave them out: only a function takes tables"
            yield Problem(where(operator), "has tables, and is no function", fix)
        elif operator.python is not None and not written and not REFERENCE.fullmatch(operator.python):
            yield Problem(where(operator), f"python cannot be {operator.python!r}", "write it as module:function")


def queries(subject: Subject) -> Iterator[Problem]:
    """A query parses, reads its inputs and nothing more, and can run on streams."""
    for operator in subject.spec.operators:
        if operator.sql is None:
            continue
        try:
            query = read_query(operator.sql, subject.spark_parser, subject.spec.table_names())
        except NotAQuery as error:
            yield Problem(where(operator), f"its SQL does not parse: {error}", error.fix)
            continue
        if query.sets_watermark:
            yield Problem(where(operator), f"its SQL {WATERMARK}", WATERMARK_FIX)
        yield from _tables(subject, operator, query)
        yield from _streaming(subject, operator, query)


def tables(subject: Subject) -> Iterator[Problem]:
    """The tables of a function exist, and each is named once."""
    known = [each.name for each in subject.spec.tables]
    for operator in subject.spec.operators:
        names = operator.tables or ()
        for name in dict.fromkeys(names):
            if name not in known and name not in subject.unread:
                yield Problem(where(operator), f"has the unknown table {name!r}", did_you_mean(name, known, "tables"))
            elif names.count(name) > 1:
                yield Problem(where(operator), f"has the table {name!r} twice", "name it once")


def _tables(subject: Subject, operator: OperatorSpec, query: Query) -> Iterator[Problem]:
    inputs = {edge.name.lower(): edge.name for edge in operator.inputs}
    if query.tables is None or subject.unknown_inputs.intersection(inputs.values()):
        return
    tables = {each.name.lower(): each.name for each in subject.spec.tables}
    for table in sorted(query.tables - inputs.keys() - tables.keys() - {each.lower() for each in subject.unread}):
        fix = did_you_mean(table, [*inputs.values(), *tables.values()], "inputs")
        yield Problem(where(operator), f"its SQL reads {table!r}, which is not one of its inputs", fix)
    for unread in sorted(inputs.keys() - query.tables):
        yield Problem(where(operator), f"its SQL does not read its input {inputs[unread]!r}", "remove the input")


def _streaming(subject: Subject, operator: OperatorSpec, query: Query) -> Iterator[Problem]:
    for words in query.unsupported:
        if words == "ORDER BY" and operator.output_mode == "complete":
            continue
        fix = _INSTEAD.get(words, "leave it out")
        yield Problem(where(operator), f"its SQL has {words}, which Spark cannot compute on a stream", fix)
    if operator.name in subject.loops:
        return
    if operator.output_mode == "append" and query.aggregation is not None:
        names = [edge.name for edge in operator.inputs]
        fed = subject.sources_of(names)
        if fed and not subject.have_event_time(names):
            yield _missing_watermark(subject, operator, f"{query.aggregation} in append mode", fed)
        elif query.aggregation == "GROUP BY" and _groups_without_time(subject, operator):
            what = "its SQL has GROUP BY in append mode without the event time of its rows, so no row is ever final"
            yield Problem(where(operator), what, f"{_CHANGING}; for final ones, GROUP BY window(…)")
    for join in query.state_joins:
        names = [edge.name for edge in operator.inputs if edge.name.lower() in join.inputs]
        fed = subject.sources_of(names)
        if fed and not subject.have_event_time(names):
            yield _missing_watermark(subject, operator, join.kind, fed)


def _groups_without_time(subject: Subject, operator: OperatorSpec) -> bool:
    """Return whether a query over sources cannot group by an event time, since it names none; in doubt it may."""
    code = without_texts(operator.sql or "")
    sources = {each.name: each.watermark for each in subject.spec.sources}
    marks = [sources.get(edge.name) for edge in operator.inputs]
    if _WINDOW.search(code) or _ALL_COLUMNS.search(code) or any(mark is None for mark in marks):
        return False
    columns = {mark.column.split(".")[0].strip("`") for mark in marks if mark is not None}
    return not any(re.search(rf"(?<!\w){re.escape(column)}(?!\w)", code, re.IGNORECASE) for column in columns)


def _missing_watermark(subject: Subject, operator: OperatorSpec, words: str, fed: list[SourceSpec]) -> Problem:
    names = " or ".join(repr(each) for each in dict.fromkeys(source.name for source in fed))
    what = f"its SQL has {words}, which never knows when a row is final"
    if any(subject.spec.source(source.name).watermark for source in fed):
        lost = ": the output of a loop has no watermark"
        return Problem(where(operator), what + lost, "do it before the loop, or keep state that needs no time")
    what += " without a watermark"
    fix = f"give the source {names} `watermark: {{column: …, delay: …}}`"
    if "append mode" in words and not _WINDOW.search(operator.sql or ""):
        fix = f"{_CHANGING}; for final ones, {fix}, and GROUP BY window(…)"
    return Problem(where(operator), what, fix)


def watermarks(subject: Subject) -> Iterator[Problem]:
    """An operator with a watermark is in no loop, and its rows have lost the event time of its inputs."""
    for operator in subject.spec.operators:
        if operator.watermark is None:
            continue
        if operator.on_error != DEAD_LETTER:
            yield from unread_dead_letters(subject, operator)
        if operator.name in subject.loops:
            yield Problem(where(operator), "has a watermark, and the rows of a loop have no event time", "leave it out")
        elif (
            operator.sql is not None
            and stateful_parts(operator.sql, subject.spec.table_names())
            and not subject.have_event_time(each.name for each in operator.inputs)
        ):
            fix = "give the watermark to its input, or to an operator in between"
            yield Problem(where(operator), "has a watermark, and keeps state that needs it before", fix)
        elif operator.name in subject.retimed and (given := _moves(operator.watermark)):
            what = f"has a watermark with {given}, and its rows do not move it: it follows that of its inputs"
            yield Problem(where(operator), what, f"give {given} to the watermark of the source")
        elif (timed := keeps_event_time(subject.spec, operator, subject.loops)) is not None:
            what = f"has a watermark, and the rows of its input {timed!r} have one already"
            yield Problem(where(operator), what, "keep one of them: a row has one event time")


def _moves(watermark: Watermark) -> str | None:
    """Return a field that says how rows move a watermark; None if none is given."""
    names = {"idle_timeout": "idleTimeout", "max_ahead": "maxAhead", "per_partition": "perPartition"}
    return next((name for field, name in names.items() if field in watermark.model_fields_set), None)


def errors(subject: Subject) -> Iterator[Problem]:
    """An operator whose rows may fail one by one computes each of them by itself, from one input."""
    fix = "leave onError out, and use functions such as try_cast and try_divide"
    for operator in subject.spec.operators:
        if operator.on_error is None:
            continue
        kept = stateful_parts(operator.sql) if operator.sql is not None else ()
        if operator.name in subject.loops:
            yield Problem(where(operator), "has onError, and is part of a loop", fix)
        elif len(operator.inputs) != 1:
            what = f"has onError and {len(operator.inputs)} inputs: an error is about one row of one input"
            yield Problem(where(operator), what, fix)
        elif kept or operator.output_mode != "append":
            what = "has onError, and computes rows from several others: an error is about one row of its input"
            yield Problem(where(operator), what, "give onError to an operator before it that computes each row")
        else:
            yield from unread_dead_letters(subject, operator)


def output_modes(subject: Subject) -> Iterator[Problem]:
    """Only operators that lead directly to sinks may use update or complete mode."""
    readers: dict[str, str] = {}
    for operator in subject.spec.operators:
        for edge in operator.inputs:
            readers.setdefault(edge.name, where(operator))
    for operator in subject.spec.operators:
        if operator.output_mode != "append" and operator.name in readers:
            reader = readers[operator.name]
            what = f"has outputMode {operator.output_mode}, but the {reader} reads it and would count a row again "
            yield Problem(where(operator), what + "each time it is updated", "use outputMode append")
