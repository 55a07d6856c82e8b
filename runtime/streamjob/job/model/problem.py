"""A problem of a job: the part, the problem and the fix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streamjob.job.model.origins import Place

_PARTS = (
    "--set",
    "--var",
    "file",
    "spec",
    "job",
    "checkpointing",
    "channels",
    "function",
    "source",
    "operator",
    "sink",
    "migrate",
    "sparkConf",
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a job.

    Args:
        where: the part of the job in the author's terms: `operator 'delays'`, `checkpointing`, `job`.
        what: the problem.
        fix: what to write instead; empty if there is no advice.
        place: where it was written; None if the job has only one file.
    """

    where: str
    what: str
    fix: str = ""
    place: Place | None = None

    def __str__(self) -> str:
        before = f"{self.place}: " if self.place is not None else ""
        return f"{before}{self.where}: {self.what}" + (f"\n    fix: {self.fix}" if self.fix else "")


class Refused(Exception):
    """A value in a job cannot be used; the caller, which knows the part, reports it as a problem.

    Args:
        what: the problem.
        fix: what to write instead; empty if there is no advice.
    """

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix

    def problem(self, where: str, before: str = "") -> Problem:
        """Return it as a problem of the part `where`; `before` begins its text."""
        return Problem(where, f"{before}{self.what}", self.fix)


def by_part(problems: Iterable[Problem]) -> list[Problem]:
    """Return problems without duplicates, in the order of the parts in a job file."""
    unique = list(dict.fromkeys(problems))
    first = {problem.where: index for index, problem in reversed(list(enumerate(unique)))}
    return sorted(unique, key=lambda problem: (_part(problem.where), first[problem.where]))


def _part(where: str) -> int:
    return next((index for index, part in enumerate(_PARTS) if where.startswith(part)), len(_PARTS))
