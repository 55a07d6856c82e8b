"""Summarises many runs: medians, quantiles, and the goals that they are compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol, TypeVar

from bench.model import Increment, Run

NEAR_PLAIN = 1.03
"""Most CPU of ours, as a multiple of plain Spark with the same settings."""

ENOUGH_RUNS = 5
"""Least number of runs that a median is to be of."""

FEWER_REQUESTS = 10.0
"""Least number of times that plain Spark on s3a makes more requests than ours."""

FIRST_OUTPUT_SECONDS, PUBLISHED_SECONDS = 9.0, 13.0
"""Flink 2.3 on this class of machine."""

TAKEOVER_SECONDS = 4.0
"""Most seconds from the kill of a process to the first new output of the one that stands by."""

RESTART_SECONDS = 1.5
"""Most seconds from the failure of an operator to the first new output of the same process."""


def quantile(values: Iterable[float], share: float) -> float:
    """Return the smallest value that at least `share` of all values do not exceed. Raises ValueError for none."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    rank = -int(-share * len(ordered) // 1)
    return ordered[min(max(rank, 1), len(ordered)) - 1]


class Loaded(Protocol):
    """Something measured, and the load average before it; None if that is not known."""

    @property
    def load_before(self) -> float | None: ...


def loads(runs: Iterable[Loaded], what: str = "run") -> str:
    """Return a sentence on how busy the machine was before each of the runs; nothing if that is not known of any."""
    known = [run.load_before for run in runs if run.load_before is not None]
    return f"Load average before a {what}: median {median(known):.1f}, most {max(known):.1f}." if known else ""


class InRound(Protocol):
    """Something measured in a round."""

    @property
    def round(self) -> int: ...


def interleaved(runs: Iterable[InRound]) -> str:
    """Return a sentence on how many rounds were run."""
    rounds = len({run.round for run in runs})
    return "One round." if rounds == 1 else f"Medians of {rounds} interleaved rounds."


class Counted(InRound, Protocol):
    """A run of a side over a number of records, in a round."""

    @property
    def side(self) -> str: ...
    @property
    def records(self) -> int: ...


R = TypeVar("R", bound=Counted)


def per_million(runs: Iterable[R], side: str, figure: Callable[[R], float]) -> dict[int, float]:
    """Return what a further million records adds to a figure of a side, by round.

    It is the difference of the longest and the shortest run of a round, so that starts and ends do not count. Rounds
    with one run of the side are left out.
    """
    by: dict[int, list[R]] = {}
    for run in runs:
        if run.side == side:
            by.setdefault(run.round, []).append(run)
    found = {}
    for number, mine in sorted(by.items()):
        few, many = (chosen(mine, key=lambda run: run.records) for chosen in (min, max))
        if few.records < many.records:
            found[number] = (figure(many) - figure(few)) * 1e6 / (many.records - few.records)
    return found


def spread(values: Iterable[float], form: str) -> str:
    """Return the median of values, and in brackets the least and the most."""
    known = list(values)
    return f"{median(known):{form}} ({min(known):{form}}–{max(known):{form}})"


@dataclass(frozen=True, slots=True)
class Side:
    """The runs of one side of a workload."""

    workload: str
    side: str
    runs: tuple[Run, ...]

    def median(self, figure: Callable[[Run], float]) -> float:
        """Return the median of a figure over the runs."""
        return median(figure(run) for run in self.runs)

    def batch(self, share: float) -> float:
        """Return a quantile of all batches of all runs, in ms."""
        return quantile((each for run in self.runs for each in run.batches_ms), share)


def sides(runs: Iterable[Run]) -> list[Side]:
    """Return the runs by workload and side, in the order of their first appearance and of their letters."""
    by: dict[str, dict[str, list[Run]]] = {}
    for run in runs:
        by.setdefault(run.workload, {}).setdefault(run.side, []).append(run)
    return [Side(workload, side, tuple(each[side])) for workload, each in by.items() for side in sorted(each)]


def paired(runs: Sequence[Run], workload: str, side: str, base: str, figure: Callable[[Run], float]) -> float | None:
    """Return the median over the rounds of a figure of one side as a multiple of another's; None without pairs.

    The two runs of a pair were made one shortly after the other, so what disturbed the machine was about the same.
    """
    of = {(run.side, run.round): figure(run) for run in runs if run.workload == workload}
    rounds = {number for each, number in of if each == side} & {number for each, number in of if each == base}
    ratios = [of[side, number] / of[base, number] for number in rounds if of[base, number]]
    return median(ratios) if ratios else None


@dataclass(frozen=True, slots=True)
class Growth:
    """Checkpoints after the same change of the same state."""

    keys: int
    share: float
    checkpoints: tuple[Increment, ...]

    @property
    def amplification(self) -> float:
        """All checkpointed bytes as a multiple of all changed ones."""
        return sum(each.checkpointed_bytes for each in self.checkpoints) / sum(
            each.changed_bytes for each in self.checkpoints
        )

    @property
    def logged(self) -> float:
        """All bytes of logged changes as a multiple of all changed ones."""
        return sum(each.checkpointed_bytes - each.snapshot_bytes for each in self.checkpoints) / sum(
            each.changed_bytes for each in self.checkpoints
        )

    def median(self, figure: Callable[[Increment], float]) -> float:
        """Return the median of a figure over the checkpoints."""
        return median(figure(each) for each in self.checkpoints)

    def most(self, figure: Callable[[Increment], float]) -> float:
        """Return the largest of a figure over the checkpoints."""
        return max(figure(each) for each in self.checkpoints)


def growths(increments: Iterable[Increment]) -> list[Growth]:
    """Return the checkpoints by size of state and share of change, in the order of their first appearance."""
    by: dict[tuple[int, float], list[Increment]] = {}
    for each in increments:
        by.setdefault((each.keys, each.share), []).append(each)
    return [Growth(keys, share, tuple(each)) for (keys, share), each in by.items()]
