"""Reviews over HTTPS, as the API server asks for them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.unit.operator.webhook.reviews import INVALID, VALID, body, trusting, write_certificate

from streamjob.errors import InvalidInput
from streamjob_operator.evaluation.cache import NotEvaluated
from streamjob_operator.evaluation.evaluator import EvaluationUnavailable, Evaluator
from streamjob_operator.webhook import server
from streamjob_operator.webhook.certificate import Certificate
from streamjob_operator.webhook.server import LARGEST_BODY, PATH, admission_server, serve_reviews

UNCHECKED = ["the spec was not checked in time; the StreamJob's conditions will show what is wrong with it"]


class Scripted(Evaluator):
    """Evaluates by a function of the test's."""

    def __init__(self, evaluate: Callable[[Any], Any]) -> None:
        super().__init__()
        self.evaluate = evaluate
        self.closed = False

    async def __call__(self, function: Any, *arguments: Any) -> Any:
        (thing,) = arguments
        found = self.evaluate(thing)
        return await found if asyncio.iscoroutine(found) else found

    async def aclose(self) -> None:
        self.closed = True


@asynccontextmanager
async def serving(evaluator: Evaluator, directory: Path) -> AsyncIterator[tuple[str, str]]:
    """Serve reviews, and give the URL and the certificate."""
    authority = write_certificate(directory)
    runner = await serve_reviews(admission_server(evaluator), Certificate(directory), "127.0.0.1", 0)
    try:
        yield f"https://127.0.0.1:{runner.addresses[0][1]}{PATH}", authority
    finally:
        await runner.cleanup()


async def post(url: str, authority: str, content: bytes, timeout: str = "5s") -> tuple[int, str]:
    """Ask as the API server does, and return status and text of the answer."""
    connector = aiohttp.TCPConnector(ssl=trusting(authority))
    async with (
        aiohttp.ClientSession(connector=connector, trust_env=False) as session,
        session.post(url, params={"timeout": timeout}, data=content) as answer,
    ):
        return answer.status, await answer.text()


async def reviewed(url: str, authority: str, content: bytes, timeout: str = "5s") -> dict[str, Any]:
    status, text = await post(url, authority, content, timeout)
    assert status == 200, text
    response: dict[str, Any] = json.loads(text)["response"]
    return response


async def test_a_spec_is_judged_as_the_controller_judges_it(tmp_path: Path) -> None:
    async with serving(Evaluator(), tmp_path) as (url, authority):
        # The process that evaluates has to start first, however busy the machine is.
        valid = await reviewed(url, authority, body(VALID), "30s")
        assert valid == {"uid": "u-1", "allowed": True}
        refused = await reviewed(url, authority, body(INVALID), "30s")
        assert not refused["allowed"]
        assert "spec.savepoints.schedule" in refused["status"]["message"]
        assert (await reviewed(url, authority, body(INVALID, before=INVALID)))["allowed"]


async def test_a_spec_that_takes_too_long_is_allowed_with_a_warning_and_holds_up_nobody(tmp_path: Path) -> None:
    release = asyncio.Event()

    def evaluate(thing: Any) -> Any:
        async def late() -> Any:
            await release.wait()
            return None, ("late",)

        return late() if thing["spec"] == INVALID else (None, ())

    evaluator = Scripted(evaluate)
    async with serving(evaluator, tmp_path) as (url, authority):
        slow = await reviewed(url, authority, body(INVALID), "100ms")
        assert slow == {"uid": "u-1", "allowed": True, "warnings": UNCHECKED}
        assert await reviewed(url, authority, body(VALID)) == {"uid": "u-1", "allowed": True}
    assert evaluator.closed


async def test_more_slow_specs_than_may_be_checked_at_once_are_allowed_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_MOST_CHECKED", 1)

    async def scenario() -> None:
        async with serving(Scripted(lambda _: asyncio.sleep(3600)), tmp_path) as (url, authority):
            # It would be waited for for half a minute otherwise, longer than the test may take.
            assert (await reviewed(url, authority, body(VALID), "30s"))["warnings"] == UNCHECKED

    await asyncio.wait_for(scenario(), 20)


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        pytest.param(
            NotEvaluated("it is nested too deeply"),
            {
                "allowed": False,
                "status": {
                    "code": 422,
                    "reason": "Invalid",
                    "message": "spec: cannot be checked: it is nested too deeply",
                },
            },
            id="the controller calls it invalid",
        ),
        pytest.param(
            EvaluationUnavailable("no process starts"), {"allowed": True, "warnings": UNCHECKED}, id="nobody can tell"
        ),
    ],
)
async def test_a_spec_that_cannot_be_evaluated(tmp_path: Path, error: Exception, answer: dict[str, Any]) -> None:
    def evaluate(_: Any) -> Any:
        raise error

    async with serving(Scripted(evaluate), tmp_path) as (url, authority):
        assert await reviewed(url, authority, body(VALID)) == {"uid": "u-1", **answer}


@pytest.mark.parametrize(
    ("content", "status"),
    [
        pytest.param(b"{}", 400, id="no review"),
        pytest.param(b"[" * 100_000, 400, id="deeply nested"),
        pytest.param(b" " * (LARGEST_BODY + 1), 413, id="too large"),
    ],
)
async def test_a_request_that_is_no_review_is_refused(tmp_path: Path, content: bytes, status: int) -> None:
    async with serving(Scripted(lambda _: (None, ())), tmp_path) as (url, authority):
        assert (await post(url, authority, content))[0] == status


async def test_a_body_that_does_not_arrive_is_not_waited_for(tmp_path: Path) -> None:
    async with serving(Scripted(lambda _: (None, ())), tmp_path) as (url, authority):
        port = int(url.rpartition(":")[2].partition("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(authority))
        head = f"POST {PATH}?timeout=100ms HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
        writer.write(head.encode())
        assert b" 408 " in await reader.readline()
        writer.close()


async def test_beyond_the_limit_the_oldest_connection_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_MOST_CONNECTIONS", 2)

    async with serving(Scripted(lambda _: (None, ())), tmp_path) as (url, authority):
        port = int(url.rpartition(":")[2].partition("/")[0])
        silent = [
            await asyncio.open_connection("127.0.0.1", port, ssl=trusting(authority), server_hostname="127.0.0.1")
            for _ in range(2)
        ]
        assert (await reviewed(url, authority, body(VALID)))["allowed"]
        assert await silent[0][0].read() == b""
        assert not silent[1][0].at_eof()
        for _, writer in silent:
            writer.close()


async def test_a_renewed_certificate_is_served_without_a_restart(tmp_path: Path) -> None:
    async with serving(Scripted(lambda _: (None, ())), tmp_path) as (url, before):
        after = write_certificate(tmp_path)
        assert (await reviewed(url, after, body(VALID)))["allowed"]
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await post(url, before, body(VALID))


async def test_a_renewed_certificate_that_cannot_be_read_leaves_the_one_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(Scripted(lambda _: (None, ())), tmp_path) as (url, authority):
        (tmp_path / "tls.crt").write_text("nothing")
        with caplog.at_level(logging.ERROR):
            assert (await reviewed(url, authority, body(VALID)))["allowed"]
        assert "the renewed certificate cannot be served" in caplog.text


def test_a_directory_without_a_certificate_cannot_be_served(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no certificate that can be served.*tls\.crt"):
        Certificate(tmp_path)
