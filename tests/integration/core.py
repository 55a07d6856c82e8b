"""The values of a parameter with which `make test` and `make test-long` run a slow test."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import TypeVar

import pytest

_Value = TypeVar("_Value", bound=Hashable)


def core(values: Iterable[_Value], *chosen: _Value, kept: Collection[_Value] | None = None) -> list[object]:
    """Return the values for `pytest.mark.parametrize`, with the chosen ones marked `core`.

    Args:
        values: all values of the parameter; a tuple is a value for each of several parameters.
        chosen: those that show the feature, as few as possible.
        kept: those with which `make test-long` runs the test; the rest is marked `thorough`. None keeps all.

    Raises:
        ValueError: a chosen or a kept one is not among the values.
    """
    every = _with_all(values, (*chosen, *(kept or ())))
    marks = dict.fromkeys(chosen, pytest.mark.core)
    if kept is not None:
        marks |= {each: pytest.mark.thorough for each in every if each not in chosen and each not in kept}
    return [_marked(each, marks.get(each)) for each in every]


def thorough(values: Iterable[_Value], *kept: _Value) -> list[object]:
    """Return the values for `pytest.mark.parametrize`, with all but the kept ones marked `thorough`.

    Args:
        values: all values of the parameter; a tuple is a value for each of several parameters.
        kept: those with which `make test-long` runs the test.

    Raises:
        ValueError: a kept one is not among the values.
    """
    return core(values, kept=kept)


def _with_all(values: Iterable[_Value], named: Iterable[_Value]) -> list[_Value]:
    every = list(values)
    if missing := [each for each in named if each not in every]:
        raise ValueError(f"not among the values: {missing}")
    return every


def _marked(value: object, mark: pytest.MarkDecorator | None) -> object:
    if mark is None:
        return value
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=mark)
