"""A clock that stands still until it is told to move: tests that depend on time run at once, and alike every time."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count


class VirtualClock:
    """Seconds since 1970 that pass only by `advance`, and calls that become due on the way.

    Args:
        start: the time at the beginning.
    """

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._order = count()
        self._calls: list[tuple[float, int, Callable[[], None]]] = []

    def now(self) -> float:
        """Return the time, in seconds since 1970."""
        return self._now

    def call_at(self, time: float, call: Callable[[], None]) -> Callable[[], None]:
        """Let `call` be called when the clock reaches `time`; return what takes that back."""
        entry = (max(time, self._now), next(self._order), call)
        heapq.heappush(self._calls, entry)

        def cancel() -> None:
            if entry in self._calls:
                self._calls.remove(entry)
                heapq.heapify(self._calls)

        return cancel

    @property
    def next_call(self) -> float | None:
        """The time of the next call, None if none waits."""
        return self._calls[0][0] if self._calls else None

    def advance(self, seconds: float) -> None:
        """Let time pass, and make the calls that become due in the order of their times, each at its own time.

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
