"""Parses Kafka positions as Spark writes them, `{"topic": {"0": 97}}`, and compares them with a broker's offsets."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from streamjob.job.connectors.kafka_end import TopicPartition as TopicPartition

Offsets = Mapping[TopicPartition, int]
"""By partition, the offset after the last record that counts."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Records of a partition that a source still has to read, but cannot.

    Args:
        position: the position at which the source continues.
        beginning: the partition's first offset; None if the partition does not exist.
        end: the offset after its last record; None if it does not exist.
    """

    partition: TopicPartition
    position: int
    beginning: int | None
    end: int | None

    def __str__(self) -> str:
        found = f"{self.partition} is to be read from offset {self.position}"
        if self.beginning is None or self.end is None:
            return f"{found}, and does not exist any more"
        if self.position < self.beginning:
            return f"{found}, and begins at offset {self.beginning}: earlier records have been deleted"
        if self.position > self.end:
            return f"{found}, and ends at offset {self.end}: it was recreated or truncated"
        return f"{found}, but the options do not name this partition"


def read_offsets(value: Any) -> dict[TopicPartition, int]:
    """Return offsets by partition.

    Args:
        value: Spark's object, or its JSON; empty for anything else.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    if not isinstance(value, dict):
        return {}
    return {
        TopicPartition(topic, int(number)): offset
        for topic, partitions in value.items()
        if isinstance(partitions, dict)
        for number, offset in partitions.items()
        if number.isdecimal() and isinstance(offset, int)
    }


def write_offsets(offsets: Offsets) -> str:
    """Return offsets in Spark's form."""
    return json.dumps(by_topic(offsets))


def by_topic(values: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Return a number for each partition as Spark's object of offsets has it; `read_offsets` reads it."""
    topics: dict[str, dict[str, int]] = {}
    for each, value in sorted(values.items()):
        topics.setdefault(each.topic, {})[str(each.partition)] = value
    return topics


def assignment(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions in the form of Spark's option `assign`, `{"topic": [0, 1]}`."""
    topics: dict[str, list[int]] = {}
    for each in sorted(partitions):
        topics.setdefault(each.topic, []).append(each.partition)
    return json.dumps(topics)


def find_losses(
    positions: Offsets, wanted: Collection[TopicPartition], beginnings: Offsets, ends: Offsets
) -> list[Loss]:
    """Return the partitions in which a source cannot continue, in order.

    Args:
        positions: the positions at which it continues.
        wanted: the partitions in its options; one without a position is read from offset 0.
        beginnings: the first offset of each existing partition.
        ends: the offset after the last record of each existing partition.
    """
    losses = []
    for partition in sorted({*positions, *wanted}):
        position, beginning, end = positions.get(partition, 0), beginnings.get(partition), ends.get(partition)
        if beginning is None or end is None or partition not in wanted or not beginning <= position <= end:
            losses.append(Loss(partition, position, beginning, end))
    return losses


def lags(positions: Offsets, latest: Offsets) -> dict[TopicPartition, int]:
    """Return each partition's lag in offsets; partitions with an unknown end are left out."""
    return {each: max(0, latest[each] - position) for each, position in positions.items() if each in latest}
