"""Writes IDLE.md: what jobs cost that have nothing to do, as it was measured."""

from __future__ import annotations

from collections.abc import Sequence

from bench.model import Circumstances, Model
from bench.summary import loads
from bench.tables import Table, goal_list

NODE_BYTES, NODE_CORES = 8 << 30, 2
NODE_JOBS = 10
_HEAD = """\
# Jobs that have nothing to do

<!-- Written by `make bench-idle`; change bench/idle_report.py. -->

Numbers as measured. `idle.json` has every run.

{where}

Each job counts events in windows of a minute, in two task slots, with its state in RocksDB, and has read its only
file. No further row comes. It looks for new files all the time, and a checkpoint is due every {interval}. CPU and
memory are those of its Python and Java. Memory is proportional: pages that processes share, such as the archive of
Spark's classes, count once in all. "Started" is the time until all jobs have read their input and have a checkpoint;
they start one after the other. Java still compiles in the first minutes of a job, so jobs that have been idle for
longer take less CPU. {load}
"""


class Together(Model):
    """Jobs that were idle at once: the cores that they used, their bytes of memory, and their requests by operation.

    `seconds` is how long they were watched, `started` the seconds from the first start until all had settled.
    """

    jobs: int
    heap: str
    seconds: float
    started: float
    cores: float
    memory: int
    requests: dict[str, int]
    load_before: float


class Idle(Model):
    """All measurements."""

    circumstances: Circumstances
    interval: str
    runs: tuple[Together, ...]


def render(results: Idle) -> str:
    """Return IDLE.md."""
    head = _HEAD.format(where=results.circumstances, interval=results.interval, load=loads(results.runs))
    return f"{head}\n{table(results.runs).markdown()}\n\n{goal_list(_goals(results.runs))}"


def table(runs: Sequence[Together]) -> Table:
    """Return a table of the measurements."""
    rows = tuple(
        (
            str(each.jobs),
            each.heap,
            f"{each.started:.0f}",
            f"{100 * each.cores / each.jobs:.1f}",
            f"{each.memory / each.jobs / 1e6:.0f}",
            f"{each.memory / 1e9:.2f}",
            f"{60 * sum(each.requests.values()) / each.seconds / each.jobs:.1f}",
        )
        for each in runs
    )
    heads = ("jobs", "heap", "started s", "% of a core, each", "MB, each", "GB in all", "requests a minute, each")
    return Table(heads, rows)


def _goals(runs: Sequence[Together]) -> list[tuple[str, bool]]:
    return [
        (
            f"ten jobs on two cores and 8 GB: {each.memory / 1e9:.1f} GB, {each.cores:.2f} cores (heap {each.heap})",
            each.memory <= NODE_BYTES and each.cores <= NODE_CORES,
        )
        for each in runs
        if each.jobs == NODE_JOBS
    ]
