"""The outcomes of a run: every algorithm on every trace, by seed."""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean

from bench.autoscaler.traces import UNREACHABLE
from bench.model import Circumstances, Model


class Trial(Model):
    """The days of one algorithm on one trace, each list by seed.

    `undone_after` counts the moves up to the first that was undone because more slots did not help; None without one.
    """

    algorithm: str
    trace: str
    moves: tuple[int, ...]
    late: tuple[float, ...]
    worst_lag: tuple[float, ...]
    over: tuple[float, ...]
    undone_after: tuple[int | None, ...] = ()


class Results(Model):
    """All trials; `constant` are the fewest constant slots without a late minute on the bursty trace, by seed."""

    circumstances: Circumstances
    seeds: tuple[int, ...]
    cpu_seconds: float
    trials: tuple[Trial, ...]
    constant: tuple[int, ...]
    constant_over: tuple[float, ...]

    def of(self, algorithm: str, trace: str) -> Trial:
        """Return one trial."""
        return next(each for each in self.trials if (each.algorithm, each.trace) == (algorithm, trace))

    def reachable(self, algorithm: str) -> list[Trial]:
        """Return the trials of an algorithm on the traces on which the limit of the lag can be kept."""
        return [each for each in self.trials if each.algorithm == algorithm and each.trace not in UNREACHABLE]

    def average(self, algorithm: str, figure: Callable[[Trial], tuple[float, ...]]) -> float:
        """Return the mean of a figure over these traces and all seeds."""
        return mean(mean(figure(each)) for each in self.reachable(algorithm))
