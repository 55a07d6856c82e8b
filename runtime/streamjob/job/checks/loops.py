"""Checks loops: feedback inputs close cycles and have schemas, and no operator in a cycle waits for time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from streamjob.job.checks.functions import uses
from streamjob.job.checks.subject import Subject, schema_problems, where
from streamjob.job.model.problem import Problem
from streamjob.job.model.spec import OperatorSpec
from streamjob.job.planning.loops import closes_a_cycle
from streamjob.job.query.functions import module_file
from streamjob.job.query.sql import NotAQuery, read_query

_TIMED = ("dropDuplicatesWithinWatermark", "session_window", "EventTimeTimeout", "ProcessingTimeTimeout")
_REASON = "a row may always come round again, so event time never passes there, and a timer that is set cannot be seen"


def feedback(subject: Subject) -> Iterator[Problem]:
    """A feedback input closes a cycle and has a schema; other inputs need none."""
    spec = subject.spec
    known = spec.inputs()
    for operator in spec.operators:
        for edge in operator.inputs:
            name = f"its feedback input {edge.name!r}"
            if not edge.feedback:
                if edge.schema_ddl is not None:
                    what = f"the input {edge.name!r} has a schema, but is not a feedback input"
                    yield Problem(where(operator), what, "leave it out: the columns are known")
                continue
            if edge.name in known and not closes_a_cycle(spec, edge.name, operator.name):
                yield Problem(where(operator), f"{name} closes no cycle", "read it as a plain input: its name alone")
            if edge.schema_ddl is None:
                what = f"{name} has no schema: a feedback input is read before its producer is known"
                yield Problem(where(operator), what, "give the input schema: 'name TYPE, name TYPE'")
                continue
            yield from schema_problems(operator, f"the schema of {name}", edge.schema_ddl)
        if operator.inputs and all(edge.feedback for edge in operator.inputs):
            what = "reads nothing but feedback, so nothing ever comes into its loop"
            yield Problem(where(operator), what, "name an input from outside of the loop, too")


def event_time(subject: Subject) -> Iterator[Problem]:
    """No operator of a loop waits for event time or processing time: it would wait for ever, or lose its timers."""
    loops = subject.loops
    for operator in subject.spec.operators:
        if operator.name not in loops:
            continue
        if (kind := _timed(subject, operator)) is not None:
            what = f"has {kind}, in a loop with {_others(operator, loops[operator.name])}: {_REASON}"
            yield Problem(where(operator), what, "do it before the loop, or keep state that needs no time")


def _others(operator: OperatorSpec, loop: tuple[str, ...]) -> str:
    others = [repr(each) for each in loop if each != operator.name]
    return ", ".join(others) or "itself"


def _timed(subject: Subject, operator: OperatorSpec) -> str | None:
    if operator.sql is not None:
        try:
            query = read_query(operator.sql, static=subject.spec.table_names())
        except NotAQuery:
            return None
        return query.aggregation or next((join.kind for join in query.state_joins), None)
    function = subject.functions.get(operator.uid)
    if function is not None:
        return next((name for name in _TIMED if uses(getattr(function, "__code__", None), name)), None)
    return _timed_in(operator.python, subject.directory)


def _timed_in(reference: str | None, directory: Path) -> str | None:
    """Inspect the source of a function next to the job file; importing it would import Spark."""
    module, _, name = (reference or "").partition(":")
    file = module_file(directory, module) if module else None
    if file is None:
        return None
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except SyntaxError:
        return None
    functions = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == name]
    used = {
        each.attr if isinstance(each, ast.Attribute) else each.id
        for function in functions
        for each in ast.walk(function)
        if isinstance(each, ast.Attribute | ast.Name)
    }
    return next((each for each in _TIMED if each in used), None)
