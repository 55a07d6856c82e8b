"""Schedules reconciliations: one loop per object, never two at a time, woken by events and at intervals."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from streamjob.errors import StreamJobError

_log = logging.getLogger(__name__)
_Key = TypeVar("_Key")
_ROUTINE_SHARE = 4


@dataclass(frozen=True, slots=True)
class Pace:
    """How often an object is reconciled.

    Args:
        interval: seconds until the next reconciliation without events.
        jitter: share of a delay by which it varies, so that a thousand objects do not wake up together.
        first_error: seconds until the next time after a first failure; doubled with each further one.
        longest_error: the maximum of these delays.
        pause: minimum seconds from the end of one reconciliation to the start of the next, which answers all events in
            between.
    """

    interval: float = 15.0
    jitter: float = 0.1
    first_error: float = 1.0
    longest_error: float = 120.0
    pause: float = 0.05

    def after_errors(self, errors: int) -> float:
        """Return the seconds to wait after the given number of failures in a row."""
        return float(min(self.first_error * 2 ** min(errors - 1, 30), self.longest_error))


@dataclass(slots=True)
class _Object:
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    errors: int = 0
    waiting: asyncio.Future[None] | None = None


class _Places:
    """Runs at most this many reconciliations at once. Objects with pending events take precedence over routine checks.

    Otherwise, a changed spec would wait for a thousand routine checks when these take long.
    """

    def __init__(self, number: int) -> None:
        self._free = number
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._routine: deque[asyncio.Future[None]] = deque()
        self._given = 0

    async def take(self, thing: _Object, *, urgent: bool) -> None:
        if self._free > 0:
            self._free -= 1
            return
        place = thing.waiting = asyncio.get_running_loop().create_future()
        (self._urgent if urgent else self._routine).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.give_back()
            raise
        finally:
            thing.waiting = None

    def hurry(self, thing: _Object) -> None:
        """Mark an object that may already be waiting as urgent, because it has an event."""
        if thing.waiting is not None:
            self._urgent.append(thing.waiting)

    def give_back(self) -> None:
        self._given += 1
        # Routine checks find changes without events: they have lower priority, but do not wait for ever.
        first_routine = self._given % _ROUTINE_SHARE == 0
        for queue in (self._routine, self._urgent) if first_routine else (self._urgent, self._routine):
            while queue:
                place = queue.popleft()
                if not place.done():
                    place.set_result(None)
                    return
        self._free += 1


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


@dataclass(slots=True)
class WorkLoops(Generic[_Key]):
    """Runs one loop per object that is known.

    Args:
        reconcile: looks at an object once and acts; returns the seconds until the next time at the latest, None for the
            usual interval, or `WorkLoops.GONE`, which ends the loop.
        failed: called with each failure.
        chance: a random number from 0 to 1.
    """

    GONE = -1.0

    reconcile: Callable[[_Key], Awaitable[float | None]]
    pace: Pace
    concurrency: int = 20
    failed: Callable[[_Key, Exception], None] = lambda _key, _error: None
    chance: Callable[[], float] = random.random
    wait: Callable[[asyncio.Event, float], Awaitable[None]] = _wait
    _objects: dict[_Key, _Object] = field(default_factory=dict)
    _closed: bool = False
    _places: _Places = field(init=False)

    def __post_init__(self) -> None:
        self._places = _Places(self.concurrency)

    def wake(self, key: _Key) -> None:
        """Reconcile an object soon, and again afterwards if a reconciliation is running."""
        if self._closed:
            return
        found = self._objects.get(key)
        if found is None:
            found = self._objects[key] = _Object()
            found.task = asyncio.create_task(self._run(key, found), name=f"reconcile {key}")
        if not found.woken.is_set():
            found.woken.set()
            self._places.hurry(found)

    def known(self) -> frozenset[_Key]:
        """Return the objects that have a loop."""
        return frozenset(self._objects)

    async def close(self, grace: float = 5.0) -> None:
        """End all loops; a running reconciliation may finish within `grace` seconds."""
        self._closed = True
        tasks = [each.task for each in self._objects.values() if each.task is not None]
        for each in self._objects.values():
            each.woken.set()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _run(self, key: _Key, thing: _Object) -> None:
        try:
            delay = 0.0
            while not self._closed:
                # A short delay, requested by a decision, counts as an event.
                await self._places.take(thing, urgent=thing.woken.is_set() or delay < self.pace.interval)
                try:
                    thing.woken.clear()
                    delay = await self._once(key, thing)
                finally:
                    self._places.give_back()
                if delay == self.GONE and not thing.woken.is_set():
                    return
                await self.wait(thing.woken, max(self.pace.pause, self._varied(delay)))
                if thing.woken.is_set() and not self._closed:
                    await asyncio.sleep(self.pace.pause)
        finally:
            if self._objects.get(key) is thing:
                del self._objects[key]

    async def _once(self, key: _Key, thing: _Object) -> float:
        try:
            delay = await self.reconcile(key)
        except Exception as error:
            thing.errors += 1
            self.failed(key, error)
            expected = isinstance(error, StreamJobError)
            _log.warning("%s: %s; tried again soon", key, error, exc_info=None if expected else error)
            return self.pace.after_errors(thing.errors)
        thing.errors = 0
        return self.pace.interval if delay is None else delay

    def _varied(self, delay: float) -> float:
        return delay * (1 + self.pace.jitter * (2 * self.chance() - 1))
