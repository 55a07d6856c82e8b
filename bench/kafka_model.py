"""The measured times of reading from and writing to Kafka, in the form of `kafka.json`."""

from __future__ import annotations

from collections.abc import Sequence

from bench.model import Circumstances, Model
from bench.summary import quantile


class CostRun(Model):
    """One run of one side from the first record of a topic to its last.

    `cpu` are the CPU seconds of its process tree, `broker_cpu` those of the broker meanwhile.
    """

    side: str
    round: int
    records: int
    wall: float
    cpu: float
    broker_cpu: float
    load_before: float


class LatencyRun(Model):
    """Seconds from the moment at which a record is handed to a producer to that at which a consumer has its copy."""

    side: str
    rate: int
    records: int
    median: float
    p99: float
    most: float
    load_before: float

    @staticmethod
    def of(side: str, rate: int, seconds: Sequence[float], load_before: float) -> LatencyRun:
        """Return what was measured of single records."""
        return LatencyRun(
            side=side,
            rate=rate,
            records=len(seconds),
            median=quantile(seconds, 0.5),
            p99=quantile(seconds, 0.99),
            most=max(seconds),
            load_before=load_before,
        )


class Kafka(Model):
    """All of it; `batch` is the most records that a batch of the cost runs has."""

    circumstances: Circumstances
    value_bytes: int
    partitions: int
    batch: int
    costs: tuple[CostRun, ...] = ()
    latencies: tuple[LatencyRun, ...] = ()
