"""Finds the existing partitions that a source's options select."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from streamjob.job.connectors.kafka_source import subscription
from streamjob.job.connectors.options import option
from streamjob_runtime.kafka.admin import KafkaAdmin
from streamjob_runtime.kafka.errors import TopicMissing
from streamjob_runtime.kafka.positions import TopicPartition


def subscribed(
    admin: KafkaAdmin, options: Mapping[str, str], who: str, read_before: Collection[str] = ()
) -> set[TopicPartition]:
    """Return the existing partitions that a source's options select.

    Args:
        who: the source, at the beginning of a message.
        read_before: topics that the source has read; their positions show whether they are gone.

    Raises:
        TopicMissing: a topic in the options does not exist.
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
