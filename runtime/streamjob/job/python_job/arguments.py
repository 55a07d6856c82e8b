"""Names the nearest argument where a job in Python gives one that a method does not have."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from streamjob.job.model.suggest import did_you_mean

_Given = ParamSpec("_Given")
_Returned = TypeVar("_Returned")


class UnknownArgument(TypeError):
    """A method was called with a keyword argument that it does not have.

    Args:
        what: the method and the argument.
        fix: the probable intention.
    """

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(f"{what}: {fix}")
        self.what = what
        self.fix = fix


def suggesting(method: Callable[_Given, _Returned]) -> Callable[_Given, _Returned]:
    """Return a method that raises UnknownArgument for a keyword argument that it does not have."""
    known = [name for name in inspect.signature(method).parameters if name != "self"]
    name = method.__qualname__.removesuffix(".__init__")

    @functools.wraps(method)
    def checked(*args: _Given.args, **kwargs: _Given.kwargs) -> _Returned:
        for key in kwargs:
            if key not in known:
                raise UnknownArgument(f"{name}() has no argument {key!r}", did_you_mean(key, known, "arguments"))
        return method(*args, **kwargs)

    return checked
