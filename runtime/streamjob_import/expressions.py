"""Expressions of Spark that a program has built, recorded instead of computed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from streamjob.errors import InvalidInput
from streamjob.job.connectors.options import is_secret


class Undecided(InvalidInput):
    """The program decides by a value that only Spark knows."""

    raised: ClassVar[list[Undecided]] = []
    """All of the program that runs: it may have caught some."""


_OTHERS = (Path(os.__file__).parent, Path(__file__).parents[1] / "streamjob")


class Place:
    """Finds the line of the program that runs."""

    @staticmethod
    @cache
    def is_program(file: str) -> bool:
        """Return whether a file is the program's, and not of Python, a library, or this package."""
        installed = {"site-packages", "dist-packages"} & {*Path(file).parts}
        return not (installed or file.startswith(("<", *(str(each.resolve()) for each in _OTHERS))))

    @classmethod
    def frames(cls) -> Iterator[tuple[str, int]]:
        """Yield file and line of each active call of the program's code, the innermost first."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            if cls.is_program(frame.f_code.co_filename):
                yield frame.f_code.co_filename, frame.f_lineno
            frame = frame.f_back

    @classmethod
    def here(cls) -> str:
        """Return file and line, for a message."""
        return next((f"{Path(file).name}, line {line}" for file, line in cls.frames()), "the program")


@dataclass(frozen=True, slots=True)
class Root:
    """A name that a module of Spark has, as the job writes it, with the import that gives it."""

    text: str
    imported: str = ""


@dataclass(frozen=True, slots=True)
class Attribute:
    of: Any
    name: str


@dataclass(frozen=True, slots=True)
class Call:
    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Item:
    of: Any
    key: Any


@dataclass(frozen=True, slots=True)
class Operation:
    symbol: str
    operands: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Lambda:
    parameters: tuple[str, ...]
    result: Any


Node = Root | Attribute | Call | Item | Operation | Lambda


def refuse_special(name: str) -> None:
    """Raise AttributeError for a name that Python itself looks for, such as `__array__`; stand-ins have all others."""
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(name)


class Value:
    """What an expression would give: a column, or something that only Spark knows."""

    def __init__(self, node: Any) -> None:
        self.node = node

    def __getattr__(self, name: str) -> Any:
        refuse_special(name)
        return Value(Attribute(self, name))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return Value(Call(self, recorded_lambdas(args), kwargs))

    def __getitem__(self, key: Any) -> Any:
        return Value(Item(self, key))

    def __enter__(self) -> Value:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def __format__(self, form: str) -> str:
        return "…"

    def _unknown(self, *_: Any) -> Any:
        raise undecided()

    __bool__ = __iter__ = __len__ = __contains__ = _unknown
    __hash__ = object.__hash__


class Unknown(Value):
    """Something of which the program can only be told that Spark knows it, such as the schema of computed rows."""

    def __getattr__(self, name: str) -> Any:
        refuse_special(name)
        raise undecided()

    def __getitem__(self, key: Any) -> Any:
        raise undecided()


def undecided() -> Undecided:
    """Return the error that names the line which runs."""
    error = Undecided(
        f"{Place.here()}: the program decides by a value that only Spark knows",
        "give it a value there, such as the list of columns; or write this part of the job by hand",
    )
    Undecided.raised.append(error)
    return error


class FromEnvironment(str):
    """A variable of the environment, or what the program takes in its place.

    Args:
        variable: its name.
        default: what the program takes in its place, if it is not set.
    """

    variable: str
    default: str | None

    def __new__(cls, value: str, variable: str = "", default: str | None = None) -> FromEnvironment:
        """Return the value, which knows where it is from."""
        made = super().__new__(cls, value)
        made.variable, made.default = variable, default
        return made

    def __str__(self) -> str:
        return self

    def __format__(self, form: str) -> str:
        return super().__format__(form) if form else self

    def reference(self, key: str) -> str:
        """Return the variable as an option of a job names it, without a default that is a secret."""
        plain = self.default is not None and not is_secret(key, self.default)
        return f"${{env:{self.variable}:-{self.default}}}" if plain else f"${{env:{self.variable}}}"


def _operator(symbol: str, swapped: bool = False) -> Callable[[Value, Any], Value]:
    def operation(self: Value, other: Any) -> Value:
        return Value(Operation(symbol, (other, self) if swapped else (self, other)))

    return operation


for _name, _symbol in {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "mod": "%", "pow": "**", "and": "&", "or": "|",
}.items():  # fmt: skip
    setattr(Value, f"__{_name}__", _operator(_symbol))
    setattr(Value, f"__r{_name}__", _operator(_symbol, swapped=True))
for _name, _symbol in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    setattr(Value, f"__{_name}__", _operator(_symbol))
for _name, _symbol in {"invert": "~", "neg": "-"}.items():
    setattr(Value, f"__{_name}__", lambda self, symbol=_symbol: Value(Operation(symbol, (self,))))


def recorded_lambdas(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments of a function of columns; of a lambda, the expression that it gives."""
    return tuple(_recorded_lambda(each) if _is_lambda(each) else each for each in args)


def _is_lambda(value: Any) -> bool:
    return getattr(value, "__name__", "") == "<lambda>" and hasattr(value, "__code__")


def _recorded_lambda(function: Callable[..., Any]) -> Value:
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return Value(Lambda(names, function(*(Value(Root(name)) for name in names))))


def parts_of(value: Any) -> Iterator[Any]:
    """Yield the values that an expression or container consists of, one level down."""
    node = value.node if isinstance(value, Value) else value
    if isinstance(node, Node):
        yield from (getattr(node, each.name) for each in fields(node))
    elif isinstance(node, dict | list | tuple | set):
        yield from node.values() if isinstance(node, dict) else node
