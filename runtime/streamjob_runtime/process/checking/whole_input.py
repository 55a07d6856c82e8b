"""Says what a job would read if it started anew from its earliest input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from streamjob.job.connectors.kafka_source import reads_committed
from streamjob.job.loading.load import LoadedJob
from streamjob.job.planning.plan import Plan
from streamjob_runtime.chain.sources.discovered_files import DiscoveredFiles
from streamjob_runtime.kafka.admin import KafkaAdmin
from streamjob_runtime.kafka.source_checks import kafka_inputs
from streamjob_runtime.kafka.subscribing import subscribed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def whole_input(spark: SparkSession, loaded: LoadedJob, plan: Plan) -> Mapping[str, str]:
    """Return in words how much input the sources of files and of Kafka's topics have, by uid.

    Raises:
        KafkaUnreachable, KafkaRefuses, TopicMissing: Kafka does not tell.
        StoreError, NothingInBucket: files cannot be listed.
    """
    found: dict[str, str] = {}
    for source in loaded.spec.sources:
        files = DiscoveredFiles.of(spark, source, loaded.options(source))
        if files is not None:
            count = len(files.end().paths)
            found[source.uid] = f"a start without the snapshot reads {count:,} file{'' if count == 1 else 's'}"
    for each in kafka_inputs(loaded, plan, None):
        with KafkaAdmin.open(spark, each.options, each.who) as admin:
            partitions = subscribed(admin, each.options, each.who)
            begins = admin.beginning_offsets(partitions)
            ends = admin.end_offsets(partitions, committed=reads_committed(each.options))
        records = sum(end - begins.get(partition, end) for partition, end in ends.items())
        found[each.uid] = f"a start without the snapshot reads up to {records:,} records from the earliest offsets on"
    return found
