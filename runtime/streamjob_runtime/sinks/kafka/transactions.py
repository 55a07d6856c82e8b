"""Kafka's Java client for the sink, with errors that name a fix."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.job.connectors.kafka_sink import KafkaSinkOptions
from streamjob.job.connectors.options import secrets_in
from streamjob.sink import Measured
from streamjob_runtime.kafka.admin import KafkaAdmin
from streamjob_runtime.kafka.client import explaining
from streamjob_runtime.kafka.errors import KafkaUnreachable
from streamjob_runtime.kafka.positions import TopicPartition
from streamjob_runtime.sinks.errors import UnusableSink
from streamjob_runtime.sinks.kafka.commit_errors import CommitCircumstances, explained_commit
from streamjob_runtime.spark.gateway import call_errors, frame_of, has_class, java_frame, our_java, runs_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PRODUCER = "org.apache.kafka.clients.producer.KafkaProducer"
_PATIENCE_SECONDS = 120


class Kafka:
    """The brokers of a sink.

    Args:
        spark: the session, whose Java has the client.

    Raises:
        UnusableSink: Spark was started without Kafka's client.
    """

    def __init__(self, spark: SparkSession, sink: str, options: KafkaSinkOptions, transactional_id: str) -> None:
        self._spark = spark
        self._java = our_java(spark)
        self._settings = {**options.client, "transactional.id": transactional_id}
        self._secrets = secrets_in(options.client)
        self._circumstances = CommitCircumstances(
            who=sink,
            servers=options.client["bootstrap.servers"],
            transactional_id=transactional_id,
            transaction_timeout=options.transaction_timeout,
        )
        if not has_class(spark, _PRODUCER):
            raise UnusableSink(
                f"{sink}: Spark was started without Kafka's client",
                "leave spark.jars and spark.jars.packages to streamjob, or name a connector of Kafka there",
            )

    @property
    def computes(self) -> bool:
        """Whether Spark's tasks run in this process's Java, and not on executors."""
        return runs_tasks(self._spark)

    def parts(self, rows: DataFrame, longest: int, few: int, directory: Path | None) -> DataFrame:
        """Return a frame whose tasks write rows to files, and describe them.

        Its columns are `file`, `content`, `records`, `topics` and `refusal`; `KafkaStager` says what is in them.

        Args:
            rows: rows in the staged form.
            longest: a record that may have more bytes is refused.
            few: a file of at most so many bytes is in `content`, and not in `file`.
            directory: for the files; None for files that disappear with their tasks.
        """
        target = None if directory is None else str(directory)
        return frame_of(self._spark, self._java.KafkaStager.parts(java_frame(rows), longest, few, target))

    def to_json(self, staged: Path, target: Path) -> int:
        """Append staged rows to a file as JSON lines; return their number. Raises StagedRowsGone."""
        with self.explained("read staged rows"):
            return int(self._java.KafkaStager.toJson(str(staged), str(target)))

    def admin(self) -> KafkaAdmin:
        """Return the admin client."""
        return KafkaAdmin(self._spark, self._settings, self._circumstances.who)

    def newest(self, topic: str, partitions: Sequence[int], key: str) -> str | None:
        """Return the newest committed record of a key, from the first partition that has one; None if none has.

        Includes everything written before the call: waits for the end of an open transaction.
        """
        with self._reading(topic, partitions) as (commits, ranges):
            found = (commits.newest(*place, key, *ends, _PATIENCE_SECONDS) for place, ends in ranges.items())
            return next((record for record in found if record is not None), None)

    def all_of(self, topic: str) -> Mapping[str, str]:
        """Return the newest committed record of each key of a topic with one partition."""
        with self._reading(topic, [0]) as (commits, ranges):
            ((place, ends),) = ranges.items()
            return dict(commits.all(*place, *ends, _PATIENCE_SECONDS))

    @contextmanager
    def _reading(
        self, topic: str, partitions: Sequence[int]
    ) -> Iterator[tuple[Any, Mapping[TopicPartition, tuple[int, int]]]]:
        """Yield a reader of committed records, and the first offset and the end of each partition."""
        places = [TopicPartition(topic, each) for each in partitions]
        with self.admin() as admin:
            begins, ends = admin.beginning_offsets(places), admin.end_offsets(places)
        with self.explained(f"read topic {topic}"):
            commits = self._java.KafkaCommits(self._settings)
            try:
                yield commits, {each: (begins[each], ends[each]) for each in places}
            finally:
                commits.close()

    def measure(self, staged: Path) -> Measured:
        """Return the number of staged rows in a file, and the sum of their hashes."""
        with self.explained("read staged rows"):
            rows, total = self._java.KafkaStager.measure(str(staged))
            return Measured(int(rows), int(total) % 2**64)

    def producer(self) -> Producer:
        """Return the producer of the sink's transactions; it fences off all others with its transactional id."""
        with self.explained("make transactions"):
            return Producer(self, self._java.KafkaPublisher(self._settings))

    def explained(self, doing: str, elapsed: Callable[[], float] = lambda: 0.0) -> AbstractContextManager[None]:
        """Translate errors of the client inside this context.

        Args:
            doing: the attempted operation, as in `could not …`.
            elapsed: returns the age of the open transaction, in seconds.
        """
        return explaining(
            self._spark,
            self._secrets,
            lambda causes: explained_commit(causes, replace(self._circumstances, doing=doing, elapsed=elapsed())),
        )


class Producer:
    """Makes a sink's transactions, one after the other. After an error, only `close` may be called."""

    def __init__(self, kafka: Kafka, producer: Any) -> None:
        self._kafka = kafka
        self._producer = producer
        self._begun: float | None = None

    def open(self) -> None:
        """Fence off producers with the same transactional id, and abort a transaction that they left open."""
        with self._kafka.explained("make transactions"):
            self._producer.open()

    def begin(self) -> None:
        """Begin a transaction."""
        with self._kafka.explained("begin a transaction"):
            self._producer.begin()
            self._begun = time.monotonic()

    def send(self, file: Path, doing: str) -> int:
        """Send staged rows; return their number."""
        with self._transaction(doing):
            rows: int = self._producer.send(str(file))
            return rows

    def record(self, topic: str, partition: int, key: str, value: str | None, doing: str) -> None:
        """Send one record of text; None deletes that of its key."""
        with self._transaction(doing):
            self._producer.send(topic, partition, key, value)

    def commit(self, doing: str) -> None:
        """Wait until everything is sent, and commit the transaction."""
        with self._transaction(doing):
            self._producer.commit()
            self._begun = None

    def close(self) -> None:
        """Abort the open transaction, if there is one, and release the client."""
        from pyspark.errors import PySparkException

        if self._begun is not None:
            # A commit in doubt cannot be aborted; the next `open` settles it.
            with suppress(PySparkException, *call_errors()):
                self._producer.abort()
        with suppress(PySparkException, OSError, *call_errors()):
            self._producer.close()

    @contextmanager
    def _transaction(self, doing: str) -> Iterator[None]:
        try:
            with self._kafka.explained(doing, elapsed=self._elapsed):
                yield
        except KafkaUnreachable:
            # Consumers would not learn about its end either, and the next process would wait.
            self._begun = None
            raise

    def _elapsed(self) -> float:
        return 0.0 if self._begun is None else time.monotonic() - self._begun
