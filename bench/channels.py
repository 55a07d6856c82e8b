"""Measures what a channel costs, against plans without one: `python -m bench.channels --help`."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import channels_report, machine
from bench.backpressure import make_records
from bench.channels_model import Channels, CostRun, LatencyRun
from bench.data import EventFiles
from bench.entry import run_benchmark
from bench.processes import REPOSITORY, RunFailed, locked, measure
from bench.running import command, running
from pyarrow import parquet
from rich.console import Console

JOBS = REPOSITORY / "bench" / "jobs"
RESULTS = REPOSITORY / "bench" / "channels.json"
_SPLIT = {"operators.minutes.chain": "false"}
_LATENCY_RECORDS = 1000
_WARM_FILES = 20
_POLL_SECONDS = 0.003
_LONGEST_PAUSE_SECONDS = 0.3
console = Console(highlight=False)


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
    run = command(JOBS / plan.job, str(directory / "snapshots"), directory / "work", changes)
    used = measure(run, directory, timeout)
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
    run = command(JOBS / "latency.yaml", str(directory / "snapshots"), directory / "work", changes)
    log = directory / "log.txt"
    chance = random.Random(1)
    seconds = []
    load_before = os.getloadavg()[0]
    with running(run, directory / "work", log, timeout):
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
    parser = argparse.ArgumentParser(prog="make bench-channels", description=__doc__)
    add = parser.add_argument
    add("--quick", action="store_true", help="one round of few records, for a look; writes no results")
    add("--rounds", type=int, default=5, metavar="N", help="rounds of all sides (5)")
    add("--records", type=int, default=6_000_000, metavar="N", help="events of the long run of a side (6,000,000)")
    add("--few", type=int, default=1_000_000, metavar="N", help="events of the short one (1,000,000)")
    add("--keys", type=int, default=100_000, metavar="N", help="different keys of the events (100,000)")
    add("--files", type=int, default=100, metavar="N", help="small files to measure the latency with (100)")
    add("--timeout", type=float, default=600.0, metavar="S", help="seconds that may be waited for one thing (600)")
    add("--lock", type=Path, metavar="FILE", help="hold this file's lock during each round, on a shared machine")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.records, options.few, options.files = 1, 2_000_000, 1_000_000, 10
    return options


def bench(options: argparse.Namespace, work: Path, cache: Path) -> None:
    """Measure, show it, and keep it behind every round."""
    begun = time.time()
    costs: list[CostRun] = []
    latencies: list[LatencyRun] = []

    def keep() -> None:
        result = Channels(
            circumstances=machine.circumstances(begun, machine.command_line("make bench-channels")),
            keys=options.keys,
            costs=tuple(costs),
            latencies=tuple(latencies),
        )
        if not options.quick:
            channels_report.save(result, RESULTS)

    with locked(options.lock):
        for side in ("fused", "channel"):
            latencies.append(latency(work, side, options.files, options.timeout))
        keep()
    console.print(channels_report.latency_table(latencies).rich("seconds from a file to its output"))
    for number in range(options.rounds):
        with locked(options.lock):
            _round(options, work, cache, number, costs.append)
        keep()
        console.print(channels_report.cost_table(costs).rich(f"behind round {number + 1}"))


def _round(
    options: argparse.Namespace, work: Path, cache: Path, number: int, on_run: Callable[[CostRun], None]
) -> None:
    sides = list(SIDES) if number % 2 == 0 else list(SIDES)[::-1]
    for records in (options.records, options.few):
        source = EventFiles(records, options.keys).make(cache)
        for side in sides:
            run = cost(work, source, side, number, records, options.timeout)
            on_run(run)
            console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] {side}: {records:,} records, {run.cpu:.1f} CPU s")


def main() -> int:
    """Run the benchmark; return its exit code."""
    options = arguments()
    return run_benchmark(lambda work, cache: bench(options, work, cache), console)


if __name__ == "__main__":
    sys.exit(main())
