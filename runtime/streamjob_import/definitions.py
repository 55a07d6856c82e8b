"""Copies from a program the functions and values that its job needs, with all that these need in turn."""

from __future__ import annotations

import argparse
import ast
import builtins
import copy
import datetime
import decimal
import functools
import inspect
import logging
import re
import sys
import textwrap
import types
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from configparser import SectionProxy
from itertools import chain, count
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from streamjob.job.connectors.options import is_secret
from streamjob_import.expressions import FromEnvironment, Node, Root, Value, parts_of
from streamjob_import.recording import Frame, Session, UserFunction
from streamjob_import.running import Recording

_TIME = re.compile(r"20\d\d\W?[01]\d\W?[0-3]\d|[0-3]\d\W?[01]\d\W?20\d\d|\b1[5-9]\d{8}")
"""A date, or seconds since 1970."""
_IMPORTS = (ast.Import, ast.ImportFrom)
_PLAIN = (str, int, float, bool, bytes, type(None))


class Definitions:
    """What a job copies from a program.

    Args:
        recording: what the program did; values of the environment do not get into the job.
        decisions: gets a sentence for each thing that cannot be copied as it is.
        taken: the names of the job's parts.
    """

    def __init__(self, recording: Recording, decisions: list[str], taken: Iterable[str]) -> None:
        self._recording, self._names = recording, recording.names
        self._file = recording.program.resolve()
        self._source = self._file.read_text(encoding="utf-8")
        self._tree = ast.parse(self._source)
        self._variables = [*recording.variables.values(), *recording.unread]
        self.referred: set[str] = set()
        self._decisions, self._taken = decisions, set(taken)
        self._statements = list(_top_level(self._tree))
        self._bound = {name for each in self._statements for name in _bound_by(each)}
        self._known = {
            id(each): name for name, each in self._names.items() if name in self._bound and not isinstance(each, _PLAIN)
        }
        self._used: set[str] = set()
        self._visited: set[str] = set()
        self._imports: dict[str, None] = {}
        self._own: dict[str, str] = {}
        self._own_names: dict[int, str] = {}
        self._kept: list[Any] = []

    def imported(self, line: str, text: str = "") -> str:
        """Add an import to the job; return the text that needs it."""
        if line:
            self._imports.setdefault(line)
        return text

    def imports(self) -> list[str]:
        """Return the imports that the job needs, each a statement."""
        lines = dict(self._imports)
        for each in self._chosen():
            if isinstance(each, _IMPORTS):
                named = [name for name in each.names if (name.asname or name.name).partition(".")[0] in self._used]
                before = f"from {'.' * each.level}{each.module or ''} " if isinstance(each, ast.ImportFrom) else ""
                for alias in named:
                    lines.setdefault(f"{before}import {alias.name}" + (f" as {alias.asname}" if alias.asname else ""))
        merged: dict[str, list[str]] = {}
        for line in lines:
            is_from = line.startswith("from ") and not line.endswith("*")
            before, _, name = line.partition(" import ") if is_from else (line, "", "")
            merged.setdefault(before, []).append(name)
        texts = [f"{of} import {', '.join(sorted(set(names)))}" if names[0] else of for of, names in merged.items()]
        return sorted(texts, key=lambda text: (text.startswith("from "), text))

    def texts(self) -> list[str]:
        """Return definitions, in the order of the program; those from inside of functions at the end."""
        copied = [self._with_session(each) for each in self._chosen() if not isinstance(each, _IMPORTS)]
        return [*copied, *self._own.values()]

    def is_known(self, value: Any) -> bool:
        """Return whether the program has a name for a value."""
        return id(value) in self._known

    def named(self, code: types.CodeType) -> Any:
        """Return the function at the top level of the program that has some code, or None."""
        found = self._names.get(code.co_name)
        return found if getattr(found, "__code__", None) is code else None

    def define(self, name: str, text: str) -> None:
        """Add a definition."""
        self._own[name] = text

    def use(self, name: str) -> None:
        """Copy what the program binds to a name at its top level, and all that it needs."""
        if name in self._visited:
            return
        self._visited.add(name)
        if needs_spark(self._names.get(name)):
            # It is made where it is used.
            for each in self._assigning(name):
                self._use_all(each)
            if self._is_imported(name):
                self._used.add(name)
            return
        if name in self._bound:
            self._used.add(name)
            for each in self._statements:
                if name in _bound_by(each) and not isinstance(each, _IMPORTS):
                    self._use_all(each)
            return
        for each in self._tree.body:
            if isinstance(each, ast.ImportFrom) and each.names[0].name == "*" and _gives(each.module or "", name):
                self.imported(f"from {each.module} import *")
                return
        if name in self._names and not hasattr(builtins, name) and not name.startswith("__"):
            # A loop or a block that runs the program has made it.
            text = self.literal(self._names[name])
            self._own.setdefault(name, f"{name} = {text or '...'}" + ("" if text else "  # DECIDE: make it here"))

    def literal(self, value: Any) -> str | None:
        """Return the Python text of a value, or None if it has none; a value of the environment is taken from there."""
        if (name := self._known.get(id(value))) is not None and not needs_spark(value):
            self.use(name)
            return name
        if isinstance(value, str):
            return self._string(value)
        if isinstance(value, (*_PLAIN, datetime.date)):
            self.check(value)
        if isinstance(value, _PLAIN):
            return repr(value)
        if isinstance(value, DataType):
            return self.imported("from pyspark.sql.types import *", repr(value))
        if isinstance(value, datetime.date | datetime.timedelta):
            return self.imported("import datetime as dt", repr(value).replace("datetime.", "dt."))
        if isinstance(value, decimal.Decimal):
            return self.imported("from decimal import Decimal", repr(value))
        if isinstance(value, Path):
            return self.imported("from pathlib import Path", f"Path({self._string(str(value))})")
        if isinstance(value, logging.Logger):
            return self.imported("import logging", f"logging.getLogger({value.name!r})")
        if isinstance(value, argparse.Namespace | types.SimpleNamespace):
            self.imported("from types import SimpleNamespace")
            items = {name: self.literal(each) for name, each in vars(value).items()}
            given = ", ".join(f"{name}={text}" for name, text in items.items())
            return None if None in items.values() else f"SimpleNamespace({given})"
        if isinstance(value, types.ModuleType):
            return self.imported(f"import {value.__name__}", value.__name__)
        if isinstance(value, StatefulProcessor) and type(value).__init__ is StatefulProcessor.__init__:
            return f"{self.function(type(value))}()"
        if type(value) in (list, tuple, set, dict, SectionProxy):
            return self._container(value)
        return self.function(value) if callable(value) and hasattr(value, "__code__") else None

    def function(self, function: Any, otherwise: str = "write") -> str:
        """Return the name by which the job calls a function of the program; it is copied with all that it needs.

        Args:
            otherwise: the name of a lambda.
        """
        if (name := self._known.get(id(function))) is not None:
            self.use(name)
            return name
        if isinstance(function, UserFunction):
            return self._made_by_udf(function)
        if (name := self._own_names.get(id(function))) is not None:
            return name
        if isinstance(function, functools.partial):
            return self._partial(function)
        if inspect.ismethod(function):
            return self._method(function)
        code = getattr(function, "__code__", None)
        if code is None or Path(code.co_filename) != self._file:
            module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
            if module and name.isidentifier():
                return self.imported(f"from {module} import {name}", name)
        if code is not None and (found := self._definition(code)) is not None:
            return self._copied(function, found, otherwise)
        self._decisions.append(f"{function!r} cannot be copied: define it here")
        return self._added(function, "function", lambda name: f"def {name}(*_):\n    raise NotImplementedError\n")

    def _copied(self, function: Any, definition: ast.FunctionDef | ast.Lambda, otherwise: str) -> str:
        cells = (each.cell_contents for each in function.__closure__ or ())
        free = dict(zip(function.__code__.co_freevars, cells, strict=True))
        first = definition.args.args[0].arg if definition.args.args else ""
        definition = self._with_defaults(function, definition)
        # A name of its own may be one of the program, too.
        own = {*free, *function.__code__.co_varnames}
        self._use_all(definition, besides=own)
        bound = [self._binding(name, value, first) for name, value in free.items() if value is not function]
        bound += [f"    {line}\n" for line in self._made_inside(definition, first, own)]
        if isinstance(definition, ast.Lambda):
            body = (ast.get_source_segment(self._source, definition.body) or "").replace("\\\n", " ")
            header, rest = f"({ast.unparse(definition.args)}):", f"    return {' '.join(body.split())}\n"
            name = otherwise
        else:
            header, rest = self._header_and_body(definition)
            name = definition.name
        return self._added(function, name, lambda free: f"def {free}{header}\n{''.join(bound)}{rest}")

    def _with_defaults(self, function: Any, definition: Any) -> Any:
        """Return a definition whose defaults are the values that they were."""
        made, definition = {}, copy.deepcopy(definition)
        for each in inspect.signature(function, follow_wrapped=False).parameters.values():
            if each.default is not each.empty:
                text = self._given(each.name, each.default)
                self._decisions += [] if text else [f"the program makes {each.name}: make it here"]
                made[each.name] = ast.Name(text or "...", ast.Load())
        args = definition.args
        args.defaults = [made[each.arg] for each in (*args.posonlyargs, *args.args) if each.arg in made]
        args.kw_defaults = [made.get(each.arg) for each in args.kwonlyargs]
        return definition

    def _header_and_body(self, definition: ast.FunctionDef) -> tuple[str, str]:
        """Return a function's text behind its name up to its body, and its body, without indentation or decorators."""
        plain = ast.FunctionDef(**{**vars(definition), "decorator_list": []})
        at = definition.lineno - _first_line(definition)
        lines = textwrap.dedent(self._text(definition)).splitlines(keepends=True)[at:]
        body = definition.body[0].lineno - definition.lineno
        defaults = [each for each in (*plain.args.defaults, *plain.args.kw_defaults) if each is not None]
        if body == 0 or not lines[0].startswith("def ") or any(not hasattr(each, "lineno") for each in defaults):
            # The body begins on the first line, a text of several lines has no indentation, or a default has changed.
            lines, body = ast.unparse(plain).splitlines(keepends=True), 1
        header = "".join(lines[:body]).rstrip().removeprefix(f"def {definition.name}")
        return header, "".join(lines[body:]).rstrip() + "\n"

    def _given(self, name: Any, value: Any, first: str = "") -> str | None:
        if isinstance(value, Session) and first:
            return f"{first}.sparkSession"
        if not (isinstance(name, str) and isinstance(value, str) and is_secret(name, value)):
            return self.literal(value)
        self.imported("import os")
        pieces = [each for each in self.pieces(value) if each]
        if len(pieces) == 1 and isinstance(pieces[0], FromEnvironment):
            return f'os.environ["{pieces[0].variable}"]'
        self._decisions.append(f"give the secret {name} in the variable {variable_for(name)}")
        return f'os.environ["{variable_for(name)}"]'

    def _binding(self, name: str, value: Any, first: str) -> str:
        if (text := self._given(name, value, first)) is not None:
            return f"    {name} = {text}\n" if text != name else ""
        self._decisions.append(f"the program makes {name}: make it here")
        return f"    {name} = ...  # DECIDE\n"

    def _method(self, method: Any) -> str:
        owner = method.__self__
        kind = owner if isinstance(owner, type) else type(owner)
        self.function(kind)
        name = method.__name__
        if name.startswith("__") and not name.endswith("__"):
            name = f"_{kind.__name__.lstrip('_')}{name}"
        called = f"{kind.__name__}.{name}" if isinstance(owner, type) else f"made.{name}"
        lines = []
        if not isinstance(owner, type):
            fields = {field: self._given(field, value, "batch") for field, value in vars(owner).items()}
            lines = [f"    made.{field} = {text}\n" for field, text in fields.items() if text is not None]
            lines.insert(0, f"    made = {kind.__name__}.__new__({kind.__name__})\n")
            lacking = ", ".join(field for field, text in fields.items() if text is None)
            said = f"{method.__qualname__} has an object without {lacking}: make it here"
            self._decisions += [said] if lacking else []
        body = "".join(lines) + f"    return {called}(batch, batch_id)\n"
        return self._added(method, method.__name__.lstrip("_"), lambda free: f"def {free}(batch, batch_id):\n{body}")

    def _partial(self, function: functools.partial[Any]) -> str:
        called = self.function(function.func)
        given = [self.literal(each) or "..." for each in function.args]
        named = [f"{name}={self._given(name, each, 'batch') or '...'}" for name, each in function.keywords.items()]
        body = f"    return {called}({', '.join([*given, 'batch', 'batch_id', *named])})\n"
        return self._added(function, f"{called}_batch", lambda free: f"def {free}(batch, batch_id):\n{body}")

    def _made_by_udf(self, made: UserFunction) -> str:
        if (name := self._own_names.get(id(made))) is not None:
            return name
        called = self.function(made.function, "compute")
        self.imported("from pyspark.sql import functions as F")
        named = [f"{name}={self.literal(each) or '...'}" for name, each in made.kwargs.items()]
        arguments = ", ".join([*(self.literal(each) or "..." for each in made.args), *named])
        takes, passes = "(*values)", "*values"
        if made.kind != "udf":
            # Spark looks at the hints of these.
            signature = inspect.signature(made.function)
            plain = [each for each in signature.parameters.values() if each.default is each.empty]
            signature = signature.replace(parameters=plain)
            takes = str(signature).replace("pandas.core.series.Series", "pd.Series")
            stars: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
            passes = ", ".join(stars.get(each.kind, "") + each.name for each in signature.parameters.values())
            if "pd." in takes:
                self.imported("import pandas as pd")
        text = f"{takes}:\n    return {called}({passes})\n"
        return self._added(made, f"{called}_udf", lambda free: f"@F.{made.kind}({arguments})\ndef {free}{text}")

    def _added(self, key: Any, name: str, text_of: Callable[[str], str]) -> str:
        free = free_name(name, {*self._own, *self._bound, *self._taken})
        self._own[free] = text_of(free)
        # What is copied stays reachable, so that no other object gets its id.
        self._own_names[id(key)] = free
        self._kept.append(key)
        return free

    def _container(self, value: Any) -> str | None:
        if isinstance(value, Mapping):
            items = [(self.literal(key), self._given(key, each)) for key, each in value.items()]
            inner = ", ".join(f"{key}: {each}" for key, each in items)
            return None if any(None in each for each in items) else f"{{{inner}}}"
        texts = [self.literal(each) for each in value]
        if None in texts or value == set():
            return None
        inner = ", ".join(map(str, texts))
        if isinstance(value, tuple):
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        return f"[{inner}]" if isinstance(value, list) else f"{{{inner}}}"

    def _string(self, value: str) -> str:
        return " + ".join(map(self._piece, filter(None, self.pieces(value)))) or '""'

    def _piece(self, value: str) -> str:
        if not isinstance(value, FromEnvironment):
            return quoted(value)
        self.imported("import os")
        if value.default is None:
            return f'os.environ["{value.variable}"]'
        return f'os.environ.get("{value.variable}", {quoted(str(value.default))})'

    def pieces(self, value: str) -> list[str]:
        """Return the pieces of a text; those of the environment know their variables."""
        if isinstance(value, FromEnvironment):
            self.referred.add(value.variable)
            return [value]
        for each in self._variables:
            # A short value may be in others by chance, and a default may be written down elsewhere, too.
            told = each.default is not None and value in self._recording.constants
            if len(each) > 5 and each in value and not told:
                before, _, after = value.partition(each)
                return [*self.pieces(before), *self.pieces(each), *self.pieces(after)]
        self.check(value)
        return [value]

    def check(self, value: Any) -> None:
        """Say it if a value is what the program's surroundings were when it was imported."""
        recording, text = self._recording, str(value)
        if isinstance(value, bool | None) or getattr(value, "year", value) in recording.constants:
            return
        variables = {each.variable: None for each in self._variables if _is_in(each, text)}
        self.referred.update(variables)
        found = [f"the variable {each}" for each in variables]
        found += [by for given, by in recording.computed.items() if _is_in(given, text, cut=True)]
        if found or _TIME.search(text):
            by = " or ".join(found) or "the time"
            said = f"a value of {by} is fixed here: it was computed when the program was imported"
            self._decisions += [said] if said not in self._decisions else []

    def _secrets_in(self, node: ast.AST) -> Iterator[str]:
        """Yield the names for which the text of a definition holds a secret."""
        for each in ast.walk(node):
            pairs: list[tuple[Any, Any]] = []
            match each:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.keyword(arg=name, value=value)
                    | ast.Call(func=ast.Attribute(attr="option"), args=[ast.Constant(value=name), value])
                ):
                    pairs = [(name, value)]
                case ast.Dict(keys=keys, values=values):
                    pairs = [(getattr(key, "value", None), value) for key, value in zip(keys, values, strict=True)]
            for name, value in pairs:
                is_text = isinstance(name, str) and isinstance(value, ast.Constant) and isinstance(value.value, str)
                if is_text and is_secret(name, value.value):
                    yield name

    def _use_all(self, node: ast.AST, besides: Container[str] = ()) -> None:
        for name in self._secrets_in(node):
            said = f"the text of the program holds the secret {name}: take it from os.environ"
            self._decisions += [said] if said not in self._decisions else []
        for name in _loaded(node):
            if name not in besides:
                self.use(name)

    def _definition(self, code: types.CodeType) -> ast.FunctionDef | ast.Lambda | None:
        nodes = [each for each in ast.walk(self._tree) if isinstance(each, ast.FunctionDef | ast.Lambda)]
        named = [each for each in nodes if getattr(each, "name", "<lambda>") == code.co_name]
        found = [each for each in named if code.co_firstlineno in (each.lineno, _first_line(each))]
        if len(found) > 1:
            begins = {(line, column) for line, _, column, _ in code.co_positions()}
            lambdas = [each for each in found if isinstance(each, ast.Lambda)]
            found = [each for each in lambdas if (each.body.lineno, each.body.col_offset) in begins]
        return found[0] if len(found) == 1 else None

    def _chosen(self) -> list[ast.stmt]:
        return [each for each in self._statements if self._used & set(_bound_by(each))]

    def _with_session(self, statement: ast.stmt) -> str:
        text = self._text(statement)
        if not isinstance(statement, ast.FunctionDef) or not statement.args.args:
            names = [name for name in _loaded(statement) if needs_spark(self._names.get(name))]
            lacking = [name for name in names if not self._is_imported(name)]
            if lacking:
                what = f"{', '.join(lacking)} of the program need Spark, which does not run when this file is loaded"
                return f"# DECIDE: {what}: make them inside of the functions below\n{text}"
            return text
        own = [each.arg for each in ast.walk(statement.args) if isinstance(each, ast.arg)]
        made = self._made_inside(statement, own[0], own)
        if not made:
            return text
        header, body = self._header_and_body(statement)
        decorators = text.splitlines(keepends=True)[: statement.lineno - _first_line(statement)]
        indent = " " * (len(body) - len(body.lstrip(" ")))
        lines = "".join(f"{indent}{line}\n" for line in made)
        return f"{''.join(decorators)}def {statement.name}{header}\n{lines}{body}"

    def _is_imported(self, name: str) -> bool:
        return any(isinstance(each, _IMPORTS) and name in _bound_by(each) for each in self._statements)

    def _made_inside(self, node: ast.AST, first: str, besides: Iterable[str] = ()) -> list[str]:
        """Return statements that make what a function needs of Spark, with the session of its first argument."""
        lines: list[str] = []
        for name in _loaded(node):
            value = self._names.get(name)
            if name in besides or name == first or not needs_spark(value):
                continue
            if isinstance(value, Session):
                lines.append(f"{name} = {first}.sparkSession")
                continue
            for each in self._assigning(name):
                inner = self._made_inside(each, first, {*besides, name})
                lines += [line for line in [*inner, *self._text(each).splitlines()] if line not in lines]
        return lines

    def _assigning(self, name: str) -> list[ast.stmt]:
        found = [each for each in self._statements if isinstance(each, ast.Assign | ast.AnnAssign)]
        return [each for each in found if name in _bound_by(each)]

    def _text(self, node: ast.stmt) -> str:
        return "\n".join(self._source.splitlines()[_first_line(node) - 1 : node.end_lineno])


