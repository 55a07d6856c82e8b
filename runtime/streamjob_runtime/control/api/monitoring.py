"""Metrics and probes on a port of their own, for Prometheus and for the node: they have no token.

Nothing else is served there: whoever may scrape a job must not be able to stop it.
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
from streamjob_runtime.control.api.control import JobControl
from streamjob_runtime.control.api.listener import Listener, Server, port_of

METRICS_PORT_VARIABLE = "STREAMJOB_METRICS_PORT"

_FRESH_SECONDS = 1.0
_log = logging.getLogger("streamjob")


class MonitoringServer(Server):
    """Serves `/metrics`, `/healthz` and `/readyz` without a token from `start` to `stop`; a context manager does both.

    Args:
        control: the job.
        metrics: returns the metrics in Prometheus' text form; called once a second at most, so that nobody can keep the
            job busy with them.
        host: address to listen on, `*` for all; None: STREAMJOB_HOST, or else loopback alone.
        port: port to listen on, 0 for any free one; None: STREAMJOB_METRICS_PORT, and without it nothing is served.
    """

    def __init__(
        self, control: JobControl, *, metrics: Callable[[], bytes], host: str | None = None, port: int | None = None
    ) -> None:
        super().__init__()
        self._app = create_monitoring_app(control, metrics)
        self._host = host
        self._port = port
        self._listener = Listener("monitoring", METRICS_PORT_VARIABLE)

    def start(self) -> None:
        """Serve, if there is a port.

        Raises:
            InvalidInput: the port is taken or no number, or there is no such address.
            ServerNotStarted: the server ended before it answered.
        """
        port = self._port if self._port is not None else port_of(METRICS_PORT_VARIABLE)
        if port is not None:
            self._url = self._listener.start(self._app, port, self._host)
            _log.info("metrics and probes are served at %s", self._url)

    def stop(self) -> None:
        """End the server: its thread has ended and its socket is closed on return."""
        self._url = ""
        self._listener.stop()


def create_monitoring_app(
    control: JobControl, metrics: Callable[[], bytes], clock: Callable[[], float] = time.monotonic
) -> FastAPI:
    """Return what answers `GET /metrics`, `/healthz` and `/readyz`, and 404 or 405 to everything else.

    Args:
        control: the job.
        metrics: returns the metrics in Prometheus' text form.
        clock: returns seconds, never going back.
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
