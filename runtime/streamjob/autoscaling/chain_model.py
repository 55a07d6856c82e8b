"""The cost of a chain's batches, fitted from its counters: a batch of n rows takes `a + b·n` seconds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, log, sqrt
from typing import ClassVar

from pydantic import ConfigDict

from streamjob.autoscaling.load import CONFIG

HALF_LIFE = 21_600.0
"""Seconds after which an observation has half of its weight."""
FIRST_FIXED = 0.25
"""Seconds that a batch is taken to cost whatever its rows, before batches of different sizes were seen."""
_FIRST_FIXED_ERROR = 0.15
_LEVEL_HALF_LIFE = 240.0
_LEAST_FIXED_ERROR = 0.2
_LEAST_ERROR = 0.07
_SCALING_ERROR = 0.15
"""Relative error of the cost of a row after a change of the slots by a factor of e."""
_CORRELATED = 6.0
"""Observations in a row that say no more than one: load and machine change slowly."""
_NOISE = 0.12
"""Standard deviation of a batch's duration that the machine causes, as a share."""
_SHORTEST_BATCH = 0.01
_LEVEL_BOUNDS = (0.1, 10.0)
_LN2 = 0.6931471805599453
_NO_SUMS = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class ChainModel:
    """A fitted model of a chain.

    A batch takes all records that have arrived, so `n` depends on the duration of the batch before it: a machine that
    is slow for a while makes batches both larger and longer. A plain regression would take all of their time for the
    cost of rows. The fit uses the records that were due as an instrument: these depend on the load and not on the
    machine. Where the load hardly changes, it says little, and the fit stays with the fixed cost that was known before.

    Args:
        uid: the chain.
        fixed: `a`, seconds a batch.
        per_row: `b` at the present number of slots, seconds a row, without `level`.
        level: factor of `per_row` in the last minutes: measured by expected.
        ratio: rows that the chain reads for a row that the sources bring.
        batch_seconds: seconds a batch, a mean of the last minutes.
        observed: observations at the present number of slots.
        known_fixed: `a` as known before these.
        fixed_error: its standard error, seconds.
        known_row: `b` as known before these; None at first.
        row_error: its relative standard error.
        sums: at the present number of slots: weight, n, d, z, n·z, d·z, z·z; with n rows and d seconds a batch, and z
            the logarithm of the due records.
    """

    __pydantic_config__: ClassVar[ConfigDict] = CONFIG

    uid: str
    fixed: float
    per_row: float
    level: float = 1.0
    ratio: float = 1.0
    batch_seconds: float = 0.0
    observed: int = 0
    known_fixed: float = FIRST_FIXED
    fixed_error: float = _FIRST_FIXED_ERROR
    known_row: float | None = None
    row_error: float = 1.0
    sums: tuple[float, float, float, float, float, float, float] = _NO_SUMS

    @property
    def row_seconds(self) -> float:
        """Seconds a row at the present number of slots."""
        return self.per_row * self.level

    def at_width(self, factor: float) -> ChainModel:
        """Return the model for another number of slots, on which a row is expected to take `factor` times as long."""
        weight, sum_n = self.sums[:2]
        error, fixed_error = self.row_error, self.fixed_error
        if weight > 0 and self.per_row > 0:
            seconds = self.per_row * sum_n / weight
            error = 1 / sqrt(sum(_precisions(self, self.sums, self.per_row)))
            fixed_error = min(fixed_error, max(error * seconds, _LEAST_FIXED_ERROR * self.fixed))
        row = self.row_seconds * factor
        return ChainModel(
            uid=self.uid,
            fixed=self.fixed,
            per_row=row,
            ratio=self.ratio,
            batch_seconds=self.batch_seconds,
            known_fixed=self.fixed,
            fixed_error=fixed_error,
            known_row=row,
            row_error=max(_LEAST_ERROR, sqrt(error**2 + (_SCALING_ERROR * log(factor)) ** 2)),
        )


def first_model(uid: str) -> ChainModel:
    """Return the model of a chain before its first batches."""
    return ChainModel(uid=uid, fixed=FIRST_FIXED, per_row=0.0)


