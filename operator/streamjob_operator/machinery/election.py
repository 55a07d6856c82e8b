"""The election in a thread of its own: whatever the reconciles are busy with, the lease is renewed in time.

The thread has its own event loop and its own client. It watches the main loop as well: a lease that a stuck process
renewed would keep every other replica from taking over.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any

from streamjob.errors import ExitCode
from streamjob_operator.cluster.api import Cluster
from streamjob_operator.machinery.leader import Leadership
from streamjob_operator.settings import LeaseSettings

_log = logging.getLogger(__name__)
_CLOSING = 5.0

OpenCluster = Callable[[], AbstractAsyncContextManager[Cluster]]
"""Connects to the API server, in the thread that uses it."""


class Election:
    """Takes part in the election from a thread of its own. Made and used in the main event loop.

    Args:
        connect: connects to the API server.
        exit_process: ends the process at once, with an exit code: nothing else stops a main loop that is stuck.
        clock: seconds of a clock that never goes back.
    """

    def __init__(
        self,
        settings: LeaseSettings,
        connect: OpenCluster,
        *,
        exit_process: Callable[[int], object] = os._exit,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._connect = connect
        self._exit = exit_process
        self._clock = clock
        self._main = asyncio.get_running_loop()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._ends = self._led = False
        self._rests = threading.Event()
        self._pulse = clock()
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)
        self.acquired = asyncio.Event()
        """Is set once this replica leads."""
        self.lost = asyncio.Event()
        """Is set when it does not lead any more, or cannot take part: then stop acting at once."""

    def start(self) -> None:
        """Take part from now on."""
        self._thread.start()

    def rest(self) -> None:
        """Note that this process does not act any more; without that, one that has lost its lease is ended."""
        self._rests.set()

    async def stop(self) -> None:
        """Take no part any more; a lease that is held is released."""
        self.rest()
        self._ends = True
        if self._loop is not None and self._stopping is not None:
            try:
                self._loop.call_soon_threadsafe(self._stopping.set)
            except RuntimeError:
                _log.debug("the election has ended already")
        await asyncio.to_thread(self._thread.join, self._settings.retry + _CLOSING)

    def _run(self) -> None:
        try:
            asyncio.run(self._take_part())
        except Exception as error:
            _log.error("the election has failed", exc_info=error)
        self._tell(self.lost)
        # Others may act once the lease has run out; until then a main loop that runs has stopped.
        if self._led and not self._rests.wait(self._settings.grace):
            _log.error("%s still acts without a lease: its process is being ended", self._settings.identity)
            self._exit(ExitCode.FAILED)

    async def _take_part(self) -> None:
        self._stopping = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if self._ends:
            return
        async with self._connect() as cluster:
            leadership = Leadership(cluster, self._settings, clock=self._clock)
            stopping = asyncio.create_task(self._stopping.wait(), name="wait for the end")
            if not await self._unless(stopping, leadership.acquire()):
                return
            self._pulse, self._led = self._clock(), True
            self._tell(self.acquired)
            watching = asyncio.create_task(self._watch_the_main_loop(), name="watch the main loop")
            kept = not await self._unless(stopping, leadership.keep())
            watching.cancel()
            if kept:
                await leadership.release()

    @staticmethod
    async def _unless(stopping: asyncio.Task[bool], part: Coroutine[Any, Any, None]) -> bool:
        """Return whether something came to its end before the election was to stop."""
        task = asyncio.create_task(part)
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            return False
        await task
        return True

    async def _watch_the_main_loop(self) -> None:
        while True:
            self._tell_main(self._beat)
            await asyncio.sleep(self._settings.retry)
            silent = self._clock() - self._pulse
            if silent > self._settings.stuck and not self._rests.is_set():
                _log.error("the main loop has been stuck for %.0f s: the process is ended", silent)
                self._exit(ExitCode.FAILED)

    def _beat(self) -> None:
        self._pulse = self._clock()

    def _tell(self, event: asyncio.Event) -> None:
        self._tell_main(event.set)

    def _tell_main(self, call: Callable[[], object]) -> None:
        try:
            self._main.call_soon_threadsafe(call)
        except RuntimeError:
            _log.debug("the main loop has ended")
