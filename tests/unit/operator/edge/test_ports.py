"""The controller's ports: metrics and probes need no token, and each port serves only its own routes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from streamjob_operator.evaluation.evaluator import Evaluator
from streamjob_operator.machinery.watch_audit import Health, metrics_server, probe_server
from streamjob_operator.webhook.server import admission_server

METRICS = b"streamjob_controller_leader 1\n"
OPEN: Mapping[str, frozenset[str]] = {
    "metrics": frozenset({"/metrics"}),
    "probes": frozenset({"/healthz", "/readyz"}),
    "admission": frozenset(),
}
PATHS = ("/metrics", "/healthz", "/readyz", "/", "/v1/job", "/validate")


def servers() -> dict[str, web.Application]:
    return {
        "metrics": metrics_server(lambda: METRICS),
        "probes": probe_server(Health(ready=True)),
        "admission": admission_server(Evaluator()),
    }


def answers(server: str, method: str) -> dict[str, tuple[int, bytes]]:
    """Return how a port answers a request without a token, by path."""

    async def ask() -> dict[str, tuple[int, bytes]]:
        async with TestClient(TestServer(servers()[server])) as client:
            found = {}
            for path in PATHS:
                answer = await client.request(method, path)
                found[path] = (answer.status, await answer.read())
            return found

    return asyncio.run(ask())


def test_prometheus_reads_the_controllers_metrics_without_a_token() -> None:
    assert answers("metrics", "GET")["/metrics"] == (200, METRICS)


@pytest.mark.parametrize("server", OPEN)
def test_a_port_refuses_what_another_port_serves(server: str) -> None:
    found = answers(server, "GET")

    assert {path for path, (status, _) in found.items() if status == 200} == OPEN[server]
    assert {status for path, (status, _) in found.items() if path not in OPEN[server]} <= {404, 405}


@pytest.mark.parametrize("server", ["metrics", "probes"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_can_be_changed_on_a_port_without_a_token(server: str, method: str) -> None:
    assert {status for status, _ in answers(server, method).values()} <= {404, 405}
