"""What the control API asks of the job: the one seam between HTTP and the runtime.

Every method is called from threads of the server, several at a time, and answers at once: views are copies of what is
known, requests are put in a queue and their outcome is asked for by trigger id. None waits for a batch, an upload or
the store.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, Protocol

from streamjob.client.models import (
    CheckpointDetail,
    CheckpointingChanges,
    CheckpointingView,
    CheckpointsView,
    FieldProblem,
    JobPart,
    JobReport,
    JobView,
    TriggerView,
)
from streamjob.errors import StreamJobError
from streamjob.ids import CheckpointId, TriggerId


class RequestRefused(StreamJobError):
    """A request cannot be done; base of the refusals, each with its HTTP status."""

    status: ClassVar[int] = 409
    title: ClassVar[str] = "Request refused"


class StateConflict(RequestRefused):
    """The job is in a state in which the request makes no sense, such as a checkpoint of a stopped job."""

    status = 409
    title = "Conflict with the job's state"


class TriggerIdReused(RequestRefused):
    """The trigger id belongs to another kind of request."""

    status = 409
    title = "Trigger id used before"


class TooManyRequests(RequestRefused):
    """Too many requests have no outcome yet."""

    status = 429
    title = "Too many requests"


class InvalidChange(RequestRefused):
    """A well-formed request whose values cannot be used.

    Args:
        field: the JSON name of the field.
        message: what is wrong with its value.
    """

    status = 422
    title = "Invalid request"

    def __init__(self, field: str, message: str, fix: str = "") -> None:
        super().__init__(f"{field}: {message}", fix)
        self.errors = (FieldProblem(field=field, message=message),)


class JobControl(Protocol):
    """The job as the control API sees it.

    Methods that take a trigger id are called once per id within a process: the server answers repeated requests from
    `trigger`. They raise StateConflict when the job's state forbids the request.
    """

    def job(self) -> JobView:
        """Return the job as it stands."""
        ...

    def report(self, include: Collection[JobPart], triggers: Collection[TriggerId]) -> JobReport:
        """Return the job, the parts that are asked for and what became of requests, all of one moment."""
        ...

    def checkpoints(self) -> CheckpointsView:
        """Return counts, summary, the latest of each kind, and the history."""
        ...

    def checkpoint(self, checkpoint: CheckpointId) -> CheckpointDetail | None:
        """Return one checkpoint with its tasks, or None if the history does not hold it."""
        ...

    def trigger_checkpoint(self, trigger_id: TriggerId) -> None:
        """Request a checkpoint."""
        ...

    def trigger_savepoint(self, location: str | None, trigger_id: TriggerId) -> None:
        """Ask for a savepoint below `location`, or at the job's own place."""
        ...

    def stop(self, *, savepoint: bool, location: str | None, drain: bool, trigger_id: TriggerId) -> None:
        """Ask the job to stop, behind a savepoint or a last checkpoint; `drain` flushes it first."""
        ...

    def patch_checkpointing(self, changes: CheckpointingChanges) -> CheckpointingView:
        """Apply `changes.changed()`, and return the policy in force."""
        ...

    def trigger(self, trigger_id: TriggerId) -> TriggerView | None:
        """Return what became of a request, or None if the id is unknown. Known from the moment it was asked."""
        ...

    def healthy(self) -> tuple[bool, str]:
        """Return whether the process does its work; if not, a reason that may be shown to anybody."""
        ...

    def ready(self) -> tuple[bool, str]:
        """Return whether the job processes records; if not, a reason that may be shown to anybody."""
        ...
