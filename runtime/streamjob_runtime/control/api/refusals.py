"""The refusals of requests to a job, each with its HTTP status."""

from __future__ import annotations

from typing import ClassVar

from streamjob.client.models import FieldProblem
from streamjob.errors import StreamJobError


class RequestRefused(StreamJobError):
    """A request is refused; base of the refusals, each with its HTTP status."""

    status: ClassVar[int] = 409
    title: ClassVar[str] = "Request refused"


class StateConflict(RequestRefused):
    """The request makes no sense in the job's state, such as a checkpoint of a stopped job."""

    title = "Conflict with the job's state"


class TriggerIdReused(RequestRefused):
    """The trigger id belongs to a different kind of request."""

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
