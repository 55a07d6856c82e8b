"""Measures jobs that have nothing to do: CPU, memory and requests, alone and many at once: `make bench-idle`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.data import events, put
from bench.entry import Benchmark, parser, run
from bench.idle_report import Idle, Together, render, table
from bench.memory import proportional_bytes
from bench.object_store import ObjectStore, object_store
from bench.proc import cpu_seconds, descendants
from bench.processes import REPOSITORY
from bench.running import RunningJob, command, running

RESULTS = REPOSITORY / "bench" / "idle.json"
JOB = REPOSITORY / "bench" / "jobs" / "live.yaml"
RECORDS, KEYS = 10_000, 1000
INTERVAL = "10s"


def arguments() -> argparse.Namespace:
    """Read the command line."""
    made = parser("make bench-idle", __doc__, "one job for a few seconds")
    add = made.add_argument
    add("--jobs", type=int, nargs="*", metavar="N", help="how many jobs run at once (1 10)")
    add("--heap", nargs="*", metavar="SIZE", help="Java's heap in each of them (2g 512m)")
    add("--seconds", type=float, default=60.0, metavar="S", help="how long they are watched (60)")
    add("--settle", type=float, default=60.0, metavar="S", help="how long they are left alone before that (60)")
    add("--timeout", type=float, default=600.0, metavar="S", help="seconds for whatever is waited for (600)")
    options = made.parse_args()
    if options.quick:
        options.seconds, options.settle = 10.0, 5.0
    options.jobs = options.jobs or ([1] if options.quick else [1, 10])
    options.heap = options.heap or ["2g", "512m"]
    return options


def watch(jobs: Sequence[RunningJob], store: ObjectStore, seconds: float) -> tuple[float, int, dict[str, int]]:
    """Return the cores that jobs use, their memory in bytes, and their requests, over some seconds."""
    processes = [pid for job in jobs for pid in (job.pid, *descendants(job.pid))]
    position, begun = store.position(), time.monotonic()
    before = sum(map(cpu_seconds, processes))
    time.sleep(seconds)
    used = sum(map(cpu_seconds, processes)) - before
    cores = used / (time.monotonic() - begun)
    return cores, sum(map(proportional_bytes, processes)), store.since(position).requests


def together(benchmark: Benchmark, count: int, heap: str, source: Path) -> Together:
    """Run so many jobs at once until each has read its input and taken a checkpoint, then watch them."""
    options = benchmark.options
    work = benchmark.work / f"{count}-{heap}"
    load, begun = os.getloadavg()[0], time.monotonic()
    with object_store(work / "s3") as store, ExitStack() as stack:
        jobs = []
        for number in range(count):
            directory = work / str(number)
            directory.mkdir()
            changes = {
                "name": f"idle-{number}",
                "checkpointing.interval": INTERVAL,
                "sources.events.options.path": source,
                "sinks.report.options.path": directory / "out",
                "sparkConf.spark.driver.memory": heap,
            }
            place = f"s3://{store.server.bucket}/idle"
            run_it = command(JOB, place, directory / "work", changes)
            jobs.append(stack.enter_context(running(run_it, directory / "work", directory / "log", options.timeout)))
        for job in jobs:
            job.until(partial(_has_settled, job))
        started = time.monotonic() - begun
        time.sleep(options.settle)
        cores, memory, requests = watch(jobs, store, options.seconds)
    return Together(
        jobs=count,
        heap=heap,
        seconds=options.seconds,
        started=started,
        cores=cores,
        memory=memory,
        requests=requests,
        load_before=load,
    )


def _has_settled(job: RunningJob) -> bool:
    view = job.view()
    return view.records_in >= RECORDS and view.last_checkpoint is not None


def body(benchmark: Benchmark) -> None:
    """Measure each number of jobs with each heap, and write the report."""
    begun = time.time()
    source = benchmark.work / "input"
    source.mkdir()
    put(events(0, RECORDS, KEYS, 0), source, "events.parquet")
    found: list[Together] = []
    for count in benchmark.options.jobs:
        for heap in benchmark.options.heap:
            found.append(together(benchmark, count, heap, source))
            benchmark.tell(f"{found[-1]}")
    benchmark.show("idle jobs", table(found))
    results = Idle(circumstances=benchmark.circumstances(begun), interval=INTERVAL, runs=tuple(found))
    benchmark.keep(results, RESULTS, render)


def main() -> int:
    """Run the benchmark; return its exit code."""
    return run(arguments(), body)


if __name__ == "__main__":
    sys.exit(main())
