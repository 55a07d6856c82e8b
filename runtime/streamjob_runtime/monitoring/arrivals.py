"""Tells how far a source is behind in time, from the offsets that its topic has had."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque

_EVERY = 5.0
_SAMPLES = 720


class Arrivals:
    """Remembers for an hour how many records a topic has had, to tell when the record at a position arrived."""

    def __init__(self) -> None:
        self._ends: deque[tuple[float, int]] = deque(maxlen=_SAMPLES)
        self._newest: tuple[float, int] | None = None

    def note(self, at: float, end: int) -> None:
        """Record the end of the topic, all partitions together, at a time in seconds."""
        if self._newest is not None and at <= self._newest[0]:
            return
        if self._newest is not None and end < self._newest[1]:
            # The topic was created again: its offsets mean something else now.
            self._ends.clear()
        self._newest = at, end
        if not self._ends or at - self._ends[-1][0] >= _EVERY:
            self._ends.append(self._newest)

    def lag(self, position: int, now: float) -> float | None:
        """Return the seconds since the arrival of the first unread record; 0 if there is none, None if not known.

        Args:
            position: the position in the topic, all partitions together.
            now: the time in seconds.
        """
        if self._newest is None:
            return None
        if position >= self._newest[1]:
            return 0.0
        samples = list(self._ends)
        if samples[-1] != self._newest:
            samples.append(self._newest)
        after = bisect_left(samples, position, key=lambda sample: sample[1])
        (begun, first), (ended, last) = (samples[0], samples[-1]) if after == 0 else samples[after - 1 : after + 1]
        # Before the first sample, records are taken to have arrived at the rate of the time since.
        if last == first:
            return None
        arrived = begun + (position - first) / (last - first) * (ended - begun)
        return max(0.0, now - arrived)
