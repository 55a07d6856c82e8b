"""Serves metrics and probes without a token on a separate port, for Prometheus and for the node.

Nothing more is served there: a caller who may scrape a job must not be able to stop it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from streamjob_runtime.control.api import problems
from streamjob_runtime.control.api.app import add_probes
from streamjob_runtime.control.api.listener import Server, port_of
from streamjob_runtime.control.running_job import RunningJob

METRICS_PORT_VARIABLE = "STREAMJOB_METRICS_PORT"

_FRESH_SECONDS = 1.0
_log = logging.getLogger("streamjob")


class MonitoringServer(Server):
    """Serves `/metrics`, `/healthz` and `/readyz` without a token.

    Args:
        metrics: returns the metrics in Prometheus' text form; called at most once per second, so that callers cannot
            overload the job.
        port: port, 0 for any free one; None for STREAMJOB_METRICS_PORT, without which nothing is served.
    """

    def __init__(self, control: RunningJob, *, metrics: Callable[[], bytes], port: int | None = None) -> None:
        super().__init__("monitoring", METRICS_PORT_VARIABLE)
        self._app = create_monitoring_app(control, metrics)
        self._port = port

    def start(self) -> None:
        """Start the server, if a port is set.

        Raises:
            InvalidInput: the port is taken or not a number, or the address does not exist.
            ServerNotStarted: the server ended before it could answer.
        """
        port = self._port if self._port is not None else port_of(METRICS_PORT_VARIABLE)
        if port is not None:
            self.serve(self._app, port)
            _log.info("metrics and probes are served at %s", self._url)


def create_monitoring_app(
    control: RunningJob, metrics: Callable[[], bytes], clock: Callable[[], float] = time.monotonic
) -> FastAPI:
    """Return the application for `GET /metrics`, `/healthz` and `/readyz`; it answers 404 or 405 to everything else.

    Args:
        metrics: returns the metrics in Prometheus' text form.
        clock: monotonic time in seconds.
    """
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    problems.install(app)
    add_probes(app, control, _AtMostOnceASecond(metrics, clock))
    return app


class _AtMostOnceASecond:
    def __init__(self, metrics: Callable[[], bytes], clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self._clock = clock
        self._lock = asyncio.Lock()
        self._text = b""
        self._until = float("-inf")

    async def __call__(self) -> bytes:
        async with self._lock:
            if self._clock() >= self._until:
                self._text = await run_in_threadpool(self._metrics)
                self._until = self._clock() + _FRESH_SECONDS
            return self._text
