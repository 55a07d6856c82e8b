"""The capacity of a job by its number of slots, from the fitted model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from streamjob.autoscaling.load import LoadReport
from streamjob.autoscaling.memory import Memory
from streamjob.autoscaling.policy import Means, Policy

FIRST_RESTART = 20.0
"""Seconds that a restart is taken to last before the first one was measured."""
FIRST_EXECUTORS = 10.0
"""Seconds without work that a change of the executors is taken to cause before one was measured."""
IN_PLACE = 1.0
"""Seconds that a change in place is taken to last."""
_FULL_SECONDS = 120.0
_FULL_LASTS = 21_600.0


@dataclass(frozen=True, slots=True)
class Capacity:
    """Records per second by the number of slots.

    Args:
        slots: slots that were measured.
        row_seconds: seconds a row of the sources at these, all chains together.
        fixed: seconds a batch whatever its rows.
        alpha: exponent of capacity by slots.
        busy: throughput under full load as a share of the fitted one: idle time between batches, the size of batches.
        batch_seconds: the longest acceptable batch.
        knee: slots above which more do not help; None if unknown.
    """

    slots: int
    row_seconds: float
    fixed: float
    alpha: float
    busy: float
    batch_seconds: float
    knee: int | None

    def gain(self, slots: int) -> float:
        """Return how many times as many rows a number of slots processes, fixed costs apart."""
        if self.knee is None:
            return float((slots / self.slots) ** self.alpha)
        return float((min(slots, self.knee) / min(self.slots, self.knee)) ** self.alpha)

    def at(self, slots: int) -> float:
        """Return the records per second that a number of slots can process."""
        row = self.row_seconds / self.gain(slots)
        if row <= 0:
            return inf
        # A job whose empty batches already take too long still does most of its work in them.
        rows = max(self.batch_seconds - self.fixed, self.batch_seconds / 4) / row
        return self.busy * rows / (self.fixed + row * rows)


def capacity_of(policy: Policy, memory: Memory, load: LoadReport, now: float) -> Capacity | None:
    """Return the capacity of a job, or None before its first batches."""
    if not memory.chains or memory.slots is None:
        return None
    row_seconds = sum(chain.row_seconds * chain.ratio for chain in memory.chains)
    if row_seconds <= 0:
        return None
    knee = memory.knee if memory.knee is not None and now - memory.knee.found < memory.knee.lasts else None
    fitted = Capacity(
        slots=memory.slots,
        row_seconds=row_seconds,
        fixed=sum(chain.fixed for chain in memory.chains),
        alpha=memory.alpha,
        busy=memory.busy,
        batch_seconds=policy.batch_limit,
        knee=None if knee is None else knee.slots,
    )
    full = next((each for each in memory.full if each.slots == memory.slots and now - each.time < _FULL_LASTS), None)
    if full is None:
        return fitted
    believed = min(1.0, full.seconds / _FULL_SECONDS)
    known = believed * full.rate / fitted.at(memory.slots) + 1 - believed
    return replace(fitted, busy=fitted.busy * known)


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
    """Return the seconds without work that a move causes."""
    match means:
        case Means.RESTART:
            return restart_seconds(memory)
        case Means.EXECUTORS:
            return max(memory.pauses, default=FIRST_EXECUTORS)
        case Means.IN_PLACE:
            return IN_PLACE


def restart_seconds(memory: Memory) -> float:
    """Return the seconds that a restart of this job takes: the longest of the last five, or a guess."""
    return max(memory.pauses, default=FIRST_RESTART)
