"""Measures streamjob against plain Spark: `python -m bench --help`."""

from __future__ import annotations

import argparse
import time

from bench import compare, increments, recovery
from bench.compare import SIDES, WORKLOADS, Setting
from bench.data import EventFiles
from bench.entry import Benchmark, parser, run
from bench.jars import hadoop_aws_jars
from bench.object_store import object_store
from bench.results import Page, head


def arguments() -> argparse.Namespace:
    """Read the command line."""
    made = parser("make bench", __doc__, "few and small runs")
    add = made.add_argument
    add("--part", choices=list(PARTS), action="append", help="measure only this part (all)")
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


def _compare(benchmark: Benchmark, begun: float) -> None:
    """Measure CPU, wall time, requests and bytes of all sides."""
    options = benchmark.options
    files = EventFiles(options.records, options.keys)
    if "c" in options.sides:
        benchmark.tell("hadoop-aws, if it is not there yet")
        hadoop_aws_jars(benchmark.cache)
    for workload in options.workload or WORKLOADS:
        seen: list[compare.Run] = []
        with object_store(benchmark.work / f"s3-{workload}") as store:
            setting = Setting(
                input=files.make(benchmark.cache),
                records=options.records,
                keys=options.keys,
                batch_records=files.file_records * files.files_per_minute,
                cache=benchmark.cache,
                work=benchmark.work,
                store=store,
                interval=options.interval,
                timeout=options.timeout,
            )
            for number, turn in benchmark.rounds(options.sides):
                for side in turn:
                    seen.append(compare.run(setting, workload, side, number))
                    benchmark.tell(f"{workload}, {seen[-1]}")
                benchmark.show(workload, compare.table(seen))
                benchmark.keep(WORKLOADS[workload], seen, begun)
        begun = time.time()


def _recovery(benchmark: Benchmark, begun: float) -> None:
    """Measure the time from a kill to new output."""
    options, runs = benchmark.options, list[recovery.Recovery]()
    with object_store(benchmark.work / "s3-recovery") as store:
        setting = recovery.Setting(
            work=benchmark.work,
            store=store,
            interval=options.kill_interval,
            keys=options.keys,
            timeout=options.timeout,
            lock=options.lock,
        )
        for each in recovery.recover(setting, options.rounds):
            runs.append(each)
            benchmark.tell(each)
    benchmark.show("seconds from SIGKILL", recovery.table(runs))
    benchmark.keep(recovery.RECOVERIES, runs, begun)


def _increments(benchmark: Benchmark, begun: float) -> None:
    """Measure checkpointed bytes against changed state."""
    options, runs = benchmark.options, list[increments.Increment]()
    with object_store(benchmark.work / "s3-increments") as store:
        for size in options.state:
            for each in increments.grow(benchmark.work, store, options.lock, options.timeout, size, options.changes):
                runs.append(each)
                benchmark.tell(each)
    benchmark.show("checkpointed bytes", increments.table(runs))
    benchmark.keep(increments.INCREMENTS, runs, begun)


PARTS = {"compare": _compare, "recovery": _recovery, "increments": _increments}


def _render() -> str:
    top = head(
        "Results of the benchmark", "bench", "compare.py, recovery.py or increments.py", "as measured, misses included"
    )
    return "\n".join([top, *compare.section(), *recovery.section(), *increments.section()])


PAGE = Page("RESULTS", _render)


def bench(benchmark: Benchmark) -> None:
    """Measure the requested parts; store each when it is done, and the comparison after every round."""
    for part in benchmark.options.part or PARTS:
        benchmark.console.rule(part)
        PARTS[part](benchmark, time.time())


if __name__ == "__main__":
    run(arguments(), PAGE, bench)
