"""Writes LOAD.md: latency by load, as it was measured."""

from __future__ import annotations

from collections.abc import Mapping

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

_HEAD = """\
# Latency by load

<!-- Written by `make bench-load`; change bench/load_report.py. -->

Numbers as measured. `load.json` has every run.

{where}

A job copies a topic of Kafka exactly once, with a checkpoint every second. Each record takes a millisecond of its
task's time and no processor, so two task slots process {capacity:,} records a second at most. Latency is the time from
a record to its copy, as a consumer with `read_committed` sees it; the first {warm:.0f} s do not count. One run of each.
{load}
"""


class Load(Model):
    """All measurements; `capacity` is in records per second."""

    circumstances: Circumstances
    capacity: int
    runs: tuple[LatencyRun, ...]


def render(results: Load) -> str:
    """Return LOAD.md."""
    head = _HEAD.format(
        where=results.circumstances,
        capacity=results.capacity,
        warm=WARM_SECONDS,
        load=loads(results.runs),
    )
    return f"{head}\n{table(results).markdown()}\n"


def table(results: Load) -> Table:
    """Return the table: a line per side."""
    rows = []
    for side in dict.fromkeys(run.side for run in results.runs):
        by_rate = {run.rate: run for run in results.runs if run.side == side}
        at = [by_rate[round(results.capacity * share)] for share in LOADS]
        rows.append((side, *(f"{run.median:.2f} / {run.p99:.2f}" for run in at)))
    head = [f"median / p99 s at {share:.0%}" for share in LOADS]
    return Table(("batches", *head), tuple(rows))
