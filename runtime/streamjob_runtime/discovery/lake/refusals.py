"""Carries what a lake table refuses through the text of one of Spark's errors."""

from __future__ import annotations

from streamjob.errors import StreamJobError
from streamjob_runtime.spark.text.error_positions import error_text, position_in

_KIND = "table-refused"


def refusal_of(error: StreamJobError) -> str:
    """Return an error that another attempt would end with, too, as the text that ends a query."""
    return error_text(_KIND, {"what": error.what, "fix": error.fix, "exit": int(error.exit_code)})


def refusal_in(text: str) -> tuple[str, str, int] | None:
    """Return what is wrong with a table, what to do about it and the exit code, from the text of one of Spark's errors.

    It is None if the error is about something else.
    """
    found = position_in(_KIND, text)
    return None if found is None else (found["what"], found["fix"], found["exit"])
