"""Kafka's own client, in Spark's Java: what a sink asks of it, with errors that say what to do."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.job.kafka_sink import BOOTSTRAP, CLIENT, KafkaSinkOptions
from streamjob.job.options import is_secret
from streamjob_runtime.sinks.errors import UnusableSink
from streamjob_runtime.sinks.kafka.errors import BrokersUnreachable
from streamjob_runtime.sinks.kafka.explaining import Cause, Circumstances, explained, read_causes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PRODUCER = "org.apache.kafka.clients.producer.KafkaProducer"
_REQUEST_SECONDS = 20
_PATIENCE_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the brokers describe it; its settings are empty where they may not be asked for."""

    partitions: int
    readable: bool
    writable: bool
    settings: Mapping[str, str]


class Kafka:
    """The brokers of a sink.

    Args:
        spark: the session, whose Java has the client.
        sink: what to call the sink in a message.
        options: the sink's.
        transactional_id: under which it makes its transactions.

    Raises:
        UnusableSink: Spark was started without Kafka's client.
    """

    def __init__(self, spark: SparkSession, sink: str, options: KafkaSinkOptions, transactional_id: str) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._settings = {**options.client, "transactional.id": transactional_id}
        self._secrets = [value for name, value in options.client.items() if value and is_secret(name, value)]
        self._circumstances = Circumstances(
            sink=sink,
            servers=options.client[BOOTSTRAP.removeprefix(CLIENT)],
            transactional_id=transactional_id,
            doing="",
            transaction_timeout=options.transaction_timeout,
        )
        if not self._jvm.org.apache.spark.util.Utils.classIsLoadable(_PRODUCER):
            raise UnusableSink(
                f"{sink}: Spark was started without Kafka's client",
                "leave spark.jars and spark.jars.packages to streamjob, or name a connector of Kafka there",
            )

    def stage(self, frame: Any, file: Path, longest: int) -> str:
        """Write rows to a file, in one Spark action; return how many, or why one of them is refused."""
        outcome: str = self._jvm.io.streamjob.KafkaStager.write(frame._jdf, str(file), longest)
        return outcome

    def describe(self, topic: str) -> Topic | None:
        """Return what is known of a topic; None if there is none."""
        with self._admin(f"describe topic {topic}", topic) as admin:
            found = admin.describe(topic)
            if found is None:
                return None
            return Topic(found.partitions(), found.readable(), found.writable(), dict(found.config()))

    def makes_topics(self) -> bool | None:
        """Return whether brokers make a topic that is written to; None where that may not be asked for."""
        with self._admin("ask for the brokers' settings") as admin:
            found = admin.makesTopics()
            return None if found is None else found == "true"

    def make(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Make a topic, unless it is there."""
        with self._admin(f"make topic {topic}", topic) as admin:
            admin.make(topic, partitions, dict(settings))

    def newest(self, topic: str, partition: int, key: str) -> str | None:
        """Return the newest committed record of a key in a partition; None if there is none."""

        def hung(causes: tuple[Cause, ...]) -> None:
            for cause in causes:
                if cause.name == "TimeoutException" and cause.message.startswith("at offset"):
                    raise BrokersUnreachable(
                        f"{self._circumstances.sink}: the records of commits in {topic}-{partition} cannot be read to "
                        f"their end within {_PATIENCE_SECONDS} s ({cause.message}): another sink's transaction is open",
                        "it ends when that sink's job starts again, or after its kafka.transaction.timeout.ms",
                    )

        with self._admin(f"read topic {topic}", topic, hung) as admin:
            found: str | None = admin.newest(topic, partition, key, _PATIENCE_SECONDS)
            return found

    def publisher(self) -> Publisher:
        """Return who makes the sink's transactions; all others of its transactional id have no right to any more."""
        with self.explained("make transactions"):
            return Publisher(self, self._jvm.io.streamjob.KafkaPublisher(self._settings))

    @contextmanager
    def _admin(
        self, doing: str, topic: str | None = None, look: Callable[[tuple[Cause, ...]], None] = lambda _: None
    ) -> Iterator[Any]:
        with self.explained(doing, topic, look=look):
            admin = self._jvm.io.streamjob.KafkaCommits(self._settings, _REQUEST_SECONDS)
            try:
                yield admin
            finally:
                admin.close()

    @contextmanager
    def explained(
        self,
        doing: str,
        topic: str | None = None,
        elapsed: Callable[[], float] = lambda: 0.0,
        look: Callable[[tuple[Cause, ...]], None] = lambda _: None,
    ) -> Iterator[None]:
        """Raise what an error of the client means, instead of it.

        Args:
            doing: what is tried, as in `could not …`.
            topic: what it is about, if it is about one topic.
            elapsed: returns for how long the transaction has been open, in seconds.
            look: is given the causes first, and may raise something better.
        """
        from py4j.protocol import Py4JJavaError
        from pyspark.errors.exceptions.captured import CapturedException

        try:
            yield
        except (Py4JJavaError, CapturedException) as error:
            thrown = error.java_exception if isinstance(error, Py4JJavaError) else error._origin
            causes = tuple(
                replace(cause, message=self._without_secrets(cause.message))
                for cause in read_causes(self._jvm.io.streamjob.KafkaPublisher.causes(thrown))
            )
            if causes and causes[0].name == "SendFailed":
                topic = causes[0].message.removeprefix("topic ")
                causes = causes[1:]
            look(causes)
            at = replace(self._circumstances, doing=doing, topic=topic, elapsed=elapsed())
            # What Java says beside that is a page, and may hold what an option holds.
            raise explained(causes, at) from None

    def _without_secrets(self, message: str) -> str:
        for secret in self._secrets:
            message = message.replace(secret, "…")
        return re.sub(r"password=\S+", "password=…", message)


class Publisher:
    """Makes a sink's transactions, one after the other. Any error ends its use, but for `close`.

    Args:
        kafka: the brokers.
        producer: Java's.
    """

    def __init__(self, kafka: Kafka, producer: Any) -> None:
        self._kafka = kafka
        self._producer = producer
        self._begun: float | None = None

    def open(self) -> None:
        """Fence whoever has the same transactional id, and end the transaction that one of them has left open."""
        with self._kafka.explained("make transactions"):
            self._producer.open()

    def begin(self) -> None:
        """Begin a transaction."""
        with self._kafka.explained("begin a transaction"):
            self._producer.begin()
            self._begun = time.monotonic()

    def send(self, file: Path, doing: str) -> int:
        """Send staged rows; return how many."""
        with self._transaction(doing):
            rows: int = self._producer.send(str(file))
            return rows

    def record(self, topic: str, partition: int, key: str, value: str, doing: str) -> None:
        """Send one record of text."""
        with self._transaction(doing):
            self._producer.send(topic, partition, key, value)

    def commit(self, doing: str) -> None:
        """Wait for all that was sent, and commit the transaction."""
        with self._transaction(doing):
            self._producer.commit()
            self._begun = None

    def close(self) -> None:
        """Give up the transaction that is open, if there is one, and release the client."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        if self._begun is not None:
            # A commit in doubt cannot be given up: the next one to open finds out.
            with suppress(Py4JError, PySparkException):
                self._producer.abort()
        with suppress(Py4JError, PySparkException, OSError):
            self._producer.close()

    @contextmanager
    def _transaction(self, doing: str) -> Iterator[None]:
        try:
            with self._kafka.explained(doing, elapsed=self._elapsed):
                yield
        except BrokersUnreachable:
            # They would not be told of its end either, and whoever tells them waits.
            self._begun = None
            raise

    def _elapsed(self) -> float:
        return 0.0 if self._begun is None else time.monotonic() - self._begun
