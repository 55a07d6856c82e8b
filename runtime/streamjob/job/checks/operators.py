"""Checks operators: their code, their inputs, and their output modes."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

from streamjob.job.checks.subject import Subject, where
from streamjob.job.functions import module_file
from streamjob.job.problem import Problem
from streamjob.job.spec import OperatorSpec, SourceSpec
from streamjob.job.sql import NotAQuery, Query, read_query
from streamjob.job.suggest import did_you_mean

_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_WATERMARK = "sets a watermark; watermarks belong to sources, where each is kept across restarts"
_WATERMARK_FIX = "give the source `watermark: {column: …, delay: …}`"


def code(subject: Subject) -> Iterator[Problem]:
    """An operator is a query or a function."""
    for operator in subject.spec.operators:
        written = operator.uid in subject.functions
        ways = {"sql": operator.sql, "sqlFile": operator.sql_file, "python": operator.python}
        given = [name for name, value in ways.items() if value is not None]
        if len(given) > 1:
            both = f"{'both ' if len(given) == 2 else ''}{' and '.join(given)}"
            yield Problem(where(operator), f"has {both}", "keep one of them")
        elif not given:
            yield Problem(where(operator), "has no code", "give it sql: 'SELECT …' or python: module:function")
        elif operator.sql_file is not None:
            what = f"its sqlFile {operator.sql_file!r} cannot be read here: only a job file has other files next to it"
            fix = "write the query as `sql`, or put both files into the image and name the job's as mainApplicationFile"
            yield Problem(where(operator), what, fix)
        elif operator.python is not None and not written and not _REFERENCE.fullmatch(operator.python):
            yield Problem(where(operator), f"python cannot be {operator.python!r}", "write it as module:function")


def queries(subject: Subject) -> Iterator[Problem]:
    """A query parses, reads its inputs and nothing more, and can run on streams."""
    for operator in subject.spec.operators:
        if operator.sql is None:
            continue
        try:
            query = read_query(operator.sql, subject.spark_parser)
        except NotAQuery as error:
            yield Problem(where(operator), f"its SQL does not parse: {error}", "correct the query")
            continue
        if query.sets_watermark:
            yield Problem(where(operator), f"its SQL {_WATERMARK}", _WATERMARK_FIX)
        yield from _tables(subject, operator, query)
        yield from _streaming(subject, operator, query)


def _tables(subject: Subject, operator: OperatorSpec, query: Query) -> Iterator[Problem]:
    inputs = {edge.name.lower(): edge.name for edge in operator.inputs}
    if query.tables is None or subject.unknown_inputs.intersection(inputs.values()):
        return
    for table in sorted(query.tables - inputs.keys()):
        fix = did_you_mean(table, inputs.values(), "inputs")
        yield Problem(where(operator), f"its SQL reads {table!r}, which is not one of its inputs", fix)
    for unread in sorted(inputs.keys() - query.tables):
        yield Problem(where(operator), f"its SQL does not read its input {inputs[unread]!r}", "remove the input")


def _streaming(subject: Subject, operator: OperatorSpec, query: Query) -> Iterator[Problem]:
    for words in query.unsupported:
        if words == "ORDER BY" and operator.output_mode == "complete":
            continue
        yield Problem(where(operator), f"its SQL has {words}, which Spark cannot compute on a stream", "leave it out")
    if operator.name in subject.loops:
        return
    if operator.output_mode == "append" and query.aggregation is not None:
        fed = subject.sources_of(edge.name for edge in operator.inputs)
        if fed and not any(source.watermark for source in fed):
            yield _missing_watermark(subject, operator, f"{query.aggregation} in append mode", fed)
    for join in query.state_joins:
        fed = subject.sources_of(edge.name for edge in operator.inputs if edge.name.lower() in join.inputs)
        if fed and not any(source.watermark for source in fed):
            yield _missing_watermark(subject, operator, join.kind, fed)


def _missing_watermark(subject: Subject, operator: OperatorSpec, words: str, fed: list[SourceSpec]) -> Problem:
    names = " or ".join(repr(each) for each in dict.fromkeys(source.name for source in fed))
    what = f"its SQL has {words}, which never knows when a row is final"
    if any(subject.spec.source(source.name).watermark for source in fed):
        lost = ": the output of a loop has no watermark"
        return Problem(where(operator), what + lost, "do it before the loop, or keep state that needs no time")
    what += " without a watermark"
    return Problem(where(operator), what, f"give the source {names} `watermark: {{column: …, delay: …}}`")


def functions(subject: Subject) -> Iterator[Problem]:
    """A function exists at the given place, takes the operator's inputs, and sets no watermark."""
    for operator in subject.spec.operators:
        if (function := subject.functions.get(operator.uid)) is not None:
            yield from _written(operator, function)
        elif operator.python is not None and _REFERENCE.fullmatch(operator.python):
            yield from _referred(operator, operator.python, subject.directory)


