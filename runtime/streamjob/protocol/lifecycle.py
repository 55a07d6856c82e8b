"""The states of a job as a transition table; no other transitions are possible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum


class JobState(StrEnum):
    """The state of a job; the names are the control API's."""

    CREATED = "CREATED"
    """Also while a job starts without anything to restore."""
    RESTORING = "RESTORING"
    RUNNING = "RUNNING"
    FINISHING = "FINISHING"
    """All input has ended and is processed; the final checkpoint is under way."""
    FINISHED = "FINISHED"
    STOPPING = "STOPPING"
    """A stop was requested; its last checkpoint or savepoint is under way."""
    STOPPED = "STOPPED"
    RESTARTING = "RESTARTING"
    """An epoch has failed, and the next one begins after a delay; or it has ended behind a checkpoint as planned."""
    FAILED = "FAILED"
    SUPERSEDED = "SUPERSEDED"

    @property
    def terminal(self) -> bool:
        """Whether the process has nothing left to do for the job."""
        return not TRANSITIONS[self]


_STARTED = frozenset(
    {
        JobState.RUNNING,
        JobState.FINISHED,  # the log ends with a final record, which is only committed again
        JobState.STOPPING,
        JobState.STOPPED,
        JobState.RESTARTING,
        JobState.FAILED,
        JobState.SUPERSEDED,
    }
)
"""States that may follow a start, with or without a restore."""

TRANSITIONS: Mapping[JobState, frozenset[JobState]] = {
    JobState.CREATED: _STARTED | {JobState.RESTORING},
    JobState.RESTORING: _STARTED,
    JobState.RUNNING: frozenset(
        {JobState.FINISHING, JobState.STOPPING, JobState.RESTARTING, JobState.FAILED, JobState.SUPERSEDED}
    ),
    JobState.FINISHING: frozenset(
        {JobState.FINISHED, JobState.STOPPING, JobState.RESTARTING, JobState.FAILED, JobState.SUPERSEDED}
    ),
    JobState.STOPPING: frozenset(
        {
            JobState.STOPPED,
            JobState.FINISHED,  # the final checkpoint was under way when the stop was requested
            JobState.RUNNING,  # the savepoint was refused before it started
            JobState.RESTARTING,
            JobState.FAILED,
            JobState.SUPERSEDED,
        }
    ),
    JobState.RESTARTING: _STARTED | {JobState.RESTORING},
    JobState.FINISHED: frozenset(),
    JobState.STOPPED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.SUPERSEDED: frozenset(),
}


class IllegalTransition(RuntimeError):
    """A job was to enter a state that cannot follow its current one: a defect of the caller."""


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """A job's state, the time of its last change (seconds since 1970), and the number of restarts after failures.

    `planned`: it is between two epochs in order, because the first has ended behind a checkpoint.
    """

    state: JobState
    since: float
    restarts: int = 0
    planned: bool = False

    @staticmethod
    def created(now: float) -> Lifecycle:
        """Return the state of a new job."""
        return Lifecycle(JobState.CREATED, now)

    def enter(self, state: JobState, now: float, *, planned: bool = False) -> Lifecycle:
        """Return the job in `state` since `now`; entering RESTARTING counts a restart, unless it was planned.

        Raises:
            IllegalTransition: the table has no such transition.
        """
        if state not in TRANSITIONS[self.state]:
            raise IllegalTransition(f"a job that is {self.state} cannot become {state}")
        if state is not JobState.RESTARTING:
            return replace(self, state=state, since=now, planned=self.planned and state is JobState.RESTORING)
        return Lifecycle(state, now, self.restarts + (not planned), planned)
