"""The page of all jobs over HTTP: who sees what, what a browser may do, and what a driver cannot."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.unit.operator.web.bench import (
    NOW,
    READER,
    VIEWER,
    WRITER,
    PageCluster,
    condition,
    job,
    page,
    put,
    token,
)

from streamjob_operator.cluster.driver_api import DriverAddress
from streamjob_operator.cluster.kinds import EVENT, STREAM_JOB

pytestmark = pytest.mark.timeout(60)

TOKEN = token(NOW + 3600)
CHANGES = ("update", "shop", "*")


class Browser:
    """Asks the page with a token."""

    def __init__(self, session: aiohttp.ClientSession, url: str, shown: str | None) -> None:
        self._session = session
        self._url = url
        self._headers = {} if shown is None else {"X-Streamjob-Token": shown}

    async def ask(
        self, path: str, *, method: str = "GET", headers: dict[str, str] | None = None, body: Any = None
    ) -> tuple[int, Any, dict[str, str]]:
        """Return status, content and headers of an answer."""
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        async with self._session.request(
            method, self._url + path, headers={**self._headers, **(headers or {})}, data=data, allow_redirects=False
        ) as answer:
            content = await answer.read()
            kind = answer.content_type
            return answer.status, json.loads(content) if "json" in kind else content.decode(), dict(answer.headers)

    async def events(self, path: str, number: int) -> list[tuple[str, Any]]:
        """Return the first events of a stream."""
        found: list[tuple[str, Any]] = []
        async with self._session.get(self._url + path, headers=self._headers) as answer:
            assert answer.status == 200, await answer.text()
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            event = ""
            async for line in answer.content:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "event":
                    event = value
                elif name == "data":
                    found.append((event, json.loads(value)))
                    if len(found) == number:
                        break
        return found


@asynccontextmanager
async def opened(
    cluster: PageCluster, drivers: dict[str, DriverAddress] | None = None, *, shown: str | None = TOKEN
) -> AsyncIterator[Browser]:
    """Serve the page, and give a browser with a token."""
    async with page(cluster, drivers) as url, aiohttp.ClientSession(trust_env=False) as session:
        yield Browser(session, url, shown)


def cluster_with(*rights: tuple[str, str, str], **audience: Any) -> PageCluster:
    """Return a cluster with a viewer."""
    cluster = PageCluster()
    name, *usual = VIEWER
    cluster.account(TOKEN, name, *(rights or usual), **(audience or READER))
    return cluster


async def test_a_viewer_sees_the_jobs_of_the_namespaces_that_it_may_list() -> None:
    cluster = cluster_with()
    await put(cluster, job("views"), job("fraud", "secret"))
    async with opened(cluster) as browser:
        status, found, _ = await browser.ask("/v1/jobs")

        assert status == 200
        assert list(found["jobs"]) == ["shop/views"]
        assert (found["viewer"], found["everyNamespace"]) == (VIEWER[0], False)
        assert "secret" not in json.dumps(found)


async def test_whoever_may_list_all_is_asked_about_no_namespace() -> None:
    cluster = cluster_with(("list", "*", "*"))
    await put(cluster, job("views"), job("fraud", "secret"))
    async with opened(cluster) as browser:
        _, found, _ = await browser.ask("/v1/jobs")

    assert list(found["jobs"]) == ["secret/fraud", "shop/views"]
    asked = [spec["resourceAttributes"] for kind, spec in cluster.reviews if kind == "SubjectAccessReview"]
    assert asked == [{"group": "streamjob.io", "resource": "streamjobs", "verb": "list"}]


@pytest.mark.parametrize("shown", [None, "unknown", "", token(NOW - 1), "x" * 8_000])
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/stream", "/v1/session", "/jobs/shop/views/v1/job", "/v1/none"])
async def test_nothing_is_shown_without_a_valid_token(shown: str | None, path: str) -> None:
    cluster = cluster_with()
    cluster.account(token(NOW - 1), "expired", ("list", "*", "*"), **READER)
    await put(cluster, job("views"))
    async with opened(cluster, shown=shown) as browser:
        status, problem, headers = await browser.ask(path)

        assert status == 401
        assert problem["title"] == "Unauthorized"
        assert headers["WWW-Authenticate"] == 'Bearer realm="streamjob"'


async def test_the_api_server_is_asked_once_about_a_token_and_a_right() -> None:
    cluster = cluster_with()
    await put(cluster, job("views"))
    async with opened(cluster) as browser:
        for _ in range(3):
            await browser.ask("/v1/jobs")

    assert [kind for kind, _ in cluster.reviews] == ["TokenReview", "SubjectAccessReview", "SubjectAccessReview"]


async def test_a_token_of_the_api_server_is_accepted_only_after_one_for_the_page() -> None:
    cluster = PageCluster()
    cluster.account(TOKEN, "alice", ("list", "*", "*"))
    async with opened(cluster) as browser:
        status, _, _ = await browser.ask("/v1/session")

    assert status == 200
    assert ["audiences" in spec for _, spec in cluster.reviews] == [True, False]


async def test_the_files_need_no_token_and_come_with_a_strict_policy() -> None:
    async with opened(PageCluster(), shown=None) as browser:
        for path in ("/ui/", "/ui/app.js", "/ui/app.css", "/jobs/shop/views/ui/", "/jobs/shop/views/ui/app.js"):
            status, _, headers = await browser.ask(path)

            assert status == 200
            assert "default-src 'none'" in headers["Content-Security-Policy"]
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert "Set-Cookie" not in headers
        assert [(await browser.ask(path))[2]["Location"] for path in ("/", "/ui", "/jobs/shop/views/ui")] == (
            ["ui/"] * 3
        )
        assert (await browser.ask("/ui/..%2f..%2fetc"))[0] == 404


async def test_a_code_brings_the_token_to_the_page_once() -> None:
    async with opened(cluster_with()) as browser:
        status, given, _ = await browser.ask("/v1/sessions/codes", method="POST")
        assert status == 201
        status, session, _ = await browser.ask(
            "/v1/sessions", method="POST", body={"code": given["code"]}, headers={"X-Streamjob-Token": ""}
        )
        assert (status, session) == (201, {"token": TOKEN, "expiresAt": NOW + 3600, "write": False})
        assert (await browser.ask("/v1/sessions", method="POST", body={"code": given["code"]}))[0] == 401
        assert (await browser.ask("/v1/sessions", method="POST", body=b"{"))[0] == 422


async def test_a_code_needs_a_valid_token() -> None:
    async with opened(cluster_with(), shown="unknown") as browser:
        assert (await browser.ask("/v1/sessions/codes", method="POST"))[0] == 401


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil"])
async def test_a_name_of_a_stranger_that_leads_here_gets_nothing(host: str) -> None:
    async with opened(cluster_with()) as browser:
        for path in ("/ui/", "/v1/jobs"):
            assert (await browser.ask(path, headers={"Host": host}))[0] == 421
        for good in ("localhost:9000", "[::1]:80", "10.0.0.7:8090", "jobs.example.org"):
            assert (await browser.ask("/v1/jobs", headers={"Host": good}))[0] == 200


async def test_a_page_of_another_site_cannot_use_the_session_of_a_proxy() -> None:
    cluster = cluster_with(CHANGES, ("get", "shop", "*"), **WRITER)
    await put(cluster, job("views"))
    async with opened(cluster) as browser:
        foreign = {"Sec-Fetch-Site": "cross-site"}
        path = "/jobs/shop/views/v1/suspend"
        status, _, _ = await browser.ask(path, method="POST", body={"suspend": True}, headers=foreign)

    assert status == 403
    assert "suspend" not in cluster.objects[(STREAM_JOB, "shop", "views")]["spec"]


async def test_a_stream_brings_the_jobs_and_then_their_changes() -> None:
    cluster = cluster_with()
    await put(cluster, job("views"), job("fraud", "secret"))
    async with opened(cluster) as browser:
        reading = asyncio.create_task(browser.events("/v1/stream", 2))
        while not [each for each in cluster.reviews if each[0] == "SubjectAccessReview"]:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        failing = [condition("CheckpointHealthy", "False", "CheckpointsFail", "3 failed")]
        for namespace, name in (("shop", "views"), ("secret", "fraud")):
            found = cluster.objects[(STREAM_JOB, namespace, name)]
            change = {"status": {**found["status"], "conditions": failing}}
            await cluster.patch(STREAM_JOB, namespace, name, change)
        (first, whole), (second, patch) = await reading

    assert (first, second) == ("jobs", "patch")
    assert list(whole["jobs"]) == ["shop/views"]
    assert patch["jobs"]["shop/views"] == {
        "tone": "critical",
        "sentence": "3 failed",
        "troubles": ["CheckpointHealthy"],
    }
    assert list(patch["jobs"]) == ["shop/views"]


@asynccontextmanager
async def driver(answers: dict[str, Any]) -> AsyncIterator[tuple[DriverAddress, list[tuple[str, Any, Any]]]]:
    """Serve a driver that answers as a test wants, and give what it was asked."""
    asked: list[tuple[str, Any, Any]] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append((f"{request.method} {request.path_qs}", dict(request.headers), await request.read()))
        found = answers.get(request.path)
        if callable(found):
            response: web.StreamResponse = await found(request)
            return response
        return web.json_response(found) if found is not None else web.Response(status=404)

    app = web.Application()
    app.add_routes([web.route("*", "/{path:.*}", answer)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield DriverAddress(f"http://127.0.0.1:{runner.addresses[0][1]}", "driver-secret"), asked
    finally:
        await runner.cleanup()


async def test_a_request_reaches_the_driver_with_its_token_and_without_the_viewers() -> None:
    cluster = cluster_with()
    await put(cluster, job("views"))
    async with (
        driver({"/v1/job": {"name": "views"}}) as (address, asked),
        opened(cluster, {"views": address}) as browser,
    ):
        headers = {"Cookie": "a=b", "X-Forwarded-For": "::1", "Authorization": f"Bearer {TOKEN}"}
        status, found, got = await browser.ask("/jobs/shop/views/v1/job?include=checkpoints", headers=headers)

        assert (status, found) == (200, {"name": "views"})
        (request, sent, _) = asked[-1]
        assert request == "GET /v1/job?include=checkpoints"
        assert sent["Authorization"] == "Bearer driver-secret"
        assert TOKEN not in str(sent)
        assert "Cookie" not in sent
        assert "driver-secret" not in str((found, got))


async def test_whoever_may_not_read_a_job_does_not_learn_that_it_exists() -> None:
    cluster = cluster_with()
    await put(cluster, job("fraud", "secret"))
    async with driver({"/v1/job": {}}) as (address, asked), opened(cluster, {"fraud": address}) as browser:
        hidden = await browser.ask("/jobs/secret/fraud/v1/job")
        missing = await browser.ask("/jobs/secret/none/v1/job")

        assert (hidden[0], missing[0]) == (404, 404)
        assert hidden[1]["detail"].replace("fraud", "none") == missing[1]["detail"]
        assert asked == []


@pytest.mark.parametrize(
    "place",
    ["shop/..%2f..%2fsecrets", "..%2f..%2fapi/views", "shop/views%3Fx", "shop/VIEWS", "shop/%00", f"shop/{'a' * 300}"],
)
async def test_a_name_that_is_none_reaches_neither_the_api_server_nor_a_driver(place: str) -> None:
    cluster = cluster_with(("get", "*", "*"))
    async with opened(cluster) as browser:
        assert (await browser.ask(f"/jobs/{place}/v1/resource"))[0] == 404

    assert [each for each in cluster.calls if each[0] == "get"] == []


@pytest.mark.parametrize(
    ("rights", "audience", "status"),
    [
        ((("get", "shop", "*"), CHANGES), WRITER, 202),
        ((("get", "shop", "*"), CHANGES), READER, 403),
        ((("get", "shop", "*"),), WRITER, 403),
        ((CHANGES,), WRITER, 404),
    ],
)
async def test_a_change_needs_the_right_and_a_token_for_changes(rights: Any, audience: Any, status: int) -> None:
    async def accept(_request: web.Request) -> web.Response:
        return web.json_response({"triggerId": "1"}, status=202)

    cluster = cluster_with(*rights, **audience)
    await put(cluster, job("views"))
    async with (
        driver({"/v1/checkpoints": accept}) as (address, asked),
        opened(cluster, {"views": address}) as browser,
    ):
        assert (await browser.ask("/jobs/shop/views/v1/checkpoints", method="POST", body={}))[0] == status
        assert len([each for each in asked if each[0].startswith("POST")]) == (1 if status == 202 else 0)
        if status != 404:
            found = (await browser.ask("/jobs/shop/views/v1/session"))[1]
            assert found["write"] is (status == 202)


async def test_a_savepoint_of_the_page_is_written_nowhere_else() -> None:
    cluster = cluster_with(("get", "shop", "*"), CHANGES, **WRITER)
    await put(cluster, job("views"))
    async with driver({}) as (address, asked), opened(cluster, {"views": address}) as browser:
        body = {"location": "s3://elsewhere"}
        status, _, _ = await browser.ask("/jobs/shop/views/v1/savepoints", method="POST", body=body)

        assert status == 422
        assert asked == []


@pytest.mark.parametrize(
    ("kind", "status"),
    [("text/html", 200), ("image/svg+xml", 200), ("application/javascript", 200), ("text/html", 401)],
)
async def test_a_hostile_driver_makes_a_browser_run_nothing_and_end_no_session(kind: str, status: int) -> None:
    async def hostile(_request: web.Request) -> web.Response:
        text = "<script>alert(1)</script>"
        return web.Response(text=text, content_type=kind, status=status, headers={"Set-Cookie": "a=b"})

    cluster = cluster_with()
    await put(cluster, job("views"))
    async with driver({"/v1/job": hostile}) as (address, _), opened(cluster, {"views": address}) as browser:
        found, problem, headers = await browser.ask("/jobs/shop/views/v1/job")

        assert found == 502
        assert "alert" not in json.dumps(problem)
        assert "Set-Cookie" not in headers


async def test_a_driver_sends_browsers_to_nobody() -> None:
    async def elsewhere(_request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": "http://evil.example"}, content_type="application/json")

    cluster = cluster_with()
    await put(cluster, job("views"))
    async with driver({"/v1/job": elsewhere}) as (address, _), opened(cluster, {"views": address}) as browser:
        status, _, headers = await browser.ask("/jobs/shop/views/v1/job")
        assert (status, "Location" in headers) == (502, False)


@pytest.mark.parametrize(("address", "status"), [(None, 503), (DriverAddress("http://127.0.0.1:1", "t"), 502)])
async def test_what_is_known_of_a_job_is_shown_while_its_driver_is_away(address: Any, status: int) -> None:
    cluster = cluster_with()
    await put(cluster, job("views"))
    async with opened(cluster, {} if address is None else {"views": address}) as browser:
        assert (await browser.ask("/jobs/shop/views/v1/job"))[0] == status
        assert (await browser.ask("/jobs/shop/views/v1/stream"))[0] == status
        found, resource, _ = await browser.ask("/jobs/shop/views/v1/resource")
        assert (found, resource["checkpointPath"]) == (200, "s3://state/views/12")


async def test_the_figures_of_a_driver_come_into_the_row_and_stay_when_it_goes() -> None:
    diagnosis = {"severity": "attention", "sentence": "Behind by 4 min", "reasons": []}
    history = {"intervalSeconds": 5, "points": [{"at": NOW - 5, "lagSeconds": 9}, {"at": NOW, "lagSeconds": 240}]}

    cluster, drivers = cluster_with(), {}
    await put(cluster, job("views"))
    async with driver({"/v1/diagnosis": diagnosis, "/v1/history": history}) as (address, _):
        drivers["views"] = address
        async with opened(cluster, drivers) as browser:
            async with asyncio.timeout(20):
                row: Any = {}
                while "lagSeconds" not in row:
                    row = (await browser.ask("/v1/jobs"))[1]["jobs"]["shop/views"]
            assert (row["tone"], row["sentence"], row["lagSeconds"]) == ("attention", "Behind by 4 min", 240)
            drivers.clear()
            assert (await browser.ask("/v1/jobs"))[1]["jobs"]["shop/views"]["lagSeconds"] == 240


async def test_a_stream_of_a_driver_is_passed_on() -> None:
    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b'event: job\ndata: {"a": 1}\n\n')
        await response.write(b'event: patch\ndata: {"a": 2}\n\n')
        return response

    cluster = cluster_with()
    await put(cluster, job("views"))
    async with driver({"/v1/stream": stream}) as (address, _), opened(cluster, {"views": address}) as browser:
        found = await browser.events("/jobs/shop/views/v1/stream", 2)
        assert found == [("job", {"a": 1}), ("patch", {"a": 2})]


async def test_a_job_is_rescaled_and_suspended_and_an_event_names_the_viewer() -> None:
    cluster = cluster_with(("get", "shop", "*"), CHANGES, **WRITER)
    await put(cluster, job("views"))
    async with opened(cluster) as browser:
        base = "/jobs/shop/views/v1"
        assert (await browser.ask(f"{base}/scale", method="POST", body={"parallelism": 6}))[0] == 200
        assert (await browser.ask(f"{base}/suspend", method="POST", body={"suspend": True}))[0] == 200
        for wrong in ({"parallelism": 0}, {"parallelism": "6"}, {"parallelism": 6, "suspend": True}, {}):
            assert (await browser.ask(f"{base}/scale", method="POST", body=wrong))[0] == 422

    spec = cluster.objects[(STREAM_JOB, "shop", "views")]["spec"]
    assert (spec["parallelism"], spec["suspend"]) == (6, True)
    events = [thing for (kind, _, _), thing in cluster.objects.items() if kind == EVENT]
    assert sorted(each["reason"] for each in events) == ["ScaledByViewer", "SuspendedByViewer"]
    assert all(VIEWER[0] in each["message"] for each in events)


async def test_a_job_that_scales_itself_is_not_rescaled_by_hand() -> None:
    cluster = cluster_with(("get", "shop", "*"), CHANGES, **WRITER)
    await put(cluster, job("views", autoscaling={"mode": "Act", "reason": "lag grows"}))
    async with opened(cluster) as browser:
        status, problem, _ = await browser.ask("/jobs/shop/views/v1/scale", method="POST", body={"parallelism": 6})

    assert status == 409
    assert "automatic scaling" in problem["detail"]
    assert "parallelism" not in cluster.objects[(STREAM_JOB, "shop", "views")]["spec"]
