"""Tells mistakes in a job's Python functions from failures that may pass, where the job calls them itself.

`streamjob_runtime.spark.text.error_text` describes what a function raises in a running query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streamjob.errors import InvalidInput
from streamjob.job.query.functions import describe
from streamjob_runtime.spark.text.error_text import fix_of

_MISTAKES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""What Python raises for wrong code. A server that does not answer is an OSError, or an error of its client."""


class WrongFunction(InvalidInput):
    """A function of the job raises an error that shows a mistake in it."""


@contextmanager
def mistakes_named(what: str, function: Callable[..., Any]) -> Iterator[None]:
    """Raise WrongFunction for a mistake in a function that is called inside; PySpark's errors stay as they are.

    Args:
        what: the part of the job that it belongs to.
    """
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException:
        raise
    except _MISTAKES as error:
        code = getattr(function, "__code__", None)
        file = None if code is None else Path(code.co_filename)
        place = "" if file is None else f"{file.name}, "
        raise WrongFunction(
            f"{what}: {place}{describe(error, file)}", fix_of(error) or "correct the function"
        ) from error
