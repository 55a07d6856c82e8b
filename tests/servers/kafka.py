"""A real Kafka broker on loopback: one node that is its own controller, in a temporary directory.

    with KafkaServer() as server:
        server.create_topic("orders", partitions=3)
        server.produce("orders", [("key", "value")])
        assert [row.value for row in server.consume("orders")] == [b"value"]

Its jars are downloaded once, like those of Spark's connector, and kept next to them. With `CI=true` they are required.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import struct
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewPartitions, NewTopic
from tests.servers.process import LOOPBACK, ServerMissing, ServerProcess, free_port, required

from streamjob.errors import StreamJobError
from streamjob_runtime.spark.connectors.artifacts import read_pins
from streamjob_runtime.spark.connectors.fetching import Repositories, fetch
from streamjob_runtime.spark.connectors.finding import cache_directory
from streamjob_runtime.spark.process.java import find_java

_PINS = Path(__file__).with_name("kafka-broker.txt")
_TIMEOUT = 30.0
_TRANSACTIONS = "__transaction_state"
_STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "Fenced")


@dataclass(frozen=True)
class Message:
    """A record of a topic."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = 0


@dataclass(frozen=True)
class OpenTransaction:
    """A transaction that is neither committed nor aborted."""

    transactional_id: str
    state: str


@functools.cache
def find_broker() -> Path | None:
    """Return the directory of the broker's jars, fetched on the first call; None where they cannot be had."""
    pins = read_pins(_PINS.read_text())
    directory = cache_directory(os.environ) / "kafka-broker"
    try:
        fetch(pins, directory, os.environ, Repositories())
    except StreamJobError:
        if required():
            raise
        return None
    return directory


