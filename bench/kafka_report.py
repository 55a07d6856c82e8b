"""Writes KAFKA.md: what a way from topic to topic takes, as it was measured."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from bench.kafka_model import CostRun, Kafka, LatencyRun
from bench.summary import interleaved, loads, per_million, spread
from bench.tables import Table

NAMES = {
    "plain": "plain Spark, Kafka source and sink, at least once",
    "at least once": "streamjob, `delivery: at-least-once`, a checkpoint every 10 s",
    "exactly once, 10 s": "streamjob, exactly once, a checkpoint every 10 s",
    "exactly once, 1 s": "streamjob, exactly once, a checkpoint every second",
}

_HEAD = """\
# From Kafka to Kafka

<!-- Written by `make bench-kafka`; change bench/kafka_report.py. -->

Numbers as measured. `kafka.json` has every run.
"""

_COST = """\
A topic of {partitions} partitions with values of {value_bytes} bytes is read from its first record to its last, in
batches of at most {batch:,}, and written to another one, in two task slots; the only broker is on the same machine, as
are all clients. All sides have the same settings of Spark. "A further million" is the difference of a run of {many:,}
records and one of {few:,}, so that starts and ends do not count; minimum and maximum are in brackets. CPU is user and
system time, of the whole process tree and of the broker. {rounds} {load}
"""

_LATENCY = """\
{rate} records a second to a job that only passes them on. Seconds from the time when a record is handed to its producer
until a consumer with `read_committed` has the copy; the first {warm:.0f} s of a job do not count. An exactly-once
record is visible with its checkpoint, so the expected latency is half the interval plus the duration of a checkpoint
and a batch. One run of each side. {load}
"""

WARM_SECONDS = 15.0


def render(results: Kafka) -> str:
    """Return KAFKA.md."""
    parts = [_HEAD, f"{results.circumstances}\n"]
    if results.costs:
        sizes = sorted({run.records for run in results.costs})
        text = _COST.format(
            partitions=results.partitions,
            value_bytes=results.value_bytes,
            batch=results.batch,
            many=sizes[-1],
            few=sizes[0],
            rounds=interleaved(results.costs),
            load=loads(results.costs),
        )
        parts += ["## Throughput\n", text, cost_table(results.costs).markdown() + "\n"]
    if results.latencies:
        rate = results.latencies[0].rate
        text = _LATENCY.format(rate=rate, warm=WARM_SECONDS, load=loads(results.latencies))
        parts += ["## Latency\n", text, latency_table(results.latencies).markdown() + "\n"]
    return "\n".join(parts)


def cost_table(costs: Sequence[CostRun]) -> Table:
    """Return what each side takes for a further million records, and for a whole run."""
    head = ("", "rounds", "records / s", "CPU s / million", "broker's CPU s / million", "whole run s", "CPU s")
    rows = []
    for side, name in NAMES.items():
        walls = per_million(costs, side, lambda run: run.wall).values()
        if not walls:
            continue
        longest = max(run.records for run in costs if run.side == side)
        whole = [run for run in costs if run.side == side and run.records == longest]
        rows.append(
            (
                name,
                str(len(walls)),
                spread([1e6 / seconds for seconds in walls], ",.0f"),
                spread(per_million(costs, side, lambda run: run.cpu).values(), ".1f"),
                spread(per_million(costs, side, lambda run: run.broker_cpu).values(), ".1f"),
                f"{median(run.wall for run in whole):.1f}",
                f"{median(run.cpu for run in whole):.1f}",
            )
        )
    return Table(head, tuple(rows))


def latency_table(latencies: Sequence[LatencyRun]) -> Table:
    """Return the latency of each side."""
    head = ("", "records", "median s", "p99 s", "most s")
    rows = []
    for side, name in NAMES.items():
        for run in latencies:
            if run.side == side:
                rows.append((name, f"{run.records:,}", f"{run.median:.2f}", f"{run.p99:.2f}", f"{run.most:.2f}"))
    return Table(head, tuple(rows))
