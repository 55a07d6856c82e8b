"""An admin client of Kafka, the one in Java: options `kafka.*` mean to it what they mean to Spark's connector.

with KafkaAdmin.open(spark, options, "Source 'orders'") as admin:
    partitions = admin.partitions(["orders"])
    ends = admin.end_offsets(partitions, Isolation.READ_COMMITTED)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Any

from streamjob_runtime.kafka.errors import KafkaRefuses, KafkaUnreachable
from streamjob_runtime.kafka.positions import TopicPartition

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError
    from pyspark.sql import SparkSession

__all__ = ["Isolation", "KafkaAdmin", "TopicPartition", "client_config"]

TIMEOUT_SECONDS = 20.0
"""How long an answer may take."""

_PREFIX = "kafka."
_SECRET = ("password", "jaas", "secret", "key")
_ABSENT = ("UnknownTopicOrPartitionException", "InvalidTopicException")


class Isolation(Enum):
    """Which records count: all, or only those that no open or aborted transaction holds back."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Isolation:
        """Return the one that a source's options ask for."""
        return cls(client_config(options).get("isolation.level", cls.READ_UNCOMMITTED.value))


def client_config(options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a client in Java: the options that begin with `kafka.`, in any case, without that."""
    found = {key[len(_PREFIX) :]: value for key, value in options.items() if key.lower().startswith(_PREFIX)}
    return {key.lower(): value for key, value in found.items()}


class KafkaAdmin:
    """An admin client; made by `open`, closed on exit.

    Args:
        jvm: Spark's Java.
        client: the client there.
        who: on whose behalf, as it begins a sentence: `Source 'orders'`.
        config: its settings.
        timeout: seconds within which an answer must come.
    """

    def __init__(self, jvm: Any, client: Any, who: str, config: Mapping[str, str], timeout: float) -> None:
        self._jvm = jvm
        self._client = client
        self._who = who
        self._config = config
        self._timeout = timeout

    @classmethod
    def open(
        cls, spark: SparkSession, options: Mapping[str, str], who: str, timeout: float = TIMEOUT_SECONDS
    ) -> KafkaAdmin:
        """Return a client for the servers of a source's or sink's options.

        Args:
            spark: a session that has the connector's jars.
            options: those of the source or sink, secrets included.
            who: on whose behalf, as it begins a sentence: `Source 'orders'`.
            timeout: seconds within which each answer must come.

        Raises:
            KafkaUnreachable: no name of a server can be resolved.
            KafkaRefuses: the options fit no client.
        """
        from py4j.protocol import Py4JJavaError

        jvm: Any = spark._jvm
        config = client_config(options)
        milliseconds = round(timeout * 1000)
        settings = jvm.java.util.HashMap()
        for key, value in config.items():
            settings.put(key, value)
        settings.put("default.api.timeout.ms", str(milliseconds))
        settings.put("request.timeout.ms", str(milliseconds // 2))
        try:
            client = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        except Py4JJavaError as error:
            raise _explained(error, who, config) from None
        return cls(jvm, client, who, config, timeout)

    def __enter__(self) -> KafkaAdmin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def matching(self, pattern: str) -> frozenset[str]:
        """Return the topics whose whole name a pattern of Java's matches; raises as `partitions` does."""
        compiled = self._jvm.java.util.regex.Pattern.compile(pattern)
        return frozenset(name for name in self.topics() if compiled.matcher(name).matches())

    def close(self) -> None:
        """End it at once: nothing is asked any more."""
        self._client.close(self._jvm.java.time.Duration.ZERO)

    def topics(self) -> frozenset[str]:
        """Return the topics that the client may see, internal ones left out.

        Raises:
            KafkaUnreachable, KafkaRefuses: as every call here.
        """
        return frozenset(str(name) for name in self._get(self._client.listTopics().names()))

    def partitions(self, topics: Collection[str]) -> list[TopicPartition]:
        """Return the partitions of those of the topics that exist.

        Raises:
            KafkaUnreachable: no answer came in time.
            KafkaRefuses: the client may not describe one of them.
        """
        found = []
        for topic, future in dict(self._client.describeTopics(self._list(topics)).topicNameValues()).items():
            description = self._get(future, absent=True)
            if description is not None:
                found += [TopicPartition(str(topic), int(each.partition())) for each in description.partitions()]
        return sorted(found)

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset that each partition still has; raises as `partitions` does.

        A partition that does not exist is left out.
        """
        return self._offsets(partitions, self._specs().earliest(), Isolation.READ_UNCOMMITTED)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> dict[TopicPartition, int]:
        """Return the offset behind the last record of each partition; raises as `partitions` does.

        A partition that does not exist is left out.

        Args:
            partitions: which ones.
            isolation: with `READ_COMMITTED` the end is where the first open transaction begins.
        """
        return self._offsets(partitions, self._specs().latest(), isolation)

    def offsets_at(self, partitions: Iterable[TopicPartition], milliseconds: int) -> dict[TopicPartition, int]:
        """Return the first offset of each partition whose timestamp is not before that time; -1 where there is none.

        A partition that does not exist is left out. Raises as `partitions` does.

        Args:
            partitions: which ones.
            milliseconds: since 1970.
        """
        spec = self._specs().forTimestamp(self._jvm.java.lang.Long.valueOf(milliseconds))
        return self._offsets(partitions, spec, Isolation.READ_UNCOMMITTED)

    def report_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the committed offsets of a consumer group that has no members; raises as `partitions` does."""
        metadata = self._jvm.org.apache.kafka.clients.consumer.OffsetAndMetadata
        wanted = self._jvm.java.util.HashMap()
        for partition, offset in offsets.items():
            wanted.put(self._partition(partition), metadata(self._jvm.java.lang.Long.valueOf(offset)))
        self._get(self._client.alterConsumerGroupOffsets(group, wanted).all())

    def _specs(self) -> Any:
        return self._jvm.org.apache.kafka.clients.admin.OffsetSpec

    def _offsets(
        self, partitions: Iterable[TopicPartition], spec: Any, isolation: Isolation
    ) -> dict[TopicPartition, int]:
        asked = list(partitions)
        # A client that is asked for offsets of what does not exist asks again and again until its time is over.
        existing = self.partitions({each.topic for each in asked})
        java = {each: self._partition(each) for each in asked if each in existing}
        wanted = self._jvm.java.util.HashMap()
        for each in java.values():
            wanted.put(each, spec)
        level = getattr(self._jvm.org.apache.kafka.common.IsolationLevel, isolation.name)
        result = self._client.listOffsets(wanted, self._jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(level))
        return {partition: int(self._get(result.partitionResult(each)).offset()) for partition, each in java.items()}

    def _partition(self, partition: TopicPartition) -> Any:
        return self._jvm.org.apache.kafka.common.TopicPartition(partition.topic, partition.partition)

    def _list(self, values: Iterable[str]) -> Any:
        made = self._jvm.java.util.ArrayList()
        for value in values:
            made.add(value)
        return made

    def _get(self, future: Any, *, absent: bool = False) -> Any:
        """Wait for an answer; None, where `absent` allows it, if what was asked about does not exist."""
        from py4j.protocol import Py4JJavaError

        milliseconds = round(self._timeout * 1000) + 1000
        try:
            return future.get(milliseconds, self._jvm.java.util.concurrent.TimeUnit.MILLISECONDS)
        except Py4JJavaError as error:
            if absent and _cause(error).getClass().getSimpleName() in _ABSENT:
                return None
            raise _explained(error, self._who, self._config) from None


def _cause(error: Py4JJavaError) -> Any:
    """Return the first cause that is Kafka's own, else the last one."""
    cause = error.java_exception
    while not cause.getClass().getName().startswith("org.apache.kafka.common.errors") and cause.getCause() is not None:
        cause = cause.getCause()
    return cause


def _explained(error: Py4JJavaError, who: str, config: Mapping[str, str]) -> KafkaUnreachable | KafkaRefuses:
    cause = _cause(error)
    kind = cause.getClass().getSimpleName()
    servers = config.get("bootstrap.servers", "no servers")
    reason = f"{kind}: {_without_secrets(str(cause.getMessage() or ''), config)}"
    if kind == "TimeoutException" or "bootstrap urls" in reason:
        return KafkaUnreachable(
            f"{who}: no Kafka broker at {servers} answers ({reason})",
            "start the brokers, or correct kafka.bootstrap.servers, kafka.security.protocol and the way there",
        )
    if any(part in kind for part in ("Authentication", "Authorization", "Sasl")):
        return KafkaRefuses(
            f"{who}: Kafka at {servers} refuses ({reason})",
            "correct its kafka.sasl.* and kafka.ssl.* options, or let its principal do so",
        )
    if "ConfigException" in kind or "IllegalArgument" in kind:
        return KafkaRefuses(f"{who}: its options kafka.* cannot be used ({reason})", "correct them")
    return KafkaUnreachable(f"{who}: Kafka at {servers} cannot answer ({reason})", "look at the brokers' logs")


def _without_secrets(text: str, config: Mapping[str, str]) -> str:
    for key, value in config.items():
        if value and any(part in key for part in _SECRET):
            text = text.replace(value, "…")
    return text
