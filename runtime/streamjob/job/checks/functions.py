"""Checks the Python functions of sources, operators and sinks, without calling or importing them."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

from streamjob.job.checks.subject import Subject, where
from streamjob.job.model.problem import Problem
from streamjob.job.model.spec import OperatorSpec, SinkSpec, SourceSpec
from streamjob.job.model.suggest import did_you_mean
from streamjob.job.query.functions import module_file

REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
"""The form `module:function`."""
_SQL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WATERMARK = "sets a watermark; watermarks are declared, so that each is kept across restarts"
WATERMARK_FIX = "give the source or the operator `watermark: {column: …, delay: …}`"


def functions(subject: Subject) -> Iterator[Problem]:
    """A function exists at the given place; that of a part takes its inputs, and sets no watermark."""
    parts: list[SourceSpec | OperatorSpec] = [*subject.spec.sources, *subject.spec.operators]
    for part in parts:
        if (function := subject.functions.get(part.uid)) is not None:
            yield from _written(part, function)
        elif part.python is not None and REFERENCE.fullmatch(part.python):
            yield from _referred(part, part.python, subject.directory)
    for sink in subject.spec.sinks:
        if sink.function is not None and REFERENCE.fullmatch(sink.function):
            yield from _referred(sink, sink.function, subject.directory)
    for name, reference in subject.spec.functions.items():
        if REFERENCE.fullmatch(reference):
            yield from _missing(f"function {name!r}", reference, subject.directory)


def names_in_sql(subject: Subject) -> Iterator[Problem]:
    """A function that SQL calls has a name that SQL can call, and names its place."""
    found: dict[str, str] = {}
    for name, reference in subject.spec.functions.items():
        whose = f"function {name!r}"
        if not _SQL_NAME.fullmatch(name):
            yield Problem(whose, "has a name that SQL cannot call", "use letters, digits and '_'")
        if (other := found.setdefault(name.lower(), name)) != name:
            yield Problem(whose, f"has the name of {other!r}, and case does not matter in SQL", "give it another name")
        if not REFERENCE.fullmatch(reference):
            yield Problem(whose, f"cannot be {reference!r}", "name it as module:function")


def _inputs(part: SourceSpec | OperatorSpec | SinkSpec) -> int:
    if isinstance(part, SinkSpec):
        return 2
    return len(part.inputs) + len(part.tables or ()) if isinstance(part, OperatorSpec) else 1


def _written(part: SourceSpec | OperatorSpec, function: Callable[..., Any]) -> Iterator[Problem]:
    try:
        inspect.signature(function).bind(*range(_inputs(part)))
    except TypeError:
        takes = len(inspect.signature(function).parameters)
        yield _wrong_arguments(part, takes)
    except ValueError:
        # Functions written in C may have no signature.
        pass
    if uses(getattr(function, "__code__", None), "withWatermark"):
        yield Problem(where(part), f"its function {WATERMARK}", WATERMARK_FIX)


def uses(code_of: Any, name: str) -> bool:
    """Return whether the code of a function names something, in it or in a function that it defines."""
    if not isinstance(code_of, CodeType):
        return False
    return name in code_of.co_names or any(uses(each, name) for each in code_of.co_consts)


def _referred(part: SourceSpec | OperatorSpec | SinkSpec, reference: str, directory: Path) -> Iterator[Problem]:
    definition = yield from _missing(where(part), reference, directory)
    if definition is None:
        return
    least, most = _arguments(definition)
    if not definition.decorator_list and not least <= _inputs(part) <= most:
        yield _wrong_arguments(part, least)
    if not isinstance(part, SinkSpec) and any(
        isinstance(each, ast.Attribute) and each.attr == "withWatermark" for each in ast.walk(definition)
    ):
        yield Problem(where(part), f"its function {WATERMARK}", WATERMARK_FIX)


def _missing(whose: str, reference: str, directory: Path) -> Generator[Problem, None, ast.FunctionDef | None]:
    """Yield why there is no such function, and return its definition if the module next to the job file has one.

    The source of the module is inspected, because importing it would import Spark.
    """
    module, _, name = reference.partition(":")
    file = module_file(directory, module)
    if file is None:
        top = module.split(".")[0]
        if module_file(directory, top) is None and not (directory / top).is_dir() and not _installed(top):
            yield Problem(whose, f"there is no module {module!r}", f"put {module}.py next to the job file")
        return None
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except SyntaxError as error:
        yield Problem(whose, f"{file.name} is not Python: line {error.lineno}: {error.msg}", "correct it there")
        return None
    found = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == name]
    if not found and "." not in name and not _binds(tree, name):
        functions_there = [each.name for each in tree.body if isinstance(each, ast.FunctionDef)]
        fix = did_you_mean(name, functions_there, "functions")
        yield Problem(whose, f"{file.name} has no function {name!r}", fix)
    return found[-1] if found else None


def _installed(module: str) -> bool:
    if module in sys.modules:
        # A notebook's own module has no place to be found at.
        return True
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


def _wrong_arguments(part: SourceSpec | OperatorSpec | SinkSpec, takes: int) -> Problem:
    arguments = f"{takes} argument{'s' * (takes != 1)}"
    if isinstance(part, SinkSpec):
        what = f"its function takes {arguments}, and a sink has two for it, the rows and the id of the batch"
        return Problem(where(part), what, "give the function two arguments: (batch, batch_id)")
    if isinstance(part, SourceSpec):
        what = f"its function takes {arguments}, and a source has one, its rows"
        return Problem(where(part), what, "give the function one argument, a DataFrame")
    inputs, tables = len(part.inputs), len(part.tables or ())
    has = f"{inputs} input{'s' * (inputs != 1)}"
    each = "each input"
    if tables:
        has, each = f"{has} and {tables} table{'s' * (tables != 1)}", "each input and then for each table"
    what = f"has {has}, but its function takes {arguments}"
    return Problem(where(part), what, f"give the function a DataFrame for {each}, in their order")
