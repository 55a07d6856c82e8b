"""The interface that the control API needs of a job: the only seam between HTTP and the runtime.

Methods are called from several server threads at a time and return at once. Views are copies of known data. Requests
are queued, and their outcome is queried by trigger id. No method waits for a batch, an upload or the store.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from streamjob.client.models import (
    CheckpointDetail,
    CheckpointingChanges,
    CheckpointingView,
    CheckpointsView,
    ExecutorsView,
    FieldProblem,
    JobPart,
    JobReport,
    JobView,
    TriggerView,
)
from streamjob.client.page_models import Diagnosis, EventsView, EventView, HistoryView
from streamjob.client.profile_models import ProfilesView, ProfileView
from streamjob.errors import StreamJobError
from streamjob.ids import CheckpointId, TriggerId
from streamjob_runtime.spark.page import SparkPage


class RequestRefused(StreamJobError):
    """A request is refused; base of the refusals, each with its HTTP status."""

    status: ClassVar[int] = 409
    title: ClassVar[str] = "Request refused"


class StateConflict(RequestRefused):
    """The request makes no sense in the job's state, such as a checkpoint of a stopped job."""

    status = 409
    title = "Conflict with the job's state"


class TriggerIdReused(RequestRefused):
    """The trigger id belongs to a different kind of request."""

    status = 409
    title = "Trigger id used before"


class InvalidCode(RequestRefused):
    """A code for a session is unknown, used or too old."""

    status = 401
    title = "Invalid code"


class NotTheJobsToken(RequestRefused):
    """A session asks for what needs the job's own token."""

    status = 403
    title = "Forbidden"


class TooManyRequests(RequestRefused):
    """Too many requests are open."""

    status = 429
    title = "Too many requests"


class InvalidChange(RequestRefused):
    """A well-formed request has invalid values.

    Args:
        field: the JSON name of the field.
        message: the problem with its value.
    """

    status = 422
    title = "Invalid request"

    def __init__(self, field: str, message: str, fix: str = "") -> None:
        super().__init__(f"{field}: {message}", fix)
        self.errors = (FieldProblem(field=field, message=message),)


class JobControl(Protocol):
    """A job as the control API sees it.

    Methods that take a trigger id are called once per id in a process: the server answers repeated requests from
    `trigger`. They raise StateConflict if the job's state does not allow the request.
    """

    def job(self) -> JobView:
        """Return the current state of the job."""
        ...

    def report(self, include: Collection[JobPart], triggers: Collection[TriggerId]) -> JobReport:
        """Return the job, the requested parts, and the state of requests, all of the same moment."""
        ...

    def diagnosis(self) -> Diagnosis:
        """Return the condition of the job in one sentence, with every finding."""
        ...

    def history(self, since: float | None) -> HistoryView:
        """Return the figures of the last hour, those later than `since` in seconds since 1970."""
        ...

    def events(self) -> EventsView:
        """Return the latest events of this process."""
        ...

    def live(self) -> Mapping[str, Any]:
        """Return the document that the job's page shows, as JSON without null fields."""
        ...

    def events_after(self, event: int) -> Sequence[EventView]:
        """Return the events with higher ids, oldest first."""
        ...

    def last_event(self) -> int:
        """Return the id of the newest event; 0 before the first."""
        ...

    def executors(self) -> ExecutorsView:
        """Return the executors in processes of their own."""
        ...

    def checkpoints(self) -> CheckpointsView:
        """Return counts, summary, the latest of each kind, and the history."""
        ...

    def checkpoint(self, checkpoint: CheckpointId) -> CheckpointDetail | None:
        """Return one checkpoint with its tasks, or None if it is not in the history."""
        ...

    def trigger_checkpoint(self, trigger_id: TriggerId) -> None:
        """Request a checkpoint."""
        ...

    def trigger_savepoint(self, location: str | None, trigger_id: TriggerId) -> None:
        """Request a savepoint below `location`, or at the job's own place."""
        ...

    def stop(self, *, savepoint: bool, location: str | None, drain: bool, trigger_id: TriggerId) -> None:
        """Request a stop with a savepoint or a last checkpoint; `drain` drains the job first."""
        ...

    def start(self) -> None:
        """Start a job that waits for this call; otherwise do nothing."""
        ...

    def patch_checkpointing(self, changes: CheckpointingChanges) -> CheckpointingView:
        """Apply `changes.changed()`; return the resulting policy."""
        ...

    def trigger(self, trigger_id: TriggerId) -> TriggerView | None:
        """Return the state of a request, or None if the id is unknown. It is known as soon as it was requested."""
        ...

    def start_profile(self, seconds: float, profile: TriggerId) -> None:
        """Start to record a profile, unless there is one with this id; raises StateConflict while there is another."""
        ...

    def profile(self, profile: TriggerId) -> ProfileView | None:
        """Return a profile, or None if the id is unknown."""
        ...

    def profiles(self) -> ProfilesView:
        """Return the latest profiles without their stacks."""
        ...

    def spark_page(self) -> SparkPage | None:
        """Return where Spark's own page is; None if the job has not asked for it, or Spark has not started."""
        ...

    def healthy(self) -> tuple[bool, str]:
        """Return whether the process works; if not, with a reason that may be public."""
        ...

    def ready(self) -> tuple[bool, str]:
        """Return whether the job processes records; if not, with a reason that may be public."""
        ...
