"""Measures what a channel costs, against plans without one: `python -m bench.channels --help`."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.data import EventFiles, make_records
from bench.entry import Benchmark, parser, run
from bench.processes import RunFailed, locked, measure
from bench.results import Page, Records, Row, head
from bench.running import JOBS, command, running
from bench.tables import Table, longest, mid, per_million, quantile, spread
from pyarrow import parquet

_LATENCY_RECORDS = 1000
_WARM_FILES = 20
_POLL_SECONDS = 0.003
_LONGEST_PAUSE_SECONDS = 0.3


@dataclass(frozen=True)
class Side:
    """A plan to measure: the job file and what is changed in it; the sinks are `outputs`.

    Its cost is compared with that of `base`.
    """

    name: str
    job: str
    changes: dict[str, str]
    outputs: tuple[str, ...] = ("report",)
    base: str = ""


SIDES = {
    "fused": Side("one chain", "channel.yaml", {}),
    "channel": Side(
        "the same query, `chain: false` before its windows: two chains, one channel",
        "channel.yaml",
        {"operators.minutes.chain": "false"},
        base="fused",
    ),
    "twice": Side(
        "two chains that read the source and compute the common operator twice, no channel",
        "twice.yaml",
        {},
        ("report", "alarms"),
    ),
    "fan-out": Side(
        "the same output by fan-out: one chain writes once, two chains read",
        "fan_out.yaml",
        {},
        ("report", "alarms"),
        base="twice",
    ),
}


class CostRun(Row):
    """One run of one side to the end of its input: CPU seconds of the process tree, wall seconds, rows written."""

    side: str
    round: int
    records: int
    keys: int
    cpu: float
    wall: float
    rows: int


class LatencyRun(Row):
    """Seconds from a small file's appearance to that of its output in the sink, one after the other."""

    side: str
    records: int
    seconds: tuple[float, ...]


COSTS = Records("channels-costs", CostRun)
LATENCIES = Records("channels-latencies", LatencyRun)


def cost(work: Path, cache: Path, side: str, number: int, records: int, keys: int, timeout: float) -> CostRun:
    """Run a side to the end of its input. Raises RunFailed if it failed."""
    plan = SIDES[side]
    directory = work / f"{side}-{number}-{records}"
    directory.mkdir(parents=True)
    source = EventFiles(records, keys).make(cache)
    changes: dict[str, object] = {**plan.changes}
    for name in ("events", "events_again") if side == "twice" else ("events",):
        changes[f"sources.{name}.options.path"] = source
    for name in plan.outputs:
        changes[f"sinks.{name}.options.path"] = directory / name
    job = command(JOBS / plan.job, str(directory / "snapshots"), directory / "work", changes)
    used = measure(job, directory, timeout)
    rows = sum(parquet.read_metadata(file).num_rows for name in plan.outputs for file in _parts(directory / name))
    shutil.rmtree(directory)
    return CostRun(
        side=side,
        round=number,
        records=records,
        keys=keys,
        cpu=used.cpu,
        wall=used.wall,
        rows=rows,
    )


def _parts(output: Path) -> list[Path]:
    """Return the files that are whole, published or not; a running job may move and delete directories meanwhile."""
    found = []
    for directory, folders, names in os.walk(output):
        folders[:] = [folder for folder in folders if folder != "_temporary"]
        found += [Path(directory, name) for name in names if name.startswith("part-") and name.endswith(".parquet")]
    return found


def latency(work: Path, side: str, files: int, timeout: float) -> LatencyRun:
    """Hand a running job small files, one after the other, and wait for the output of each.

    Raises:
        RunFailed: the job failed, or stood still.
    """
    directory = work / f"latency-{side}"
    made, source, output = directory / "made", directory / "input", directory / "output"
    make_records(made, _LATENCY_RECORDS, _WARM_FILES + files)
    source.mkdir()
    changes: dict[str, object] = {
        "sources.records.options.path": source,
        "sinks.report.options.path": output,
        "operators.same.chain": "true" if side == "fused" else "false",
    }
    job = command(JOBS / "latency.yaml", str(directory / "snapshots"), directory / "work", changes)
    log = directory / "log.txt"
    chance = random.Random(1)
    seconds = []
    with running(job, directory / "work", log, timeout):
        for number, file in enumerate(sorted(made.iterdir())):
            before = len(_parts(output))
            begun = time.monotonic()
            file.rename(source / file.name)
            while len(_parts(output)) == before:
                if time.monotonic() > begun + timeout:
                    raise RunFailed(f"{file.name} had no output within {timeout:.0f} s; see {log}")
                time.sleep(_POLL_SECONDS)
            if number >= _WARM_FILES:
                seconds.append(time.monotonic() - begun)
            # At any moment of the polling of sources.
            time.sleep(chance.uniform(0.0, _LONGEST_PAUSE_SECONDS))
    shutil.rmtree(directory)
    return LatencyRun(side=side, records=_LATENCY_RECORDS, seconds=tuple(seconds))


