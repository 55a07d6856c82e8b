"""Repeats a commit that other writers of a table may overtake, until it is certain."""

from __future__ import annotations

import random
from collections.abc import Callable

from streamjob.errors import StreamJobError
from streamjob.sink import StagedRowsGone

_ATTEMPTS = 12
_LONGEST_WAIT = 5.0


def commit_optimistically(
    attempt: Callable[[int], None], noted: Callable[[Exception], None], wait: Callable[[float], None]
) -> Exception | None:
    """Try to commit until an attempt ends without an error; return the last failure, None after a success.

    Each attempt must be based on the table's current state, commit only if the table has not changed since, and do
    nothing if the table records the commit already. So it does not matter whether an attempt that seemed to fail
    succeeds after all, or who makes the same attempt. Errors for people end the attempts.

    Args:
        attempt: makes one attempt; takes its number, from 0.
        noted: hears of each failure.
        wait: sleeps between two attempts; takes seconds.
    """
    failure: Exception | None = None
    for number in range(_ATTEMPTS):
        if number:
            wait(min(0.05 * 2**number, _LONGEST_WAIT) * random.uniform(0.5, 1))
        try:
            attempt(number)
        except StreamJobError:
            raise
        except Exception as error:
            noted(error)
            failure = error
        else:
            return None
    return failure


def problem_of(check: Callable[[], None]) -> StreamJobError | None:
    """Return the error of a check of what is due; None if there is none.

    A process that commits meanwhile removes staged files, so files that are missing have to be missing twice.

    Args:
        check: reads the table and checks the files that are due; may be called again.
    """
    try:
        try:
            check()
        except StagedRowsGone:
            check()
    except StreamJobError as error:
        return error
    return None
