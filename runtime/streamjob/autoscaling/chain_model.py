"""The cost of a chain's batches, fitted from its counters: a batch of n rows takes `a + b·n` seconds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, log
from typing import ClassVar

from pydantic import ConfigDict

from streamjob.autoscaling.load import KEPT

_FIRST_FIXED, _FIRST_FIXED_ERROR = 0.25, 0.15
"""Seconds that a batch costs whatever its rows, and their standard error, before the load has changed: batches of a few
rows take 0.1 to 0.4 s."""
_HALF_LIFE = 21_600.0
"""Seconds after which an observation counts half: the fit needs different loads, and most come within hours."""
_LEVEL_SECONDS, _BATCH_SECONDS = 350.0, 60.0
"""Time constants: rows that become costly show within ten minutes, to five sixths, and longer batches within one."""
_KEPT_AT_ANOTHER_WIDTH = 0.1
"""Weight of what was seen at another number of slots: of 0.03, 0.1, 0.3 and 1, it moves simulated jobs least."""
_NOISE, _CORRELATED = 0.12, 6.0
"""Standard deviation of a batch's duration that the machine causes, as a share: 0.1 is simulated. It lasts a minute,
so that six observations, one every ten seconds, say no more than one."""
_SHORTEST_BATCH = 0.01
"""Seconds that no micro-batch is shorter than."""
_LEAST_SHARE_OF_ROWS = 1 / 4
"""Of a batch's duration, so that a load that hardly changed does not make rows free."""
_LEVEL_BOUNDS = (0.1, 10.0)
"""An order of magnitude: beyond, a batch was an outlier."""

Sums = tuple[float, float, float, float, float, float, float]


@dataclass(frozen=True, slots=True)
class ChainModel:
    """A fitted model of a chain.

    A batch takes all records that have arrived, so `n` depends on the duration of the batch before it: a machine that
    is slow for a while makes batches both larger and longer. A plain regression would take all of their time for the
    cost of rows. The fit uses the records that were due as an instrument: these depend on the load and not on the
    machine. Where the load hardly changes, it says little, and the fit stays with the usual fixed cost.

    Args:
        fixed: `a`, seconds a batch.
        per_row: `b` at the present number of slots, seconds a row, without `level`.
        level: factor of `per_row` in the last minutes: measured by expected.
        ratio: rows that the chain reads for a row that the sources bring.
        batch_seconds: seconds a batch, a mean of the last minute.
        observed: observations at the present number of slots.
        sums: weight, n, d, z, n·z, d·z, z·z; with n rows and d seconds a batch, and z the logarithm of the due records.
    """

    __pydantic_config__: ClassVar[ConfigDict] = KEPT

    uid: str
    fixed: float = _FIRST_FIXED
    per_row: float = 0.0
    level: float = 1.0
    ratio: float = 1.0
    batch_seconds: float = 0.0
    observed: int = 0
    sums: Sums = (0.0,) * 7

    @property
    def row_seconds(self) -> float:
        """Seconds a row at the present number of slots."""
        return self.per_row * self.level

    def at_width(self, factor: float) -> ChainModel:
        """Return the model for another number of slots, on which a row is expected to take `factor` times as long."""
        row = self.row_seconds * factor
        weight, n, _, z, nz, _, zz = (each * _KEPT_AT_ANOTHER_WIDTH for each in self.sums)
        sums = (weight, n, self.fixed * weight + row * n, z, nz, self.fixed * z + row * nz, zz)
        return replace(self, per_row=row, level=1.0, observed=0, sums=sums)


def fitted(
    model: ChainModel, *, batches: int, rows: float, seconds: float, due: float, source_rows: float, covered: float
) -> ChainModel:
    """Return a model with one more observation.

    Args:
        batches: number of batches, at least one.
        rows: rows of these batches.
        seconds: their durations, added up.
        due: records that were due: those that waited, and those that arrive in a second.
        source_rows: records read from the sources meanwhile.
        covered: seconds since the observation before it.
    """
    n, d, z = rows / batches, seconds / batches, log(1.0 + due)
    # The machine changes durations by a share, so that a long batch says less of the fixed cost than a short one.
    w = 1.0 / max(model.fixed + model.row_seconds * n if model.per_row > 0 else d, _SHORTEST_BATCH) ** 2
    keep = 0.5 ** (covered / _HALF_LIFE)
    new = (w, w * n, w * d, w * z, w * n * z, w * d * z, w * z * z)
    weight, sum_n, sum_d, sum_z, sum_nz, sum_dz, sum_zz = sums = tuple(
        keep * old + each for old, each in zip(model.sums, new, strict=True)
    )
    mean_n, mean_d = sum_n / weight, sum_d / weight
    by_fixed = max(mean_d - _FIRST_FIXED, mean_d * _LEAST_SHARE_OF_ROWS) / mean_n
    # Both slopes count by the inverse of their squared relative errors.
    known = (by_fixed * mean_n / _FIRST_FIXED_ERROR) ** 2
    covariance, variance = sum_nz - sum_z * mean_n, sum_zz - sum_z**2 / weight
    per_row, by_load = by_fixed, 0.0
    if covariance > 0 and variance > 1e-6 * weight:
        by_load = (covariance * by_fixed / _NOISE) ** 2 / (variance * _CORRELATED)
        slope = max((sum_dz - sum_z * mean_d) / covariance, by_fixed * _LEAST_SHARE_OF_ROWS)
        per_row = (known * by_fixed + by_load * min(slope, mean_d / mean_n)) / (known + by_load)
    per_row = min(per_row, mean_d / mean_n)
    fixed = max(0.0, mean_d - per_row * mean_n)
    expected = per_row * n
    level = min(max((d - fixed) / expected, _LEVEL_BOUNDS[0]), _LEVEL_BOUNDS[1])
    # In small batches an error of the fixed cost would pass for a change of the cost of rows.
    share = (expected / (expected + fixed)) ** 2
    first = 1 / (model.observed + 1)
    recent, minute = max(1 - exp(-covered / _LEVEL_SECONDS), first), max(1 - exp(-covered / _BATCH_SECONDS), first)
    return replace(
        model,
        fixed=fixed,
        per_row=per_row,
        level=model.level + recent * (1.0 + share * (level - 1.0) - model.level),
        ratio=model.ratio + recent * (rows / source_rows - model.ratio) if source_rows > 0 else model.ratio,
        batch_seconds=model.batch_seconds + minute * (d - model.batch_seconds),
        observed=model.observed + 1,
        sums=sums,
    )
