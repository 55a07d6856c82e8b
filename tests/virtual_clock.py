"""A clock that moves only when a test advances it, so that time-dependent tests are fast and deterministic."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count


class VirtualClock:
    """A clock whose time passes only by `advance`, which also makes scheduled calls.

    Args:
        start: the initial time, in seconds since 1970.
    """

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._order = count()
        self._calls: list[tuple[float, int, Callable[[], None]]] = []

    def now(self) -> float:
        """Return the time, in seconds since 1970."""
        return self._now

    def call_at(self, time: float, call: Callable[[], None]) -> Callable[[], None]:
        """Schedule `call` for the given time; return a function that cancels it."""
        entry = (max(time, self._now), next(self._order), call)
        heapq.heappush(self._calls, entry)

        def cancel() -> None:
            if entry in self._calls:
                self._calls.remove(entry)
                heapq.heapify(self._calls)

        return cancel

    @property
    def next_call(self) -> float | None:
        """The time of the next scheduled call, or None."""
        return self._calls[0][0] if self._calls else None

    def advance(self, seconds: float) -> None:
        """Advance the time by `seconds`; make each scheduled call at its own time, in order.

        Raises:
            ValueError: `seconds` is negative.
        """
        if seconds < 0:
            raise ValueError(f"a clock cannot go back by {-seconds} s")
        until = self._now + seconds
        while self._calls and self._calls[0][0] <= until:
            self._now, _, call = heapq.heappop(self._calls)
            call()
        self._now = until
