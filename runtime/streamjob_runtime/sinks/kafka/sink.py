"""The exactly-once Kafka sink.

Each batch's rows are staged as objects in the snapshot store when the batch is computed. When the checkpoint that
covers it has completed, one Kafka transaction produces the rows, together with a record in the commits topic. So a
transaction is open only while existing rows are sent, and a repeated commit finds the record and does nothing.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from streamjob.errors import refuse
from streamjob.ids import BatchId, CheckpointId
from streamjob.job.connectors.kafka_sink import COMMITS_TOPIC, parse_options
from streamjob.journal import JournalRecord, published_batch
from streamjob.sink import NO_TARGET, Measured, SinkContext, Staged
from streamjob.store.base import StoreError
from streamjob_runtime.kafka.admin import KafkaAdmin, Topic
from streamjob_runtime.kafka.errors import KafkaRefuses, TopicMissing
from streamjob_runtime.sinks.committables import read_committable, read_journal_record
from streamjob_runtime.sinks.errors import RowsRefused, StagedRowsGone, UnusableSink
from streamjob_runtime.sinks.kafka.commits import (
    CommitRecord,
    following,
    identity_of,
    is_done_before,
    is_recorded,
    journal_topic,
    partition_of,
    read_record,
    transactional_id,
)
from streamjob_runtime.sinks.kafka.errors import CommitFailed, UnusableTopic
from streamjob_runtime.sinks.kafka.rows import mismatches, records
from streamjob_runtime.sinks.kafka.staging import StagedParts, parts_here, stage_parts, stage_parts_here
from streamjob_runtime.sinks.kafka.topics import TopicUse, refusal
from streamjob_runtime.sinks.kafka.transactions import Kafka, Producer
from streamjob_runtime.sinks.rows.few_rows import few_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_COMMITS_PARTITIONS = 16
_COMMITS_SETTINGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    "segment.ms": "3600000",
    "segment.bytes": "16777216",
}

log = logging.getLogger("streamjob")


class _StagedBatch(BaseModel):
    """The committable: the names of the staged rows' objects, in order, and the number of rows."""

    model_config = ConfigDict(frozen=True)

    formatVersion: Literal[2] = 2  # noqa: N815 - as it is stored
    names: tuple[str, ...] = Field(min_length=1)
    rows: int

    @model_validator(mode="before")
    @classmethod
    def _of_an_older_version(cls, stored: Any) -> Any:
        """Read version 1, which had one object for each batch."""
        if isinstance(stored, dict) and stored.get("formatVersion") == 1 and "name" in stored:
            return {"names": [stored["name"]], "rows": stored.get("rows")}
        return stored

    @property
    def name(self) -> str:
        """The batch's name in records of commits: that of its first object."""
        return self.names[0]


