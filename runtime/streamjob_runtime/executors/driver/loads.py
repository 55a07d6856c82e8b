"""The work of executors: totals as Spark's tasks report them, and rates of the last seconds."""

from __future__ import annotations

from dataclasses import dataclass

from streamjob_runtime.monitoring.query_progress import Rate


@dataclass(frozen=True, slots=True)
class Totals:
    """The work of an executor's tasks since it came.

    Args:
        tasks: tasks that have ended.
        milliseconds: the time that they took, added up.
        records: records that they have read, from sources and from other tasks.
        size: bytes that they have read, as far as these are known.
        rows: rows of state after the last batches, as far as they are counted.
    """

    tasks: int = 0
    milliseconds: int = 0
    records: int = 0
    size: int = 0
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """The totals of an executor, with records per second and seconds of tasks per second."""

    totals: Totals = Totals()
    records_per_second: float = 0.0
    working: float = 0.0


class Loads:
    """Follows the work of executors; one thread calls `note` about once a second, while any thread may read."""

    def __init__(self) -> None:
        self._rates: dict[str, tuple[Rate, Rate]] = {}
        self._loads: dict[str, Load] = {}

    def note(self, totals: dict[str, Totals], now: float) -> None:
        """Take the totals by executor at a monotonic time in seconds."""
        loads = {}
        for executor, each in totals.items():
            records, work = self._rates.setdefault(executor, (Rate(), Rate()))
            records.note(now, each.records)
            work.note(now, each.milliseconds / 1000)
            loads[executor] = Load(each, records.per_second, work.per_second)
        self._loads = loads

    def of(self, executor: str) -> Load:
        """Return the load of an executor; it has none before its first task has ended."""
        return self._loads.get(executor, Load())


def read_totals(lines: str) -> dict[str, Totals]:
    """Read the totals by executor from the lines of Java's account."""
    found = {}
    for line in lines.splitlines():
        executor, *numbers = line.split(" ")
        found[executor] = Totals(*map(int, numbers))
    return found