def _is_in(given: str, text: str, *, cut: bool = False) -> bool:
    """Return whether a text is in another, or has it as a word, or the beginning of one that may have been cut."""
    part, behind = (given[:8], "") if cut and len(given) > 7 and "/" not in given else (given, r"(?![A-Za-z0-9])")
    is_word = len(given) > 1 and re.search(rf"(?<![A-Za-z0-9]){re.escape(part)}{behind}", text) is not None
    return is_word or (len(text) > 5 and text in given)


def free_name(wanted: str, taken: Container[str]) -> str:
    """Return a name, or the first of `name_2`, `name_3`, … that is not taken."""
    return next(each for each in chain([wanted], (f"{wanted}_{number}" for number in count(2))) if each not in taken)


def variable_for(secret: str) -> str:
    """Return the name of the variable of the environment for a secret."""
    return re.sub(r"[^A-Za-z0-9]+", "_", secret).upper()


def columns_of(schema: StructType) -> str:
    """Return columns as `name TYPE, …`."""
    return ", ".join(f"{_column(each.name)} {_type(each.dataType)}" for each in schema)


def _type(kind: DataType) -> str:
    match kind:
        case StructType():
            return f"struct<{', '.join(f'{_column(each.name)}: {_type(each.dataType)}' for each in kind)}>"
        case ArrayType(elementType=element):
            return f"array<{_type(element)}>"
        case MapType(keyType=key, valueType=value):
            return f"map<{_type(key)}, {_type(value)}>"
    return kind.simpleString()


