"""Writes LOAD.md: the rate behind a backlog and latency by load, as they were measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.kafka_model import LatencyRun
from bench.kafka_report import WARM_SECONDS
from bench.model import Circumstances, Model
from bench.summary import loads
from bench.tables import Table

LOADS = (0.01, 0.5, 0.9)
SIDES: Mapping[str, Mapping[str, object]] = {
    "`batchDuration: 5s`, the default": {},
    "`maxOffsetsPerTrigger: 500`": {"batchDuration": "0s", "sources.events.options.maxOffsetsPerTrigger": 500},
}
"""The compared sides, each with the fields of the job that it changes."""

TOGETHER = 0.8
"""Seconds within which a consumer has read all copies that become visible at once."""

_HEAD = """\
# Latency by load

<!-- Written by `make bench-load`; change bench/load_report.py. -->

Numbers as measured. `load.json` has every run.

{where}

A job copies a topic of Kafka exactly once, with a checkpoint every second. Each record takes a millisecond of its
task's time and no processor, so two task slots cannot process more than 2,000 records a second.

"Behind a backlog" is the rate at which copies become visible while the topic has more than the job can read, without
those that are visible first. The rate of the first side is the load of 100%. Latency is the time from a record to its
copy, as a consumer with `read_committed` sees it. The job is running before the load begins, and the first {warm:.0f} s
do not count. One run of each. {load}
"""


class CatchUp(Model):
    """How fast a job processes a backlog, in records per second."""

    side: str
    records: int
    rate: float

    @staticmethod
    def of(side: str, seen: Sequence[tuple[float, int]]) -> CatchUp:
        """Return what was measured.

        Args:
            side: of the comparison.
            seen: when copies were seen, in seconds, and how many; a batch after the other.
        """
        begin, end = seen[0][0], seen[-1][0]
        total = sum(count for _, count in seen)
        first = sum(count for at, count in seen if at - begin < TOGETHER)
        return CatchUp(side=side, records=total, rate=(total - first) / (end - begin))

    def at(self, share: float) -> int:
        """Return the records per second that are a share of this rate."""
        return round(self.rate * share)


class Load(Model):
    """All measurements."""

    circumstances: Circumstances
    catch_up: tuple[CatchUp, ...]
    runs: tuple[LatencyRun, ...]


def render(results: Load) -> str:
    """Return LOAD.md."""
    head = _HEAD.format(
        where=results.circumstances,
        warm=WARM_SECONDS,
        load=loads(results.runs),
    )
    return f"{head}\n{table(results).markdown()}\n"


def table(results: Load) -> Table:
    """Return the table: a line per side."""
    rows = []
    full = results.catch_up[0]
    for measured in results.catch_up:
        by_rate = {run.rate: run for run in results.runs if run.side == measured.side}
        at = [by_rate[full.at(share)] for share in LOADS]
        rows.append((measured.side, f"{measured.rate:,.0f}", *(f"{run.median:.2f} / {run.p99:.2f}" for run in at)))
    head = [f"median / p99 s at {share:.0%}" for share in LOADS]
    return Table(("batches", "records / s behind a backlog", *head), tuple(rows))