def fitted(
    model: ChainModel, *, batches: int, rows: float, seconds: float, due: float, source_rows: float, covered: float
) -> ChainModel:
    """Return a model with one more observation.

    Args:
        model: the model so far.
        batches: number of batches, at least one.
        rows: rows of these batches.
        seconds: their durations, added up.
        due: records that were due: those that waited, and those that arrive in a second.
        source_rows: records read from the sources meanwhile.
        covered: seconds since the observation before it.
    """
    n, d, z = rows / batches, seconds / batches, log(1.0 + due)
    keep = exp(-_LN2 * covered / HALF_LIFE)
    weight, sum_n, sum_d, sum_z, sum_nz, sum_dz, sum_zz = model.sums
    # The machine changes durations by a share, so that a long batch says less of the fixed cost than a short one.
    w = 1.0 / max(model.fixed + model.row_seconds * n if model.per_row > 0 else d, _SHORTEST_BATCH) ** 2
    sums = (
        keep * weight + w,
        keep * sum_n + w * n,
        keep * sum_d + w * d,
        keep * sum_z + w * z,
        keep * sum_nz + w * n * z,
        keep * sum_dz + w * d * z,
        keep * sum_zz + w * z * z,
    )
    weight, sum_n, sum_d, sum_z, sum_nz, sum_dz, sum_zz = sums
    mean_n, mean_d = sum_n / weight, sum_d / weight
    by_fixed = max(mean_d - model.known_fixed, mean_d / 4) / mean_n
    by_width, by_load, by_known = _precisions(model, sums, by_fixed)
    per_row = by_known * by_fixed + by_width * (model.known_row or 0.0)
    covariance = sum_nz - sum_z * mean_n
    if by_load > 0 and covariance > 0:
        per_row += by_load * min(max((sum_dz - sum_z * mean_d) / covariance, by_fixed / 4), mean_d / mean_n)
    else:
        by_load = 0.0
    per_row = min(per_row / (by_width + by_load + by_known), mean_d / mean_n)
    fixed = max(0.0, mean_d - per_row * mean_n)
    recent = 1 - exp(-_LN2 * covered / _LEVEL_HALF_LIFE)
    recent_or_first = max(recent, 1 / (model.observed + 1))
    in_a_minute = max(1 - exp(-covered / 60.0), 1 / (model.observed + 1))
    expected = per_row * n
    measured_level = min(max((d - fixed) / expected, _LEVEL_BOUNDS[0]), _LEVEL_BOUNDS[1])
    # In small batches an error of the fixed cost would pass for a change of the cost of rows.
    share = expected / (expected + fixed)
    level = model.level + recent_or_first * (1.0 + share * share * (measured_level - 1.0) - model.level)
    ratio = model.ratio
    if source_rows > 0:
        ratio += recent_or_first * (rows / source_rows - ratio)
    return replace(
        model,
        fixed=fixed,
        per_row=per_row,
        level=level,
        ratio=ratio,
        batch_seconds=model.batch_seconds + in_a_minute * (d - model.batch_seconds),
        observed=model.observed + 1,
        sums=sums,
    )


def _precisions(model: ChainModel, sums: tuple[float, ...], per_row: float) -> tuple[float, float, float]:
    """Return the weights of the three sources for the cost of a row: other widths, the load, the known fixed cost."""
    seconds = per_row * sums[1] / sums[0]
    by_width = 1 / model.row_error**2 if model.known_row is not None else 0.0
    return by_width, _information(sums, per_row), (seconds / model.fixed_error) ** 2


def _information(sums: tuple[float, ...], per_row: float) -> float:
    """Return the inverse of the squared relative error of a slope that was measured with the instrument."""
    weight, sum_n, _, sum_z, sum_nz, _, sum_zz = sums
    if weight <= 0:
        return 0.0
    covariance, variance = sum_nz - sum_n * sum_z / weight, sum_zz - sum_z**2 / weight
    if covariance <= 0 or variance <= 1e-6 * weight:
        return 0.0
    return (covariance * per_row / _NOISE) ** 2 / (variance * _CORRELATED)
