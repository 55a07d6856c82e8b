"""Requests to drivers as they go over the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import web
from tests.servers.process import free_port

from streamjob.client.client import ControlApiError, RequestFailed, Unreachable
from streamjob.client.models import CheckpointingChanges, StopRequest
from streamjob.ids import TriggerId
from streamjob_operator.cluster.driver_api import DriverAddress, Drivers
from streamjob_operator.machinery.watch_audit import serve

POLICY = {
    "interval": "10s",
    "timeout": "10m",
    "minPause": "0s",
    "mode": "aligned",
    "tolerableFailedCheckpoints": 10,
    "numRetained": 3,
}


def against(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]],
    use: Callable[[Drivers, DriverAddress], Awaitable[Any]],
) -> Any:
    """Return what a use of the control API comes to, in front of a driver that answers like this."""

    async def scenario() -> Any:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = await serve(app, "127.0.0.1", 0)
        try:
            async with aclosing(Drivers(timeout=5.0)) as drivers:
                return await use(drivers, DriverAddress(f"http://127.0.0.1:{runner.addresses[0][1]}", "secret"))
        finally:
            await runner.cleanup()

    return asyncio.run(scenario())


def test_a_request_carries_the_token_and_its_fields_as_json() -> None:
    seen: list[tuple[str, str, str, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.method, request.path, request.headers["Authorization"], await request.json()))
        return web.json_response({"triggerId": "t1"}, status=202)

    against(answer, lambda drivers, at: drivers.stop(at, StopRequest(savepoint=True, trigger_id=TriggerId("t1"))))

    ((method, path, token, body),) = seen
    assert (method, path, token) == ("POST", "/v1/stop", "Bearer secret")
    assert body == {"savepoint": True, "drain": False, "triggerId": "t1"}


def test_asking_for_the_policy_changes_nothing() -> None:
    async def answer(request: web.Request) -> web.Response:
        assert await request.json() == {}
        return web.json_response(POLICY)

    policy = against(answer, lambda drivers, at: drivers.patch_checkpointing(at, CheckpointingChanges()))

    assert policy.interval == 10.0


def test_a_look_takes_one_request() -> None:
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.path_qs)
        job = {"state": "RUNNING", "name": "a", "namespace": "b", "startTime": 0, "uptime": 0}
        outcome = {"triggerId": "t1", "kind": "stop", "state": "QUEUED"}
        return web.json_response(job | {"checkpointing": POLICY, "triggers": {"t1": outcome}})

    report = against(answer, lambda drivers, at: drivers.report(at, ["t1", "t2"]))

    assert seen == ["/v1/job?include=checkpoints,checkpointing&trigger=t1&trigger=t2"]
    assert report.checkpoints is None
    assert report.checkpointing.num_retained == 3
    assert [each.state for each in report.triggers.values()] == ["QUEUED"]


def test_a_refusal_says_what_the_driver_said() -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.json_response({"title": "Conflict", "status": 409, "detail": "the job has stopped"}, status=409)

    with pytest.raises(RequestFailed, match="the job has stopped"):
        against(answer, lambda drivers, at: drivers.report(at))


def test_an_answer_that_is_no_view_is_told() -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.json_response({"state": "ELSEWHERE"})

    with pytest.raises(ControlApiError, match="not a JobReport"):
        against(answer, lambda drivers, at: drivers.report(at))


def test_the_token_is_not_taken_to_where_a_driver_points() -> None:
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.Response(status=307, headers={"Location": "/elsewhere"})

    with pytest.raises(RequestFailed):
        against(answer, lambda drivers, at: drivers.report(at))
    assert seen == ["/v1/job"]


async def test_a_driver_that_is_not_there_is_unreachable() -> None:
    async def scenario() -> None:
        async with aclosing(Drivers()) as drivers:
            await drivers.report(DriverAddress(f"http://127.0.0.1:{free_port()}", "secret"))

    with pytest.raises(Unreachable):
        await scenario()


async def test_a_driver_that_is_silent_is_unreachable() -> None:
    async def scenario() -> None:
        silent = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        async with silent, aclosing(Drivers(timeout=0.05)) as drivers:
            await drivers.report(DriverAddress(f"http://127.0.0.1:{port}", "secret"))

    with pytest.raises(Unreachable):
        await scenario()
