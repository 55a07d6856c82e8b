"""Decides the watermark of a source whose partitions are each in order: the least over its partitions.

A partition holds the watermark back until it has brought a row. Left out are partitions that are idle, and those of a
bounded source that are read to their end. Source: Flink's watermarks per split (`WatermarkOutputMultiplexer`).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Generic, TypeVar

Partition = TypeVar("Partition", bound=Hashable)


class PartitionTimes(Generic[Partition]):
    """The watermarks of a source's partitions, in ms since 1970; they never go back.

    Args:
        watermarks: those in the restored snapshot.
        timeout: the seconds without a row after which a partition is idle; None for never.
    """

    def __init__(self, watermarks: Mapping[Partition, int], timeout: float | None) -> None:
        self._watermarks = dict(watermarks)
        self._timeout = timeout
        self._heard: dict[Partition, float] = {}
        self._ended: frozenset[Partition] = frozenset()
        self._idle: frozenset[Partition] = frozenset()

    @property
    def watermarks(self) -> dict[Partition, int]:
        """The watermark of each partition that has brought a row."""
        return dict(self._watermarks)

    def note(
        self, seen: Mapping[Partition, int], partitions: Collection[Partition], ended: Collection[Partition], now: float
    ) -> None:
        """Record a batch.

        Args:
            seen: the watermarks by the rows of the batch, for the partitions that have brought some.
            partitions: the partitions that the source has.
            ended: those that are read to their end.
            now: when the batch had found its rows, in seconds.
        """
        for each in partitions:
            if each in seen:
                self._watermarks[each] = max(seen[each], self._watermarks.get(each, seen[each]))
            if each in seen or each not in self._heard:
                self._heard[each] = now
        for gone in {*self._watermarks, *self._heard}.difference(partitions):
            self._watermarks.pop(gone, None)
            self._heard.pop(gone, None)
        self._ended = frozenset(ended)

    def watermark(self, now: float) -> int | None:
        """Return the source's watermark; None while a partition that counts has none.

        If no partition counts, all that is there has been read: it is that of the latest row.
        """
        self._idle = frozenset(each for each in self._heard if self._is_idle(each, now))
        left = self._heard.keys() - self._ended - self._idle
        if not left and self._heard:
            return max(self._watermarks.values(), default=None)
        known = [self._watermarks[each] for each in left if each in self._watermarks]
        return min(known, default=None) if len(known) == len(left) else None

    def silent(self, now: float) -> dict[Partition, float]:
        """Return the seconds without a row of each partition that counts for the watermark."""
        return {
            each: max(0.0, now - heard)
            for each, heard in [*self._heard.items()]
            if each not in self._ended and each not in self._idle
        }

    def _is_idle(self, partition: Partition, now: float) -> bool:
        return self._timeout is not None and now - self._heard[partition] >= self._timeout
