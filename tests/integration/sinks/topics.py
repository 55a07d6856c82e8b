"""Topics of a broker for the tests of the Kafka sink, and sinks that write to them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.servers.kafka import KafkaServer, Message

from streamjob.ids import BatchId, CheckpointId, Epoch, OperatorUid
from streamjob.sink import SinkContext, Staged
from streamjob.store.staging import StoreStaging
from streamjob.testing.memory_store import MemoryStore
from streamjob_runtime.sinks.kafka.sink import KafkaSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UID = OperatorUid("alerts")


@dataclass
class Topics:
    """A topic for rows and one for commits, of one job's sink, whose store is in memory."""

    server: KafkaServer
    spark: SparkSession
    scratch: Path
    job: str = field(default_factory=lambda: f"job-{secrets.token_hex(4)}")
    store: MemoryStore = field(default_factory=MemoryStore)
    sinks: list[KafkaSink] = field(default_factory=list)
    partitions: int = 2
    rows: str = ""
    commits: str = ""

    def make(self) -> None:
        """Make topics that are empty."""
        self.rows = f"rows-{secrets.token_hex(4)}"
        self.server.create_topic(self.rows, self.partitions)
        self.forget()

    def empty(self) -> None:
        """Delete the rows that are there, as a topic's retention does."""
        for partition, end in self.server.end_offsets(self.rows).items():
            self.server.delete_records(self.rows, partition, end)

    def forget(self) -> None:
        """Go on with another topic for commits, where there are none."""
        self.commits = f"commits-{secrets.token_hex(4)}"
        self.server.create_topic(self.commits, 1, cleanup_policy="compact")

    def options(self, **more: str) -> dict[str, str]:
        """Return the sink's options."""
        client = {"kafka.bootstrap.servers": self.server.bootstrap}
        return {**client, "topic": self.rows, "commitsTopic": self.commits, **more}

    def sink(self) -> KafkaSink:
        """Return a sink, not opened."""
        sink = KafkaSink("alerts", lambda: self.spark)
        self.sinks.append(sink)
        return sink

    def open(self, epoch: int = 1, options: Mapping[str, str] | None = None) -> KafkaSink:
        """Return the sink of an epoch."""
        sink = self.sink()
        staging = StoreStaging(self.store, UID, Epoch(epoch), self.scratch / str(epoch))
        context = SinkContext(self.job, "default", UID, Epoch(epoch), options or self.options(), staging)
        sink.open(context)
        return sink

    def frame(self, *values: str) -> DataFrame:
        """Return a batch with these values."""
        return self.spark.createDataFrame([(value,) for value in values], "value string").coalesce(1)

    def stage(self, sink: KafkaSink, *values: str) -> Any:
        """Stage a batch with these values, and return its committable."""
        return self.staged(sink, *values).committable

    def staged(self, sink: KafkaSink, *values: str) -> Staged:
        """Stage a batch with these values."""
        return sink.stage(self.frame(*values), BatchId(0))

    def commit(self, sink: KafkaSink, checkpoint: int, *committables: Any) -> None:
        """Commit a checkpoint."""
        sink.commit(CheckpointId(checkpoint), committables)

    def read(self, isolation: str = "read_committed") -> list[Message]:
        """Return the rows."""
        return self.server.consume(self.rows, isolation=isolation)

    def values(self) -> list[str]:
        """Return what rows hold, sorted."""
        return sorted((message.value or b"").decode() for message in self.read())

    def record(self) -> dict[str, Any]:
        """Return the newest record of the sink's commits."""
        key = f"default/{self.job}/{UID}".encode()
        found = [message.value for message in self.server.consume(self.commits) if message.key == key]
        record: dict[str, Any] = json.loads(found[-1] or b"null")
        return record

    def staged_objects(self) -> list[str]:
        """Return the keys of what is staged."""
        return [info.key for info in self.store.list("staged/")]

    def open_transactions(self) -> list[Any]:
        """Return the transactions of the job that are open."""
        return self.server.open_transactions(f"streamjob/default/{self.job}/")

    def close(self) -> None:
        """Release all sinks."""
        for sink in self.sinks:
            sink.close()


@pytest.fixture
def topics(kafka_server: KafkaServer, streamjob_spark: SparkSession, tmp_path: Path) -> Iterator[Topics]:
    """Return empty topics."""
    made = Topics(kafka_server, streamjob_spark, tmp_path / "scratch")
    made.make()
    yield made
    made.close()
