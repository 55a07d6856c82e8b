"""Measures latency at low and high load: `python -m bench.load --help`.

Batches that follow a target duration are compared with batches of a fixed size.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from bench import load_report
from bench.entry import Benchmark, parser, run
from bench.kafka import PARTITIONS, copies
from bench.kafka_model import LatencyRun
from bench.load_report import LOADS, SIDES, Load
from bench.processes import REPOSITORY, environment, locked
from bench.running import command, running
from tests.servers.kafka import KafkaServer

JOB = REPOSITORY / "bench" / "jobs" / "load.yaml"
RESULTS = REPOSITORY / "bench" / "load.json"
CAPACITY = 2000
"""Records a second that two slots process if each takes a millisecond."""


def arguments() -> argparse.Namespace:
    """Read the command line."""
    made = parser("make bench-load", __doc__, "a short time")
    add = made.add_argument
    add("--seconds", type=float, default=30.0, metavar="S", help="seconds of each load that count (30)")
    add("--timeout", type=float, default=300.0, metavar="S", help="seconds that one run may take (300)")
    options = made.parse_args()
    if options.quick:
        options.seconds = 5.0
    return options


def loaded(server: KafkaServer, work: Path, side: str, rate: int, seconds: float, timeout: float) -> LatencyRun:
    """Hand records to a running job. Raises RunFailed."""
    name, before = f"load-{list(SIDES).index(side)}-{rate}", os.getloadavg()[0]
    directory = work / name
    directory.mkdir(parents=True)
    for topic in (name, f"{name}-copy"):
        server.create_topic(topic, PARTITIONS)
    changes = {
        **SIDES[side],
        "sources.events.options.subscribe": name,
        "sinks.copy.options.topic": f"{name}-copy",
    }
    arguments = command(JOB, str(directory / "snapshots"), directory / "work", changes)
    with running(arguments, directory / "work", directory / "log.txt", timeout):
        found = copies(server, name, rate, seconds, timeout)
    return LatencyRun.of(side, rate, found, before)


def bench(benchmark: Benchmark) -> None:
    """Measure; show and store the results after every side."""
    options, work, begun = benchmark.options, benchmark.work, time.time()
    runs: list[LatencyRun] = []
    with locked(options.lock), KafkaServer() as server, environment({"BENCH_KAFKA": server.bootstrap}):
        for side in SIDES:
            for share in LOADS:
                runs.append(loaded(server, work, side, round(CAPACITY * share), options.seconds, options.timeout))
                benchmark.tell(f"{side}, load {share:.0%}: median {runs[-1].median:.2f} s, p99 {runs[-1].p99:.2f} s")
            where = benchmark.circumstances(begun)
            result = Load(circumstances=where, capacity=CAPACITY, runs=tuple(runs))
            benchmark.keep(result, RESULTS, load_report.render)
            benchmark.show("seconds from a record to its copy", load_report.table(result))


def main() -> int:
    """Run the benchmark; return its exit code."""
    return run(arguments(), bench)


if __name__ == "__main__":
    sys.exit(main())
