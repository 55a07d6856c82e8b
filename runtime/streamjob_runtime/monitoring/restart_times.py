"""Remembers when a job restarted."""

from __future__ import annotations

from collections import deque

_REMEMBERED = 20


class RestartTimes:
    """The times of the last restarts; one thread notes them, any thread reads them."""

    def __init__(self) -> None:
        self._before = 0
        self._times: deque[float] = deque(maxlen=_REMEMBERED)

    @property
    def times(self) -> tuple[float, ...]:
        """The times, in seconds since 1970, oldest first."""
        return tuple(self._times)

    def note(self, restarts: int, now: float) -> None:
        """Record the number of restarts in this process at a time."""
        self._times.extend([now] * (restarts - self._before))
        self._before = restarts