def _column(name: str) -> str:
    escaped = name.replace("`", "``")
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else f"`{escaped}`"


def needs_spark(value: Any) -> bool:
    """Return whether a value cannot be made before Spark runs."""
    if isinstance(value, Session | Frame):
        return True
    if isinstance(value, Value) and isinstance(value.node, Root):
        return "pyspark" in value.node.imported or value.node.text.startswith("spark.")
    if isinstance(value, Value | Node | list | tuple | dict):
        return any(needs_spark(each) for each in parts_of(value))
    # An object, such as a table of Delta, may keep what Spark has given.
    is_object = not (isinstance(value, types.ModuleType | type) or inspect.isroutine(value))
    return is_object and any(isinstance(each, Session | Value) for each in getattr(value, "__dict__", {}).values())


def quoted(text: str) -> str:
    """Return a string as Python, in double quotes where that needs no escapes."""
    return repr(text) if '"' in text or "\\" in repr(text) else f'"{text}"'


def _top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements that can be copied: not those that run the program."""
    for each in tree.body:
        if isinstance(each, ast.For | ast.While | ast.With | ast.If | ast.Try | ast.Expr):
            used = {inner.attr for inner in ast.walk(each) if isinstance(inner, ast.Attribute)}
            used |= {inner.id for inner in ast.walk(each) if isinstance(inner, ast.Name)}
            if used & {"__name__", "readStream", "writeStream", "getOrCreate"}:
                continue
        yield each


def _bound_by(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [(each.asname or each.name).partition(".")[0] for each in names if each.name != "*"]
        case _:
            inner = [each for each in ast.walk(statement) if isinstance(each, ast.Name)]
            return [each.id for each in inner if isinstance(each.ctx, ast.Store)]


def _loaded(node: ast.AST) -> list[str]:
    return list(dict.fromkeys(each.id for each in ast.walk(node) if isinstance(each, ast.Name)))


def _first_line(node: ast.stmt | ast.Lambda) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min(node.lineno, *(int(each.lineno) for each in decorators)) if decorators else node.lineno


def _gives(module: str, name: str) -> bool:
    found = vars(sys.modules[module]) if module in sys.modules else {}
    return name in found.get("__all__", found.keys() - vars(builtins).keys())
