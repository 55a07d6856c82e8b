"""Writes RESULTS.md: the measurements next to the goals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from bench.compare import WORKLOADS
from bench.model import Circumstances, Comparison, Increments, Recoveries, Results, Run
from bench.recovery import RECORDS_A_SECOND, STANDBY, WITHIN
from bench.summary import (
    ENOUGH_RUNS,
    FEWER_REQUESTS,
    FIRST_OUTPUT_SECONDS,
    NEAR_PLAIN,
    PUBLISHED_SECONDS,
    RESTART_SECONDS,
    TAKEOVER_SECONDS,
    Loaded,
    growths,
    loads,
    paired,
    sides,
)
from bench.tables import (
    checkpoints_table,
    comparison_table,
    goal_list,
    increments_table,
    recovery_table,
    requests_table,
    warm,
)

_HEAD = """# Results of the benchmark

<!-- Written by `make bench`; change bench/report.py. -->

Numbers as measured, misses included. `results.json` has every single run.
"""

_SIDES = """\
All sides run the same query on the same files, bounded, in batches of 1 M records (four files), with two task
slots and four state partitions, and write Parquet with the same code: our file sink's `stage`, which plain Spark calls
from `foreachBatch` without the protocol around it. Sides alternate within a round.

- **(a)** Spark's defaults (state on the heap, Spark's file manager, 1 GB heap), checkpoint on the local disk. Two
  things are not Spark's default: four shuffle partitions instead of 200, and our jar for the sink.
- **(b)** every setting of `streamjob run` (state in RocksDB with changelog, checkpoint format 2, our checkpoint file
  manager, AQE off, ParallelGC, 2 GB heap, …), checkpoint on the local disk.
- **(c)** the settings of (b), with Spark's own file manager and `s3a://` (hadoop-aws) on a local S3 server: a
checkpoint after every batch.
- **(d)** `streamjob run`: checkpoints on the same server at an interval, exactly-once publication. At the end of its
input it runs a flush, a second query that opens the state again. The others do not: an event one hour later closes all
their windows except its own. It starts with an archive of Spark's classes, and without the pandas that PySpark
  imports with its first call into Java.

A start, its first batch and the end take some 25 s of CPU on each side whatever the number of records, more than 5 M
records cost afterwards. So a run has 20 M: with 10 M they would be half of the total, and in a job that runs for days
they are negligible.

CPU is user and system time of the whole process tree from its start to its end: the driver's Python, the JVM, all
that they start; not the S3 server. "of (b)" is the median over the rounds of the ratio to (b) in the same round.
"After the 1st batch" excludes the start, the first batch and the end: it is sampled from the end of the first batch to
that of the last full one. A batch is Spark's `triggerExecution`; in (d) the time from commit to commit. Bytes are those
of objects put.
"""


def render(results: Results) -> str:
    """Return RESULTS.md."""
    parts = [_HEAD]
    if results.comparison:
        parts.append(f"## Cost\n\n{_SIDES}")
        for workload, comparison in results.comparison.items():
            parts += _comparison(workload, comparison)
        missing = [workload for workload in WORKLOADS if workload not in results.comparison]
        parts += [f"{workload}: not measured yet.\n" for workload in missing]
    if results.recovery is not None:
        parts += _recovery(results.recovery)
    else:
        parts.append("## Time to recover\n\nNot measured yet.\n")
    if results.increments is not None:
        parts += _increments(results.increments)
    return "\n".join(parts)


def _comparison(workload: str, comparison: Comparison) -> Iterable[str]:
    runs = list(comparison.runs)
    records = max(run.records for run in runs)
    yield f"### {workload}: {records:,} records, {comparison.keys:,} keys\n"
    yield _measured(comparison.circumstances, runs)
    fewest = min(len(side.runs) for side in sides(runs))
    if fewest < ENOUGH_RUNS:
        yield f"**Provisional**: {fewest} of at least {ENOUGH_RUNS} rounds were run.\n"
    yield comparison_table(runs, workload).markdown() + "\n"
    if goals := goal_list(cost_goals(runs, workload)):
        yield goals
    yield "S3 requests of a run, median:\n"
    yield requests_table(runs, workload).markdown() + "\n"
    table = checkpoints_table(runs)
    if table.rows:
        yield "Checkpoints of (d), from their trigger to their record in the log:\n"
        yield table.markdown() + "\n"


def cost_goals(runs: Sequence[Run], workload: str) -> list[tuple[str, bool]]:
    """Return each goal of a workload with what was measured, and whether it was reached."""
    goals = []
    if (near := paired(runs, workload, "d", "b", lambda run: run.cpu)) is not None:
        text = f"CPU of (d) within {NEAR_PLAIN - 1:.0%} of (b): {near - 1:+.1%}"
        if all(run.warm_cpu for run in runs):
            warmed = paired(runs, workload, "d", "b", warm)
            text += f" ({warmed - 1:+.1%} after the first batch)" if warmed else ""
        goals.append((text, near <= NEAR_PLAIN))
    if (ahead := paired(runs, workload, "d", "a", lambda run: run.cpu)) is not None:
        goals.append((f"CPU of (d) below (a): {ahead - 1:+.1%}", ahead < 1))
    of = {side.side: side.median(_requests) for side in sides(runs) if side.workload == workload}
    if of.get("c") and of.get("d"):
        fewer = of["c"] / of["d"]
        goals.append(
            (f"{FEWER_REQUESTS:.0f} times fewer S3 requests than (c): {fewer:.1f} times", fewer >= FEWER_REQUESTS)
        )
    return goals


def _requests(run: Run) -> float:
    return sum(run.requests.values())


def _recovery(recovery: Recoveries) -> Iterable[str]:
    yield "## Time to recover\n"
    yield f"""\
