"""Checks a job as a whole before Spark starts, and reports all problems at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from streamjob.job.checks import CHECKS, Subject
from streamjob.job.problem import Problem, by_part

Check = Callable[[Subject], Iterable[Problem]]
_MOST_PROBLEMS = 1000
"""Nobody reads more, and finding suggestions for each takes time."""
_TOO_DEEP = "is nested too deeply to be checked"


def examine(subject: Subject) -> list[Problem]:
    """Return the problems of a job, some of whose parts may be missing because they could not be read."""
    return by_part(run_checks(subject, CHECKS))


def run_checks(subject: Subject, checks: Iterable[Check]) -> list[Problem]:
    """Return the findings of some checks. Content that is nested too deeply for a check is a problem, too."""
    found: list[Problem] = []
    for check in checks:
        try:
            found += islice(check(subject), _MOST_PROBLEMS - len(found))
        except RecursionError:
            found.append(Problem("job", _TOO_DEEP, "shorten the chain of operators, or nest its values less deeply"))
    return found
