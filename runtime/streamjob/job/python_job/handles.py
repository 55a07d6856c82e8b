"""Handles that stand for the parts of a job that Python code defines, where other parts name them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamjob.job.python_job.dsl import Job

Function = Callable[..., Any]
"""The code of a source or operator: takes a DataFrame for each input, in order, and returns a DataFrame."""


class _Part:
    def __init__(self, job: Job, name: str) -> None:
        self.job = job
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class Handle(_Part):
    """A source or operator of a job, for use as an input."""


class TableHandle(_Part):
    """A table of a job, for operators that are functions."""


class OperatorHandle(Handle):
    """An operator written as a function; calling it calls the function."""

    def __init__(self, job: Job, name: str, function: Function) -> None:
        super().__init__(job, name)
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, for tests."""
        return self.__wrapped__(*args, **kwargs)  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Feedback:
    """An input that closes a cycle, and its columns as `name TYPE, …`."""

    input: Handle | str
    schema: str


def feedback(input: Handle | str, schema: str) -> Feedback:  # noqa: A002 - the file's word
    """Mark an operator's input as the edge that closes a cycle.

    Args:
        input: the operator whose rows come back; by name if it is not declared yet.
        schema: the columns of its rows, as `name TYPE, …`.
    """
    return Feedback(input, schema)
