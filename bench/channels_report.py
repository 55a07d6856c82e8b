"""Writes CHANNELS.md: what a channel costs, as it was measured."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from bench.channels_model import Channels, CostRun, LatencyRun
from bench.summary import per_million, quantile, spread
from bench.tables import Table

_NAMES = {
    "fused": "one chain",
    "channel": "the same query, `chain: false` before its windows: two chains, one channel",
    "twice": "two chains that read the source and compute the common operator twice, no channel",
    "fan-out": "the same output by fan-out: one chain writes once, two chains read",
}
_BASES = {"channel": "fused", "fan-out": "twice"}

_HEAD = """\
# The cost of a channel

<!-- Written by `make bench-channels`; change bench/channels_report.py. -->

Numbers as measured. `channels.json` has every run.
"""

_COST = """\
Windows of a minute over {keys:,} keys, behind an operator that projects and filters, from Parquet to Parquet, bounded,
in batches of a million records, two task slots, a checkpoint every 10 s to the local disk; fan-out adds a filter with a
sink of its own. CPU is user and system time of the whole process tree. "Per million" is the cost of each additional
million records: the difference of a run of {many:,} records and one of {few:,}, so that starts and ends do not count;
minimum and maximum are in brackets. "Whole run" is the long run including both, and Java's compilation: a second and
third query start and compile code of their own, once. Medians of {rounds} interleaved rounds (those that were complete,
if the command was stopped before its last); "added" is the median of the differences to the plan in the row above,
within a round.
"""

_LATENCY = """\
A file of {records:,} records at a time to a job that only passes them on, the next one up to 0.3 s after the output of
the previous one. Seconds from the appearance of the file to the appearance of its output in the sink (staged: in both
plans, publication waits for a checkpoint).
"""


def render(results: Channels) -> str:
    """Return CHANNELS.md."""
    parts = [_HEAD, f"{results.circumstances}\n"]
    if results.costs:
        sizes = sorted({run.records for run in results.costs})
        rounds = len({run.round for run in results.costs})
        text = _COST.format(keys=results.keys, many=sizes[-1], few=sizes[0], rounds=rounds)
        parts += ["## CPU\n", text, cost_table(results.costs).markdown() + "\n"]
    if results.latencies:
        text = _LATENCY.format(records=results.latencies[0].records)
        parts += ["## Latency\n", text, latency_table(results.latencies).markdown() + "\n"]
    return "\n".join(parts)


def cost_table(costs: Sequence[CostRun]) -> Table:
    """Return the cost of each side."""
    head = ("plan", "rounds", "CPU s / million", "added", "whole run, CPU s", "added", "wall s", "rows")
    rows = []
    further = {side: per_million(costs, side, lambda run: run.cpu) for side in _NAMES}
    for side, mine in further.items():
        if not mine:
            continue
        base = further[_BASES[side]] if side in _BASES else {}
        added = [mine[number] - base[number] for number in mine if number in base]
        longest = max(run.records for run in costs if run.side == side)
        whole = [run for run in costs if run.side == side and run.records == longest]
        others = {run.round: run.cpu for run in costs if run.side == _BASES.get(side) and run.records == longest}
        added_whole = [run.cpu - others[run.round] for run in whole if run.round in others]
        rows.append(
            (
                _NAMES[side],
                str(len(mine)),
                spread(mine.values(), ".2f"),
                f"{median(added):+.2f}" if added else "–",
                f"{median(run.cpu for run in whole):.1f}",
                f"{median(added_whole):+.1f}" if added_whole else "–",
                f"{median(run.wall for run in whole):.1f}",
                f"{whole[-1].rows:,}",
            )
        )
    return Table(head, tuple(rows))


def latency_table(latencies: Sequence[LatencyRun]) -> Table:
    """Return the latency of each side."""
    head = ("plan", "files", "median s", "p90 s", "most s")
    rows = [
        (
            "one chain" if run.side == "fused" else "two chains, one channel",
            str(len(run.seconds)),
            f"{median(run.seconds):.3f}",
            f"{quantile(run.seconds, 0.9):.3f}",
            f"{max(run.seconds):.3f}",
        )
        for run in latencies
    ]
    return Table(head, tuple(rows))
