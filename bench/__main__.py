"""Measures streamjob against plain Spark: `python -m bench --help`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from bench import machine, model
from bench.compare import SIDES, WORKLOADS, Setting, compare
from bench.data import PAYLOAD_BYTES, EventFiles
from bench.entry import run_benchmark
from bench.hadoop_aws import hadoop_aws_jars
from bench.increments import GrowthSetting, grow
from bench.model import Comparison, Increment, Increments, Recoveries, Recovery, Results, Run
from bench.object_store import object_store
from bench.processes import REPOSITORY
from bench.recovery import RecoverySetting, recover
from bench.report import render
from bench.tables import comparison_table, increments_table, recovery_table, warm
from rich.console import Console

PARTS = ("compare", "recovery", "increments")
RESULTS = REPOSITORY / "bench" / "results.json"
console = Console(highlight=False)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    add = parser.add_argument
    add("--part", choices=PARTS, action="append", help="measure only this part (all)")
    add("--quick", action="store_true", help="few and small runs, for a look; writes no results")
    add("--rounds", type=int, default=5, metavar="N", help="runs of each side, and kills (5)")
    add("--records", type=int, default=20_000_000, metavar="N", help="events of a run (20,000,000)")
    add("--keys", type=int, default=100_000, metavar="N", help="different keys of the events (100,000)")
    add("--sides", default="".join(SIDES), help="which sides to compare (abcd)")
    add("--workload", choices=list(WORKLOADS), action="append", help="compare only this one (all)")
    add("--interval", type=float, default=10.0, metavar="S", help="seconds between checkpoints in the comparison (10)")
    add("--kill-interval", type=float, default=5.0, metavar="S", help="and in the jobs that are killed (5)")
    add("--state", type=int, action="append", metavar="MB", help="sizes of state (10, 100 and 1000)")
    add("--changes", type=int, default=5, metavar="N", help="checkpoints for each share of changed keys (5)")
    add("--timeout", type=float, default=900.0, metavar="S", help="seconds that one run may take (900)")
    add("--lock", type=Path, metavar="FILE", help="hold this file's lock during each round, on a shared machine")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.records, options.changes = 1, min(options.records, 1_000_000), 2
        options.state = options.state or [10]
    options.state = options.state or [10, 100, 1000]
    return options


class Bench:
    """Runs the parts, shows what they yield, and keeps it.

    Args:
        options: the command line.
        work: directory for the runs.
        cache: directory for what is generated or fetched once.
    """

    def __init__(self, options: argparse.Namespace, work: Path, cache: Path) -> None:
        self._options = options
        self._work = work
        self._cache = cache

    def run(self) -> None:
        """Measure the parts that were asked for; each is kept when it is done, the comparison behind every round."""
        for part in self._options.part or PARTS:
            if part == "compare":
                for workload in self._options.workload or WORKLOADS:
                    console.rule(workload)
                    self.compare(workload)
            else:
                console.rule(part)
                getattr(self, part)()

    def _keep(self, results: Results) -> None:
        if self._options.quick:
            return
        model.save(results, RESULTS)
        RESULTS.with_name("RESULTS.md").write_text(render(results))
        console.print("written: bench/results.json, bench/RESULTS.md")

    def compare(self, workload: str) -> None:
        """Measure CPU, wall time, requests and bytes of all sides."""
        options, begun = self._options, time.time()
        console.print(f"{options.records:,} events with {options.keys:,} keys; hadoop-aws, if it is not there yet")
        files = EventFiles(options.records, options.keys)
        if "c" in options.sides:
            hadoop_aws_jars(self._cache)
        seen: list[Run] = []
        total = options.rounds * len(options.sides)

        def on_run(run: Run) -> None:
            seen.append(run)
            console.print(
                f"[dim]{time.strftime('%H:%M:%S')} {len(seen)}/{total}[/] ({run.side})"
                f" {run.cpu_per_million:.2f} CPU s/M, {warm(run):.2f} behind the first batch  {run.wall:.1f} s"
                f"  {run.rows:,} rows  {sum(run.requests.values())} requests  load {run.load_before:.1f}"
            )
            if len(seen) % len(options.sides) == 0:
                console.print(comparison_table(seen, workload).rich(workload))
                self._keep_comparison(workload, begun, seen)

        with object_store(self._work / f"s3-{workload}") as store:
            setting = Setting(
                input=files.make(self._cache),
                records=options.records,
                batch_records=files.file_records * files.files_per_minute,
                cache=self._cache,
                work=self._work,
                store=store,
                interval=options.interval,
                timeout=options.timeout,
                lock=options.lock,
            )
            compare(setting, workload, options.sides, options.rounds, on_run)

    def _keep_comparison(self, workload: str, begun: float, runs: list[Run]) -> None:
        where = machine.circumstances(begun, machine.command_line())
        measured = Comparison(circumstances=where, keys=self._options.keys, runs=tuple(runs))
        before = model.load(RESULTS)
        self._keep(before.model_copy(update={"comparison": {**before.comparison, workload: measured}}))

    def recovery(self) -> None:
        """Measure the time from a kill to new output."""
        options, begun = self._options, time.time()
        seen: list[Recovery] = []

        def on_run(run: Recovery) -> None:
            seen.append(run)
            console.print(
                f"[dim]{time.strftime('%H:%M:%S')}[/] ({run.side}) kill {run.round + 1}:"
                f" first output {run.first:.1f} s, beyond {run.beyond:.1f} s, published {run.published:.1f} s,"
                f" load {run.load_before:.1f}"
            )

        with object_store(self._work / "s3-recovery") as store:
            setting = RecoverySetting(
                work=self._work,
                store=store,
                interval=options.kill_interval,
                keys=options.keys,
                timeout=options.timeout,
                lock=options.lock,
            )
            runs = recover(setting, options.rounds, on_run)
        console.print(recovery_table(runs).rich("seconds from SIGKILL"))
        where = machine.circumstances(begun, machine.command_line())
        measured = Recoveries(circumstances=where, interval=options.kill_interval, runs=tuple(runs))
        self._keep(model.load(RESULTS).model_copy(update={"recovery": measured}))

    def increments(self) -> None:
        """Measure checkpointed bytes against changed state."""
        options, begun = self._options, time.time()
        seen: list[Increment] = []

        def on_run(run: Increment) -> None:
            seen.append(run)
            console.print(
                f"[dim]{time.strftime('%H:%M:%S')}[/] {run.keys:,} keys, {run.share:.0%} changed:"
                f" {run.changed_bytes / 1e6:.1f} MB changed, {run.checkpointed_bytes / 1e6:.1f} MB checkpointed of"
                f" {run.state_bytes / 1e6:.1f} MB in {run.seconds:.2f} s"
            )

        with object_store(self._work / "s3-increments") as store:
            setting = GrowthSetting(work=self._work, store=store, timeout=options.timeout, lock=options.lock)
            runs = [each for size in options.state for each in grow(setting, size, options.changes, on_run)]
        console.print(increments_table(runs).rich("checkpointed bytes"))
        where = machine.circumstances(begun, machine.command_line())
        measured = Increments(circumstances=where, payload=PAYLOAD_BYTES, runs=tuple(runs))
        self._keep(model.load(RESULTS).model_copy(update={"increments": measured}))


def main() -> int:
    """Run the benchmark; return its exit code."""
    options = arguments()
    return run_benchmark(lambda work, cache: Bench(options, work, cache).run(), console)


if __name__ == "__main__":
    sys.exit(main())
