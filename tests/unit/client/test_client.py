"""The client of the control API, against a transport without a network."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import httpx
import pytest
from tests.models.clocks import SettableClock

from streamjob.client.client import ControlApiError, ControlClient, NotDoneInTime, RequestFailed, Unreachable
from streamjob.client.models import CheckpointingChanges
from streamjob.errors import ExitCode
from streamjob.ids import TriggerId

TOKEN = "a-secret-of-the-job"
Answer = httpx.Response | Exception


class Script:
    """Answers requests in turn, and remembers them."""

    def __init__(self, *answers: Answer) -> None:
        self.requests: list[httpx.Request] = []
        self._answers: Iterator[Answer] = iter(answers)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def bodies(self) -> list[object]:
        return [json.loads(request.content) for request in self.requests]


def _client(script: Callable[[httpx.Request], httpx.Response]) -> ControlClient:
    clock = SettableClock()
    transport = httpx.MockTransport(script)
    return ControlClient("http://job:8080/", TOKEN, transport=transport, sleep=clock.sleep, clock=clock)


def _trigger(state: str) -> httpx.Response:
    return httpx.Response(200, json={"triggerId": "one", "kind": "checkpoint", "state": state})


def test_every_request_carries_the_token() -> None:
    script = Script(_trigger("QUEUED"))

    _client(script).trigger(TriggerId("one"))

    assert script.requests[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert str(script.requests[0].url) == "http://job:8080/v1/triggers/one"


def test_a_request_whose_answer_is_lost_is_repeated_with_the_same_id() -> None:
    script = Script(
        httpx.ReadTimeout("lost"), httpx.ConnectError("refused"), httpx.Response(202, json={"triggerId": "x"})
    )

    _client(script).trigger_checkpoint()

    first, second, third = script.bodies()
    assert first == second == third
    assert list(first) == ["triggerId"]  # type: ignore[call-overload]


def test_no_answer_at_all_is_an_error_that_names_the_address() -> None:
    script = Script(*[httpx.ConnectError("Connection refused")] * 3)

    with pytest.raises(Unreachable, match="http://job:8080: Connection refused") as caught:
        _client(script).job()

    assert caught.value.exit_code is ExitCode.FAILED
    assert len(script.requests) == 3


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, ExitCode.INVALID_INPUT),
        (404, ExitCode.INVALID_INPUT),
        (422, ExitCode.INVALID_INPUT),
        (409, ExitCode.FAILED),
        (500, ExitCode.FAILED),
        (501, ExitCode.INVALID_INPUT),
    ],
)
def test_a_problem_is_raised_with_its_words_and_not_repeated(status: int, code: ExitCode) -> None:
    problem = {"title": "No", "status": status, "detail": "it cannot be done", "fix": "Do something else."}
    script = Script(httpx.Response(status, json=problem))

    with pytest.raises(RequestFailed) as caught:
        _client(script).trigger_savepoint("s3://bucket/savepoints")

    assert str(caught.value) == "it cannot be done\n  fix: Do something else."
    assert (caught.value.status, caught.value.exit_code) == (status, code)
    assert len(script.requests) == 1


def test_an_error_that_is_no_problem_is_told_by_its_status() -> None:
    with pytest.raises(RequestFailed, match="GET http://job:8080/v1/job was answered with 502"):
        _client(Script(httpx.Response(502, text="<html>Bad Gateway</html>"))).job()


def test_an_answer_of_something_else_is_an_error() -> None:
    with pytest.raises(ControlApiError, match="not a JobView"):
        _client(Script(httpx.Response(200, json={"hello": "world"}))).job()


@pytest.mark.parametrize("url", ["job:8080", "ftp://job", "", "http://"])
def test_an_address_that_is_none_is_an_error(url: str) -> None:
    with pytest.raises(Unreachable), ControlClient(url, TOKEN, sleep=lambda _: None) as client:
        client.job()


def test_waiting_ends_with_the_outcome() -> None:
    script = Script(_trigger("QUEUED"), _trigger("IN_PROGRESS"), _trigger("COMPLETED"))

    assert _client(script).wait(TriggerId("one")).state == "COMPLETED"
    assert len(script.requests) == 3


def test_waiting_ends_when_its_time_is_over() -> None:
    with pytest.raises(NotDoneInTime, match="checkpoint one is still IN_PROGRESS after 1 s"):
        _client(lambda _: _trigger("IN_PROGRESS")).wait(TriggerId("one"), timeout=1.0)


def test_a_stop_says_only_what_was_asked_for() -> None:
    script = Script(httpx.Response(202, json={"triggerId": "one"}))

    _client(script).stop(drain=True, trigger_id=TriggerId("one"))

    assert script.bodies() == [{"savepoint": False, "drain": True, "triggerId": "one"}]


def test_a_change_sends_only_the_fields_that_are_set() -> None:
    policy = {"timeout": "10m", "minPause": "0s", "mode": "aligned", "tolerableFailedCheckpoints": 1, "numRetained": 3}
    script = Script(httpx.Response(200, json=policy))

    policy_in_force = _client(script).patch_checkpointing(CheckpointingChanges(interval=None, timeout=90))

    assert script.bodies() == [{"interval": None, "timeout": "90s"}]
    assert policy_in_force.timeout == 600.0


def test_fields_that_a_newer_server_adds_are_ignored() -> None:
    answer = httpx.Response(200, json={"triggerId": "one", "kind": "stop", "state": "COMPLETED", "mood": "good"})

    assert _client(Script(answer)).trigger(TriggerId("one")).kind == "stop"
