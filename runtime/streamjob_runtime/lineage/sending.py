"""Sends events in a thread of its own. Lineage never holds up or fails a job: what cannot be sent is dropped."""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from typing import Any

import httpx

_WAITING = 100
_TRIES = 3
_PAUSE_SECONDS = 1.0
_TIMEOUT_SECONDS = 5.0
_QUIET_SECONDS = 600.0
"""How long nothing more is logged about a receiver that takes no events."""
_FINAL: frozenset[int] = frozenset({400, 401, 403, 404, 405, 413, 422})

log = logging.getLogger("streamjob")


class Sender:
    """Sends events by HTTP, in their order.

    Args:
        url: the receiver's endpoint.
        api_key: the bearer token; None for none.
        transport: the HTTP transport; by default the network.
        pause: seconds between two tries.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None,
        *,
        transport: httpx.BaseTransport | None = None,
        pause: float = _PAUSE_SECONDS,
    ) -> None:
        headers = {"Content-Type": "application/json"}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {api_key}"
        self._url = url
        self._http = httpx.Client(headers=headers, timeout=_TIMEOUT_SECONDS, transport=transport)
        self._pause = pause
        self._queue: queue.Queue[dict[str, Any] | None] = queue.Queue(_WAITING)
        self._closing = threading.Event()
        self._logged = -_QUIET_SECONDS
        self._thread = threading.Thread(target=self._run, name="lineage", daemon=True)
        self._thread.start()

    def send(self, event: dict[str, Any]) -> None:
        """Send an event soon; if too many wait, it is dropped."""
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            self._tell("too many events wait")

    def close(self, seconds: float) -> None:
        """Send what waits, for at most some seconds."""
        self._closing.set()
        try:
            self._queue.put_nowait(None)
        except queue.Full:
            log.debug("The events of lineage that wait are dropped")
        self._thread.join(seconds)

    def _run(self) -> None:
        with self._http:
            while (event := self._queue.get()) is not None:
                self._post(json.dumps(event).encode())

    def _post(self, body: bytes) -> None:
        why = ""
        for attempt in range(_TRIES):
            if attempt:
                # A job that ends does not wait for a receiver that is away.
                self._closing.wait(self._pause)
            try:
                answer = self._http.post(self._url, content=body)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                why = type(error).__name__
                continue
            if answer.is_success:
                return
            why = f"status {answer.status_code}"
            if answer.status_code in _FINAL:
                break
        self._tell(why)

    def _tell(self, why: str) -> None:
        now = time.monotonic()
        if now - self._logged >= _QUIET_SECONDS:
            # Without the address, which may contain a login.
            log.warning("The receiver of OpenLineage events does not take them: %s. The job goes on without.", why)
            self._logged = now
