"""Decides from looks at a job which of its figures grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from statistics import median

from bench.soak_model import Look

SHARE = 0.03
"""A figure that rises by less than this share from the first quarter to the last one is flat."""
SETTLED = 1 / 6
"""Share of the rise that falls on the last quarter at most, if a figure has settled; a straight line has a third."""
_HOUR = 3600.0


class Course(StrEnum):
    """How a figure went on."""

    FLAT = "flat"
    SETTLED = "settled"
    GROWS = "grows"


@dataclass(frozen=True, slots=True)
class Trend:
    """The trend of one figure.

    Args:
        first: median of the first quarter.
        last: median of the last quarter.
        slope: its growth per hour after the first quarter: the median of the slopes between any two observations.
        course: the verdict.
    """

    first: float
    last: float
    slope: float
    course: Course


def trend(looks: Sequence[Look], name: str, least: float) -> Trend | None:
    """Return what became of a figure; None if a quarter has no look at it.

    Args:
        looks: all looks; those of the warm-up do not count.
        name: of the figure.
        least: a rise up to this is none.
    """
    counted = [look for look in looks if look.at >= 0]
    if not counted:
        return None
    end = counted[-1].at
    quarters: list[list[float]] = [[], [], [], []]
    points: list[tuple[float, float]] = []
    for look in counted:
        if name in look.figures:
            quarter = min(3, int(4 * look.at / end)) if end else 0
            quarters[quarter].append(look.figures[name])
            if quarter:
                points.append((look.at, look.figures[name]))
    if not all(quarters) or len(points) < 3:
        return None
    first, _, third, last = map(median, quarters)
    rise = last - first
    if rise <= max(least, SHARE * abs(first)):
        course = Course.FLAT
    elif last - third <= SETTLED * rise:
        course = Course.SETTLED
    else:
        course = Course.GROWS
    return Trend(first, last, slope(points) * _HOUR, course)


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the median of the slopes between any two points (Theil–Sen): single outliers do not move it."""
    slopes = [(after - before) / (late - early) for (early, before), (late, after) in combinations(points, 2)]
    return median(slopes)
