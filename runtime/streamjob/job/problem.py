"""A problem of a job: which part has it, what is wrong, and what its author can do."""

from __future__ import annotations

from dataclasses import dataclass


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