Seconds from SIGKILL of the whole process tree; the job is started again at once, or continued by a process that stands
by (s), once that is ready. In (f) an operator in Python fails once, and the process restarts the job. Windows over a
file of {RECORDS_A_SECOND:,} records a second, which keep arriving in the meantime; streamjob takes checkpoints every
{recovery.interval:g} s to the S3 server, plain Spark (a) with its checkpoint on the local disk. "First new output" is
the first batch that the new process stages, "beyond" the first with newer windows than any that the killed process had
staged, "published" the first of these that readers of the sink see: at once in plain Spark, after the next checkpoint
in streamjob. Minimum and maximum are in brackets.
"""
    yield _measured(recovery.circumstances, recovery.runs)
    yield recovery_table(list(recovery.runs)).markdown() + "\n"
    mine = [run for run in recovery.runs if run.side == "d"]
    if mine:
        first, published = median(run.first for run in mine), median(run.published for run in mine)
        within = f"first new output within {FIRST_OUTPUT_SECONDS:g} s (Flink's): {first:.1f} s"
        seen_within = f"published within {PUBLISHED_SECONDS:g} s (Flink's): {published:.1f} s"
        goals = [(within, first <= FIRST_OUTPUT_SECONDS), (seen_within, published <= PUBLISHED_SECONDS)]
        for side, what, most in (
            (STANDBY, "first new output of a standby", TAKEOVER_SECONDS),
            (WITHIN, "first new output after a failure within the process", RESTART_SECONDS),
        ):
            if seconds := [run.first for run in recovery.runs if run.side == side]:
                goals.append((f"{what} within {most:g} s: {median(seconds):.1f} s", median(seconds) <= most))
        yield goal_list(goals)


def _increments(increments: Increments) -> Iterable[str]:
    yield "## Checkpointed bytes and changed state\n"
    yield f"""\
A job keeps the newest payload of {increments.payload} random bytes for every key. Random keys are changed in five
batches or more, state maintenance passes, then a checkpoint is requested. The first changes of each share are not
counted, so that the state has settled. Medians, with the maximum in brackets. "×" are multiples of all changed bytes:
Spark's log of the changes, which is in every checkpoint, and the files of RocksDB, which it writes at a snapshot after
every ten batches: the flushed data, and the data rewritten by compactions, which is in the checkpoint that follows. The
first row of each size is the first checkpoint, of all state.
"""
    yield _measured(increments.circumstances, increments.runs)
    yield increments_table(list(increments.runs)).markdown() + "\n"
    changes = [growth for growth in growths(increments.runs) if growth.share < 1]
    if changes:
        logged = [growth.logged for growth in changes]
        added = [growth.amplification - growth.logged for growth in changes]
        yield (
            f"Logged changes are {min(logged):.2f} to {max(logged):.2f} times the changed bytes;"
            f" RocksDB's files add {min(added):.1f} to {max(added):.1f} times.\n"
        )


def _measured(where: Circumstances, runs: Iterable[Loaded]) -> str:
    return f"{where} {loads(runs)}".rstrip() + "\n"
