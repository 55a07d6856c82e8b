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
    CodeRequest,
    JobReport,
    JobView,
    Problem,
    ProfileRequest,
    Request,
    SavepointRequest,
    SessionCode,
    StartView,
    StopRequest,
    TriggerView,
)
from streamjob.client.page_models import Diagnosis
from streamjob.client.profile_models import ProfileState, ProfilesView, ProfileView
from streamjob.errors import ExitCode, StreamJobError
from streamjob.ids import CheckpointId, TriggerId

_Model = TypeVar("_Model", bound=BaseModel)
_PAUSES = (0.2, 0.5)
_CALLER_IS_WRONG = frozenset({400, 401, 404, 405, 422, 501})


class ControlApiError(StreamJobError):
    """A call of the control API failed."""


class Unreachable(ControlApiError):
    """The control API gave no answer; it may have received the request. Repeat it with the same trigger id."""


class RequestFailed(ControlApiError):
    """The control API answered with an error: see `status` and `problem`."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail or problem.title, problem.fix)
        self.problem = problem
        self.status = problem.status
        if problem.status in _CALLER_IS_WRONG:
            self.exit_code = ExitCode.INVALID_INPUT


class NotDoneInTime(ControlApiError):
    """The request did not finish within the given time; it continues."""


class ControlClient:
    """Calls the control API of one job. A request without an answer is repeated, which is safe.

    Every method raises Unreachable if there is no answer, and RequestFailed if the answer is an error.

    Args:
        url: the API's address, such as `http://127.0.0.1:8080`.
        token: the bearer token.
        timeout: seconds to wait for an answer.
        transport: the HTTP transport; by default the network, never through a proxy.
        sleep: waits for the given seconds.
        clock: a monotonic clock, in seconds.
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
        # Proxies from the environment are for the outside world: they must not see the token.
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=timeout,
            transport=transport,
            trust_env=False,
        )

    def job(self) -> JobView:
        """Return the current state of the job."""
        return self._get("/v1/job", JobView)

    def report(self) -> JobReport:
        """Return the current state of the job, with the checkpointing policy in force."""
        return self._get("/v1/job?include=checkpointing", JobReport)

    def diagnosis(self) -> Diagnosis:
        """Return the condition of the job in one sentence, with every finding."""
        return self._get("/v1/diagnosis", Diagnosis)

    def checkpoints(self) -> CheckpointsView:
        """Return the statistics of the checkpoints."""
        return self._get("/v1/checkpoints", CheckpointsView)

    def checkpoint(self, checkpoint: CheckpointId) -> CheckpointDetail:
        """Return one checkpoint from the history."""
        return self._get(f"/v1/checkpoints/{checkpoint}", CheckpointDetail)

    def trigger(self, trigger_id: TriggerId) -> TriggerView:
        """Return the state of a request."""
        return self._get(f"/v1/triggers/{trigger_id}", TriggerView)

    def metrics(self) -> str:
        """Return the metrics in the Prometheus text format."""
        return self._call("GET", "/metrics").text

    def trigger_checkpoint(self, trigger_id: TriggerId | None = None) -> TriggerId:
        """Request a checkpoint; return the id of the request."""
        return self._ask("/v1/checkpoints", CheckpointRequest(trigger_id=trigger_id or _new_id()))

    def trigger_savepoint(self, location: str | None = None, trigger_id: TriggerId | None = None) -> TriggerId:
        """Request a savepoint below `location`, by default the job's own place; return the id of the request."""
        return self._ask("/v1/savepoints", SavepointRequest(location=location, trigger_id=trigger_id or _new_id()))

    def stop(
        self,
        *,
        savepoint: bool = False,
        location: str | None = None,
        drain: bool = False,
        trigger_id: TriggerId | None = None,
    ) -> TriggerId:
        """Request a stop with a savepoint or a last checkpoint; return the id of the request."""
        request = StopRequest(savepoint=savepoint, location=location, drain=drain, trigger_id=trigger_id or _new_id())
        return self._ask("/v1/stop", request)

    def start(self) -> StartView:
        """Start a process that waits for this request; one that has started goes on."""
        return self._model(self._call("POST", "/v1/start"), StartView)

    def patch_checkpointing(self, changes: CheckpointingChanges) -> CheckpointingView:
        """Change when and how checkpoints are taken; return the resulting policy."""
        body = changes.model_dump(mode="json", exclude_unset=True)
        return self._model(self._call("PATCH", "/v1/checkpointing", body), CheckpointingView)

    def start_profile(self, seconds: float, trigger_id: TriggerId | None = None) -> TriggerId:
        """Record where the job's processes spend their CPU time for some seconds; return the id of the profile."""
        return self._ask("/v1/profiles", ProfileRequest(seconds=seconds, trigger_id=trigger_id or _new_id()))

    def profile(self, profile: TriggerId) -> ProfileView:
        """Return a profile."""
        return self._get(f"/v1/profiles/{profile}", ProfileView)

    def profiles(self) -> ProfilesView:
        """Return the latest profiles without their stacks."""
        return self._get("/v1/profiles", ProfilesView)

    def wait_for_profile(self, profile: TriggerId, *, timeout: float) -> ProfileView:
        """Wait for a profile, at most `timeout` seconds, and return it.

        Raises:
            NotDoneInTime: it is still being recorded after `timeout`.
        """
        deadline = self._clock() + timeout
        while (view := self.profile(profile)).state is ProfileState.RECORDING:
            if self._clock() >= deadline:
                raise NotDoneInTime(
                    f"the profile {profile} is not there after {timeout:g} s", "Ask for it again with --id."
                )
            self._sleep(0.5)
        return view

    def new_code(self, *, write: bool = False) -> SessionCode:
        """Return a code for one session of the job's page; `write` lets the session change the job."""
        body = CodeRequest(write=write).model_dump(mode="json")
        return self._model(self._call("POST", "/v1/sessions/codes", body), SessionCode)

    def wait(self, trigger_id: TriggerId, *, timeout: float = 600.0, poll: float = 0.2) -> TriggerView:
        """Wait for the outcome of a request, at most `timeout` seconds with `poll` between two looks, and return it.

        Raises:
            NotDoneInTime: the request is still open after `timeout`.
        """
        deadline = self._clock() + timeout
        while not (view := self.trigger(trigger_id)).state.resolved:
            if self._clock() >= deadline:
                raise NotDoneInTime(
                    f"the {view.kind} {trigger_id} is still {view.state.value} after {timeout:g} s",
                    "The request continues; check it with `streamjob status`, or use a longer --timeout.",
                )
            self._sleep(poll)
        return view

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
    """Return the problem in an error response, even if the response does not come from a control API."""
    request = f"{response.request.method} {response.request.url}"
    return problem_in(response.content, response.status_code, response.reason_phrase, request)


def problem_in(content: bytes, status: int, reason: str, request: str) -> Problem:
    """Return the problem in a response's body; otherwise build one from the status, HTTP's reason and the request."""
    try:
        return Problem.model_validate_json(content)
    except ValidationError:
        return Problem(title=reason or "Error", status=status, detail=f"{request} was answered with {status}")
