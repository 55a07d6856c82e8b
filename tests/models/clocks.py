"""Clocks that tests move. Code that schedules calls is tested with `tests.virtual_clock.VirtualClock`."""

from __future__ import annotations


class SettableClock:
    """A clock that shows what a test sets.

    Args:
        now: the time at first, in seconds.
    """

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
