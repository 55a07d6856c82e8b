"""Measures the rate behind a backlog, and latency by load: `python -m bench.load --help`.

Batches that follow a target duration are compared with batches of a fixed size.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.entry import Benchmark, parser, run
from bench.latencies import PARTITIONS, WARM_SECONDS, LatencyRun, copies, reading, send, steady, values
from bench.processes import RunFailed, environment, locked
from bench.results import Page, Records, Row, head
from bench.running import JOBS, command, running
from bench.tables import Table, loads
from tests.servers.kafka import KafkaServer

JOB = JOBS / "load.yaml"
LOADS = (0.01, 0.5, 0.9)
SIDES: Mapping[str, Mapping[str, object]] = {
    "`batchDuration: 5s`, the default": {},
    "`maxOffsetsPerTrigger: 500`": {"batchDuration": "0s", "sources.events.options.maxOffsetsPerTrigger": 500},
}
"""The compared sides, each with the fields of the job that it changes."""
TOGETHER = 0.8
"""Seconds within which a consumer has read all copies that become visible at once."""


class CatchUp(Row):
    """How fast a job processes a backlog, in records per second."""

    side: str
    records: int
    rate: float

    @staticmethod
    def of(side: str, seen: Sequence[tuple[float, int]]) -> CatchUp:
        """Return what was measured.

        Args:
            side: of the comparison.
            seen: when copies were seen, in seconds, and how many; a batch after the other.
        """
        begin, end = seen[0][0], seen[-1][0]
        total = sum(count for _, count in seen)
        first = sum(count for at, count in seen if at - begin < TOGETHER)
        return CatchUp(side=side, records=total, rate=(total - first) / (end - begin))

    def at(self, share: float) -> int:
        """Return the records per second that are a share of this rate."""
        return round(self.rate * share)


BACKLOGS = Records("load-backlogs", CatchUp)
LATENCIES = Records("load-latencies", LatencyRun)


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
        # Commits of jobs with one name at two locations look as if checkpoints were lost.
        "name": topic,
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
    with job(server, work, side, topic, timeout), copies(server, topic) as see:
        found = steady(server, topic, rate, seconds, timeout, see)
    return LatencyRun.of(side, rate, found.latencies, before)


_TEXT = """\
A job copies a topic of Kafka exactly once, with a checkpoint every second. Each record takes a millisecond of its
task's time and no processor, so two task slots cannot process more than 2,000 records a second.

"Behind a backlog" is the rate at which copies become visible while the topic has more than the job can read, without
those that are visible first. The rate of the first side is the load of 100%. Latency is the time from a record to its
copy, as a consumer with `read_committed` sees it. The job is running before the load begins, and the first {warm:.0f} s
do not count. One run of each. {load}
"""


def _render() -> str:
    latencies = LATENCIES.load()
    text = _TEXT.format(warm=WARM_SECONDS, load=loads(latencies.runs))
    parts = [head("Latency by load", "bench-load", "load.py"), f"{latencies.where}\n", text]
    return "\n".join([*parts, table(BACKLOGS.load().runs, latencies.runs).markdown()])


PAGE = Page("LOAD", _render)


def table(backlogs: Sequence[CatchUp], runs: Sequence[LatencyRun]) -> Table:
    """Return the table: a line per side."""

    def at(share: float) -> Callable[[CatchUp], str]:
        rate = backlogs[0].at(share)

        def text(side: CatchUp) -> str:
            (run,) = (each for each in runs if (each.side, each.rate) == (side.side, rate))
            return f"{run.median:.2f} / {run.p99:.2f}"

        return text

    return Table.of(
        backlogs,
        ("batches", lambda side: side.side),
        ("records / s behind a backlog", lambda side: f"{side.rate:,.0f}"),
        *((f"median / p99 s at {share:.0%}", at(share)) for share in LOADS),
    )


def bench(benchmark: Benchmark) -> None:
    """Measure; show and store the results."""
    options, work = benchmark.options, benchmark.work
    behind: list[CatchUp] = []
    runs: list[LatencyRun] = []
    with locked(options.lock), KafkaServer() as server, environment({"BENCH_KAFKA": server.bootstrap}):
        for side in SIDES:
            behind.append(catch_up(server, work, side, options.records, options.timeout))
            benchmark.tell(behind[-1])
            for share in LOADS:
                rate = behind[0].at(share)
                runs.append(loaded(server, work, side, rate, options.seconds, options.timeout))
                benchmark.tell(runs[-1])
    benchmark.keep(BACKLOGS, behind)
    benchmark.keep(LATENCIES, runs)
    benchmark.show("seconds from a record to its copy", table(behind, runs))


if __name__ == "__main__":
    run(arguments(), PAGE, bench)
