"""The end of a bounded Kafka source: an offset for each partition that its topics had at the first start.

Spark's stream of a topic has no end. `BoundedKafkaSource.java` is that stream limited to the partitions that
have an end, and to positions up to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from streamjob.errors import CannotRestore, InvalidInput
from streamjob.ids import BatchId, OperatorUid
from streamjob.job.connectors.kafka_end import ENDING_OFFSETS, TopicPartition, ending_offsets
from streamjob.job.connectors.kafka_source import SUBSCRIPTIONS, reads_committed, subscription
from streamjob.job.connectors.options import option, without
from streamjob_runtime.kafka.admin import KafkaAdmin
from streamjob_runtime.kafka.positions import Offsets, assignment, read_offsets, write_offsets
from streamjob_runtime.kafka.starting import earliest_by_default
from streamjob_runtime.kafka.subscribing import subscribed
from streamjob_runtime.spark.checkpoint_dir.logs import read_offsets as log_entry
from streamjob_runtime.spark.jvm import CLASSES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = CLASSES["BoundedKafkaSource"]

Latest = Callable[[Mapping[str, str]], Offsets]
"""Returns the current ends of the partitions that a stream with these options would read."""


class EndingOffsetsDoNotFit(InvalidInput):
    """The option `endingOffsets` does not fit the existing topics."""


class RecordsBeforeEndGone(CannotRestore):
    """A topic ends before the end of a bounded source that has not been read completely."""


@dataclass(frozen=True, slots=True)
class KafkaEnd:
    """The end of a bounded Kafka source; later records and other partitions are not read."""

    offsets: Offsets

    def to_json(self) -> JsonValue:
        """Return the form for manifests."""
        offsets: JsonValue = json.loads(write_offsets(self.offsets))
        return {"offsets": offsets}

    @staticmethod
    def from_json(value: Any) -> KafkaEnd:
        """Parse the form of `to_json`."""
        return KafkaEnd(read_offsets(value["offsets"]))

    def left(self, position: Offsets) -> dict[TopicPartition, int]:
        """Return the ends of the partitions that have unread records."""
        return {each: end for each, end in sorted(self.offsets.items()) if position.get(each, 0) < end}

    def unread(self, checkpoint: Path, batch: BatchId | None, line: int, directory: int) -> str | None:
        """Return one thing that a query should have read but has not; see `end_of_input.End`."""
        position = None if batch is None else log_entry(checkpoint, batch).offsets()[line][1]
        left = self.left(read_offsets(position))
        return next((f"{each} up to offset {end}" for each, end in left.items()), None)


@dataclass(frozen=True, slots=True)
class BoundedTopics:
    """Reads a Kafka source up to its end, with the options of `FORMAT`."""

    end: KafkaEnd
    options: Mapping[str, str]


def bound_topics(
    uid: OperatorUid, options: Mapping[str, str], known: JsonValue, position: JsonValue, latest: Latest
) -> BoundedTopics:
    """Return the reader of a bounded Kafka source; fix the end if it is not known yet.

    Args:
        known: the end in the restored manifest; None if there is none.
        position: the position in the manifest; None if nothing was read.
        latest: returns the current ends of topics.

    Raises:
        EndingOffsetsDoNotFit: the end in the options does not fit the topics.
        KafkaUnreachable, KafkaRefuses, TopicMissing: Kafka does not return the ends of the topics.
        RecordsBeforeEndGone: a topic ends before the source's end.
    """
    given = earliest_by_default(options)
    others = without(given, ENDING_OFFSETS)
    if known is None:
        end = fix_end(uid, latest(others), option(options, ENDING_OFFSETS))
        left = end.offsets
    else:
        end = KafkaEnd.from_json(known)
        # Records that were read may be gone, so Kafka is not asked about them.
        if left := end.left(read_offsets(position)):
            check_left(uid, left, latest(_assigned(others, left)))
    return BoundedTopics(end, {**_assigned(others, left), ENDING_OFFSETS: write_offsets(end.offsets)})


def fix_end(uid: OperatorUid, latest: Offsets, wanted: str | None) -> KafkaEnd:
    """Return the end of a source that starts for the first time.

    Args:
        latest: the current ends of its topics.
        wanted: its option `endingOffsets`.

    Raises:
        EndingOffsetsDoNotFit: the option names other partitions, or offsets that do not exist yet.
        NotEndingOffsets: the option is not an end.
    """
    named = ending_offsets(wanted)
    if named is None:
        return KafkaEnd(dict(latest))
    for each in sorted(latest.keys() ^ named.keys()):
        what = "names none for" if each in latest else "names one for"
        why = "" if each in latest else ", which the source does not read"
        raise EndingOffsetsDoNotFit(
            f"Source {uid!r}: {ENDING_OFFSETS} {what} {each}{why}",
            "name an offset for each partition, -1 for the latest",
        )
    for each, offset in sorted(named.items()):
        if offset is not None and offset > latest[each]:
            raise EndingOffsetsDoNotFit(
                f"Source {uid!r}: {ENDING_OFFSETS} has {offset} for {each}, which ends at {latest[each]}",
                "give an offset that exists, or -1 for the latest",
            )
    return KafkaEnd({each: latest[each] if offset is None else offset for each, offset in named.items()})


def check_left(uid: OperatorUid, left: Offsets, latest: Offsets) -> None:
    """Check that unread records still exist.

    Args:
        left: the ends of the partitions with unread records.
        latest: their current ends.

    Raises:
        RecordsBeforeEndGone: a partition ends before, or is gone.
    """
    for each, end in sorted(left.items()):
        if each not in latest or latest[each] < end:
            found = f"it ends at {latest[each]}" if each in latest else "it is gone"
            raise RecordsBeforeEndGone(
                f"Source {uid!r} is to read {each} up to offset {end}, and {found}",
                "if the topic was recreated, start without state with --from none",
            )


def latest_offsets(spark: SparkSession, uid: OperatorUid, *, known: bool) -> Latest:
    """Return a function that asks the brokers for the ends of topics, as visible under a stream's isolation level.

    Args:
        known: whether the source has an end already; then a missing partition has been deleted and is left out.
    """
    who = f"Source {uid!r}"

    def latest(options: Mapping[str, str]) -> Offsets:
        gone = subscription(options)[0] if known else ()
        with KafkaAdmin.open(spark, options, who) as admin:
            return admin.end_offsets(subscribed(admin, options, who, gone), committed=reads_committed(options))

    return latest


def _assigned(options: Mapping[str, str], partitions: Iterable[TopicPartition]) -> dict[str, str]:
    return {**without(options, *SUBSCRIPTIONS), "assign": assignment(partitions)}
