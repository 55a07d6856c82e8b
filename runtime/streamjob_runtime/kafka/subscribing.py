"""Which partitions a source's options name, of those that Kafka has."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from streamjob.job.kafka import subscription
from streamjob.job.options import option
from streamjob_runtime.kafka.admin import KafkaAdmin
from streamjob_runtime.kafka.errors import TopicMissing
from streamjob_runtime.kafka.positions import TopicPartition


def subscribed(
    admin: KafkaAdmin, options: Mapping[str, str], who: str, read_before: Collection[str] = ()
) -> set[TopicPartition]:
    """Return the partitions that a source's options name, and that exist.

    Args:
        admin: asks the brokers.
        options: of the source.
        who: the source, as it begins a sentence.
        read_before: topics that the source has read: whether they are gone is told by its positions.

    Raises:
        TopicMissing: one that the options name does not exist.
    """
    names, pattern = subscription(options)
    topics = admin.matching(pattern) if pattern is not None else frozenset(names)
    there = admin.partitions(topics)
    for topic in sorted(topics - {each.topic for each in there} - set(read_before)):
        raise TopicMissing(
            f"{who}: Kafka has no topic {topic!r}", "create it, or name another one in the source's options"
        )
    assigned = option(options, "assign")
    if assigned is None:
        return set(there)
    numbers = json.loads(assigned)
    named = {TopicPartition(topic, number) for topic in topics for number in numbers[topic]}
    for partition in sorted(named.difference(there)):
        if partition.topic not in read_before:
            raise TopicMissing(f"{who}: Kafka has no {partition}", "correct its option assign")
    return named.intersection(there)
