"""The rate at which records arrive: recent samples, minutes, noise and trend; values, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log
from statistics import median
from typing import ClassVar

from pydantic import ConfigDict

from streamjob.autoscaling.load import CONFIG

MINUTES_KEPT = 240
RECENT_SECONDS = 300.0
_MINUTE, _HOUR = 60.0, 3600.0
_NOISE_MINUTES = 30
_LEAST_NOISE = 0.03
_UNKNOWN_NOISE = 0.1
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
        hours: the highest ten minutes of each of the last 24 hours: hours since 1970, records per second.
    """

    __pydantic_config__: ClassVar[ConfigDict] = CONFIG

    recent: tuple[tuple[float, float, float], ...] = ()
    minutes: tuple[float, ...] = ()
    open_rows: float = 0.0
    open_seconds: float = 0.0
    noise: float = _UNKNOWN_NOISE
    level: float | None = None
    hours: tuple[tuple[int, float], ...] = ()

    def add(self, time: float, rows: float, seconds: float) -> Arrivals:
        """Return the arrivals with one more sample that ends at `time`."""
        oldest = time - RECENT_SECONDS
        kept = self.recent
        while kept and kept[0][0] <= oldest:
            kept = kept[1:]
        recent = (*kept, (time, rows / seconds, seconds))
        open_rows, open_seconds = self.open_rows + rows, self.open_seconds + seconds
        if open_seconds < _MINUTE - 1e-6:
            return replace(self, recent=recent, open_rows=open_rows, open_seconds=open_seconds)
        minutes = (*self.minutes[-MINUTES_KEPT + 1 :], open_rows / open_seconds)
        half_hour = minutes[-_NOISE_MINUTES:]
        hour = (int(time // _HOUR), mean(minutes[-10:]))
        return Arrivals(recent, minutes, 0.0, 0.0, _noise(half_hour), median(half_hour), _with_hour(self.hours, hour))

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

    def trend(self) -> float:
        """Return the steady rise of the rate in the last twelve minutes, per second each second; 0 without one."""
        if len(self.minutes) < 12:
            return 0.0
        parts = [mean(self.minutes[-12 + start : (-9 + start) or None]) for start in (0, 3, 6, 9)]
        # A step is in one or two of the three rises, a trend in all.
        rise = min(late - early for early, late in pairwise(parts))
        return rise / 180.0 if rise > 0.5 * self.noise * parts[0] else 0.0

    def surprise(self, rate: float, level: float) -> float:
        """Return how far a rate is above a level, in standard deviations of the noise."""
        if rate <= level or rate <= 0:
            return 0.0
        return log(rate / max(level, 1e-9)) / self.noise if level > 0 else 99.0

    def an_hour_of_yesterday(self, time: float) -> float:
        """Return the highest ten minutes of yesterday in the hour that begins now; 0 if unknown."""
        now = int(time // _HOUR)
        return max((rate for hour, rate in self.hours if hour in (now - 24, now - 23)), default=0.0)


def mean(values: Sequence[float]) -> float:
    """Return the mean of some values."""
    return sum(values) / len(values)


def highest_mean(minutes: Sequence[float], length: int) -> float:
    """Return the highest mean of `length` minutes in a row, or of all if there are fewer."""
    if len(minutes) <= length:
        return mean(minutes) if minutes else 0.0
    total = sum(minutes[:length])
    highest = total
    for gone, new in zip(minutes, minutes[length:], strict=False):
        total += new - gone
        if total > highest:
            highest = total
    return highest / length


def worst_lag(minutes: Sequence[float], capacity: float, stop_at: float = float("inf"), unread: float = 0.0) -> float:
    """Return the longest lag, in seconds, that a capacity would have had with the arrivals of some minutes.

    Args:
        minutes: records per second of each minute.
        capacity: records per second.
        stop_at: seconds of lag beyond which the exact value does not matter.
        unread: records that wait at the beginning.
    """
    worst = 0.0
    for rate in minutes:
        unread += (rate - capacity) * _MINUTE
        if unread <= 0.0:
            unread = 0.0
            continue
        lag = unread / rate if rate > 0 else float("inf")
        if lag > worst:
            worst = lag
            if worst > stop_at:
                break
    return worst


def _noise(minutes: Sequence[float]) -> float:
    changes = [abs(log(late / early)) for early, late in pairwise(minutes) if early > 0 < late]
    if len(changes) < 5:
        return _UNKNOWN_NOISE
    return max(_LEAST_NOISE, median(changes) * _DIFFERENCE_TO_DEVIATION)


def _with_hour(hours: tuple[tuple[int, float], ...], new: tuple[int, float]) -> tuple[tuple[int, float], ...]:
    if hours and hours[-1][0] == new[0]:
        return hours if hours[-1][1] >= new[1] else (*hours[:-1], new)
    return (*(each for each in hours if each[0] >= new[0] - 24), new)
