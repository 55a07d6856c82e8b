"""Spark's page behind the control API, on a transport that stands for Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count

import httpx
import pytest
from starlette.responses import Response
from tests.models.clocks import SettableClock

from streamjob_runtime.control.api.sessions import Access
from streamjob_runtime.control.api.spark_page import SparkPages
from streamjob_runtime.spark.page import SparkPage, is_enabled, page_at, settings_of_page

NOW = 1_700_000_000.0
FOREVER = Access(write=False)


class Spark(httpx.AsyncBaseTransport):
    """Answers as Spark, and keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self.answer = httpx.Response(200, headers={"Content-Type": "text/html"}, text="<html>")

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self.answer


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(NOW)


@pytest.fixture
def spark() -> Spark:
    return Spark()


@pytest.fixture
def pages(clock: SettableClock, spark: Spark) -> SparkPages:
    numbers: Iterator[int] = count(1)
    page = SparkPage("http://127.0.0.1:4040", "spark's")
    return SparkPages(lambda: page, clock, lambda: f"token-{next(numbers)}", spark)


def asked(pages: SparkPages, token: str, path: str = "jobs/", query: str = "") -> Response:
    return asyncio.run(pages.answer("GET", token, path, query))


def test_a_ticket_shows_a_part_of_the_page_and_spark_gets_the_secret_and_the_path(
    pages: SparkPages, spark: Spark
) -> None:
    ticket = pages.issue(FOREVER, "/proxy/a")

    answer = asked(pages, ticket.token, "StreamingQuery/statistics/", "id=1&x=%26")

    assert (answer.status_code, answer.body) == (200, b"<html>")
    (request,) = spark.requests
    assert str(request.url) == "http://127.0.0.1:4040/StreamingQuery/statistics/?id=1&x=%26"
    assert request.headers["X-Streamjob-Spark-Page"] == "spark's"
    assert request.headers["X-Forwarded-Context"] == "/proxy/a/ui/spark/token-1"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("token", ["", "token-2", "guess", "\udcff"])
def test_without_a_ticket_spark_is_not_asked(pages: SparkPages, spark: Spark, token: str) -> None:
    pages.issue(FOREVER, "")

    assert asked(pages, token).status_code == 403
    assert spark.requests == []


@pytest.mark.parametrize(("session", "seconds"), [(None, 3600), (NOW + 60, 60), (NOW + 9000, 3600)])
def test_a_ticket_ends_after_an_hour_or_with_its_session(
    pages: SparkPages, clock: SettableClock, session: float | None, seconds: int
) -> None:
    ticket = pages.issue(Access(write=True, expires=session), "")
    clock.now = NOW + seconds - 1
    assert asked(pages, ticket.token).status_code == 200

    clock.now = NOW + seconds

    answer = asked(pages, ticket.token)
    assert (answer.status_code, b"expired" in answer.body) == (403, True)


@pytest.mark.parametrize(
    "path", ["jobs/job/kill/", "stages/stage/kill", "SQL/kill", "../v1/job", "jobs/../../x", "jobs/%2e%2e/x/../.."]
)
def test_nothing_can_be_ended_and_no_other_path_reached(pages: SparkPages, spark: Spark, path: str) -> None:
    ticket = pages.issue(FOREVER, "")

    assert asked(pages, ticket.token, path).status_code == 403
    assert spark.requests == []


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("http://127.0.0.1:4040/jobs/?a=b", "/p/ui/spark/token-1/jobs/?a=b"),
        ("/jobs/", "/p/ui/spark/token-1/jobs/"),
        ("http://127.0.0.1:4040/p/ui/spark/token-1/jobs/", "/p/ui/spark/token-1/jobs/"),
        ("https://elsewhere.example/x", "/p/ui/spark/token-1/x"),
    ],
)
def test_a_redirect_stays_below_the_ticket(pages: SparkPages, spark: Spark, location: str, expected: str) -> None:
    ticket = pages.issue(FOREVER, "/p")
    spark.answer = httpx.Response(302, headers={"Location": location, "Set-Cookie": "a=b", "Server": "Jetty"})

    answer = asked(pages, ticket.token, "")

    assert (answer.status_code, answer.headers["Location"]) == (302, expected)
    assert "set-cookie" not in answer.headers
    assert "server" not in answer.headers


@pytest.mark.parametrize("base", ["/a/", "a", "//evil.example", "/a\r\nX: y", "/a/../b", "/<script>", "https://x"])
def test_a_base_that_is_no_path_is_refused(pages: SparkPages, base: str) -> None:
    with pytest.raises(ValueError, match="path"):
        pages.issue(FOREVER, base)


def test_a_spark_that_does_not_answer_is_said(clock: SettableClock) -> None:
    class Gone(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            raise httpx.ConnectError("refused")

    pages = SparkPages(lambda: SparkPage("http://127.0.0.1:1", "s"), clock, lambda: "t", Gone())
    pages.issue(FOREVER, "")

    assert asked(pages, "t").status_code == 502


def test_the_page_is_off_unless_a_job_asks_and_then_takes_no_orders_and_has_our_filter_first() -> None:
    assert not is_enabled({})
    assert settings_of_page({"spark.ui.killEnabled": "true"}) == {}
    found = settings_of_page({"spark.ui.enabled": "TRUE", "spark.ui.filters": "a.B", "spark.ui.killEnabled": "true"})
    assert found["spark.ui.filters"] == "io.streamjob.process.SparkPageGuard,a.B"
    assert found["spark.ui.killEnabled"] == "false"


def test_the_secret_is_not_in_the_text_of_a_page() -> None:
    page = page_at("http://10.0.0.1:4711", "hidden")

    assert page is not None
    assert page.url == "http://127.0.0.1:4711"
    assert "hidden" not in repr(page)
    assert page_at(None, "hidden") is None
