"""Which values of a parameter `make test` runs a slow test with; `make test-long` runs it with the others."""

from __future__ import annotations

from collections.abc import Iterable
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
    every = list(values)
    missing = [each for each in chosen if each not in every]
    if missing:
        raise ValueError(f"not among the values: {missing}")
    return [_marked(each) if each in chosen else each for each in every]


def _marked(value: object) -> object:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.core)
