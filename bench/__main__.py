"""Measures streamjob against plain Spark: `python -m bench --help`."""

from __future__ import annotations

import argparse
import sys
import time

from bench import model
from bench.compare import SIDES, WORKLOADS, Setting, compare
from bench.data import PAYLOAD_BYTES, EventFiles
from bench.entry import Benchmark, parser, run
from bench.hadoop_aws import hadoop_aws_jars
from bench.increments import GrowthSetting, grow
from bench.model import Comparison, Increment, Increments, Recoveries, Recovery, Results, Run
from bench.object_store import object_store
from bench.processes import REPOSITORY
from bench.recovery import RecoverySetting, recover
from bench.report import render
from bench.tables import comparison_table, increments_table, recovery_table, warm

PARTS = ("compare", "recovery", "increments")
RESULTS = REPOSITORY / "bench" / "results.json"


def arguments() -> argparse.Namespace:
    """Read the command line."""
    made = parser("make bench", __doc__, "few and small runs")
    add = made.add_argument
    add("--part", choices=PARTS, action="append", help="measure only this part (all)")
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
    options = made.parse_args()
    if options.quick:
        options.rounds, options.records, options.changes = 1, min(options.records, 1_000_000), 2
        options.state = options.state or [10]
    options.state = options.state or [10, 100, 1000]
    return options


class Bench:
    """Runs the parts, shows their results, and stores them.

    Args:
        benchmark: what is under way.
    """

    def __init__(self, benchmark: Benchmark) -> None:
        self._benchmark = benchmark
        self._options = benchmark.options
        self._work = benchmark.work
        self._cache = benchmark.cache

    def run(self) -> None:
        """Measure the requested parts; store each when it is done, and the comparison after every round."""
        for part in self._options.part or PARTS:
            if part == "compare":
                for workload in self._options.workload or WORKLOADS:
                    self._benchmark.console.rule(workload)
                    self.compare(workload)
            else:
                self._benchmark.console.rule(part)
                getattr(self, part)()

    def _keep(self, **part: object) -> None:
        self._benchmark.keep(self._kept().model_copy(update=part), RESULTS, render)

    def _kept(self) -> Results:
        return model.load(Results, RESULTS) or Results()

    def compare(self, workload: str) -> None:
        """Measure CPU, wall time, requests and bytes of all sides."""
        options, begun = self._options, time.time()
        self._benchmark.tell(
            f"{options.records:,} events with {options.keys:,} keys; hadoop-aws, if it is not there yet"
        )
        files = EventFiles(options.records, options.keys)
        if "c" in options.sides:
            hadoop_aws_jars(self._cache)
        seen: list[Run] = []
        total = options.rounds * len(options.sides)

        def on_run(run: Run) -> None:
            seen.append(run)
            self._benchmark.tell(
                f"{len(seen)}/{total} ({run.side}) {run.cpu_per_million:.2f} CPU s/M, {warm(run):.2f} after the first "
                f"batch  {run.wall:.1f} s  {run.rows:,} rows  {sum(run.requests.values())} requests  load "
                f"{run.load_before:.1f}"
            )
            if len(seen) % len(options.sides) == 0:
                self._benchmark.show(workload, comparison_table(seen, workload))
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
        where = self._benchmark.circumstances(begun)
        measured = Comparison(circumstances=where, keys=self._options.keys, runs=tuple(runs))
        self._keep(comparison={**self._kept().comparison, workload: measured})

    def recovery(self) -> None:
        """Measure the time from a kill to new output."""
        options, begun = self._options, time.time()
        seen: list[Recovery] = []

        def on_run(run: Recovery) -> None:
            seen.append(run)
            self._benchmark.tell(
                f"({run.side}) kill {run.round + 1}:"
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
        self._benchmark.show("seconds from SIGKILL", recovery_table(runs))
        where = self._benchmark.circumstances(begun)
        self._keep(recovery=Recoveries(circumstances=where, interval=options.kill_interval, runs=tuple(runs)))

    def increments(self) -> None:
        """Measure checkpointed bytes against changed state."""
        options, begun = self._options, time.time()
        seen: list[Increment] = []

        def on_run(run: Increment) -> None:
            seen.append(run)
            self._benchmark.tell(
                f"{run.keys:,} keys, {run.share:.0%} changed:"
                f" {run.changed_bytes / 1e6:.1f} MB changed, {run.checkpointed_bytes / 1e6:.1f} MB checkpointed of"
                f" {run.state_bytes / 1e6:.1f} MB in {run.seconds:.2f} s"
            )

        with object_store(self._work / "s3-increments") as store:
            setting = GrowthSetting(work=self._work, store=store, timeout=options.timeout, lock=options.lock)
            runs = [each for size in options.state for each in grow(setting, size, options.changes, on_run)]
        self._benchmark.show("checkpointed bytes", increments_table(runs))
        where = self._benchmark.circumstances(begun)
        self._keep(increments=Increments(circumstances=where, payload=PAYLOAD_BYTES, runs=tuple(runs)))


def main() -> int:
    """Run the benchmark; return its exit code."""
    return run(arguments(), lambda benchmark: Bench(benchmark).run())


if __name__ == "__main__":
    sys.exit(main())
