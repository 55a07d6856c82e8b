"""Sends events in a thread of its own. Lineage never holds up or fails a job: what cannot be sent is dropped.

Needs the extra `lineage`. The client's own thread would let a job wait for room in its queue, and mix up the order.
"""

from __future__ import annotations

import logging
import queue
import threading
import time

from openlineage.client.event_v2 import RunEvent
from openlineage.client.transport.http import HttpConfig, HttpTransport

from streamjob_runtime.lineage.settings import no_address

_WAITING = 100
_RETRIES = 2
_QUIET_SECONDS = 600.0
"""How long nothing more is logged about a receiver that takes no events."""

log = logging.getLogger("streamjob")


class Sender:
    """Sends events by HTTP, in their order.

    Args:
        url: the receiver's endpoint.
        api_key: the bearer token; None for none.

    Raises:
        InvalidLineageSetting: the URL is none.
    """

    def __init__(self, url: str, api_key: str | None) -> None:
        auth = {} if api_key is None else {"type": "api_key", "api_key": api_key}
        retry = {"total": _RETRIES, "raise_on_status": False}
        config = {"url": url, "endpoint": "", "auth": auth, "retry": retry}
        try:
            self._transport = HttpTransport(HttpConfig.from_dict(config))
        except ValueError:
            raise no_address() from None
        self._queue: queue.Queue[RunEvent | None] = queue.Queue(_WAITING)
        self._logged = -_QUIET_SECONDS
        self._thread = threading.Thread(target=self._run, name="lineage", daemon=True)
        # It would log each retry.
        logging.getLogger("urllib3.connectionpool").addFilter(self._is_of_others)
        self._thread.start()

    def send(self, event: RunEvent) -> None:
        """Send an event soon; if too many wait, it is dropped."""
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            self._tell("too many events wait")

    def close(self, seconds: float) -> None:
        """Send what waits, for at most some seconds."""
        try:
            self._queue.put_nowait(None)
        except queue.Full:
            log.debug("The events of lineage that wait are dropped")
        self._thread.join(seconds)

    def _run(self) -> None:
        while (event := self._queue.get()) is not None:
            try:
                self._transport.emit(event)
            except Exception as error:
                answer = getattr(error, "response", None)
                self._tell(type(error).__name__ if answer is None else f"status {answer.status_code}")
        self._transport.close()

    def _tell(self, why: str) -> None:
        now = time.monotonic()
        if now - self._logged >= _QUIET_SECONDS:
            # Without the address, which may contain a login.
            log.warning("The receiver of OpenLineage events does not take them: %s. The job goes on without.", why)
            self._logged = now

    def _is_of_others(self, record: logging.LogRecord) -> bool:
        return record.thread != self._thread.ident
