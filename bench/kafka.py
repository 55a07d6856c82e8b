"""Measures a way from Kafka to Kafka against plain Spark's: `python -m bench.kafka --help`.

Each run has a process of its own, and all go to the same broker, each to a topic of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.entry import Benchmark, parser, run
from bench.proc import cpu_seconds
from bench.processes import RunFailed, environment, locked, measure, started
from bench.results import Page, Records, Row, head
from bench.running import JOBS, command, running, settings
from bench.tables import Table, interleaved, loads, longest, mid, per_million, quantile, spread
from confluent_kafka import Consumer, Producer
from tests.servers.kafka import KafkaServer

JOB = JOBS / "kafka.yaml"
PARTITIONS = 4
VALUE_BYTES = 100
BATCH = 250_000
_KEYS = 100_000


WARM_SECONDS = 15.0
"""Of a job's life, in which latencies do not count."""


@dataclass(frozen=True)
class Side:
    """A way to measure: what is changed in the job; plain Spark runs its query without streamjob."""

    name: str
    changes: dict[str, object]
    plain: bool = False


SIDES = {
    "plain": Side("plain Spark, Kafka source and sink, at least once", {}, plain=True),
    "at least once": Side(
        "streamjob, `delivery: at-least-once`, a checkpoint every 10 s", {"sinks.copy.delivery": "at-least-once"}
    ),
    "exactly once, 10 s": Side("streamjob, exactly once, a checkpoint every 10 s", {}),
    "each batch": Side(
        "streamjob, exactly once by `publish: batch`, a checkpoint every 10 s", {"sinks.copy.publish": "batch"}
    ),
    "exactly once, 1 s": Side("streamjob, exactly once, a checkpoint every second", {"checkpointing.interval": "1s"}),
}


class CostRun(Row):
    """One run of one side from the first record of a topic to its last.

    `cpu` are the CPU seconds of its process tree, `broker_cpu` those of the broker meanwhile.
    """

    side: str
    round: int
    records: int
    wall: float
    cpu: float
    broker_cpu: float
    load_before: float


class LatencyRun(Row):
    """Seconds from the moment at which a record is handed to a producer to that at which a consumer has its copy."""

    side: str
    rate: int
    records: int
    median: float
    p99: float
    most: float
    load_before: float

    @staticmethod
    def of(side: str, rate: int, seconds: Sequence[float], load_before: float) -> LatencyRun:
        """Return what was measured of single records."""
        return LatencyRun(
            side=side,
            rate=rate,
            records=len(seconds),
            median=quantile(seconds, 0.5),
            p99=quantile(seconds, 0.99),
            most=max(seconds),
            load_before=load_before,
        )


COSTS = Records("kafka-costs", CostRun)
LATENCIES = Records("kafka-latencies", LatencyRun)


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
        # Commits of jobs with one name at two locations look as if checkpoints were lost.
        "name": copy,
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
        cpu=used.cpu,
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
        "name": name,
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


_COST = """\
A topic of {partitions} partitions with values of {value_bytes} bytes is read from its first record to its last, in
batches of at most {batch:,}, and written to another one, in two task slots; the only broker is on the same machine, as
are all clients. All sides have the same settings of Spark. "A further million" is the difference of a run of {many:,}
records and one of {few:,}, so that starts and ends do not count; minimum and maximum are in brackets. CPU is user and
system time, of the whole process tree and of the broker. {rounds} {load}
"""

_LATENCY = """\
{rate} records a second to a job that only passes them on. Seconds from the time when a record is handed to its producer
until a consumer with `read_committed` has the copy; the first {warm:.0f} s of a job do not count. An exactly-once
record is visible with its checkpoint, so the expected latency is half the interval plus the duration of a checkpoint
and a batch; by `publish: batch` it is visible with its batch. One run of each side. {load}
"""


def _render() -> str:
    costs, latencies = COSTS.load(), LATENCIES.load()
    sizes = sorted({run.records for run in costs.runs})
    cost_text = _COST.format(
        partitions=PARTITIONS,
        value_bytes=VALUE_BYTES,
        batch=BATCH,
        many=sizes[-1],
        few=sizes[0],
        rounds=interleaved(costs.runs),
        load=loads(costs.runs),
    )
    rate = latencies.runs[0].rate
    parts = [head("From Kafka to Kafka", "bench-kafka", "kafka.py"), f"{costs.where}\n"]
    parts += ["## Throughput\n", cost_text, cost_table(costs.runs).markdown()]
    parts += ["## Latency\n", _LATENCY.format(rate=rate, warm=WARM_SECONDS, load=loads(latencies.runs))]
    return "\n".join([*parts, latency_table(latencies.runs).markdown()])


PAGE = Page("KAFKA", _render)


def cost_table(costs: Sequence[CostRun]) -> Table:
    """Return what each side takes for a further million records, and for a whole run."""

    def further(side: str, figure: Callable[[CostRun], float]) -> list[float]:
        return list(per_million(costs, side, figure).values())

    return Table.of(
        [side for side in SIDES if further(side, lambda run: run.wall)],
        ("", lambda side: SIDES[side].name),
        ("rounds", lambda side: len(further(side, lambda run: run.wall))),
        ("records / s", lambda side: spread((1e6 / each for each in further(side, lambda run: run.wall)), ",.0f")),
        ("CPU s / million", lambda side: spread(further(side, lambda run: run.cpu), ".1f")),
        ("broker's CPU s / million", lambda side: spread(further(side, lambda run: run.broker_cpu), ".1f")),
        ("whole run s", lambda side: mid((run.wall for run in longest(costs, side)), ".1f")),
        ("CPU s", lambda side: mid((run.cpu for run in longest(costs, side)), ".1f")),
    )


def latency_table(latencies: Sequence[LatencyRun]) -> Table:
    """Return the latency of each side."""
    return Table.of(
        latencies,
        ("", lambda run: SIDES[run.side].name),
        ("records", lambda run: f"{run.records:,}"),
        ("median s", lambda run: f"{run.median:.2f}"),
        ("p99 s", lambda run: f"{run.p99:.2f}"),
        ("most s", lambda run: f"{run.most:.2f}"),
    )


def bench(benchmark: Benchmark) -> None:
    """Measure; show and store the results after every round."""
    options, work = benchmark.options, benchmark.work
    costs: list[CostRun] = []
    latencies: list[LatencyRun] = []
    with (
        KafkaServer() as server,
        environment({"BENCH_KAFKA": server.bootstrap, "STREAMJOB_EXPERIMENTS": "publish-batch"}),
    ):
        with locked(options.lock):
            for side in SIDES:
                latencies.append(latency(server, work, side, options.rate, options.seconds, options.timeout))
        benchmark.keep(LATENCIES, latencies)
        benchmark.show("seconds from a record to its copy", latency_table(latencies))
        topics = {records: f"events-{records}" for records in (options.records, options.few)}
        for records, topic in topics.items():
            fill(server, topic, records)
        for number, turn in benchmark.rounds(list(SIDES)):
            for side in turn:
                for records, topic in topics.items():
                    costs.append(cost(server, work, side, number, topic, records, options.timeout))
                    benchmark.tell(costs[-1])
            benchmark.keep(COSTS, costs)
            benchmark.show(f"behind round {number + 1}", cost_table(costs))


if __name__ == "__main__":
    run(arguments(), PAGE, bench)
