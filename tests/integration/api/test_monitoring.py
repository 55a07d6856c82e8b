"""Metrics and probes on a port of their own: what is served there without a token, and that nothing else is."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient
from tests.integration.api.served import ServedJob, metrics_text

from streamjob.client.models import JobState
from streamjob.errors import InvalidInput
from streamjob_runtime.control.api.app import create_app
from streamjob_runtime.control.api.monitoring import MonitoringServer, create_monitoring_app
from streamjob_runtime.control.api.server import ControlServer


@pytest.fixture
def job() -> ServedJob:
    return ServedJob()


@pytest.fixture
def http(job: ServedJob) -> Iterator[httpx.Client]:
    with (
        MonitoringServer(job, metrics=metrics_text, port=0) as server,
        httpx.Client(base_url=server.url, timeout=60.0, trust_env=False) as client,
    ):
        yield client


def test_prometheus_reads_the_metrics_without_a_token(http: httpx.Client) -> None:
    answer = http.get("/metrics")

    assert (answer.status_code, answer.content) == (200, metrics_text())
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")


def test_the_probes_say_how_the_job_does(http: httpx.Client, job: ServedJob) -> None:
    well = [http.get(path).status_code for path in ("/healthz", "/readyz")]
    job.enter(JobState.FAILED)
    ill = [http.get(path) for path in ("/healthz", "/readyz")]

    assert well == [200, 200]
    assert [(each.status_code, each.json()["reason"]) for each in ill] == [(503, "the job is FAILED")] * 2


def test_no_route_of_the_control_api_is_served_beside_the_metrics(http: httpx.Client, job: ServedJob) -> None:
    control = create_app(job, "a-token-that-is-not-sent", metrics=metrics_text)
    routes = [(method, path) for path, each in control.openapi()["paths"].items() for method in each]
    asked = [each for each in routes if each[1] not in ("/metrics", "/healthz", "/readyz")]

    answers = {http.request(method.upper(), path).status_code for method, path in asked}

    assert len(asked) > 5
    assert answers == {404}
    assert http.get("/openapi.json").status_code == 404
    assert job.asked == []


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_but_get_is_answered(http: httpx.Client, method: str) -> None:
    assert {http.request(method, path).status_code for path in ("/metrics", "/healthz", "/readyz")} == {405}


def test_the_control_api_keeps_its_metrics_behind_the_token(tmp_path: Path) -> None:
    with ControlServer(ServedJob(), tmp_path, metrics=metrics_text) as server:
        assert httpx.get(f"{server.url}/metrics", trust_env=False).status_code == 401


def test_scrapes_in_quick_succession_are_answered_by_one_rendering(job: ServedJob) -> None:
    now, rendered = [0.0], []

    def render() -> bytes:
        rendered.append(now[0])
        return f"at {now[0]:g}".encode()

    client = TestClient(create_monitoring_app(job, render, clock=lambda: now[0]))
    texts = []
    for now[0] in (0.0, 0.5, 0.99, 1.0, 1.5):
        texts.append(client.get("/metrics").text)

    assert texts == ["at 0"] * 3 + ["at 1"] * 2
    assert rendered == [0.0, 1.0]


class AskedBy(ServedJob):
    """A job that notes which threads ask it."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[str] = set()

    def healthy(self) -> tuple[bool, str]:
        self.threads.add(threading.current_thread().name)
        return super().healthy()

    def ready(self) -> tuple[bool, str]:
        self.threads.add(threading.current_thread().name)
        return super().ready()


def test_anybody_is_answered_by_the_servers_own_thread() -> None:
    # Threads that take turns with it would keep the job's own threads from their work.
    job, rendered = AskedBy(), list[str]()

    def render() -> bytes:
        rendered.append(threading.current_thread().name)
        return b"a 1"

    with (
        MonitoringServer(job, metrics=render, port=0) as server,
        httpx.Client(base_url=server.url, timeout=60.0, trust_env=False) as client,
    ):
        for path in ("/healthz", "/readyz", "/metrics", "/metrics"):
            assert client.get(path).status_code == 200

    assert job.threads == {"streamjob-monitoring"}
    assert "streamjob-monitoring" not in rendered


def test_a_job_serves_no_metrics_without_a_port(job: ServedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMJOB_METRICS_PORT", raising=False)

    with MonitoringServer(job, metrics=metrics_text) as server:
        assert server.url == ""


def test_the_environment_names_the_port(job: ServedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMJOB_METRICS_PORT", "0")

    with MonitoringServer(job, metrics=metrics_text) as server:
        assert httpx.get(f"{server.url}/metrics", trust_env=False).status_code == 200


def test_a_metrics_port_that_is_taken_is_an_error_that_names_its_variable(
    job: ServedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("STREAMJOB_METRICS_PORT", str(taken.getsockname()[1]))

        with pytest.raises(InvalidInput, match=r"(?s)monitoring cannot listen.*STREAMJOB_METRICS_PORT"):
            MonitoringServer(job, metrics=metrics_text).start()
