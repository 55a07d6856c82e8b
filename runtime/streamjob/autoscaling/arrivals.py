"""The rate at which records arrive: recent samples, minutes and their noise; values, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, log
from statistics import median
from typing import ClassVar

from pydantic import ConfigDict

from streamjob.autoscaling.load import KEPT

MINUTES_KEPT = 240
"""The longest delay before a reduction with the default `scaleDownDelay`: half an hour, doubled three times."""
_RECENT_SECONDS = 300.0
"""The longest time whose rate is asked for."""
_MINUTE = 60.0
_LEVEL_MINUTES = 30
"""The default `scaleDownDelay`."""
_LEAST_NOISE, _UNKNOWN_NOISE = 0.03, 0.1
"""Standard deviations, as a share: a minute of the calmest simulated trace has 0.04, the calm and bursty ones 0.1."""
_FEWEST_CHANGES = 5
_DIFFERENCE_TO_DEVIATION = 1.48 / 1.1
"""From the median change between two minutes to a standard deviation: normal noise that is correlated over a minute."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Records that arrived.

    Args:
        recent: the last five minutes: time of the sample, records per second, seconds that it covers.
        minutes: records per second of the last closed minutes, oldest first.
        open_rows: records of the minute that is not closed.
        open_seconds: its seconds so far.
        noise: standard deviation of a minute's rate around its level, as a share.
        level: median rate of the last half hour; None before the first minute.
    """

    __pydantic_config__: ClassVar[ConfigDict] = KEPT

    recent: tuple[tuple[float, float, float], ...] = ()
    minutes: tuple[float, ...] = ()
    open_rows: float = 0.0
    open_seconds: float = 0.0
    noise: float = _UNKNOWN_NOISE
    level: float | None = None

    def add(self, time: float, rows: float, seconds: float) -> Arrivals:
        """Return the arrivals with one more sample that ends at `time`."""
        kept = tuple(each for each in self.recent if each[0] > time - _RECENT_SECONDS)
        recent = (*kept, (time, rows / seconds, seconds))
        open_rows, open_seconds = self.open_rows + rows, self.open_seconds + seconds
        if open_seconds < _MINUTE - 1e-6:
            return replace(self, recent=recent, open_rows=open_rows, open_seconds=open_seconds)
        minutes = (*self.minutes[-MINUTES_KEPT + 1 :], open_rows / open_seconds)
        last = minutes[-_LEVEL_MINUTES:]
        return Arrivals(recent, minutes, noise=_noise(last), level=median(last))

    def rate(self, seconds: float) -> float:
        """Return the mean rate of the last `seconds`, at most five minutes; 0 without samples."""
        if not self.recent:
            return 0.0
        since = self.recent[-1][0] - seconds
        rows = covered = 0.0
        for time, rate, length in reversed(self.recent):
            if time <= since:
                break
            rows += rate * length
            covered += length
        return rows / covered


def highest_mean(minutes: Sequence[float], length: int) -> float:
    """Return the highest mean of `length` minutes in a row, or of all if there are fewer."""
    if len(minutes) <= length:
        return sum(minutes) / max(len(minutes), 1)
    highest = total = sum(minutes[:length])
    for gone, new in zip(minutes, minutes[length:], strict=False):
        total += new - gone
        highest = max(highest, total)
    return highest / length


def worst_lag(minutes: Sequence[float], capacity: float) -> float:
    """Return the longest lag, in seconds, that a capacity would have had with the arrivals of some minutes.

    Both arguments are in records per second.
    """
    worst = unread = 0.0
    for rate in minutes:
        unread = max(0.0, unread + (rate - capacity) * _MINUTE)
        if unread > 0.0:
            worst = max(worst, unread / rate if rate > 0 else inf)
    return worst


def _noise(minutes: Sequence[float]) -> float:
    changes = [abs(log(late / early)) for early, late in pairwise(minutes) if early > 0 < late]
    if len(changes) < _FEWEST_CHANGES:
        return _UNKNOWN_NOISE
    return max(_LEAST_NOISE, median(changes) * _DIFFERENCE_TO_DEVIATION)
