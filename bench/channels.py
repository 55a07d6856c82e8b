"""Measures what a channel costs, against plans without one: `python -m bench.channels --help`."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench import channels_report
from bench.backpressure import make_records
from bench.channels_model import Channels, CostRun, LatencyRun
from bench.data import EventFiles
from bench.entry import Benchmark, parser, run
from bench.processes import REPOSITORY, RunFailed, locked, measure
from bench.rounds import rounds
from bench.running import command, running
from pyarrow import parquet

JOBS = REPOSITORY / "bench" / "jobs"
RESULTS = REPOSITORY / "bench" / "channels.json"
_SPLIT = {"operators.minutes.chain": "false"}
_LATENCY_RECORDS = 1000
_WARM_FILES = 20
_POLL_SECONDS = 0.003
_LONGEST_PAUSE_SECONDS = 0.3


@dataclass(frozen=True)
class Side:
    """A plan to measure: the job file and what is changed in it; the sinks are `outputs`."""

    job: str
    changes: dict[str, str]
    outputs: tuple[str, ...] = ("report",)


SIDES = {
    "fused": Side("channel.yaml", {}),
    "channel": Side("channel.yaml", _SPLIT),
    "twice": Side("twice.yaml", {}, ("report", "alarms")),
    "fan-out": Side("fan_out.yaml", {}, ("report", "alarms")),
}


def cost(work: Path, source: Path, side: str, number: int, records: int, timeout: float) -> CostRun:
    """Run a side to the end of its input. Raises RunFailed if it failed."""
    plan = SIDES[side]
    directory = work / f"{side}-{number}-{records}"
    directory.mkdir(parents=True)
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
        cpu=used.user + used.system,
        wall=used.wall,
        rows=rows,
        load_before=used.load_before,
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
    load_before = os.getloadavg()[0]
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
    return LatencyRun(side=side, records=_LATENCY_RECORDS, seconds=tuple(seconds), load_before=load_before)


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


def bench(benchmark: Benchmark) -> None:
    """Measure; show and store the results after every round."""
    options, work, begun = benchmark.options, benchmark.work, time.time()
    costs: list[CostRun] = []
    latencies: list[LatencyRun] = []

    def keep() -> None:
        result = Channels(
            circumstances=benchmark.circumstances(begun),
            keys=options.keys,
            costs=tuple(costs),
            latencies=tuple(latencies),
        )
        benchmark.keep(result, RESULTS, channels_report.render)

    with locked(options.lock):
        for side in ("fused", "channel"):
            latencies.append(latency(work, side, options.files, options.timeout))
    keep()
    benchmark.show("seconds from a file to its output", channels_report.latency_table(latencies))
    for number, turn in rounds(list(SIDES), options.rounds, options.lock):
        for records in (options.records, options.few):
            source = EventFiles(records, options.keys).make(benchmark.cache)
            for side in turn:
                costs.append(cost(work, source, side, number, records, options.timeout))
                benchmark.tell(f"{side}: {records:,} records, {costs[-1].cpu:.1f} CPU s")
        keep()
        benchmark.show(f"behind round {number + 1}", channels_report.cost_table(costs))


def main() -> int:
    """Run the benchmark; return its exit code."""
    return run(arguments(), bench)


if __name__ == "__main__":
    sys.exit(main())
