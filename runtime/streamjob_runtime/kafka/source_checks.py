"""Asks the brokers before a job's queries start whether its topics and unread records exist.

Spark would report the same problems in the middle of the first batch, like a temporary failure.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from streamjob.comparison.compatibility import Restored
from streamjob.ids import ChainUid, OperatorUid
from streamjob.job.connectors.kafka_source import (
    FAIL_ON_DATA_LOSS,
    FORMAT,
    ISOLATION_LEVEL,
    STARTING_OFFSETS,
    fails_on_data_loss,
    reads_committed,
)
from streamjob.job.connectors.options import option
from streamjob.job.loading.load import LoadedJob
from streamjob.job.model.spec import SourceSpec
from streamjob.job.planning.plan import Plan
from streamjob_runtime.kafka.admin import KafkaAdmin
from streamjob_runtime.kafka.errors import OffsetsGone, TopicMadeAgain, TransactionOpen, UnusableBeginning
from streamjob_runtime.kafka.positions import Loss, Offsets, TopicPartition, find_losses, read_offsets
from streamjob_runtime.kafka.starting import BEGINNINGS, KafkaStart, earliest_by_default, first_offsets
from streamjob_runtime.kafka.subscribing import subscribed
from streamjob_runtime.kafka.topic_ids import KnownTopics, TopicIds, same_topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHOWN = 5

log = logging.getLogger("streamjob")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaInput:
    """A Kafka source to be read.

    Args:
        uid: the source.
        options: its options, including secrets.
        position: its position; None if it starts from the beginning of its options.
        end: its end, if it is bounded and the end is known.
        ids: the ids of the topics of its position.
    """

    uid: OperatorUid
    name: str
    options: Mapping[str, str] = field(repr=False)
    position: Offsets | None = None
    end: Offsets | None = None
    ids: TopicIds = field(default_factory=dict)

    @property
    def who(self) -> str:
        """Its name in messages."""
        return f"Source {self.name!r}"


def kafka_inputs(loaded: LoadedJob, plan: Plan, restored: Restored | None) -> Iterator[KafkaInput]:
    """Yield the Kafka sources of the unfinished chains, each with its position.

    Args:
        restored: the snapshot to restore; None for a fresh start.
    """
    states = {} if restored is None else {each.uid: each for each in restored.manifest.sources}
    for chain in plan.chains:
        if restored is not None and restored.finished(chain.uid):
            continue
        taken: Iterable[OperatorUid] = () if restored is None else restored.origin(chain.uid).positions
        for source in chain.sources:
            if source.format != FORMAT:
                continue
            state = states.get(source.uid) if source.uid in taken else None
            position = read_offsets(state.position) if state is not None and state.position is not None else None
            end = state.end if state is not None and source.bounded else None
            options = loaded.options(source)
            yield KafkaInput(
                uid=source.uid,
                name=source.name,
                options=earliest_by_default(options) if source.bounded else options,
                position=position,
                end=read_offsets(end.get("offsets")) if isinstance(end, dict) else None,
                ids={} if state is None else state.ids,
            )


def check_sources(
    spark: SparkSession, loaded: LoadedJob, plan: Plan, restored: Restored | None
) -> Mapping[OperatorUid, KafkaStart]:
    """Check all Kafka sources of a job before its queries start, and return where they begin; see `check_input`.

    Args:
        restored: the snapshot to restore; None for a fresh start.
    """

    def connect(source: KafkaInput) -> KafkaAdmin:
        return KafkaAdmin.open(spark, source.options, source.who)

    def begin(source: KafkaInput) -> Offsets:
        return first_offsets(spark, source.options, source.who)

    return {each.uid: check_input(each, connect, begin) for each in kafka_inputs(loaded, plan, restored)}


def check_input(
    source: KafkaInput, connect: Callable[[KafkaInput], KafkaAdmin], begin: Callable[[KafkaInput], Offsets]
) -> KafkaStart:
    """Check that a source can be read from its position; return where it begins or continues.

    Args:
        begin: returns the offsets at which it begins now, by its options.

    Raises:
        KafkaUnreachable: no broker answered in time.
        KafkaRefuses: the client is not admitted, or may not describe the topics.
        UnusableOptions: the client cannot use the options.
        TopicMissing: a topic does not exist, and did not when the source was last read.
        UnusableBeginning: its `startingOffsets` do not fit the topics.
        TopicMadeAgain: a topic is not the one that it has read.
        OffsetsGone: unread records are gone, and `failOnDataLoss` is on.
        TransactionOpen: its position lies inside an open transaction.
    """
    read = positions = source.position or {}
    left: set[TopicPartition] | None = None
    if source.end is not None:
        # Records up to the end of a completely read source may be gone.
        left = {each for each, end in source.end.items() if read.get(each, 0) < end}
        positions = {each: position for each, position in read.items() if each in left}
        if not left:
            return KafkaStart(read)
    with connect(source) as admin:
        # Deleted partitions are reported by their positions.
        wanted = subscribed(admin, source.options, source.who, {each.topic for each in read})
        if left is not None:
            wanted &= left
        topics = {each.topic for each in positions.keys() | wanted}
        known, found = admin.partitions_and_ids(topics)
        if source.position is None:
            _check_beginning(source, wanted, admin)
            return KafkaStart(begin(source), first=True, ids=found)
        ids = same_topics(source.who, {each: source.ids[each] for each in topics & source.ids.keys()}, found)
        beginnings, ends = admin.beginning_offsets(known), admin.end_offsets(known)
        losses = find_losses(positions, wanted, beginnings, ends)
        if losses:
            _tell(source, losses)
        _check_transactions(source, positions, ends, admin)
    done = {each: offset for each, offset in read.items() if each not in positions}
    # New partitions are read from their beginning.
    return KafkaStart({**done, **{each: positions.get(each, beginnings[each]) for each in wanted}}, ids=ids, ends=ends)


def known_topics(
    spark: SparkSession,
    loaded: LoadedJob,
    plan: Plan,
    starts: Mapping[OperatorUid, KafkaStart],
    made_again: Callable[[ChainUid, TopicMadeAgain], None],
) -> dict[OperatorUid, KnownTopics]:
    """Return the topics that a job's Kafka sources read in an epoch.

    Args:
        starts: where the sources begin or continue.
        made_again: is told of a chain that reads a topic that was made again.
    """

    def known(chain: ChainUid, source: SourceSpec) -> KnownTopics:
        who, options = f"Source {source.name!r}", loaded.options(source)

        def connect() -> KafkaAdmin:
            return KafkaAdmin.open(spark, options, who)

        told = partial(made_again, chain)
        return KnownTopics(who, starts[source.uid].ids, connect, told, bounded=source.bounded)

    return {each.uid: known(chain.uid, each) for chain in plan.chains for each in chain.sources if each.uid in starts}


def _check_beginning(source: KafkaInput, wanted: set[TopicPartition], admin: KafkaAdmin) -> None:
    """Check starting offsets: Spark requires one for each partition, and it must exist."""
    named = read_offsets(option(source.options, STARTING_OFFSETS))
    if not named or any(option(source.options, each) is not None for each in BEGINNINGS if each != STARTING_OFFSETS):
        return
    for partition in sorted(wanted ^ named.keys()):
        what = "have none for" if partition in wanted else "have one for"
        why = "" if partition in wanted else ", which it does not read"
        raise UnusableBeginning(
            f"{source.who}: its startingOffsets {what} {partition}{why}",
            "give an offset for each partition: -2 is the earliest, -1 the latest",
        )
    beginnings, ends = admin.beginning_offsets(wanted), admin.end_offsets(wanted)
    for partition, offset in sorted(named.items()):
        beginning, end = beginnings.get(partition, 0), ends.get(partition, 0)
        if offset >= 0 and not beginning <= offset <= end and fails_on_data_loss(source.options):
            raise UnusableBeginning(
                f"{source.who}: its startingOffsets have {offset} for {partition}, "
                f"which goes from {beginning} to {end}",
                "give an offset that exists: -2 is the earliest, -1 the latest",
            )
    _check_transactions(source, named, ends, admin)


def _check_transactions(source: KafkaInput, positions: Offsets, ends: Offsets, admin: KafkaAdmin) -> None:
    """Check that no position lies inside an open transaction, whose records are read once it has ended.

    The position is then not of a reader of committed records: it is from `startingOffsets`, from a plain query, or from
    a job with another isolation level. Spark takes the end of the committed records for a loss, or reads it again.
    """
    if not reads_committed(source.options):
        return
    stable = admin.end_offsets(positions.keys() & ends.keys(), committed=True)
    for partition, end in sorted(stable.items()):
        if end < positions[partition] <= ends[partition]:
            raise TransactionOpen(
                f"{source.who}: {partition} is to be read from offset {positions[partition]}, and has an open "
                f"transaction that begins at offset {end}",
                f"wait for its end: the job tries again. {ISOLATION_LEVEL}: read_uncommitted does not wait, and reads "
                "records of aborted transactions, too",
            )


def _tell(source: KafkaInput, losses: list[Loss]) -> None:
    shown = "; ".join(map(str, losses[:_SHOWN])) + (
        f"; and {len(losses) - _SHOWN} more" if len(losses) > _SHOWN else ""
    )
    if fails_on_data_loss(source.options):
        raise OffsetsGone(
            f"{source.who} cannot continue from the snapshot: {shown}",
            f"bring the records back, or restore from a newer snapshot; {FAIL_ON_DATA_LOSS}: false skips them and "
            "continues with the existing records",
        )
    log.warning("%s gives up records, as %s is false: %s", source.who, FAIL_ON_DATA_LOSS, shown)
