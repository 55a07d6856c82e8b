"""Checks whether the controller is alive: its watches must deliver everything that a listing shows.

A watch can end silently, and a process that answers HTTP requests may then miss all changes. So all watched objects are
listed from time to time. If the watch does not deliver a listed version soon afterwards, it is dead, and the liveness
probe fails. The audit writes no object, and the listed changes are reconciled meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from streamjob_operator.cluster.kinds import Kind, Object, version_of

_CLOSING = 1.0

Identity = tuple[Kind, str, str]
"""A watched object: its kind, namespace and name."""


def identity_of(kind: Kind, thing: Object) -> Identity:
    """Return which object it is."""
    return kind, thing["metadata"].get("namespace", ""), thing["metadata"]["name"]


@dataclass(slots=True)
class WatchAudit:
    """Compares the deliveries of watches with listings.

    Args:
        patience: seconds that a watch may lag behind a listing before it counts as dead. Kopf itself reopens a silent
            stream after 70 s.
    """

    patience: float = 150.0
    _delivered: dict[Identity, int] = field(default_factory=dict)
    _missing: dict[Identity, tuple[int, float]] = field(default_factory=dict)

    def delivered(self, kind: Kind, thing: Object) -> None:
        """Note an object that a watch brought."""
        identity, version = identity_of(kind, thing), version_of(thing)
        self._delivered[identity] = max(version, self._delivered.get(identity, 0))
        missing = self._missing.get(identity)
        if missing is not None and missing[0] <= version:
            del self._missing[identity]

    def listed(self, kind: Kind, things: Iterable[Object], now: float) -> list[Identity]:
        """Note a listing of all objects of a kind, and return those that the watch has not brought in that version."""
        found: Mapping[Identity, int] = {identity_of(kind, thing): version_of(thing) for thing in things}
        for gone in [each for each in self._delivered if each[0] == kind and each not in found]:
            del self._delivered[gone]
        for gone in [each for each in self._missing if each[0] == kind and each not in found]:
            del self._missing[gone]
        behind = [identity for identity, version in found.items() if self._delivered.get(identity, 0) < version]
        for identity in behind:
            # A newer version of a missing object does not prove that the watch works.
            self._missing.setdefault(identity, (found[identity], now))
        return behind

    def lag(self, now: float) -> float:
        """Return for how many seconds the oldest change that a listing showed has not been delivered."""
        return max((now - since for _, since in self._missing.values()), default=0.0)

    def alive(self, now: float) -> bool:
        """Return whether the watches can be trusted."""
        return self.lag(now) <= self.patience


@dataclass(slots=True)
class Health:
    """The answers to the probes.

    Args:
        clock: seconds of a clock that never goes back.
        loop_patience: seconds that the task which lists may be silent.
    """

    audit: WatchAudit = field(default_factory=WatchAudit)
    clock: Callable[[], float] = time.monotonic
    loop_patience: float = 300.0
    ready: bool = False
    swept: float | None = None

    def problem(self) -> str | None:
        """Return why the process should be replaced, or None."""
        now = self.clock()
        if not self.audit.alive(now):
            return f"a watch has not delivered a change for {self.audit.lag(now):.0f} s"
        if self.swept is not None and now - self.swept > self.loop_patience:
            return f"no object was listed for {now - self.swept:.0f} s"
        return None


def probe_server(health: Health) -> web.Application:
    """Return the server of `/healthz`, which fails when the process should be replaced, and `/readyz`."""

    async def healthz(_request: web.Request) -> web.Response:
        problem = health.problem()
        return web.Response(status=503 if problem else 200, text=problem or "ok")

    async def readyz(_request: web.Request) -> web.Response:
        return web.Response(status=200 if health.ready else 503, text="ok" if health.ready else "starting")

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz)])
    return app


def metrics_server(text: Callable[[], bytes]) -> web.Application:
    """Return the server of `/metrics`."""

    async def metrics(_request: web.Request) -> web.Response:
        # The text for a thousand jobs is long; let the event loop run meanwhile.
        body = await asyncio.to_thread(text)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics)])
    return app


async def serve(app: web.Application, host: str, port: int) -> web.AppRunner:
    """Start a server; return the object whose `cleanup()` closes it."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_CLOSING)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return runner
