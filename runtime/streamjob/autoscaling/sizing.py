"""Decides the memory of a driver from what it uses: pure, and apart from the number of slots.

As in Flink's memory tuning, the heap is what is alive after a collection plus a share for what is not. The rest of the
container is for state (RocksDB) and Python's workers. More memory is given at once, because a driver without it is
killed. Less is given only when the job restarts anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from streamjob.autoscaling.load import CONFIG

_MIB = 1024**2
_STEP = 64 * _MIB
"""Sizes are multiples of it, so that small differences change nothing."""
_LIVE_SHARE = 0.6
"""Share of the heap that live objects take after a change."""
_HEAP_PRESSURE, _CONTAINER_PRESSURE, _PRESSURE_SECONDS = 0.85, 0.92, 60.0
"""Shares that are nearly full, and seconds for which they must be, as documented."""
_GROWTH = 1.5
"""Factor of what is too small, as documented."""
_OUTSIDE_MARGIN = 1.25
"""Times the memory outside the heap that is in use: it grows with the state."""
_WINDOW = 21_600.0
"""Seconds of one of the two windows whose peaks are known."""
_SAVING = 0.25
"""Share of the memory that a reduction saves at least."""


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The memory of a driver at one moment, in bytes.

    Args:
        time: seconds since 1970.
        heap: most of the heap.
        live: heap that the last collection has left.
        outside: memory in use outside the heap; None if unknown.
        container: limit of the container; None if unknown.
    """

    time: float
    heap: int
    live: int
    outside: int | None = None
    container: int | None = None

    @property
    def is_short(self) -> bool:
        """Whether the driver is about to run out of memory."""
        return self.heap_is_short or self.container_is_short

    @property
    def heap_is_short(self) -> bool:
        """Whether live objects nearly fill the heap."""
        return self.live > _HEAP_PRESSURE * self.heap

    @property
    def container_is_short(self) -> bool:
        """Whether the container would be nearly full if the heap were."""
        if self.outside is None or self.container is None:
            return False
        return self.heap + self.outside > _CONTAINER_PRESSURE * self.container


@dataclass(frozen=True, slots=True)
class Peaks:
    """The most memory that a driver used, and how long it has been short of it.

    Args:
        begun: when the present window began, seconds since 1970.
        live: most live heap in it, bytes.
        outside: most memory outside the heap in it, bytes.
        live_before: the same in the window before; None before the first has ended.
        outside_before: likewise.
        short_since: since when it is short of memory; None if it is not.
    """

    __pydantic_config__: ClassVar = CONFIG

    begun: float
    live: int = 0
    outside: int = 0
    live_before: int | None = None
    outside_before: int | None = None
    short_since: float | None = None

    def observe(self, use: MemoryUse) -> Peaks:
        """Return the peaks with one more observation."""
        short = (use.time if self.short_since is None else self.short_since) if use.is_short else None
        live, outside = use.live, use.outside or 0
        if use.time - self.begun >= _WINDOW:
            return Peaks(use.time, live, outside, self.live, self.outside, short)
        return replace(self, live=max(self.live, live), outside=max(self.outside, outside), short_since=short)


@dataclass(frozen=True, slots=True)
class Sizes:
    """The memory that a driver is given, in bytes: its heap, and what its container has besides."""

    heap: int
    besides: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the most heap that a driver is given, in bytes; None: the sizes are not changed in this way."""

    least: int | None
    most: int | None


def more_memory(bounds: Bounds, peaks: Peaks, use: MemoryUse, given: Sizes) -> Sizes | None:
    """Return larger sizes for a driver that has been short of memory for a minute; None if it is not, or has the most.

    Args:
        peaks: what it used, `use` included.
    """
    if bounds.most is None or peaks.short_since is None or use.time - peaks.short_since < _PRESSURE_SECONDS:
        return None
    heap, besides = given.heap, given.besides
    if use.heap_is_short:
        heap = max(heap, min(bounds.most, _up(max(use.live / _LIVE_SHARE, given.heap * _GROWTH))))
    if use.container_is_short:
        # Memory besides the heap is bounded in proportion to the most heap.
        most = max(given.besides, given.besides * bounds.most // given.heap)
        besides = max(besides, min(most, _up(max((use.outside or 0) * _OUTSIDE_MARGIN, given.besides * _GROWTH))))
    found = Sizes(heap, besides)
    return None if found == given else found


def less_memory(bounds: Bounds, peaks: Peaks, given: Sizes) -> Sizes | None:
    """Return the sizes for the next restart of a driver that has used much less for hours; None to keep them.

    The heap that is given back stays given back only as long as a driver is not short of memory.
    """
    if bounds.least is None or peaks.live_before is None or peaks.short_since is not None:
        return None
    live = max(peaks.live, peaks.live_before)
    heap = max(bounds.least, _up(live / _LIVE_SHARE))
    if heap > given.heap * (1 - _SAVING):
        return None
    # RocksDB and Python's workers need no less because the heap does.
    return Sizes(heap, given.besides)


def _up(size: float) -> int:
    return -int(-size // _STEP) * _STEP
