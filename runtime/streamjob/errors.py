"""Errors that end a command, one class per cause, each with the exit code of its kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum


class ExitCode(IntEnum):
    """How a `streamjob` process ended."""

    OK = 0
    INVALID_INPUT = 2
    CANNOT_RESTORE = 3
    SUPERSEDED = 4
    FAILED = 5
    INTERRUPTED = 6
    """A run up to what is there was stopped before it had read all of it."""

    @classmethod
    def of_stop(cls, *, available_now: bool) -> ExitCode:
        """Return the exit code after a stop: a scheduler must know that a run up to what is there is not complete."""
        return cls.INTERRUPTED if available_now else cls.OK


class StreamJobError(Exception):
    """Base of all errors that users read: names the object, the problem and the fix.

    Args:
        what: names the object and what is wrong with it, one sentence.
        fix: what the reader can do about it, one sentence; empty if there is no advice.
    """

    exit_code = ExitCode.FAILED

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(f"{what}\n  fix: {fix}" if fix else what)
        self.what = what
        self.fix = fix


class InvalidInput(StreamJobError):
    """The job file, an option or an argument cannot be used; nothing was started."""

    exit_code = ExitCode.INVALID_INPUT


class InvalidJob(InvalidInput):
    """A job has problems; carries all of them at once.

    Args:
        origin: the file or object that describes the job.
        problems: the problems, each naming the operator and the fix; not empty.
    """

    def __init__(self, origin: str, problems: Sequence[object]) -> None:
        lines = "\n".join(f"  - {problem}" for problem in problems)
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__(f"{origin}: {count}\n{lines}")
        self.origin = origin
        self.problems = tuple(problems)


class CannotRestore(StreamJobError):
    """The job cannot start from the requested snapshot; nothing was started."""

    exit_code = ExitCode.CANNOT_RESTORE


class Superseded(StreamJobError):
    """Another owner holds the job's log; this process has stopped for good and has changed nothing since."""

    exit_code = ExitCode.SUPERSEDED


class JobFailed(StreamJobError):
    """The job failed and its restarts are used up; its last completed checkpoint is intact."""

    exit_code = ExitCode.FAILED


class ProcessUnfit(JobFailed):
    """This process cannot continue the job; another one can, from the last checkpoint."""


def refuse(error: type[InvalidInput], whom: str, found: Iterable[tuple[str, str]]) -> None:
    """Raise one error that lists all problems; do nothing if there are none.

    Args:
        error: the class to raise.
        whom: the object that has the problems; the message begins with it.
        found: pairs of problem and fix.
    """
    problems = list(found)
    if problems:
        what = "; ".join(what for what, _ in problems)
        raise error(f"{whom} {what}", "; ".join(dict.fromkeys(fix for _, fix in problems)))