def arguments() -> argparse.Namespace:
    """Read the command line."""
    made = parser("make bench-channels", __doc__, "one round of few records")
    add = made.add_argument
    add("--rounds", type=int, default=3, metavar="N", help="rounds of all sides (3)")
    add("--records", type=int, default=20_000_000, metavar="N", help="events of the long run of a side (20,000,000)")
    add("--few", type=int, default=6_000_000, metavar="N", help="events of the short one (6,000,000)")
    add("--keys", type=int, default=100_000, metavar="N", help="different keys of the events (100,000)")
    add("--files", type=int, default=100, metavar="N", help="small files to measure the latency with (100)")
    add("--timeout", type=float, default=600.0, metavar="S", help="seconds that may be waited for one thing (600)")
    options = made.parse_args()
    if options.quick:
        options.rounds, options.records, options.few, options.files = 1, 2_000_000, 1_000_000, 10
    return options


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


def _render() -> str:
    costs, latencies = COSTS.load(), LATENCIES.load()
    sizes = sorted({run.records for run in costs.runs})
    rounds = len({run.round for run in costs.runs})
    cost_text = _COST.format(keys=costs.runs[0].keys, many=sizes[-1], few=sizes[0], rounds=rounds)
    parts = [head("The cost of a channel", "bench-channels", "channels.py"), f"{costs.where}\n"]
    parts += ["## CPU\n", cost_text, cost_table(costs.runs).markdown()]
    parts += ["## Latency\n", _LATENCY.format(records=latencies.runs[0].records)]
    return "\n".join([*parts, latency_table(latencies.runs).markdown()])


PAGE = Page("CHANNELS", _render)


def cost_table(costs: Sequence[CostRun]) -> Table:
    """Return the cost of each side."""
    further = {side: per_million(costs, side, lambda run: run.cpu) for side in SIDES}
    whole = {side: {run.round: run.cpu for run in longest(costs, side)} for side in SIDES}

    def added(of: Mapping[str, Mapping[int, float]], form: str) -> Callable[[str], str]:
        return lambda side: mid(
            (of[side][each] - base for each, base in of.get(SIDES[side].base, {}).items() if each in of[side]),
            form,
        )

    return Table.of(
        [side for side, mine in further.items() if mine],
        ("plan", lambda side: SIDES[side].name),
        ("rounds", lambda side: len(further[side])),
        ("CPU s / million", lambda side: spread(further[side].values(), ".2f")),
        ("added", added(further, "+.2f")),
        ("whole run, CPU s", lambda side: mid(whole[side].values(), ".1f")),
        ("added", added(whole, "+.1f")),
        ("wall s", lambda side: mid((run.wall for run in longest(costs, side)), ".1f")),
        ("rows", lambda side: f"{longest(costs, side)[-1].rows:,}"),
    )


def latency_table(latencies: Sequence[LatencyRun]) -> Table:
    """Return the latency of each side."""
    return Table.of(
        latencies,
        ("plan", lambda run: "one chain" if run.side == "fused" else "two chains, one channel"),
        ("files", lambda run: len(run.seconds)),
        ("median s", lambda run: mid(run.seconds, ".3f")),
        ("p90 s", lambda run: f"{quantile(run.seconds, 0.9):.3f}"),
        ("most s", lambda run: f"{max(run.seconds):.3f}"),
    )


def bench(benchmark: Benchmark) -> None:
    """Measure; show and store the results after every round."""
    options, work = benchmark.options, benchmark.work
    costs: list[CostRun] = []
    with locked(options.lock):
        latencies = [latency(work, side, options.files, options.timeout) for side in ("fused", "channel")]
    benchmark.keep(LATENCIES, latencies)
    benchmark.show("seconds from a file to its output", latency_table(latencies))
    for number, turn in benchmark.rounds(list(SIDES)):
        for records in (options.records, options.few):
            for side in turn:
                costs.append(cost(work, benchmark.cache, side, number, records, options.keys, options.timeout))
                benchmark.tell(costs[-1])
        benchmark.keep(COSTS, costs)
        benchmark.show(f"behind round {number + 1}", cost_table(costs))


if __name__ == "__main__":
    run(arguments(), PAGE, bench)