def _written(operator: OperatorSpec, function: Callable[..., Any]) -> Iterator[Problem]:
    try:
        inspect.signature(function).bind(*operator.inputs)
    except TypeError:
        takes = len(inspect.signature(function).parameters)
        yield _wrong_arguments(operator, takes)
    except ValueError:
        # Functions written in C may have no signature.
        pass
    if _uses(getattr(function, "__code__", None), "withWatermark"):
        yield Problem(where(operator), f"its function {_WATERMARK}", _WATERMARK_FIX)


def _uses(code_of: Any, name: str) -> bool:
    if not isinstance(code_of, CodeType):
        return False
    return name in code_of.co_names or any(_uses(each, name) for each in code_of.co_consts)


def _referred(operator: OperatorSpec, reference: str, directory: Path) -> Iterator[Problem]:
    """Inspect the source of a module next to the job file; importing it would import Spark."""
    module, _, name = reference.partition(":")
    file = module_file(directory, module)
    if file is None:
        top = module.split(".")[0]
        if module_file(directory, top) is None and not (directory / top).is_dir() and not _installed(top):
            yield Problem(where(operator), f"there is no module {module!r}", f"put {module}.py next to the job file")
        return
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except SyntaxError as error:
        yield Problem(
            where(operator), f"{file.name} is not Python: line {error.lineno}: {error.msg}", "correct it there"
        )
        return
    found = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == name]
    if not found:
        if "." not in name and not _binds(tree, name):
            functions_there = [each.name for each in tree.body if isinstance(each, ast.FunctionDef)]
            fix = did_you_mean(name, functions_there, "functions")
            yield Problem(where(operator), f"{file.name} has no function {name!r}", fix)
        return
    least, most = _arguments(found[-1])
    if not found[-1].decorator_list and not least <= len(operator.inputs) <= most:
        yield _wrong_arguments(operator, least)
    if any(isinstance(each, ast.Attribute) and each.attr == "withWatermark" for each in ast.walk(found[-1])):
        yield Problem(where(operator), f"its function {_WATERMARK}", _WATERMARK_FIX)


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _binds(tree: ast.Module, name: str) -> bool:
    """Return whether a module may define `name` in another way than as a plain function."""
    for each in ast.walk(tree):
        if isinstance(each, ast.Import | ast.ImportFrom) and any(
            alias.name == "*" or (alias.asname or alias.name) == name for alias in each.names
        ):
            return True
        if isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store):
            return True
        if isinstance(each, ast.ClassDef | ast.FunctionDef) and each.name == name:
            return True
    return False


def _arguments(function: ast.FunctionDef) -> tuple[int, int]:
    positional = len(function.args.posonlyargs) + len(function.args.args)
    most = positional if function.args.vararg is None else 10_000
    return positional - len(function.args.defaults), most


def _wrong_arguments(operator: OperatorSpec, takes: int) -> Problem:
    inputs = len(operator.inputs)
    what = f"has {inputs} input{'s' * (inputs != 1)}, but its function takes {takes} argument{'s' * (takes != 1)}"
    return Problem(where(operator), what, "let the function take a DataFrame for each input, in their order")


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
