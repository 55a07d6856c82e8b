"""A problem of a job: which part has it, what is wrong, and what its author can do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_PARTS = ("--set", "file", "spec", "job", "checkpointing", "channels", "source", "operator", "sink", "sparkConf")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a job.

    Args:
        where: the part of the job, as its author calls it: `operator 'delays'`, `checkpointing`, `job`.
        what: what is wrong with it.
        fix: what to write instead; empty where nothing can be said.
    """

    where: str
    what: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" + (f"\n    fix: {self.fix}" if self.fix else "")


def by_part(problems: Iterable[Problem]) -> list[Problem]:
    """Return problems without repetitions, in the order in which a job file has its parts."""
    unique = list(dict.fromkeys(problems))
    first = {problem.where: index for index, problem in reversed(list(enumerate(unique)))}
    return sorted(unique, key=lambda problem: (_part(problem.where), first[problem.where]))


def _part(where: str) -> int:
    return next((index for index, part in enumerate(_PARTS) if where.startswith(part)), len(_PARTS))
