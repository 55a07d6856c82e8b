"""A process's time: seconds since 1970 that never run backwards."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]


def steady_clock() -> Clock:
    """Return a clock: the wall time at this call plus the monotonic time that has passed since."""
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()
