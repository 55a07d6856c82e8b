"""An admin client for Kafka's brokers, for sources and sinks.

with KafkaAdmin.open(spark, options, "Source 'orders'") as admin:
    partitions = admin.partitions(["orders"])
    ends = admin.end_offsets(partitions)

The client is Kafka's Java client, so `kafka.*` options mean the same as to Spark's connector.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING

from streamjob.job.connectors.options import secrets_in
from streamjob_runtime.kafka.client import client_settings, explaining
from streamjob_runtime.kafka.explaining import Circumstances, explained
from streamjob_runtime.kafka.positions import Offsets, TopicPartition, assignment, read_offsets, write_offsets
from streamjob_runtime.spark.gateway import our_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_SECONDS = 20.0
"""Maximum seconds for an answer."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as described by the brokers.

    Its settings are empty if reading them is not permitted, and brokers before 2.8 give no id.
    """

    partitions: int
    readable: bool
    writable: bool
    settings: Mapping[str, str]
    id: str | None = None


class KafkaAdmin:
    """An admin client, closed on exit. Its methods raise the errors of `streamjob_runtime.kafka.explaining`.

    Args:
        spark: a session with Kafka's jars.
        settings: client settings, including secrets; settings of other clients are ignored.
        who: the part that asks, at the beginning of a message: `Source 'orders'`.
        timeout: maximum seconds for each answer.

    Raises:
        KafkaUnreachable: no server name can be resolved.
        UnusableOptions: the client cannot use the settings.
    """

    def __init__(
        self, spark: SparkSession, settings: Mapping[str, str], who: str, timeout: float = TIMEOUT_SECONDS
    ) -> None:
        self._spark = spark
        self._secrets = secrets_in(settings)
        self._circumstances = Circumstances(who=who, servers=settings.get("bootstrap.servers", "no address"))
        with self._explained("connect"):
            self._client = our_java(spark).KafkaAdmin(dict(settings), round(timeout * 1000))

    @classmethod
    def open(
        cls, spark: SparkSession, options: Mapping[str, str], who: str, timeout: float = TIMEOUT_SECONDS
    ) -> KafkaAdmin:
        """Return a client for a source's brokers, from the source's options; otherwise like the constructor."""
        return cls(spark, client_settings(options), who, timeout)

    def __enter__(self) -> KafkaAdmin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the client at once."""
        self._client.close()

    def matching(self, pattern: str) -> frozenset[str]:
        """Return the topics whose full name matches a Java pattern, without internal ones."""
        with self._explained("list topics"):
            return frozenset(json.loads(self._client.topics(pattern)))

    def partitions(self, topics: Collection[str]) -> list[TopicPartition]:
        """Return the partitions of those topics that exist."""
        return self.partitions_and_ids(topics)[0]

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return the ids of those topics that exist; brokers before 2.8 give none."""
        return self.partitions_and_ids(topics)[1]

    def partitions_and_ids(self, topics: Collection[str]) -> tuple[list[TopicPartition], dict[str, str]]:
        """Return what `partitions` and `topic_ids` return, from one request."""
        with self._explained("describe topics"):
            found = json.loads(self._client.existing(list(topics)))
        partitions = sorted(
            TopicPartition(topic, number) for topic, each in found.items() for number in each["partitions"]
        )
        return partitions, {topic: each["id"] for topic, each in found.items() if each["id"] is not None}

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first available offset of each partition; the partitions must exist."""
        with self._explained("ask where partitions begin"):
            return read_offsets(self._client.beginnings(assignment(partitions)))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], *, committed: bool = False
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition; the partitions must exist.

        Args:
            committed: whether the end is the start of the first open transaction.
        """
        with self._explained("ask where partitions end"):
            return read_offsets(self._client.ends(assignment(partitions), committed))

    def report_offsets(self, group: str, offsets: Offsets) -> None:
        """Set the committed offsets of a consumer group that has no members."""
        with self._explained(f"report to consumer group {group}"):
            self._client.report(group, write_offsets(offsets))

    def describe(self, topic: str) -> Topic | None:
        """Return the description of a topic; None if it does not exist."""
        with self._explained(f"describe topic {topic}"):
            found = self._client.describe(topic)
        return None if found is None else Topic(**json.loads(found))

    def makes_topics(self) -> bool | None:
        """Return whether brokers create a missing topic on write; None if reading this setting is not permitted."""
        with self._explained("ask for the brokers' settings"):
            found = self._client.makesTopics()
        return None if found is None else bool(found == "true")

    def make(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Create a topic, unless it exists."""
        with self._explained(f"make topic {topic}"):
            self._client.make(topic, partitions, dict(settings))

    def _explained(self, doing: str) -> AbstractContextManager[None]:
        at = replace(self._circumstances, doing=doing)
        return explaining(self._spark, self._secrets, lambda causes: explained(causes, at))
