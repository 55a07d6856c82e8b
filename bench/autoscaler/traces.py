"""Ten daily traces of the rate at which records arrive, by seed; those of the specification."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

TICK = 10
"""Seconds."""
DAY = 86_400
HOUR = 3600
_BASE = 20_000.0

_SHAPES: dict[str, tuple[Callable[[int], float], float]] = {
    "steady": (lambda s: _BASE * 4, 0.05),
    "step x3": (lambda s: _BASE * (6 if 8 * HOUR <= s < 18 * HOUR else 2), 0.05),
    "ramp 1:5": (
        lambda s: _BASE * (2 + 8 * min(1, max(0, (s - 6 * HOUR) / (2 * HOUR)))) if s < 20 * HOUR else _BASE * 2,
        0.05,
    ),
    "spike x4 10 min": (lambda s: _BASE * (8 if s % (4 * HOUR) < 600 and s > HOUR else 2), 0.05),
    "diurnal 1:5": (lambda s: _BASE * (6 - 4 * math.cos(2 * math.pi * s / DAY)), 0.05),
    "slow drift": (lambda s: _BASE * (3 + 4 * s / DAY), 0.05),
    "bursty": (lambda s: _BASE * 4, 0.35),
    "catch-up 1 h": (lambda s: _BASE * 4, 0.05),
    "skew": (lambda s: _BASE * (6 - 4 * math.cos(2 * math.pi * s / DAY)), 0.05),
    "night batch": (lambda s: _BASE * (10 if 2 * HOUR <= s < 3 * HOUR else 2), 0.05),
}
NAMES = tuple(_SHAPES)
CATCH_UP, SKEW = "catch-up 1 h", "skew"
UNREACHABLE = (CATCH_UP, SKEW)
"""Traces on which no algorithm can keep the lag below its limit; they are not part of the means."""


def traces(seed: int) -> dict[str, list[float]]:
    """Return the records per second of each tick of a day, by trace. Noise is correlated over about a minute."""
    rng = random.Random(seed)
    made = {}
    for name, (shape, deviation) in _SHAPES.items():
        rates, error = [], 0.0
        for tick in range(DAY // TICK):
            error = 0.85 * error + rng.gauss(0, deviation * 0.53)
            rates.append(max(0.0, shape(tick * TICK) * math.exp(error)))
        made[name] = rates
    return made
