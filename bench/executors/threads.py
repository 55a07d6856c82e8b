"""Counts the CPU seconds of a job's threads by what they do."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from bench.proc import descendants, stat_of

Account = Mapping[str, float]
"""CPU seconds by what threads do."""

_SAMPLE_SECONDS = 1.0
_TICKS = os.sysconf("SC_CLK_TCK")
_JVM_THREADS: Mapping[str, str] = {
    "Executor task": "tasks",
    "C1 Compiler": "compilers",
    "C2 Compiler": "compilers",
    "GC Thread": "garbage collection",
    "VM ": "garbage collection",
    "stream execut": "planning and scheduling",
    "dag-scheduler": "planning and scheduling",
    "task-result-g": "planning and scheduling",
    "dispatcher-": "planning and scheduling",
    "rpc-": "network",
    "netty-rpc": "network",
    "shuffle-": "network",
    "block-manager": "network",
    "rocksdb": "RocksDB in the background",
    "state-store": "RocksDB in the background",
}
"""By how the names of Java's threads begin, which Linux cuts to 15 characters."""
OTHER = "other threads of Java"
PYTHON = "Python: the driver and agents"


def kind(java: bool, name: str) -> str:
    """Return what a thread does, given whether it is one of Java, and its name."""
    if not java:
        return PYTHON
    return next((what for begin, what in _JVM_THREADS.items() if name.startswith(begin)), OTHER)


def between(samples: Iterable[tuple[float, Account]], begin: float, end: float) -> dict[str, float]:
    """Return the CPU seconds from the sample nearest to `begin` to the one nearest to `end`."""
    known = list(samples)
    first = min(known, key=lambda sample: abs(sample[0] - begin))[1]
    last = min(known, key=lambda sample: abs(sample[0] - end))[1]
    return {what: seconds - first.get(what, 0.0) for what, seconds in last.items()}


class Sampler(threading.Thread):
    """Samples the threads of all processes below the children of this one while the block lasts.

    `samples` has the CPU seconds used so far, each with its time in seconds since 1970. A thread that has ended keeps
    those that it had at the last sample.
    """

    def __init__(self) -> None:
        super().__init__(name="sampler", daemon=True)
        self.samples: list[tuple[float, Account]] = []
        self._used: dict[tuple[int, int], tuple[str, float]] = {}
        self._stopped = threading.Event()

    def __enter__(self) -> Sampler:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.join()

    def run(self) -> None:
        while not self._stopped.wait(_SAMPLE_SECONDS):
            now = time.time()
            for pid in descendants(os.getpid()):
                # Servers and the accounting of the job are children of this process, the job's processes are not.
                if (stat := stat_of(pid)) and int(stat[1]) != os.getpid():
                    self._look(pid)
            used: dict[str, float] = {}
            for what, seconds in self._used.values():
                used[what] = used.get(what, 0.0) + seconds
            self.samples.append((now, used))

    def _look(self, pid: int) -> None:
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            threads = list(Path(f"/proc/{pid}/task").iterdir())
        except OSError:
            return
        for thread in threads:
            try:
                stat = (thread / "stat").read_text()
            except OSError:
                continue
            head, _, tail = stat.rpartition(")")
            ticks = sum(map(int, tail.split()[11:13]))
            self._used[pid, int(thread.name)] = kind(name == "java", head.partition("(")[2]), ticks / _TICKS
