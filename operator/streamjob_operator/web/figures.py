"""Asks the drivers of the jobs that somebody looks at how they are, now and then, and remembers what they said."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable

from streamjob.errors import StreamJobError
from streamjob_operator.cluster.driver_api import Drivers
from streamjob_operator.cluster.kinds import Object
from streamjob_operator.web.jobs import Jobs
from streamjob_operator.web.rows import Figures

Ask = Callable[[Object], Awaitable[Figures | None]]

_EVERY = 10.0
_AT_ONCE = 8
_PAUSE = 0.25
_WANTED_SECONDS = 15.0
_MOST = 10_000
_PAST_SECONDS = 30.0
_log = logging.getLogger(__name__)


class AskedFigures:
    """The last answers of drivers, by the uid of their StreamJob; they stay when a driver goes away.

    No driver is asked while nobody looks, and at most 32 are asked in a second.

    Args:
        ask: asks the driver of a StreamJob; returns None while there is none. Raises StreamJobError.
        clock: seconds of a clock that never goes back.
        every: seconds until a driver is asked again.
    """

    def __init__(self, ask: Ask, clock: Callable[[], float], *, every: float = _EVERY) -> None:
        self._ask = ask
        self._clock = clock
        self._every = every
        self._latest: OrderedDict[str, Figures] = OrderedDict()
        self._wanted: dict[str, tuple[Object, float]] = {}
        self._asked: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None

    def of(self, uid: str) -> Figures | None:
        """Return what the driver of a StreamJob said last."""
        return self._latest.get(uid)

    def want(self, jobs: Iterable[Object]) -> None:
        """Ask the drivers of StreamJobs for the next few seconds."""
        until = self._clock() + _WANTED_SECONDS
        for job in jobs:
            self._wanted[job["metadata"]["uid"]] = job, until
        if self._wanted and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run(), name="ask drivers for the page")

    async def close(self) -> None:
        """Ask no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            now = self._clock()
            self._wanted = {uid: each for uid, each in self._wanted.items() if each[1] > now}
            self._asked = {uid: at for uid, at in self._asked.items() if uid in self._wanted}
            if not self._wanted:
                return
            due = [uid for uid in self._wanted if now - self._asked.get(uid, float("-inf")) >= self._every]
            # Those that were asked longest ago come first, so that many jobs take turns.
            due.sort(key=lambda uid: self._asked.get(uid, float("-inf")))
            await asyncio.gather(*(self._ask_one(uid) for uid in due[:_AT_ONCE]))
            await asyncio.sleep(_PAUSE)

    async def _ask_one(self, uid: str) -> None:
        self._asked[uid] = self._clock()
        try:
            found = await self._ask(self._wanted[uid][0])
        except StreamJobError as error:
            # The row says how old the figures are; the controller itself reports a driver that does not answer.
            _log.debug("a driver gave no figures for the page: %s", error)
            return
        if found is not None:
            self._latest[uid] = found
            self._latest.move_to_end(uid)
            while len(self._latest) > _MOST:
                self._latest.popitem(last=False)


def asking(jobs: Jobs, drivers: Drivers, now: Callable[[], float]) -> Ask:
    """Return the function that asks the driver of a StreamJob.

    Args:
        now: seconds since 1970.
    """

    async def ask(job: Object) -> Figures | None:
        address = await jobs.driver(job)
        if address is None:
            return None
        at = now()
        diagnosis = await drivers.diagnosis(address)
        points = (await drivers.history(address, at - _PAST_SECONDS)).points
        return Figures(at, diagnosis, points[-1] if points else None)

    return ask
