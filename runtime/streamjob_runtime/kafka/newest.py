"""Reads the newest records of a source's topics, and forgets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamjob.job.connectors.kafka_source import CLIENT, FORMAT, SUBSCRIPTIONS, reads_committed
from streamjob_runtime.kafka.admin import KafkaAdmin
from streamjob_runtime.kafka.client import for_batches
from streamjob_runtime.kafka.positions import write_offsets
from streamjob_runtime.kafka.source_checks import KafkaInput
from streamjob_runtime.kafka.subscribing import subscribed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OF_BATCHES = tuple(each.lower() for each in (CLIENT, *SUBSCRIPTIONS, "groupIdPrefix", "includeHeaders"))


def read_newest(spark: SparkSession, source: KafkaInput) -> None:
    """Read the newest record of each partition of a source, without a trace in a consumer group.

    Raises:
        KafkaUnreachable, KafkaRefuses, UnusableOptions, TopicMissing: see `check_input`.
        PySparkException: Spark cannot read it.
    """
    with KafkaAdmin.open(spark, source.options, source.who) as admin:
        wanted = subscribed(admin, source.options, source.who)
        begins = admin.beginning_offsets(wanted)
        ends = admin.end_offsets(wanted, committed=reads_committed(source.options))
    if not wanted:
        return
    newest = {each: max(begins[each], end - 1) for each, end in ends.items()}
    options = for_batches(source.options)
    kept = {key: options[key] for key in options if key.lower().startswith(_OF_BATCHES)}
    bounds = {"startingOffsets": write_offsets(newest), "endingOffsets": write_offsets(ends)}
    spark.read.format(FORMAT).options(**kept, **bounds).load().write.format("noop").mode("overwrite").save()
