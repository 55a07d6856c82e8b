"""Measures the memory of the driver: Java's heap after a collection, and all that is outside of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamjob.client.models import MemoryView

_EVERY = 10.0
_CGROUP = Path("/sys/fs/cgroup")


class MemoryMeter:
    """The memory of this process and those that it has started; one thread observes it, any thread reads it.

    Args:
        java: returns the root of Java's packages; None while none runs.
        cgroup: directory of the container's control group.
    """

    def __init__(self, java: Callable[[], Any | None], cgroup: Path = _CGROUP) -> None:
        self._java = java
        self._cgroup = cgroup
        self._observed = float("-inf")
        self.view: MemoryView | None = None

    def observe(self, now: float) -> None:
        """Measure it, unless that was done in the last ten seconds.

        Args:
            now: seconds since 1970.
        """
        if now - self._observed < _EVERY or (java := self._java()) is None:
            return
        self._observed = now
        factory = java.java.lang.management.ManagementFactory
        heap = factory.getMemoryMXBean().getHeapMemoryUsage()
        live = sum(map(_live, factory.getMemoryPoolMXBeans()))
        limit, anonymous = container_memory(self._cgroup)
        outside = None if anonymous is None else max(0, anonymous - int(heap.getCommitted()))
        self.view = MemoryView(
            heap=int(heap.getMax()), heap_live=live, outside_heap=outside, container=limit, measured=now
        )


def container_memory(cgroup: Path) -> tuple[int | None, int | None]:
    """Return the limit of a container, and its memory that no file backs, in bytes; None for each that is unknown."""
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        lines = (cgroup / "memory.stat").read_text().splitlines()
    except OSError:
        return None, None
    if not limit.isdecimal():
        return None, None
    return int(limit), next((int(line.split()[1]) for line in lines if line.startswith("anon ")), None)


def _live(pool: Any) -> int:
    """Return the bytes of a pool that its last collection has left; all of them before its first one.

    Objects in Eden are younger than the last collection, and most of them do not survive the next.
    """
    if pool.getType().toString() != "Heap memory" or "Eden" in pool.getName():
        return 0
    collected = pool.getCollectionUsage()
    left = 0 if collected is None else int(collected.getUsed())
    return left or int(pool.getUsage().getUsed())
