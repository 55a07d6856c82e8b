"""Sends in threads of their own, so that nothing waits for a receiver or fails by it: what does not fit is dropped."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

_CAPACITY = 4096
_BATCH = 512
_LINGER = 1.0

_Item = TypeVar("_Item")

log = logging.getLogger("streamjob")


class _Sender:
    """A thread that sends until it is to end."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"send-{name}", daemon=True)

    def close(self, seconds: float) -> None:
        """Send what is left, within a time limit."""
        self.closing()
        self._thread.join(seconds)

    def closing(self) -> None:
        """Let `close` follow soon."""
        self._closing.set()

    def _run(self) -> None:
        raise NotImplementedError


class Outbox(_Sender, Generic[_Item]):
    """A queue of things to send.

    Args:
        name: of the things, for the log.
        send: sends some of them. It may block, and raises if the receiver does not take them.
        capacity: how many may wait.
        linger: seconds to wait for more before sending.
    """

    def __init__(
        self,
        name: str,
        send: Callable[[Sequence[_Item]], None],
        *,
        capacity: int = _CAPACITY,
        linger: float = _LINGER,
    ) -> None:
        super().__init__(name)
        self._send = send
        self._linger = linger
        self._queue: queue.Queue[_Item] = queue.Queue(capacity)
        self._lock = threading.Lock()
        self._warned = False
        self._thread.start()

    def put(self, items: Sequence[_Item]) -> None:
        """Queue things, and drop those that do not fit; never waits."""
        lost = 0
        for item in items:
            try:
                self._queue.put_nowait(item)
            except queue.Full:
                lost += 1
        if lost:
            self._drop(lost, "more of them arise than the receiver takes")

    def _run(self) -> None:
        while not (self._closing.is_set() and self._queue.empty()):
            items = self._take()
            if not items:
                continue
            try:
                self._send(items)
            except Exception as error:
                self._drop(len(items), f"{type(error).__name__}: {error}")

    def _take(self) -> list[_Item]:
        items: list[_Item] = []
        until = time.monotonic() + self._linger
        while len(items) < _BATCH:
            wait = 0.0 if self._closing.is_set() else until - time.monotonic()
            try:
                items.append(self._queue.get(timeout=wait) if wait > 0 else self._queue.get_nowait())
            except queue.Empty:
                break
        return items

    def _drop(self, count: int, reason: str) -> None:
        with self._lock:
            first, self._warned = not self._warned, True
        if first:
            # Once: a receiver that is away for a day must not fill the log.
            log.warning("Dropped %d %s, and will drop more without a message: %s", count, self._name, reason)


class Repeated(_Sender):
    """Calls a function again and again, and once more at the end.

    Args:
        name: of what it sends, for the log.
        call: sends; it may block and raise.
        seconds: between two calls.
    """

    def __init__(self, name: str, call: Callable[[], None], seconds: float) -> None:
        super().__init__(name)
        self._call = call
        self._seconds = seconds
        self._failing = False
        self._thread.start()

    def _run(self) -> None:
        while not self._closing.wait(self._seconds):
            self._send()
        self._send()

    def _send(self) -> None:
        try:
            self._call()
        except Exception as error:
            if not self._failing:
                log.warning("The %s cannot be sent, and are tried again: %s", self._name, error)
            self._failing = True
        else:
            if self._failing:
                log.info("The %s are sent again", self._name)
            self._failing = False
