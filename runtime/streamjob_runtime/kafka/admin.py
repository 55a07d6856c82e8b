"""What sources and sinks ask of Kafka's brokers beside records.

with KafkaAdmin.open(spark, options, "Source 'orders'") as admin:
    partitions = admin.partitions(["orders"])
    ends = admin.end_offsets(partitions)

Its client is the one in Java: options `kafka.*` mean to it what they mean to Spark's connector.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from streamjob.job.options import secrets_in
from streamjob_runtime.kafka.client import client_settings, explaining
from streamjob_runtime.kafka.explaining import Circumstances, explained
from streamjob_runtime.kafka.positions import Offsets, TopicPartition, assignment, read_offsets, write_offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_SECONDS = 20.0
"""How long an answer may take."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the brokers describe it; its settings are empty where they may not be asked for."""

    partitions: int
    readable: bool
    writable: bool
    settings: Mapping[str, str]


class KafkaAdmin:
    """An admin client, closed on exit. All that it is asked raises what `streamjob_runtime.kafka.explaining` says.

    Args:
        spark: a session that has Kafka's jars.
        settings: of the client, secrets included; what other clients than this one know is left out.
        who: on whose behalf, as it begins a sentence: `Source 'orders'`.
        timeout: seconds within which each answer must come.

    Raises:
        KafkaUnreachable: no name of a server can be resolved.
        UnusableOptions: the settings fit no client.
    """

    def __init__(
        self, spark: SparkSession, settings: Mapping[str, str], who: str, timeout: float = TIMEOUT_SECONDS
    ) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._secrets = secrets_in(settings)
        self._circumstances = Circumstances(who=who, servers=settings.get("bootstrap.servers", "no address"))
        with self._explained("connect"):
            self._client = self._jvm.io.streamjob.KafkaAdmin(dict(settings), round(timeout * 1000))

    @classmethod
    def open(
        cls, spark: SparkSession, options: Mapping[str, str], who: str, timeout: float = TIMEOUT_SECONDS
    ) -> KafkaAdmin:
        """Return a client for the brokers of a source, from the source's options; else as the class itself."""
        return cls(spark, client_settings(options), who, timeout)

    def __enter__(self) -> KafkaAdmin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it at once: nothing is asked any more."""
        self._client.close()

    def matching(self, pattern: str) -> frozenset[str]:
        """Return the topics whose whole name a pattern of Java's matches, internal ones left out."""
        with self._explained("list topics"):
            return frozenset(json.loads(self._client.topics(pattern)))

    def partitions(self, topics: Collection[str]) -> list[TopicPartition]:
        """Return the partitions of those of the topics that exist."""
        with self._explained("describe topics"):
            found = json.loads(self._client.partitions(list(topics)))
        return sorted(TopicPartition(topic, number) for topic, numbers in found.items() for number in numbers)

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset that each partition still has; the partitions have to exist."""
        with self._explained("ask where partitions begin"):
            return read_offsets(self._client.beginnings(assignment(partitions)))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], *, committed: bool = False
    ) -> dict[TopicPartition, int]:
        """Return the offset behind the last record of each partition; the partitions have to exist.

        Args:
            partitions: which ones.
            committed: whether the end is where the first open transaction begins.
        """
        with self._explained("ask where partitions end"):
            return read_offsets(self._client.ends(assignment(partitions), committed))

    def report_offsets(self, group: str, offsets: Offsets) -> None:
        """Set the committed offsets of a consumer group that has no members."""
        with self._explained(f"report to consumer group {group}"):
            self._client.report(group, write_offsets(offsets))

    def describe(self, topic: str) -> Topic | None:
        """Return what is known of a topic; None if there is none."""
        with self._explained(f"describe topic {topic}"):
            found = self._client.describe(topic)
        return None if found is None else Topic(**json.loads(found))

    def makes_topics(self) -> bool | None:
        """Return whether brokers make a topic that is written to; None where that may not be asked for."""
        with self._explained("ask for the brokers' settings"):
            found = self._client.makesTopics()
        return None if found is None else bool(found == "true")

    def make(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Make a topic, unless it is there."""
        with self._explained(f"make topic {topic}"):
            self._client.make(topic, partitions, dict(settings))

    def _explained(self, doing: str) -> AbstractContextManager[None]:
        at = replace(self._circumstances, doing=doing)
        return explaining(self._jvm, self._secrets, lambda causes: explained(causes, at))
