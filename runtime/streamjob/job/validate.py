"""Checks a job as a whole before Spark starts, and reports all problems at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from streamjob.ids import OperatorUid
from streamjob.job.checks import CHECKS, Subject
from streamjob.job.problem import Problem, by_part
from streamjob.job.spec import JobSpec

Check = Callable[[Subject], Iterable[Problem]]
_MOST_PROBLEMS = 1000
"""Nobody reads more, and finding suggestions for each takes time."""
_TOO_DEEP = "is nested too deeply to be checked"


def validate(
    spec: JobSpec,
    directory: Path,
    functions: Mapping[OperatorUid, Callable[..., Any]] | None = None,
    *,
    spark_parser: Callable[[str], str | None] | None = None,
) -> list[Problem]:
    """Return the problems of a job; none if it can run, as far as can be told without Spark.

    Args:
        spec: the job.
        directory: the job file's directory: paths and modules are relative to it.
        functions: functions of Python operators, by uid.
        spark_parser: called for a query that sqlglot cannot read; returns why Spark cannot either, or None if it can.
    """
    return examine(Subject(spec, directory, functions or {}, spark_parser))


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
