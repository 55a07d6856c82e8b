"""Hands records to a running job through Kafka, one after the other, and waits until a reader sees each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from bench.processes import RunFailed
from bench.results import Row
from bench.tables import quantile
from confluent_kafka import Consumer, Producer
from tests.servers.kafka import KafkaServer

PARTITIONS = 4
WARM_SECONDS = 15.0
"""Of a job's life, in which latencies do not count."""
_TICK = 0.005
"""Seconds between bursts of records."""

See = Callable[[Sequence[int]], Sequence[int]]
"""Takes all records sent so far, and returns those that a reader sees since the last call, after 10 ms at most."""


class LatencyRun(Row):
    """Seconds from the moment at which a record is handed to a producer to that at which a reader sees it."""

    side: str
    rate: int
    records: int
    median: float
    p99: float
    most: float
    load_before: float

    @classmethod
    def of(cls, side: str, rate: int, latencies: Sequence[float], load_before: float, **more: object) -> Self:
        """Return what was measured of single records."""
        figures = {"median": quantile(latencies, 0.5), "p99": quantile(latencies, 0.99), "most": max(latencies)}
        run = {"side": side, "rate": rate, "records": len(latencies), "load_before": load_before}
        return cls.model_validate({**run, **figures, **more})


@dataclass(frozen=True)
class Steady:
    """Seconds from each record to its reader after the warm-up, and the CPU seconds that the job used meanwhile."""

    latencies: Sequence[float]
    cpu: float


def steady(
    server: KafkaServer,
    topic: str,
    rate: int,
    seconds: float,
    timeout: float,
    see: See,
    cpu: Callable[[], float] = lambda: 0.0,
) -> Steady:
    """Send records to a topic, and return the seconds until a reader sees each.

    The first record is sent alone. When it is seen, the others follow, so that no backlog of the start counts.

    Args:
        server: the broker.
        topic: the topic, which a job reads.
        rate: records per second.
        seconds: how long records count, from `WARM_SECONDS` after the first one is seen on.
        timeout: seconds until all are seen.
        see: the reader.
        cpu: returns the CPU seconds that the job has used.

    Raises:
        RunFailed: records are not seen.
    """
    taken: list[tuple[int, float]] = []
    used: list[float] = []
    counted_from = over = float("inf")
    deadline = time.monotonic() + timeout
    with producing(server, topic, rate) as sending:
        while sending.going or len(taken) < len(sending.sent):
            if time.monotonic() > deadline:
                raise RunFailed(f"{topic}: {len(taken):,} of {len(sending.sent):,} records were seen")
            seen = see(sending.sent)
            now = time.time_ns()
            taken.extend((sent, (now - sent) / 1e9) for sent in seen)
            if taken and over == float("inf"):
                sending.go_on()
                counted_from = time.time() + WARM_SECONDS
                over = counted_from + seconds
            if len(used) < 2 and time.time() > (over if used else counted_from):
                used.append(cpu())
            if time.time() > over:
                sending.end()
    return Steady([each for sent, each in taken if counted_from <= sent / 1e9 <= over], used[-1] - used[0])


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


@contextmanager
def copies(server: KafkaServer, topic: str) -> Iterator[See]:
    """See records in the copy that a job makes of a topic, which has the suffix `-copy`."""
    with reading(server, f"{topic}-copy") as consumer:
        yield lambda _: values(consumer)


def send(producer: Producer, topic: str, number: int, value: int, milliseconds: int = 0) -> None:
    """Hand the record with the given number to a producer; the partitions take turns.

    Args:
        producer: the producer.
        topic: the topic.
        number: of the record.
        value: its value.
        milliseconds: its time since 1970; 0 for now.
    """
    producer.produce(topic, value=str(value), partition=number % PARTITIONS, timestamp=milliseconds)
    producer.poll(0)


class Producing:
    """Sends one record with its time, and further ones between `go_on` and `end`.

    `sent` are their times, in nanoseconds since 1970. The last three digits are those of the record's number, so
    records whose times have the same rest by 100 are in one partition, in their order.
    """

    def __init__(self, server: KafkaServer, topic: str, rate: int) -> None:
        self.sent: list[int] = []
        # One request for each record would be too many for the broker.
        self._producer = server.producer(linger_ms="0" if rate <= 1000 else "5")
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
        while not self._over.wait(max(begun + len(self.sent) / self._rate - time.monotonic(), _TICK)):
            due = int((time.monotonic() - begun) * self._rate)
            while len(self.sent) <= due:
                self._send()
        self._producer.flush(30)

    def _send(self) -> None:
        number = len(self.sent)
        at = time.time_ns() // 1000 * 1000 + number % 1000
        self.sent.append(at)
        send(self._producer, self._topic, number, at, at // 1_000_000)


@contextmanager
def producing(server: KafkaServer, topic: str, rate: int) -> Iterator[Producing]:
    """Send records; when the block ends, nothing more is sent."""
    sending = Producing(server, topic, rate)
    try:
        yield sending
    finally:
        sending.end()
