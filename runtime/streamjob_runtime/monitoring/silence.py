"""Knows for how long each input of a chain has brought no record."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from streamjob.ids import OperatorUid


class Silence:
    """The time from an input's last record to the last moment at which the chain looked for records and found none.

    While a batch runs, or while Spark plans one, nobody knows whether an input has records: that time does not count.
    """

    def __init__(self) -> None:
        self._read_at: dict[OperatorUid, float] = {}
        self._looked: float | None = None

    def note(self, inputs: Iterable[OperatorUid], now: float) -> None:
        """Count from now on for inputs that are seen for the first time; `now` is a monotonic time in seconds."""
        for uid in inputs:
            self._read_at.setdefault(uid, now)

    def read(self, brought: Collection[OperatorUid], begun: float, now: float) -> None:
        """Record a batch that has ended.

        Args:
            brought: the inputs that brought records.
            begun: when the chain looked for them, a monotonic time in seconds.
            now: the time.
        """
        self._looked = begun if self._looked is None else max(self._looked, begun)
        self._read_at.update(dict.fromkeys(brought, now))

    def waits(self, now: float) -> None:
        """Record that the chain has found no record at all."""
        self._looked = now

    def unknown_for(self, now: float) -> float:
        """Return the seconds since the chain has looked for records; 0 before it has."""
        return 0.0 if self._looked is None else max(0.0, now - self._looked)

    def seconds(self) -> Mapping[OperatorUid, float]:
        """Return the time of each input in seconds; empty before the chain has looked for records."""
        if self._looked is None:
            return {}
        return {uid: max(0.0, self._looked - read) for uid, read in self._read_at.items()}
