"""Measures a way from Kafka to Kafka against plain Spark's: `python -m bench.kafka --help`.

Each run has a process of its own, and all go to the same broker, each to a topic of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import kafka_report
from bench.entry import Benchmark, parser, run
from bench.kafka_model import CostRun, Kafka, LatencyRun
from bench.kafka_report import WARM_SECONDS
from bench.proc import cpu_seconds
from bench.processes import REPOSITORY, RunFailed, environment, locked, measure, started
from bench.rounds import rounds
from bench.running import command, running, settings
from confluent_kafka import Consumer, Producer
from tests.servers.kafka import KafkaServer

JOB = REPOSITORY / "bench" / "jobs" / "kafka.yaml"
RESULTS = REPOSITORY / "bench" / "kafka.json"
PARTITIONS = 4
VALUE_BYTES = 100
BATCH = 250_000
_KEYS = 100_000


@dataclass(frozen=True)
class Side:
    """A way to measure: what is changed in the job; plain Spark runs its query without streamjob."""

    changes: dict[str, object]
    plain: bool = False


SIDES = {
    "plain": Side({}, plain=True),
    "at least once": Side({"sinks.copy.delivery": "at-least-once"}),
    "exactly once, 10 s": Side({}),
    "exactly once, 1 s": Side({"checkpointing.interval": "1s"}),
}


def start_command(side: Side, directory: Path, changes: dict[str, object]) -> list[str]:
    """Return the command that runs a side."""
    changed: dict[str, object] = {**side.changes, **changes}
    if not side.plain:
        return command(JOB, str(directory / "snapshots"), directory / "work", changed)
    scratch = str(directory / "scratch")
    return [sys.executable, "-m", "bench.kafka_plain", str(JOB), "--scratch", scratch, *settings(changed)]


def fill(server: KafkaServer, topic: str, records: int) -> None:
    """Create a topic with the given number of records."""
    server.create_topic(topic, PARTITIONS)
    rows = ((f"key-{number % _KEYS}", f"{number:0{VALUE_BYTES}}") for number in range(records))
    server.produce(topic, rows, producer=server.producer(batch_size="262144", linger_ms="20"))


def cost(server: KafkaServer, work: Path, side: str, number: int, topic: str, records: int, timeout: float) -> CostRun:
    """Run a side to the end of a topic. Raises RunFailed if it failed, or records are missing."""
    plan = SIDES[side]
    copy = f"copy-{list(SIDES).index(side)}-{number}-{records}"
    directory = work / copy
    directory.mkdir(parents=True)
    server.create_topic(copy, PARTITIONS)
    changes: dict[str, object] = {
        "sources.events.bounded": "true",
        "sources.events.options.subscribe": topic,
        "sources.events.options.maxOffsetsPerTrigger": BATCH,
        "sinks.copy.options.topic": copy,
    }
    before = cpu_seconds(server.pid)
    used = measure(start_command(plan, directory, changes), directory, timeout)
    broker = cpu_seconds(server.pid) - before
    # After each transaction a partition has a mark, which counts as a record here.
    found = sum(server.end_offsets(copy, isolation="read_committed").values())
    server.delete_topic(copy)
    if found < records:
        raise RunFailed(f"{side}: {found:,} of {records:,} records arrived")
    return CostRun(
        side=side,
        round=number,
        records=records,
        wall=used.wall,
        cpu=used.user + used.system,
        broker_cpu=broker,
        load_before=used.load_before,
    )


def latency(server: KafkaServer, work: Path, side: str, rate: int, seconds: float, timeout: float) -> LatencyRun:
    """Hand records to a running job, one after the other, and wait for the copy of each.

    Raises:
        RunFailed: the job failed, or copies are missing.
    """
    plan = SIDES[side]
    name = f"latency-{list(SIDES).index(side)}"
    directory = work / name
    directory.mkdir(parents=True)
    for topic in (name, f"{name}-copy"):
        server.create_topic(topic, PARTITIONS)
    changes: dict[str, object] = {
        "sources.events.options.subscribe": name,
        "sinks.copy.options.topic": f"{name}-copy",
    }
    arguments, log, load = start_command(plan, directory, changes), directory / "log.txt", os.getloadavg()[0]
    with started(arguments, log) if plan.plain else running(arguments, directory / "work", log, timeout):
        found = copies(server, name, rate, seconds, timeout)
    return LatencyRun.of(side, rate, found, load)


def copies(server: KafkaServer, topic: str, rate: int, seconds: float, timeout: float) -> list[float]:
    """Send records to a topic, and return the seconds from each one to its copy.

    The first record is sent alone. When its copy is there, the others follow, so that no backlog of the start counts.

    Args:
        server: the broker.
        topic: the topic; a job copies it to the one with the suffix `-copy`.
        rate: records per second.
        seconds: how long records count, from `WARM_SECONDS` after the first copy on.
        timeout: seconds until all copies are there.

    Raises:
        RunFailed: copies are missing.
    """
    taken: list[tuple[int, float]] = []
    counted_from = over = float("inf")
    deadline = time.monotonic() + timeout
    with _producing(server, topic, rate) as producing, reading(server, f"{topic}-copy") as consumer:
        while producing.going or len(taken) < producing.sent:
            if time.monotonic() > deadline:
                raise RunFailed(f"{topic}: {len(taken):,} of {producing.sent:,} records were copied")
            for sent in values(consumer):
                taken.append((sent, (time.time_ns() - sent) / 1e9))
            if taken and over == float("inf"):
                producing.go_on()
                counted_from = time.time() + WARM_SECONDS
                over = counted_from + seconds
            if time.time() > over:
                producing.end()
    return [each for sent, each in taken if counted_from <= sent / 1e9 <= over]


@contextmanager
def reading(server: KafkaServer, topic: str) -> Iterator[Consumer]:
    """Read what is committed in a topic, from its beginning."""
    group = {"group.id": topic, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "fetch.wait.max.ms": 10, **group})
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def values(consumer: Consumer) -> list[int]:
    """Return the values of the next records, as numbers, after 10 ms at most. Raises RunFailed if reading fails."""
    found = []
    for message in consumer.consume(1000, 0.01):
        value = message.value()
        if message.error() is not None or value is None:
            raise RunFailed(str(message.error()))
        found.append(int(value))
    return found


def send(producer: Producer, topic: str, number: int, value: int) -> None:
    """Hand the record with the given number to a producer; the partitions take turns."""
    producer.produce(topic, value=str(value), partition=number % PARTITIONS)
    producer.poll(0)


class _Producing:
    """Sends one record with its time, and further ones between `go_on` and `end`."""

    def __init__(self, server: KafkaServer, topic: str, rate: int) -> None:
        self.sent = 0
        self._producer = server.producer(linger_ms="0")
        self._topic = topic
        self._rate = rate
        self._going_on = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)
        self._thread.start()

    @property
    def going(self) -> bool:
        """Whether more is sent."""
        return self._thread.is_alive()

    def go_on(self) -> None:
        """Send the records behind the first one."""
        self._going_on.set()

    def end(self) -> None:
        """Send nothing more."""
        self._over.set()
        self._going_on.set()
        self._thread.join()

    def _run(self) -> None:
        self._send()
        self._producer.flush(30)
        self._going_on.wait()
        begun = time.monotonic()
        while not self._over.wait(max(0.0, begun + self.sent / self._rate - time.monotonic())):
            self._send()
        self._producer.flush(30)

    def _send(self) -> None:
        send(self._producer, self._topic, self.sent, time.time_ns())
        self.sent += 1


@contextmanager
def _producing(server: KafkaServer, topic: str, rate: int) -> Iterator[_Producing]:
    producing = _Producing(server, topic, rate)
    try:
        yield producing
    finally:
        producing.end()


def arguments() -> argparse.Namespace:
    """Read the command line."""
    made = parser("make bench-kafka", __doc__, "one round of few records")
    add = made.add_argument
    add("--rounds", type=int, default=3, metavar="N", help="rounds of all sides (3)")
    add("--records", type=int, default=3_000_000, metavar="N", help="records of the long run of a side (3,000,000)")
    add("--few", type=int, default=1_000_000, metavar="N", help="records of the short one (1,000,000)")
    add("--rate", type=int, default=200, metavar="N", help="records a second to measure the latency with (200)")
    add("--seconds", type=float, default=40.0, metavar="S", help="seconds of them that count (40)")
    add("--timeout", type=float, default=300.0, metavar="S", help="seconds that one run may take (300)")
    options = made.parse_args()
    if options.quick:
        options.rounds, options.records, options.few, options.seconds = 1, 600_000, 200_000, 5.0
    return options


def bench(benchmark: Benchmark) -> None:
    """Measure; show and store the results after every round."""
    options, work, begun = benchmark.options, benchmark.work, time.time()
    costs: list[CostRun] = []
    latencies: list[LatencyRun] = []

    def keep() -> None:
        result = Kafka(
            circumstances=benchmark.circumstances(begun),
            value_bytes=VALUE_BYTES,
            partitions=PARTITIONS,
            batch=BATCH,
            costs=tuple(costs),
            latencies=tuple(latencies),
        )
        benchmark.keep(result, RESULTS, kafka_report.render)

    with KafkaServer() as server, environment({"BENCH_KAFKA": server.bootstrap}):
        with locked(options.lock):
            for side in SIDES:
                latencies.append(latency(server, work, side, options.rate, options.seconds, options.timeout))
        keep()
        benchmark.show("seconds from a record to its copy", kafka_report.latency_table(latencies))
        topics = {records: f"events-{records}" for records in (options.records, options.few)}
        for records, topic in topics.items():
            fill(server, topic, records)
        for number, turn in rounds(list(SIDES), options.rounds, options.lock):
            for side in turn:
                for records, topic in topics.items():
                    costs.append(cost(server, work, side, number, topic, records, options.timeout))
                    benchmark.tell(
                        f"{side}: {records:,} records, {costs[-1].wall:.1f} s, {costs[-1].cpu:.1f} CPU s,"
                        f" load {costs[-1].load_before:.1f}"
                    )
            keep()
            benchmark.show(f"behind round {number + 1}", kafka_report.cost_table(costs))


def main() -> int:
    """Run the benchmark; return its exit code."""
    return run(arguments(), bench)


if __name__ == "__main__":
    sys.exit(main())