class KafkaSink:
    """Produces each batch's rows in a transaction, once the checkpoint that covers them has completed.

    Args:
        spark: starts Spark or returns its session, whose JVM has Kafka's client; None if only `preview` without a
            schema is to be called.
        publishes_batches: whether its batches are published at once, so that it depends on its journal.
    """

    def __init__(
        self,
        name: str,
        spark: Callable[[], SparkSession] | None,
        *,
        publishes_batches: bool = False,
        brokers: Callable[..., Kafka] = Kafka,
    ) -> None:
        self._label = f"sink {name}"
        self._publishes_batches = publishes_batches
        self._transactions = threading.RLock()
        self._keeps_producer = False
        self._spark = spark
        self._brokers = brokers
        self._producer: Producer | None = None
        self._record: CommitRecord | None = None
        self._committed: tuple[str, ...] = ()
        self._target_id: str | None = None
        self._journal_id: str | None = None
        self._previewed: SinkContext | None = None
        self._topics: dict[str, Topic] = {}
        """Topics for which rows were staged."""

    def open(self, context: SinkContext) -> None:
        """Check the options, the brokers, the topics and the sink's rights, and abort transactions of former processes.

        Raises:
            UnusableOptions: an option is invalid.
            UnusableSink: Spark was started without Kafka's client.
            KafkaUnreachable: no broker answered.
            KafkaRefuses: the brokers refuse the sink's credentials or an operation.
            TopicMissing: the topic does not exist.
            UnusableTopic: the commits topic is unsuitable.
        """
        self._bind(context)
        with self._kafka.admin() as admin:
            if self._options.topic is not None:
                topic = self._check_topic(self._options.topic, admin)
                self._target_id = NO_TARGET if topic is None else topic.id
            self._partitions = self._own_topic(admin, self._options.commits_topic, _COMMITS_PARTITIONS).partitions
            name = self._journal_topic
            journal = self._own_topic(admin, name, 1) if self._publishes_batches else admin.describe(name)
            self._journal_id = None if journal is None else journal.id or name
        # The right to commit is acquired again when there is something to commit. In between, a former sink with the
        # same uid, which is a different sink in the job now, may have to commit.
        self._connect()
        self._disconnect()

    def preview(self, context: SinkContext, schema: StructType | None) -> None:
        """Check the options and, with Spark, the brokers, the topic and the rows. Raises the errors of `open`."""
        self._options = parse_options(context.options, self._label)
        self._previewed = context
        if schema is None:
            return
        self._bind(context)
        with self._kafka.admin() as admin:
            if self._options.topic is not None:
                self._check_topic(self._options.topic, admin)
        self.check_schema(schema)

    def rehearse(self, context: SinkContext, rows: DataFrame) -> None:
        """Ask the brokers and stage rows as for a batch; the producer makes no transactions, so it fences nobody.

        Raises the errors of `open` and `stage`.
        """
        self._bind(context)
        self._kafka.producer().close()
        self._find_record()
        self.stage(rows, BatchId(0))

    def check_schema(self, schema: StructType) -> None:
        """Check that rows with a schema can become records.

        Raises:
            UnusableTopic: they cannot; lists all problems.
        """
        columns = {field.name: field.dataType.simpleString() for field in schema.fields}
        found = mismatches(columns, self._options.topic, keyed=self._options.upsert)
        refuse(UnusableTopic, f"{self._label}:", found)

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        """Stage the batch's rows, in one Spark action. On executors, tasks with many rows stage their own.

        Raises:
            RowsRefused: a row cannot become a record.
            StoreError: the store refused it.
        """
        staging, write = self._context.staging, self._parts_of(batch)
        staged = stage_parts_here(write, staging) if self._kafka.computes else stage_parts(write(None), staging)
        refused = self._refusal(staged)
        if refused is not None:
            with suppress(StoreError):
                staging.delete(staged.names)
            raise RowsRefused(f"{self._label}: {refused[0]}", refused[1])
        if not staged.names:
            return Staged(None, 0)
        committable = _StagedBatch(names=staged.names, rows=staged.rows)
        return Staged(committable.model_dump(mode="json"), committable.rows)

    def take_journal(self) -> None:
        """Fence off other producers. Raises KafkaUnreachable, KafkaRefuses: the brokers cannot be asked."""
        with self._transactions:
            if self._keeps_producer:
                # An instance of the sink as it was before may have fenced it off.
                self._keeps_producer = False
                self._disconnect()
            self._connected()
            self._keeps_producer = True

    def journal(self) -> Sequence[JournalRecord]:
        """Return the records of batches that no checkpoint covers.

        Raises:
            UnreadableRecord: a record is damaged, or of an unknown form.
            KafkaUnreachable, KafkaRefuses: the brokers cannot be asked.
        """
        return [read_journal_record(text, self._label) for text in self._kafka.all_of(self._journal_topic).values()]

    def journal_id(self) -> str | None:
        """Return the id of the journal's topic, as of `open`; its name if the brokers have no ids."""
        return self._journal_id

    def drop_journal(self) -> int:
        """Delete all records of the journal; return their number. Raises the errors of `commit`."""
        records = self._kafka.all_of(self._journal_topic)
        if records:
            with self._transaction("empty its journal") as (producer, doing):
                for key in records:
                    producer.record(self._journal_topic, 0, key, None, doing)
        return len(records)

    def measure(self, batch: DataFrame) -> Measured:
        """Compute a batch, in one Spark action, and return the number of its rows and their hash."""
        with self._computed(batch) as files:
            return self._measured(files)

    def publish(
        self, batch: DataFrame, record: Callable[[Measured], JournalRecord], *, always: bool = False
    ) -> JournalRecord | None:
        """Compute a batch, in one Spark action, and produce its rows and its record in one transaction.

        Raises:
            RowsRefused: a row cannot become a record.
            TransactionTimedOut, ProducerFenced, CommitFailed, KafkaUnreachable, KafkaRefuses: see `commit`.
        """
        with self._computed(batch) as files:
            if not files and not always:
                return None
            made = record(self._measured(files))
            with self._transaction(f"publish batch {made.batch}") as (producer, doing):
                for file in files:
                    producer.send(file, doing)
                producer.record(self._journal_topic, 0, str(made.batch), made.model_dump_json(), doing)
            return made

    def commit(self, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        """Produce the rows of the checkpoint's batches, and record this, in one transaction.

        The records of batches that were published before are deleted from the journal.

        Raises:
            UnreadableCommittable: a committable does not belong to this sink.
            StagedRowsGone: rows are neither staged nor recorded as committed.
            RowsRefused, TopicMissing: a topic refuses the rows.
            TransactionTimedOut: the brokers aborted the transaction.
            ProducerFenced: another process commits for the sink.
            CommitFailed, KafkaUnreachable, KafkaRefuses: the transaction failed.
            StoreError: staged rows cannot be read or deleted.
        """
        with self._transactions:
            published = [batch for each in committables if (batch := published_batch(each)) is not None]
            staged = [each for each in committables if published_batch(each) is None]
            batches = [read_committable(_StagedBatch, each, self._label) for each in staged]
            if not committables:
                return
            self._connected()
            try:
                done = [batch for batch in batches if is_recorded(self._record, batch.name)]
                # The record names only the first object of each batch.
                self._committed = tuple(
                    dict.fromkeys([*self._committed, *(name for batch in done for name in batch.names)])
                )
                self._send(checkpoint, [batch for batch in batches if batch not in done], published)
            except BaseException:
                # It may be unknown whether the transaction was committed; the next connection finds out.
                self._disconnect()
                raise
            with suppress(StoreError):
                self._delete_committed()

    def target_id(self) -> str | None:
        """Return the topic's id; NO_TARGET if the brokers are to make it; None if rows name topics, or without ids."""
        return self._target_id

    def rescue(self, checkpoint: CheckpointId, committables: Sequence[JsonValue], target: Path) -> int:
        """Write records to a file instead of their topics; keys, values and headers are in base64.

        Raises:
            StagedRowsGone: rows are neither staged nor recorded as committed.
            StoreError: staged rows cannot be read.
        """
        staged = [each for each in committables if published_batch(each) is None]
        batches = [read_committable(_StagedBatch, each, self._label) for each in staged]
        rows = 0
        for batch in batches:
            if is_recorded(self._record, batch.name):
                continue
            for name in batch.names:
                file = self._context.staging.scratch / f"rescue-{secrets.token_hex(6)}"
                try:
                    if not self._context.staging.fetch(name, file):
                        self._rows_gone(checkpoint, name)
                    rows += self._kafka.to_json(file, target)
                finally:
                    file.unlink(missing_ok=True)
        return rows

    def newest_published(self) -> CheckpointId | None:
        """Return the checkpoint of the newest record in the commits topic, as of `open`.

        After `preview` alone it is looked for now, if there is a Spark. Raises the errors of `open`.
        """
        if self._previewed is not None and self._spark is not None:
            self._bind(self._previewed)
            self._record = self._find_record()
        return None if self._record is None else CheckpointId(self._record.checkpoint)

    def abort(self) -> None:
        """Delete objects that lower epochs have staged. Raises StoreError."""
        staging, epoch = self._context.staging, self._context.epoch
        staging.delete([each.name for each in staging.list() if each.epoch < epoch])

    def close(self) -> None:
        """Release the client."""
        self._disconnect()

    def _bind(self, context: SinkContext) -> None:
        if self._spark is None:
            raise UnusableSink(f"{self._label}: the Kafka client runs in Spark, and no Spark is running")
        self._context = context
        self._options = parse_options(context.options, self._label)
        self._identity = identity_of(context.namespace, context.job, context.uid)
        self._journal_topic = journal_topic(self._options.commits_topic, self._identity)
        self._kafka = self._brokers(self._spark(), self._label, self._options, transactional_id(self._identity))

    def _parts_of(self, batch: DataFrame) -> Callable[[Path | None], DataFrame]:
        """Return what makes the frame that writes a batch into files of a directory, or of its tasks."""
        rows, longest, few = records(batch, self._options.topic), self._options.longest_request, few_of(batch)
        return lambda directory: self._kafka.parts(rows, longest, few, directory)

    @contextmanager
    def _computed(self, batch: DataFrame) -> Iterator[Sequence[Path]]:
        """Compute a batch; yield the local files of its rows. Raises RowsRefused."""
        write, on_executors = self._parts_of(batch), not self._kafka.computes
        with parts_here(write, self._context.staging, on_executors=on_executors) as computed:
            refused = self._refusal(computed.parts)
            if refused is not None:
                raise RowsRefused(f"{self._label}: {refused[0]}", refused[1])
            yield computed.files

    def _measured(self, files: Sequence[Path]) -> Measured:
        found = [self._kafka.measure(file) for file in files]
        return Measured(sum(each.rows for each in found), sum(each.hash for each in found) % 2**64)

    @contextmanager
    def _transaction(self, doing: str) -> Iterator[tuple[Producer, str]]:
        with self._transactions:
            producer = self._connected()
            try:
                producer.begin()
                yield producer, doing
                producer.commit(doing)
            except BaseException:
                # It may be unknown whether the transaction was committed; the next connection finds out.
                self._disconnect()
                raise

    def _note(self, producer: Producer, record: CommitRecord, doing: str) -> None:
        where = self._options.commits_topic, partition_of(self._identity, self._partitions)
        producer.record(*where, self._identity, record.model_dump_json(), doing)

    def _refusal(self, staged: StagedParts) -> tuple[str, str] | None:
        """Return why rows could be staged and never published, as far as the brokers can tell now, and a fix."""
        if staged.refusal is not None:
            return staged.refusal, "correct the rows of the job, or raise kafka.max.request.size"
        compressed = self._options.client.get("compression.type", "none") != "none"

        def fits(name: str, use: TopicUse) -> bool:
            known = self._topics.get(name)
            return known is not None and refusal(name, use, known, compressed=compressed) is None

        # A topic that did not fit may have been changed since.
        to_ask = {name: use for name, use in staged.topics.items() if not fits(name, use)}
        if not to_ask:
            return None
        with self._kafka.admin() as admin:
            makes_topics = cache(admin.makes_topics)
            for name, use in to_ask.items():
                topic = admin.describe(name)
                if topic is None and makes_topics() is not False:
                    continue
                found = refusal(name, use, topic, compressed=compressed)
                if found is not None:
                    return found
                assert topic is not None
                self._topics[name] = topic
        return None

    def _send(self, checkpoint: CheckpointId, batches: Sequence[_StagedBatch], published: Sequence[BatchId]) -> None:
        """Produce the rows of staged batches, and forget those that were published before, in one transaction."""
        # Recorded objects must be deleted before the next record replaces this one.
        self._delete_committed()
        producer = self._producer
        assert producer is not None
        doing = f"publish checkpoint {checkpoint}"
        sent: list[_StagedBatch] = []
        if published:
            producer.begin()
            for each in published:
                producer.record(self._journal_topic, 0, str(each), None, doing)
        for batch in batches:
            rows = 0
            for name in batch.names:
                file = self._context.staging.scratch / f"publish-{secrets.token_hex(6)}"
                try:
                    if not self._context.staging.fetch(name, file):
                        # A batch's first object is deleted before the next transaction begins, the others at leisure.
                        if name == batch.name and is_done_before(self._record, checkpoint):
                            break
                        self._rows_gone(checkpoint, name)
                    if not sent and not published:
                        producer.begin()
                    if name == batch.name:
                        sent.append(batch)
                    rows += producer.send(file, doing)
                finally:
                    file.unlink(missing_ok=True)
            else:
                if rows != batch.rows:
                    self._rows_gone(checkpoint, batch.name)
        if not sent and not published:
            return
        record = following(self._record, self._context.epoch, checkpoint, [batch.name for batch in sent])
        self._note(producer, record, doing)
        producer.commit(doing)
        self._record = record
        self._committed = tuple(name for batch in sent for name in batch.names)

    def _delete_committed(self) -> None:
        if self._committed:
            self._context.staging.delete(self._committed)
            self._committed = ()

    def _rows_gone(self, checkpoint: CheckpointId, name: str) -> NoReturn:
        raise StagedRowsGone(
            f"{self._label}: rows of checkpoint {checkpoint} are neither committed nor staged at {name}",
            "bring them back from a copy of the store; or give these rows up, and start from that checkpoint (--from) "
            "at another --location",
        )

    def _connected(self) -> Producer:
        """Return the producer; the first call makes it, and fences off all others."""
        producer = self._producer
        if producer is None and self._keeps_producer:
            # Another process may have fenced it off since, and read the journal: this one must not fence that.
            raise CommitFailed(
                f"{self._label}: its producer has failed, and may not be replaced before the journal is read again",
                "the restart reads it",
            )
        return producer or self._connect()

    def _connect(self) -> Producer:
        producer = self._kafka.producer()
        try:
            # In this order: from here on no other process commits.
            producer.open()
            self._record = self._newest_record()
        except BaseException:
            producer.close()
            raise
        self._producer = producer
        self._committed = () if self._record is None else self._record.batches
        return producer

    def _disconnect(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def _find_record(self) -> CommitRecord | None:
        """Return the newest record without the right to commit."""
        with self._kafka.admin() as admin:
            commits = admin.describe(self._options.commits_topic)
        if commits is None:
            return None
        self._partitions = commits.partitions
        return self._newest_record()

    def _newest_record(self) -> CommitRecord | None:
        own = partition_of(self._identity, self._partitions)
        # Partitions may have been added since the sink's first record.
        partitions = (own, *(each for each in range(self._partitions) if each != own))
        return read_record(self._kafka.newest(self._options.commits_topic, partitions, self._identity), self._label)

    def _check_topic(self, name: str, admin: KafkaAdmin) -> Topic | None:
        topic = admin.describe(name)
        if topic is not None:
            self._check_writable(name, topic)
            if self._options.upsert and "compact" not in topic.settings.get("cleanup.policy", "compact"):
                raise UnusableTopic(
                    f"{self._label}: topic {name} is not compacted, so it loses the newest row of a key with its age",
                    "set its cleanup.policy to compact, or say mode: append",
                )
        elif self._options.upsert:
            raise TopicMissing(f"{self._label}: there is no topic {name}", "make it, with cleanup.policy=compact")
        elif admin.makes_topics() is not True:
            raise TopicMissing(f"{self._label}: there is no topic {name}", "make it, or correct the option topic")
        else:
            log.warning("%s: there is no topic %s; the brokers make it with their own settings", self._label, name)
        return topic

    def _check_writable(self, name: str, topic: Topic) -> None:
        if not topic.writable:
            raise KafkaRefuses(f"{self._label}: the sink may not write to topic {name}", "allow Write on it")

    def _own_topic(self, admin: KafkaAdmin, name: str, partitions: int) -> Topic:
        """Return a topic for records of the sink; it is made if it is missing."""
        topic = admin.describe(name)
        if topic is None:
            try:
                admin.make(name, partitions, _COMMITS_SETTINGS)
            except KafkaRefuses as error:
                raise KafkaRefuses(
                    f"{self._label}: there is no topic {name} for its commits, and it may not make one",
                    f"make it, with cleanup.policy=compact, or name another one with {COMMITS_TOPIC}",
                ) from error
            topic = admin.describe(name)
        if topic is None:
            raise UnusableTopic(
                f"{self._label}: topic {name} was created, and does not exist", "check the logs of the brokers"
            )
        self._check_writable(name, topic)
        if not topic.readable:
            raise KafkaRefuses(f"{self._label}: the sink may not read topic {name}", "allow Read on it")
        if "delete" in topic.settings.get("cleanup.policy", ""):
            raise UnusableTopic(
                f"{self._label}: topic {name} deletes records by their age, so it would lose the records of commits",
                f"set its cleanup.policy to compact, or name another one with {COMMITS_TOPIC}",
            )
        return topic
