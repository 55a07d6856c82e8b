"""Measures latency at low and high load: `python -m bench.load --help`.

Batches that follow a target duration are compared with batches of a fixed size.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import load_report
from bench.entry import Benchmark, parser, run
from bench.kafka import PARTITIONS, copies
from bench.load_report import LOADS, SIDES, Load, Loaded
from bench.processes import REPOSITORY, environment, locked
from bench.running import command, running
from bench.summary import quantile
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


@contextmanager
def job(work: Path, side: str, name: str, topic: str, timeout: float) -> Iterator[None]:
    """Run the job of a side from a topic to the one for its copy. Raises RunFailed."""
    directory = work / name
    directory.mkdir(parents=True)
    changes = {
        **SIDES[side],
        "sources.events.options.subscribe": topic,
        "sinks.copy.options.topic": f"{name}-copy",
    }
    arguments = command(JOB, str(directory / "snapshots"), directory / "work", changes)
    with running(arguments, directory / "work", directory / "log.txt", timeout):
        yield


def loaded(server: KafkaServer, work: Path, side: str, share: float, seconds: float, timeout: float) -> Loaded:
    """Hand records to a running job at a share of its capacity. Raises RunFailed."""
    name, before = f"load-{list(SIDES).index(side)}-{round(share * 100)}", os.getloadavg()[0]
    for topic in (name, f"{name}-copy"):
        server.create_topic(topic, PARTITIONS)
    with job(work, side, name, name, timeout):
        found = copies(server, name, round(CAPACITY * share), seconds, timeout)
    return Loaded(
        side=side,
        share=share,
        records=len(found),
        median=quantile(found, 0.5),
        p99=quantile(found, 0.99),
        most=max(found),
        load_before=before,
    )


def bench(benchmark: Benchmark) -> None:
    """Measure; show and store the results after every side."""
    options, work, begun = benchmark.options, benchmark.work, time.time()
    runs: list[Loaded] = []
    with locked(options.lock), KafkaServer() as server, environment({"BENCH_KAFKA": server.bootstrap}):
        for side in SIDES:
            for share in LOADS:
                runs.append(loaded(server, work, side, share, options.seconds, options.timeout))
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
