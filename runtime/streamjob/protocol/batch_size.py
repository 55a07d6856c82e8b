"""Decides how much a chain reads in its next batch, so that a batch takes about a given time.

A batch of `n` takes `overhead + n × cost` seconds. Batches that read less than was there tell both: the cost from the
last one, the overhead from two of different sizes. The next size is that which takes the target; or twice the overhead,
if that is longer, because smaller batches would mostly be overhead.

All inputs of a chain grow and shrink together, so that none gets ahead of the others.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_STEP = 4.0
"""How many times larger or smaller the next batch may be: costs of other sizes are guesses."""
_NEAR = 0.8
"""A size whose batch is this near to the target is kept."""
_APART = 1.5
"""How different two sizes are that tell the overhead."""
_LONGEST = 4.0
"""How many times the target batches may take that tell an overhead which is not most of them."""
_LONG = 1e12


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much an input may bring to a batch, in the unit of its source: records, bytes or files.

    Args:
        first: to the first batch.
        most: to any batch; None without a limit.
        least: to any batch that has as much.
    """

    first: int
    most: int | None = None
    least: int = 1


@dataclass(frozen=True, slots=True)
class _Run:
    size: float
    seconds: float


class BatchSize(Generic[K]):
    """The size of a chain's batches, from the first one of a query.

    Args:
        target: seconds that a batch is to take.
    """

    def __init__(self, target: float, inputs: Mapping[K, Bounds]) -> None:
        self._target = target
        self._inputs = dict(inputs)
        self._size = 1.0
        self._overhead: float | None = None
        self._last: _Run | None = None
        self._warm = False
        tops = [_LONG if each.most is None else each.most / each.first for each in self._inputs.values()]
        self._largest = max(tops, default=1.0)
        self._smallest = min((each.least / each.first for each in self._inputs.values()), default=1.0)

    @property
    def limits(self) -> dict[K, int]:
        """How much each input may bring to the next batch."""
        return {key: _within(round(self._size * each.first), each) for key, each in self._inputs.items()}

    def ran(self, seconds: float, limited: Collection[K], *, memory_is_short: bool = False) -> None:
        """Learn from a batch that has run.

        Args:
            seconds: how long it computed.
            limited: the inputs that had more than they were allowed to bring.
            memory_is_short: whether larger batches would risk the process.
        """
        warm, self._warm = self._warm, True
        if memory_is_short:
            self._resize(self._size / 2)
            return
        # The size of a batch below the limit is unknown; it was no more than the limit, so one that takes too long
        # is a reason for a lower limit all the same.
        if not limited and seconds <= self._target:
            return
        run = _Run(self._size, max(seconds, 1e-6))
        # The first batch loads classes and compiles: it takes longer than others of its size.
        if not warm:
            self._resize(max(self._size, self._size * self._target / run.seconds))
            return
        self._learn_overhead(run)
        overhead = min(self._overhead or 0.0, run.seconds)
        aim = max(self._target, 2 * overhead)
        if limited and _NEAR <= run.seconds / aim <= 1 / _NEAR:
            return
        cost = (run.seconds - overhead) / run.size
        wanted = (aim - overhead) / cost if cost > 0 else self._size * _STEP
        self._resize(wanted if limited else min(wanted, self._size))

    def _learn_overhead(self, run: _Run) -> None:
        last, self._last = self._last, run
        if last is None or max(run.size, last.size) < _APART * min(run.size, last.size):
            return
        slope = (run.seconds - last.seconds) / (run.size - last.size)
        found = min(max(run.seconds - max(slope, 0.0) * run.size, 0.0), run.seconds, last.seconds)
        # Batches that are far too long differ by chance by more than the overhead, unless it is most of them.
        if min(run.seconds, last.seconds) > _LONGEST * self._target and found < run.seconds / 2:
            return
        self._overhead = found if self._overhead is None else (self._overhead + found) / 2

    def _resize(self, wanted: float) -> None:
        size = min(max(wanted, self._size / _STEP), self._size * _STEP)
        self._size = min(max(size, self._smallest), self._largest)


def _within(size: int, bounds: Bounds) -> int:
    size = max(size, bounds.least, 1)
    return size if bounds.most is None else min(size, bounds.most)