class KafkaServer(ServerProcess):
    """A broker, started on entry and ended on exit.

    Args:
        host: the address that it listens on and names to its clients.
        settings: of the broker, as in `server.properties`, with `_` for `.`.
    """

    kind = "Kafka"
    # Nothing of it is needed later: an orderly end would take seconds.
    last = signal.SIGKILL

    def __init__(self, *, host: str = LOOPBACK, **settings: str) -> None:
        super().__init__(host=host)
        self._settings = {key.replace("_", "."): value for key, value in settings.items()}
        self._admin: AdminClient | None = None

    @property
    def bootstrap(self) -> str:
        """Where a client finds it."""
        return f"{self.host}:{self.port}"

    def make(self) -> None:
        """Write its settings, and format its storage."""
        self._admin = None
        properties = self.directory / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self.settings().items()))
        format_it = ("format", "--ignore-formatted", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", str(properties))
        self.prepare(*self._java, "kafka.tools.StorageTool", *format_it)

    def command(self) -> list[str]:
        """Return the command that starts it."""
        return [*self._java, "kafka.Kafka", str(self.directory / "server.properties")]

    def how_to_run(self) -> dict[str, Any]:
        """Return where it runs."""
        return {"cwd": self.directory}

    def answers(self) -> bool:
        """Return whether it answers."""
        with contextlib.suppress(KafkaException):
            return bool(self.admin.list_topics(timeout=1).brokers)
        return False

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        """Create a topic; `config` has `_` for `.`."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        _settle(self.admin.create_topics([NewTopic(name, partitions, 1, config=settings)]))
        self._wait_for_topic(name, partitions)

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until it is gone."""
        _settle(self.admin.delete_topics([name], operation_timeout=_TIMEOUT))
        deadline = time.monotonic() + _TIMEOUT
        while name in self.admin.list_topics(timeout=_TIMEOUT).topics:
            assert time.monotonic() < deadline, f"the topic {name} is still there"
            time.sleep(0.05)

    def add_partitions(self, name: str, total: int) -> None:
        """Give a topic more partitions."""
        _settle(self.admin.create_partitions([NewPartitions(name, total)]))
        self._wait_for_topic(name, total)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Delete what a partition has before an offset, as its retention does."""
        _settle(self.admin.delete_records([TopicPartition(topic, partition, before)]))

    def produce(
        self,
        topic: str,
        rows: Iterable[tuple[str | bytes | None, str | bytes | None]],
        *,
        partition: int | None = None,
        headers: Mapping[str, bytes] | None = None,
        transaction: bool = False,
        abort: bool = False,
        producer: Producer | None = None,
    ) -> None:
        """Produce records, and wait until the broker has them.

        Args:
            topic: where to.
            rows: key and value of each.
            partition: where to; None for the one of its key.
            headers: of each record.
            transaction: whether they go in one transaction, which is committed.
            abort: whether that transaction is aborted instead.
            producer: whose; None for one of their own.
        """
        client = producer or self.producer(f"test-{uuid.uuid4().hex}" if transaction or abort else None)
        if transaction or abort:
            client.begin_transaction()
        where: dict[str, Any] = {} if partition is None else {"partition": partition}
        for key, value in rows:
            while True:
                try:
                    client.produce(topic, key=key, value=value, headers=dict(headers or {}), **where)
                    break
                except BufferError:
                    client.poll(0.1)
        assert client.flush(_TIMEOUT) == 0, "the broker did not take all records"
        if abort:
            client.abort_transaction()
        elif transaction:
            client.commit_transaction()

    def producer(self, transactional_id: str | None = None, **config: str) -> Producer:
        """Return a client that produces; one with a transactional id is ready to begin a transaction."""
        settings: dict[str, Any] = {"bootstrap.servers": self.bootstrap, "linger.ms": 5}
        # Without it, records that are sent again come behind later ones.
        settings["enable.idempotence"] = True
        settings |= {key.replace("_", "."): value for key, value in config.items()}
        if transactional_id is not None:
            settings["transactional.id"] = transactional_id
        producer = Producer(settings)
        if transactional_id is not None:
            producer.init_transactions(_TIMEOUT)
        return producer

    def consume(self, topic: str, *, isolation: str = "read_committed") -> list[Message]:
        """Return all records of a topic in each partition's order, up to the first open transaction."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"test-{uuid.uuid4().hex}",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )
        try:
            partitions = [TopicPartition(topic, number, 0) for number in range(self.partitions(topic))]
            consumer.assign(partitions)
            messages, ended = [], set[int]()
            deadline = time.monotonic() + _TIMEOUT
            while len(ended) < len(partitions):
                assert time.monotonic() < deadline, f"{topic} was not read to its end"
                for each in consumer.consume(500, 0.1):
                    error = each.error()
                    if error is None:
                        messages.append(_message(each))
                    elif error.code() == KafkaError._PARTITION_EOF:
                        ended.add(int(each.partition() or 0))
                    else:
                        raise KafkaException(error)
            return sorted(messages, key=lambda message: (message.partition, message.offset))
        finally:
            consumer.close()

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has."""
        return len(self.admin.list_topics(topic, timeout=_TIMEOUT).topics[topic].partitions)

    def end_offsets(self, topic: str, *, isolation: str = "read_uncommitted") -> dict[int, int]:
        """Return the end of each partition; with `read_committed`, where an open transaction begins."""
        level = IsolationLevel.READ_COMMITTED if isolation == "read_committed" else IsolationLevel.READ_UNCOMMITTED
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = {TopicPartition(topic, each): latest for each in range(self.partitions(topic))}
        found = self.admin.list_offsets(wanted, isolation_level=level, request_timeout=_TIMEOUT)
        return {where.partition: future.result().offset for where, future in found.items()}

    def committed_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """Return what a consumer group has committed, by topic and partition; empty where there is no such group."""
        asked = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        found = asked[group].result(_TIMEOUT).topic_partitions
        return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def open_transactions(self, prefix: str = "") -> list[OpenTransaction]:
        """Return the transactions that are neither committed nor aborted, of transactional ids with a prefix."""
        if _TRANSACTIONS not in self.admin.list_topics(timeout=_TIMEOUT).topics:
            return []
        states = {}
        for record in self.consume(_TRANSACTIONS, isolation="read_uncommitted"):
            assert record.key is not None
            (length,) = struct.unpack_from(">2xh", record.key)
            name = record.key[4 : 4 + length].decode()
            # Version, producer's id and epoch, timeout, state.
            states[name] = _STATES[struct.unpack_from(">hqhib", record.value)[-1]] if record.value else "Dead"
        settled = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")
        return [
            OpenTransaction(name, state)
            for name, state in states.items()
            if state not in settled and name.startswith(prefix)
        ]

    @property
    def admin(self) -> AdminClient:
        """An admin client, kept because pending requests end with it."""
        if self._admin is None:
            # Failed calls report errors; a killed broker is expected.
            self._admin = AdminClient(
                {"bootstrap.servers": self.bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 100}
            )
        return self._admin

    def settings(self) -> dict[str, str]:
        """Return what is written to `server.properties`."""
        controller = free_port()
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{LOOPBACK}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.directory / "data"),
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            # A crashed broker may come back only when its session has ended.
            "broker.session.timeout.ms": "2000",
            "broker.heartbeat.interval.ms": "300",
            "log.segment.delete.delay.ms": "0",
            "num.network.threads": "2",
            "num.io.threads": "2",
            "log.cleaner.dedupe.buffer.size": str(2 * 1024 * 1024),
            **self._settings,
        }

    @functools.cached_property
    def _java(self) -> list[str]:
        jars = find_broker()
        if jars is None:
            raise ServerMissing("the broker's jars cannot be fetched")
        java = find_java(os.environ, self.directory / "java").executable
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        return [str(java), *options, "-cp", os.pathsep.join(map(str, sorted(jars.glob("*.jar"))))]

    def _wait_for_topic(self, name: str, partitions: int) -> None:
        deadline = time.monotonic() + _TIMEOUT
        while time.monotonic() < deadline:
            topic = self.admin.list_topics(timeout=_TIMEOUT).topics.get(name)
            if topic is not None and sum(each.leader >= 0 for each in topic.partitions.values()) == partitions:
                return
            time.sleep(0.05)
        raise ServerMissing(f"the topic {name} has no leader")


def _settle(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result(_TIMEOUT)


def _message(message: Any) -> Message:
    return Message(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
        timestamp=message.timestamp()[1],
    )
