"""Measures the rate behind a backlog, and latency by load: `python -m bench.load --help`.

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
from bench.kafka import PARTITIONS, copies, reading, send, values
from bench.kafka_model import LatencyRun
from bench.load_report import LOADS, SIDES, CatchUp, Load
from bench.processes import REPOSITORY, RunFailed, environment, locked
from bench.running import command, running
from tests.servers.kafka import KafkaServer

JOB = REPOSITORY / "bench" / "jobs" / "load.yaml"
RESULTS = REPOSITORY / "bench" / "load.json"


def arguments() -> argparse.Namespace:
    """Read the command line."""
    made = parser("make bench-load", __doc__, "a short time")
    add = made.add_argument
    add("--seconds", type=float, default=30.0, metavar="S", help="seconds of each load that count (30)")
    add("--records", type=int, default=60_000, metavar="N", help="records of the backlog (60,000)")
    add("--timeout", type=float, default=300.0, metavar="S", help="seconds that one run may take (300)")
    options = made.parse_args()
    if options.quick:
        options.seconds, options.records = 5.0, 40_000
    return options


@contextmanager
def job(server: KafkaServer, work: Path, side: str, topic: str, timeout: float) -> Iterator[None]:
    """Run the job from a topic to its copy."""
    directory = work / topic
    directory.mkdir(parents=True)
    server.create_topic(f"{topic}-copy", PARTITIONS)
    changes = {
        **SIDES[side],
        "sources.events.options.subscribe": topic,
        "sinks.copy.options.topic": f"{topic}-copy",
    }
    arguments = command(JOB, str(directory / "snapshots"), directory / "work", changes)
    with running(arguments, directory / "work", directory / "log.txt", timeout):
        yield


def catch_up(server: KafkaServer, work: Path, side: str, records: int, timeout: float) -> CatchUp:
    """Start a job behind a backlog, and measure how fast copies appear after the first ones. Raises RunFailed."""
    topic = f"backlog-{list(SIDES).index(side)}"
    server.create_topic(topic, PARTITIONS)
    producer = server.producer(linger_ms="20")
    for number in range(records):
        send(producer, topic, number, number)
    producer.flush(30)
    seen: list[tuple[float, int]] = []
    deadline = time.monotonic() + timeout
    with job(server, work, side, topic, timeout), reading(server, f"{topic}-copy") as consumer:
        while (copied := sum(count for _, count in seen)) < records:
            if time.monotonic() > deadline:
                raise RunFailed(f"{topic}: {copied:,} of {records:,} records were copied")
            if found := values(consumer):
                seen.append((time.monotonic(), len(found)))
    return CatchUp.of(side, seen)


def loaded(server: KafkaServer, work: Path, side: str, rate: int, seconds: float, timeout: float) -> LatencyRun:
    """Hand records to a running job. Raises RunFailed."""
    topic, before = f"load-{list(SIDES).index(side)}-{rate}", os.getloadavg()[0]
    server.create_topic(topic, PARTITIONS)
    with job(server, work, side, topic, timeout):
        found = copies(server, topic, rate, seconds, timeout)
    return LatencyRun.of(side, rate, found, before)


def bench(benchmark: Benchmark) -> None:
    """Measure; show and store the results after every side."""
    options, work, begun = benchmark.options, benchmark.work, time.time()
    behind: list[CatchUp] = []
    runs: list[LatencyRun] = []
    with locked(options.lock), KafkaServer() as server, environment({"BENCH_KAFKA": server.bootstrap}):
        for side in SIDES:
            behind.append(catch_up(server, work, side, options.records, options.timeout))
            benchmark.tell(f"{side}: {behind[-1].rate:,.0f} records a second behind a backlog")
            for share in LOADS:
                rate = behind[0].at(share)
                runs.append(loaded(server, work, side, rate, options.seconds, options.timeout))
                benchmark.tell(f"{side}, load {share:.0%}: median {runs[-1].median:.2f} s, p99 {runs[-1].p99:.2f} s")
            where = benchmark.circumstances(begun)
            result = Load(circumstances=where, catch_up=tuple(behind), runs=tuple(runs))
            benchmark.keep(result, RESULTS, load_report.render)
            benchmark.show("seconds from a record to its copy", load_report.table(result))


def main() -> int:
    """Run the benchmark; return its exit code."""
    return run(arguments(), bench)


if __name__ == "__main__":
    sys.exit(main())
