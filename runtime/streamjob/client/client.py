"""A client of the control API."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from streamjob.client.models import (
    Accepted,
    CheckpointDetail,
    CheckpointingChanges,
    CheckpointingView,
    CheckpointRequest,
    CheckpointsView,
    JobView,
    Problem,
    Request,
    SavepointRequest,
    StopRequest,
    TriggerState,
    TriggerView,
)
from streamjob.errors import ExitCode, StreamJobError
from streamjob.ids import CheckpointId, TriggerId

_Model = TypeVar("_Model", bound=BaseModel)
_PAUSES = (0.2, 0.5)
_CALLER_IS_WRONG = frozenset({400, 401, 404, 405, 422, 501})


class ControlApiError(StreamJobError):
    """The control API did not do what it was asked for."""


class Unreachable(ControlApiError):
    """The control API gave no answer; whether it got the request is unknown. The same trigger id may be sent again."""


class RequestFailed(ControlApiError):
    """The control API answered with an error; `status` and `problem` say which."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail or problem.title, problem.fix)
        self.problem = problem
        self.status = problem.status
        if problem.status in _CALLER_IS_WRONG:
            self.exit_code = ExitCode.INVALID_INPUT


class NotDoneInTime(ControlApiError):
    """A request was still under way when the time to wait for it was over; it goes on."""


class ControlClient:
    """Calls the control API of one job; a request that got no answer is repeated, which changes nothing twice.

    Every method raises Unreachable when there is no answer, and RequestFailed when the answer is an error.

    Args:
        url: the API's address, such as `http://127.0.0.1:8080`.
        token: what to present.
        timeout: seconds to wait for one answer.
        transport: how to reach the server; by default over the network, never through a proxy.
        sleep: waits for some seconds.
        clock: seconds of a clock that never goes back.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = 10.0,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url.rstrip("/")
        self._sleep = sleep
        self._clock = clock
        # Proxies of the environment are for the world outside: they must not see the token.
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=timeout,
            transport=transport,
            trust_env=False,
        )

    def job(self) -> JobView:
        """Return the job as it stands."""
        return self._get("/v1/job", JobView)

    def checkpoints(self) -> CheckpointsView:
        """Return the checkpoints' statistics."""
        return self._get("/v1/checkpoints", CheckpointsView)

    def checkpoint(self, checkpoint: CheckpointId) -> CheckpointDetail:
        """Return one checkpoint of the history."""
        return self._get(f"/v1/checkpoints/{checkpoint}", CheckpointDetail)

    def trigger(self, trigger_id: TriggerId) -> TriggerView:
        """Return what became of a request."""
        return self._get(f"/v1/triggers/{trigger_id}", TriggerView)

    def metrics(self) -> str:
        """Return the metrics in Prometheus' text form."""
        return self._call("GET", "/metrics").text

    def trigger_checkpoint(self, trigger_id: TriggerId | None = None) -> TriggerId:
        """Ask for a checkpoint, and return the id of the request."""
        return self._ask("/v1/checkpoints", CheckpointRequest(trigger_id=trigger_id or _new_id()))

    def trigger_savepoint(self, location: str | None = None, trigger_id: TriggerId | None = None) -> TriggerId:
        """Ask for a savepoint below `location` or at the job's own place, and return the id of the request."""
        return self._ask("/v1/savepoints", SavepointRequest(location=location, trigger_id=trigger_id or _new_id()))

    def stop(
        self,
        *,
        savepoint: bool = False,
        location: str | None = None,
        drain: bool = False,
        trigger_id: TriggerId | None = None,
    ) -> TriggerId:
        """Ask the job to stop, behind a savepoint or a last checkpoint, and return the id of the request."""
        request = StopRequest(savepoint=savepoint, location=location, drain=drain, trigger_id=trigger_id or _new_id())
        return self._ask("/v1/stop", request)

    def patch_checkpointing(self, changes: CheckpointingChanges) -> CheckpointingView:
        """Change when and how checkpoints are taken, and return the policy in force."""
        body = changes.model_dump(mode="json", exclude_unset=True)
        return self._model(self._call("PATCH", "/v1/checkpointing", body), CheckpointingView)

    def wait(self, trigger_id: TriggerId, *, timeout: float = 600.0, poll: float = 0.2) -> TriggerView:
        """Return the outcome of a request once it has one.

        Args:
            trigger_id: the request.
            timeout: seconds to wait at most.
            poll: seconds between two looks.

        Raises:
            NotDoneInTime: it has none after `timeout`.
        """
        deadline = self._clock() + timeout
        while True:
            view = self.trigger(trigger_id)
            if view.state in (TriggerState.COMPLETED, TriggerState.FAILED):
                return view
            if self._clock() >= deadline:
                raise NotDoneInTime(
                    f"the {view.kind} {trigger_id} is still {view.state.value} after {timeout:g} s",
                    "The request continues; check it with `streamjob status`, or use a longer --timeout.",
                )
            self._sleep(poll)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        """Return the client itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def _get(self, path: str, model: type[_Model]) -> _Model:
        return self._model(self._call("GET", path), model)

    def _ask(self, path: str, request: Request) -> TriggerId:
        body = request.model_dump(mode="json", exclude_none=True)
        return self._model(self._call("POST", path, body), Accepted).trigger_id

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        for pause in (*_PAUSES, None):
            try:
                response = self._http.request(method, path, json=body)
            except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
                raise Unreachable(
                    f"{self.url!r} is not the address of a control API: {error}", "Write it like http://host:8080."
                ) from None
            except httpx.TransportError as error:
                if pause is None:
                    raise Unreachable(
                        f"no answer from the control API at {self.url}: {error or type(error).__name__}",
                        "See whether the job still runs, and whether the address is right.",
                    ) from None
                self._sleep(pause)
            else:
                if response.is_success:
                    return response
                raise RequestFailed(problem_of(response))
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _model(self, response: httpx.Response, model: type[_Model]) -> _Model:
        try:
            return model.model_validate_json(response.content)
        except ValidationError as error:
            raise ControlApiError(
                f"{self.url} answered {response.request.url.path} with something that is not a {model.__name__}: "
                f"{error.error_count()} fields do not fit",
                "See whether it is a job of this version of streamjob that answers there.",
            ) from None


def _new_id() -> TriggerId:
    return TriggerId(str(uuid.uuid4()))


def problem_of(response: httpx.Response) -> Problem:
    """Return what an answer that is an error says, also if it is none of the control API's."""
    request = f"{response.request.method} {response.request.url}"
    return problem_in(response.content, response.status_code, response.reason_phrase, request)


def problem_in(content: bytes, status: int, reason: str, request: str) -> Problem:
    """Return what the content of such an answer says; else its status and HTTP's reason, and what was asked."""
    try:
        return Problem.model_validate_json(content)
    except ValidationError:
        return Problem(title=reason or "Error", status=status, detail=f"{request} was answered with {status}")
