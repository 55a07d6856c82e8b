"""Positions in Kafka as Spark writes them, `{"topic": {"0": 97}}`, and what they tell beside what a broker has."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from streamjob.job.kafka_end import TopicPartition as TopicPartition

Offsets = Mapping[TopicPartition, int]
"""The offset behind the last record that counts, by partition."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Records of a partition that a source was to read, and cannot.

    Args:
        partition: where.
        position: where the source goes on.
        beginning: the first offset that the partition has; None if it does not exist.
        end: the offset behind its last record; None if it does not exist.
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
        return f"{found}, and is none of those that the options name"


def read_offsets(value: Any) -> dict[TopicPartition, int]:
    """Return offsets by partition.

    Args:
        value: what Spark writes, or its JSON; anything else has none.
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
    """Return offsets as Spark writes them."""
    topics: dict[str, dict[str, int]] = {}
    for each, offset in sorted(offsets.items()):
        topics.setdefault(each.topic, {})[str(each.partition)] = offset
    return json.dumps(topics)


def assignment(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions as Spark's option `assign` has them, `{"topic": [0, 1]}`."""
    topics: dict[str, list[int]] = {}
    for each in sorted(partitions):
        topics.setdefault(each.topic, []).append(each.partition)
    return json.dumps(topics)


def find_losses(
    positions: Offsets, wanted: Collection[TopicPartition], beginnings: Offsets, ends: Offsets
) -> list[Loss]:
    """Return the partitions in which a source cannot go on, in their order.

    Args:
        positions: where it goes on.
        wanted: the partitions that its options name; one without a position is read from offset 0.
        beginnings: the first offset of each partition that exists.
        ends: the offset behind the last record of each partition that exists.
    """
    losses = []
    for partition in sorted({*positions, *wanted}):
        position, beginning, end = positions.get(partition, 0), beginnings.get(partition), ends.get(partition)
        if beginning is None or end is None or partition not in wanted or not beginning <= position <= end:
            losses.append(Loss(partition, position, beginning, end))
    return losses


def lags(positions: Offsets, latest: Offsets) -> dict[TopicPartition, int]:
    """Return how many offsets each partition's position is behind its end; none for one whose end is not known."""
    return {each: max(0, latest[each] - position) for each, position in positions.items() if each in latest}
