"""What is checked of a job as a whole, one module for each of its parts."""

from collections.abc import Callable, Iterable

from streamjob.job.checks.subject import Subject
from streamjob.job.problem import Problem

CHECKS: tuple[Callable[[Subject], Iterable[Problem]], ...] = ()

__all__ = ["CHECKS", "Subject"]
