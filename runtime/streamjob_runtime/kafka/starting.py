"""Where a Kafka source begins or continues in an epoch.

Where a source begins may depend on the moment: at the newest record, at a time, at what retention has left. So the
offsets are asked for once, at the source's first start, and stored in a checkpoint before anything is read. Spark takes
them as the option `startingOffsets`, unless its own log has a position of the source.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamjob.job.connectors.kafka_end import ENDING_OFFSETS
from streamjob.job.connectors.kafka_source import STARTING_OFFSETS
from streamjob.job.connectors.options import option, secrets_in, without
from streamjob_runtime.kafka.client import client_settings, explaining, with_defaults
from streamjob_runtime.kafka.explaining import Circumstances, explained
from streamjob_runtime.kafka.positions import Offsets, TopicPartition, read_offsets, write_offsets
from streamjob_runtime.kafka.topic_ids import TopicIds
from streamjob_runtime.spark.gateway import java_session, our_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGINNINGS = (STARTING_OFFSETS, "startingOffsetsByTimestamp", "startingTimestamp")
"""The options of Spark's connector that say where a stream begins."""
_EARLIEST = -2


@dataclass(frozen=True, slots=True)
class KafkaStart:
    """Where a source begins or continues.

    Args:
        offsets: the next offset of each partition.
        first: whether they have been asked for now, so that no snapshot has them.
        ids: the ids of its topics, without those that it has read to their end.
        ends: the offset after the last record of each partition at that time; empty where nobody has asked.
    """

    offsets: Offsets = field(default_factory=dict)
    first: bool = False
    ids: TopicIds = field(default_factory=dict)
    ends: Offsets = field(default_factory=dict)


def earliest_by_default(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a bounded source, which begins at the earliest offset unless they say otherwise.

    That is so in a batch query, and necessary: there is nothing between the latest offset and the end.
    """
    if any(option(options, each) is not None for each in BEGINNINGS):
        return {**options}
    return {**options, STARTING_OFFSETS: "earliest"}


def first_offsets(spark: SparkSession, options: Mapping[str, str], who: str) -> Offsets:
    """Return the offsets at which Spark's connector would begin to read now.

    Args:
        options: the source's options; they say where it begins.
        who: the source, at the beginning of a message.

    Raises:
        KafkaUnreachable, KafkaRefuses, TopicMissing, UnusableBeginning: the connector finds no offsets.
    """
    given = without(with_defaults(options), ENDING_OFFSETS)
    servers = client_settings(options).get("bootstrap.servers", "no address")
    at = Circumstances(who=who, servers=servers, doing="ask where its topics begin")
    with (
        tempfile.TemporaryDirectory(prefix="streamjob-") as directory,
        explaining(spark, secrets_in(options), lambda causes: explained(causes, at)),
    ):
        return read_offsets(our_java(spark).KafkaBeginning.of(java_session(spark), given, directory))


def beginning_at(options: Mapping[str, str], offsets: Offsets) -> dict[str, str]:
    """Return the options of a stream that begins at given offsets, and at the earliest of other assigned partitions."""
    others = without(options, *BEGINNINGS)
    assigned = option(options, "assign")
    if assigned is not None:
        partitions = (
            TopicPartition(topic, each) for topic, numbers in json.loads(assigned).items() for each in numbers
        )
        offsets = {each: offsets.get(each, _EARLIEST) for each in partitions}
    return {**others, STARTING_OFFSETS: write_offsets(offsets)}
