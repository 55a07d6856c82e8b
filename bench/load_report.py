"""Writes LOAD.md: latency by load, as it was measured."""

from __future__ import annotations

from collections.abc import Mapping

from bench.kafka_report import WARM_SECONDS
from bench.model import Circumstances, Model
from bench.summary import loads
from bench.tables import Table

LOADS = (0.01, 0.5, 0.9)
SIDES: Mapping[str, Mapping[str, object]] = {
    "`batchDuration: 5s`, the default": {},
    "`maxOffsetsPerTrigger: 500`": {"batchDuration": "0s", "sources.events.options.maxOffsetsPerTrigger": 500},
}
"""What is compared, with the changes of the job."""

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


class Loaded(Model):
    """Seconds from a record to its copy, at a share of the capacity."""

    side: str
    share: float
    records: int
    median: float
    p99: float
    most: float
    load_before: float


class Load(Model):
    """All measurements; `capacity` is in records per second."""

    circumstances: Circumstances
    capacity: int
    runs: tuple[Loaded, ...]


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
        shares = {run.share: run for run in results.runs if run.side == side}
        at = [f"{shares[share].median:.2f} / {shares[share].p99:.2f}" if share in shares else "–" for share in LOADS]
        rows.append((side, *at))
    head = [f"median / p99 s at {share:.0%}" for share in LOADS]
    return Table(("batches", *head), tuple(rows))
