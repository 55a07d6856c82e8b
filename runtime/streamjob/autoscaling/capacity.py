"""The capacity of a job by its number of slots, from the fitted model."""

from __future__ import annotations

from dataclasses import dataclass, replace

from streamjob.autoscaling.load import LoadReport
from streamjob.autoscaling.memory import FullLoad, Memory
from streamjob.autoscaling.policy import Means, Policy

_FIRST_RESTART, _FIRST_EXECUTORS, _IN_PLACE = 20.0, 10.0, 1.0
"""Seconds without work before a change was measured: a restart was seen to take 13 to 20 s, and a change of executors
waits for a checkpoint, every 10 s by default. A change in place stops nothing, and shows in the next batch."""
ALPHA = 0.9
"""Exponent of capacity by slots. 0.95, which simulated jobs have, makes hardly a difference, and promises more."""
BUSY = 0.95
"""Throughput under full load as a share of the fitted one: some time is between batches, and the largest batches may be
shorter than the longest acceptable ones. In simulation, where these are 5 s and 15 s, it is 0.93."""
MODEL_ERROR = 0.07
_NOISE, _NOISE_SECONDS = 0.1, 60.0
"""Relative standard errors: of the fitted capacity, and of a minute's throughput, as a machine is slow for a minute.
Measured in simulation: 0.07, and 0.04 for two to seven minutes."""
_LEAST_SHARE_OF_ROWS = 1 / 4
"""A job whose empty batches already take too long still does some of its work in them."""
DAY = 86_400.0
"""Seconds for which measured throughputs, limits and moves are remembered: load and data have their daily course."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Records per second by the number of slots.

    Args:
        slots: slots that were measured.
        row_seconds: seconds a row of the sources at these, all chains together.
        fixed: seconds a batch whatever its rows.
        busy: throughput under full load as a share of the fitted one.
        batch_seconds: the longest acceptable batch.
        knee: slots above which more do not help; None if unknown.
    """

    slots: int
    row_seconds: float
    fixed: float
    busy: float
    batch_seconds: float
    knee: int | None

    def gain(self, slots: int) -> float:
        """Return how many times as many rows a number of slots processes, fixed costs apart."""
        return gain(self.slots, slots, self.knee)

    def at(self, slots: int) -> float:
        """Return the records per second that a number of slots can process."""
        row = self.row_seconds / self.gain(slots)
        rows = max(self.batch_seconds - self.fixed, self.batch_seconds * _LEAST_SHARE_OF_ROWS) / row
        return self.busy * rows / (self.fixed + row * rows)


def gain(before: int, after: int, knee: int | None = None) -> float:
    """Return how many times as many rows one number of slots processes as another.

    Args:
        knee: slots above which more do not help; None if unknown.
    """
    if knee is not None:
        before, after = min(before, knee), min(after, knee)
    return float((after / before) ** ALPHA)


def capacity_of(policy: Policy, memory: Memory, now: float) -> Capacity | None:
    """Return the capacity of a job, or None before its first batches."""
    row_seconds = sum(chain.row_seconds * chain.ratio for chain in memory.chains)
    if row_seconds <= 0 or memory.slots is None:
        return None
    fitted = Capacity(
        slots=memory.slots,
        row_seconds=row_seconds,
        fixed=sum(chain.fixed for chain in memory.chains),
        busy=BUSY,
        batch_seconds=policy.batch_limit,
        knee=memory.knee.slots if memory.knee is not None and now - memory.knee.found < DAY else None,
    )
    full = next((each for each in memory.full if each.slots == memory.slots and now - each.time < DAY), None)
    if full is None:
        return fitted
    believed = MODEL_ERROR**2 / (MODEL_ERROR**2 + error_of(full) ** 2)
    return replace(fitted, busy=BUSY * (believed * full.rate / fitted.at(memory.slots) + 1 - believed))


def error_of(full: FullLoad) -> float:
    """Return the relative standard error of a throughput under full load."""
    return float(_NOISE * (_NOISE_SECONDS / max(full.seconds, _NOISE_SECONDS)) ** 0.5)


@dataclass(frozen=True, slots=True)
class Limit:
    """The fewest and the most slots, the cause of the upper limit, and the slots that come and go together.

    If no number of whole executors is between `min` and `max`, `max` is kept, and `min` is not.
    """

    least: int
    most: int
    cause: str
    unit: int = 1

    def up(self, slots: int) -> int:
        """Return the next possible number that is not below `slots`; the highest one if there is none."""
        return min(max(-(-slots // self.unit) * self.unit, self.least), self.most)

    def down(self, slots: int) -> int:
        """Return the next possible number that is not above `slots`; the lowest one if there is none."""
        return min(max(slots // self.unit * self.unit, self.least), self.most)


def limit_of(policy: Policy, load: LoadReport) -> Limit:
    """Return the bounds for the number of slots: the policy, its quota, the partitions of sources and state."""
    most, cause = policy.max, "`max` of the autoscaling"
    if policy.quota_cpu is not None and int(policy.quota_cpu) < most:
        most, cause = int(policy.quota_cpu), "the quota of processors"
    if load.max_parallelism is not None and load.max_parallelism < most:
        most, cause = load.max_parallelism, "the partitions of the state (maxParallelism of the job)"
    if Means.RESTART not in policy.means and load.in_place_slots is not None and load.in_place_slots < most:
        most, cause = load.in_place_slots, "the slots that the process can use without a restart"
    if load.stateful is False and all(source.partitions is not None for source in load.sources) and load.sources:
        partitions = sum(source.partitions or 0 for source in load.sources)
        if 0 < partitions < most:
            most, cause = partitions, "the partitions of the sources"
    unit = load.executor_slots or 1
    most = max(most // unit, 1) * unit
    return Limit(min(-(-policy.min // unit) * unit, most), most, cause, unit)


def pause_of(memory: Memory, means: Means) -> float:
    """Return the seconds without work that a move causes: the longest of the last five, or a guess."""
    if means is Means.IN_PLACE:
        return _IN_PLACE
    return max(memory.pauses, default=_FIRST_RESTART if means is Means.RESTART else _FIRST_EXECUTORS)
