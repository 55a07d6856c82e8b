"""Checks a job as a whole before Spark starts, and reports all problems at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice

from streamjob.job.checks import CHECKS, Subject, encodings, operators, sources
from streamjob.job.model.problem import Problem, by_part
from streamjob.job.planning.dead_letters import as_the_author_knows_it, functions_of_rows, with_dead_letters

Check = Callable[[Subject], Iterable[Problem]]
_MOST_PROBLEMS = 1000
"""Nobody reads more, and finding suggestions for each takes time."""
_TOO_DEEP = "is nested too deeply to be checked"


def examine(subject: Subject) -> list[Problem]:
    """Return the problems of a job, some of whose parts may be missing because they could not be read."""
    return by_part(run_checks(subject, CHECKS))


_AS_WRITTEN: frozenset[Check] = frozenset(
    {sources.columns, sources.watermarks, encodings.encodings, operators.errors, operators.watermarks}
)
"""Checks of fields that a part with dead letters does not have itself, see `with_dead_letters`."""


def run_checks(subject: Subject, checks: Iterable[Check]) -> list[Problem]:
    """Return the findings of some checks. Content that is nested too deeply for a check is a problem, too."""
    whole = with_dead_letters(subject.spec)
    if whole is subject.spec:
        return _run(subject, checks)
    given = list(checks)
    functions = functions_of_rows(subject.spec, subject.functions)
    found = _run(replace(subject, spec=whole, functions=functions), [each for each in given if each not in _AS_WRITTEN])
    found = [as_the_author_knows_it(each, subject.spec) for each in found]
    return [*_run(subject, [each for each in given if each in _AS_WRITTEN]), *found]


def _run(subject: Subject, checks: Iterable[Check]) -> list[Problem]:
    found: list[Problem] = []
    for check in checks:
        try:
            found += islice(check(subject), _MOST_PROBLEMS - len(found))
        except RecursionError:
            found.append(Problem("job", _TOO_DEEP, "shorten the chain of operators, or nest its values less deeply"))
    return found
