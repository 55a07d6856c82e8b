"""The values of a parameter with which `make test` and `make test-long` run a slow test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import pytest

_Value = TypeVar("_Value")


def core(values: Iterable[_Value], *chosen: _Value) -> list[object]:
    """Return the values for `pytest.mark.parametrize`, with the chosen ones marked `core`.

    Args:
        values: all values of the parameter; a tuple is a value for each of several parameters.
        chosen: those that show the feature, as few as possible.

    Raises:
        ValueError: a chosen one is not among the values.
    """
    return _marked(values, chosen, pytest.mark.core)


def thorough(values: Iterable[_Value], *kept: _Value) -> list[object]:
    """Return the values for `pytest.mark.parametrize`, with all but the kept ones marked `thorough`.

    Args:
        values: all values of the parameter; a tuple is a value for each of several parameters.
        kept: those with which `make test-long` runs the test.

    Raises:
        ValueError: a kept one is not among the values.
    """
    every = list(values)
    if missing := [each for each in kept if each not in every]:
        raise ValueError(f"not among the values: {missing}")
    return _marked(every, [each for each in every if each not in kept], pytest.mark.thorough)


def _marked(values: Iterable[_Value], chosen: Sequence[_Value], mark: pytest.MarkDecorator) -> list[object]:
    every = list(values)
    missing = [each for each in chosen if each not in every]
    if missing:
        raise ValueError(f"not among the values: {missing}")
    return [_with(each, mark) if each in chosen else each for each in every]


def _with(value: object, mark: pytest.MarkDecorator) -> object:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=mark)
