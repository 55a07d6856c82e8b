"""Lays the results out as tables, for the terminal and for RESULTS.md alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from bench.model import Increment, Recovery, Run
from bench.summary import growths, paired, quantile, sides, spread
from rich.table import Table as RichTable

MB = 1e6
SIDE_NAMES = {
    "a": "plain Spark, its defaults",
    "b": "plain Spark, our settings",
    "c": "plain Spark, checkpoint on s3a",
    "d": "streamjob, checkpoints on S3",
    "s": "streamjob, with a standby",
    "f": "streamjob, a failure within the process",
}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a head; the first column is text, the others are numbers."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """Return the table in Markdown."""
        rule = "|".join(["---", *("---:" for _ in self.head[1:])])
        return "\n".join(
            [f"| {' | '.join(self.head)} |", f"|{rule}|", *(f"| {' | '.join(row)} |" for row in self.rows)]
        )

    def rich(self, title: str) -> RichTable:
        """Return the table for a terminal."""
        table = RichTable(title=title, title_justify="left")
        for number, name in enumerate(self.head):
            table.add_column(name, justify="right" if number else "left")
        for row in self.rows:
            table.add_row(*row)
        return table


def goal_list(goals: Iterable[tuple[str, bool]]) -> str:
    """Return a list in Markdown of goals, each with whether it was reached; nothing for none."""
    return "".join(f"- {'reached' if reached else '**missed**'}: {text}\n" for text, reached in goals)


def warm(run: Run) -> float:
    """Return the CPU seconds per million records after the first batch; 0 if there was only one."""
    return run.warm_cpu_per_million or 0.0


def comparison_table(runs: list[Run], workload: str) -> Table:
    """Return CPU, wall time, batches and requests of each side: medians over the runs, quantiles over all batches."""
    costs = ("CPU s / M records", "of (b)", "after the 1st batch", "of (b)", "wall s")
    head = ("side", "runs", *costs, "batch p50 ms", "p99 ms", "S3 requests", "MB put")
    rows = []
    for side in sides(runs):
        if side.workload != workload:
            continue
        ratio = paired(runs, workload, side.side, "b", lambda run: run.cpu)
        warmed = all(run.warm_cpu is not None for run in side.runs)
        warm_ratio = paired(runs, workload, side.side, "b", warm) if warmed else None
        on_s3 = side.side in "cd"
        rows.append(
            (
                f"({side.side}) {SIDE_NAMES[side.side]}",
                str(len(side.runs)),
                f"{side.median(lambda run: run.cpu_per_million):.2f}",
                f"{ratio:.3f}" if ratio is not None else "–",
                f"{side.median(warm):.2f}" if warmed else "–",
                f"{warm_ratio:.3f}" if warm_ratio is not None else "–",
                f"{side.median(lambda run: run.wall):.1f}",
                f"{side.batch(0.5):.0f}",
                f"{side.batch(0.99):.0f}",
                f"{side.median(lambda run: sum(run.requests.values())):.0f}" if on_s3 else "–",
                f"{side.median(lambda run: run.put_bytes) / MB:.1f}" if on_s3 else "–",
            )
        )
    return Table(head, tuple(rows))


def requests_table(runs: list[Run], workload: str) -> Table:
    """Return the requests of (c) and (d) by operation: medians over the runs."""
    on_s3 = [side for side in sides(runs) if side.workload == workload and side.side in "cd"]
    names = sorted({name for side in on_s3 for run in side.runs for name in run.requests})
    rows = [
        (name, *(f"{median(run.requests.get(name, 0) for run in side.runs):.0f}" for side in on_s3)) for name in names
    ]
    return Table(("operation", *(f"({side.side})" for side in on_s3)), tuple(rows))


def checkpoints_table(runs: list[Run]) -> Table:
    """Return the durations of the checkpoints of (d), and the sizes that they referred to."""
    rows = []
    for side in sides(runs):
        all_of = [each for run in side.runs for each in run.checkpoints]
        if side.side == "d" and all_of:
            rows.append(
                (
                    side.workload,
                    str(len(all_of)),
                    f"{quantile([each.seconds for each in all_of], 0.5):.2f}",
                    f"{max(each.seconds for each in all_of):.2f}",
                    f"{max(each.state_bytes for each in all_of) / MB:.1f}",
                )
            )
    return Table(("workload", "checkpoints", "p50 s", "max s", "largest, MB"), tuple(rows))


def recovery_table(runs: list[Recovery]) -> Table:
    """Return the seconds from SIGKILL: median, and least to most."""
    rows = []
    for side in dict.fromkeys(run.side for run in runs):
        mine = [run for run in runs if run.side == side]
        figures = ([run.first for run in mine], [run.beyond for run in mine], [run.published for run in mine])
        rows.append((f"({side}) {SIDE_NAMES[side]}", str(len(mine)), *(spread(figure, ".1f") for figure in figures)))
    return Table(("side", "kills", "first new output", "beyond the killed one's", "published"), tuple(rows))


def increments_table(runs: list[Increment]) -> Table:
    """Return what checkpoints wrote for what had changed: medians, most in brackets, and multiples of all changes."""
    head = (
        "keys of 1 kB",
        "changed",
        "changed MB",
        "checkpointed MB",
        "changes logged, ×",
        "RocksDB's files, ×",
        "state MB",
        "seconds",
    )
    rows = []
    for growth in growths(runs):
        changed = growth.median(lambda each: each.changed_bytes)
        written = growth.median(lambda each: each.checkpointed_bytes)
        several = len(growth.checkpoints) > 1
        most = f" ({growth.most(lambda each: each.checkpointed_bytes) / MB:.1f})" if several else ""
        slowest = f" ({growth.most(lambda each: each.seconds):.2f})" if several else ""
        rows.append(
            (
                f"{growth.keys:,}",
                f"{growth.share:.0%}",
                f"{changed / MB:.1f}",
                f"{written / MB:.1f}{most}",
                f"{growth.logged:.2f}",
                f"{growth.amplification - growth.logged:.2f}",
                f"{growth.median(lambda each: each.state_bytes) / MB:.1f}",
                f"{growth.median(lambda each: each.seconds):.2f}{slowest}",
            )
        )
    return Table(head, tuple(rows))
