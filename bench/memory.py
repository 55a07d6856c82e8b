"""Watches how much memory a process and those below it have."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType

from bench.proc import descendants

_EVERY_SECONDS = 0.1
_PAGE = os.sysconf("SC_PAGE_SIZE")


class MemoryWatch:
    """Looks at a process while its context is open; afterwards it knows the most that there was.

    Args:
        pid: a driver in Python, whose one Java process starts Python workers.

    `driver_bytes` is the most of the driver and Java together, `worker_bytes` that of the workers, each without pages
    that it shares.
    """

    def __init__(self, pid: int) -> None:
        self.driver_bytes = 0
        self.worker_bytes = 0
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_EVERY_SECONDS):
            below = descendants(self._pid)
            java = [pid for pid in below if _name(pid) == "java"]
            self.driver_bytes = max(self.driver_bytes, sum(map(resident_bytes, [self._pid, *java])))
            self.worker_bytes = max(self.worker_bytes, sum(own_bytes(pid) for pid in below if pid not in java))


def resident_bytes(pid: int) -> int:
    """Return the memory that a process has; 0 if it has ended."""
    return _pages(pid)[0] * _PAGE


def own_bytes(pid: int) -> int:
    """Return the memory that a process has and shares with no file or other process; 0 if it has ended."""
    resident, shared = _pages(pid)
    return (resident - shared) * _PAGE


def _pages(pid: int) -> tuple[int, int]:
    try:
        _, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
    except (OSError, ValueError):
        return 0, 0
    return resident, shared


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
