"""The exactly-once Kafka sink.

Each batch's rows are staged as one object in the snapshot store when the batch is computed. When the checkpoint that
covers it has completed, one Kafka transaction produces the rows, together with a record in the commits topic. So a
transaction is open only while existing rows are sent, and a repeated commit finds the record and does nothing.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, JsonValue

from streamjob.errors import refuse
from streamjob.ids import BatchId, CheckpointId
from streamjob.job.kafka_sink import COMMITS_TOPIC, parse_options
from streamjob.sink import SinkContext, Staged
from streamjob.store.base import StoreError
from streamjob_runtime.kafka.admin import KafkaAdmin, Topic
from streamjob_runtime.kafka.errors import KafkaRefuses, TopicMissing
from streamjob_runtime.sinks.committables import read_committable
from streamjob_runtime.sinks.errors import RowsRefused, StagedRowsGone
from streamjob_runtime.sinks.kafka.commits import (
    CommitRecord,
    Verdict,
    following,
    identity_of,
    is_recorded,
    partition_of,
    read_record,
    transactional_id,
    verdict,
)
from streamjob_runtime.sinks.kafka.errors import UnusableTopic
from streamjob_runtime.sinks.kafka.rows import mismatches, records
from streamjob_runtime.sinks.kafka.transactions import Kafka, Producer

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
    """The committable: the name of the staged rows, and their number."""

    model_config = ConfigDict(frozen=True)

    formatVersion: Literal[1] = 1  # noqa: N815 - as it is stored
    name: str
    rows: int


class KafkaSink:
    """Produces each batch's rows in a transaction, once the checkpoint that covers them has completed.

    Args:
        name: the sink's name, for messages.
        spark: starts Spark or returns its session, whose JVM has Kafka's client.
        brokers: creates the connection to the brokers.
    """

    def __init__(self, name: str, spark: Callable[[], SparkSession], *, brokers: Callable[..., Kafka] = Kafka) -> None:
        self._label = f"sink {name}"
        self._spark = spark
        self._brokers = brokers
        self._producer: Producer | None = None
        self._record: CommitRecord | None = None
        self._committed: tuple[str, ...] = ()

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
        self._context = context
        self._options = parse_options(context.options, self._label)
        self._identity = identity_of(context.namespace, context.job, context.uid)
        self._kafka = self._brokers(self._spark(), self._label, self._options, transactional_id(self._identity))
        with self._kafka.admin() as admin:
            if self._options.topic is not None:
                self._check_topic(self._options.topic, admin)
            self._partitions = self._commits_topic(admin).partitions
        # The right to commit is acquired again when there is something to commit. In between, a former sink with the
        # same uid, which is a different sink in the job now, may have to commit.
        self._connect()
        self._disconnect()

    def preview(self, context: SinkContext, schema: StructType | None) -> None:
        """Check the options and, with Spark, the brokers, the topic and the rows. Raises the errors of `open`."""
        self._options = parse_options(context.options, self._label)
        if schema is None:
            return
        identity = identity_of(context.namespace, context.job, context.uid)
        with self._brokers(self._spark(), self._label, self._options, transactional_id(identity)).admin() as admin:
            if self._options.topic is not None:
                self._check_topic(self._options.topic, admin)
        self.check_schema(schema)

    def check_schema(self, schema: StructType) -> None:
        """Check that rows with a schema can become records.

        Raises:
            UnusableTopic: they cannot; lists all problems.
        """
        columns = {field.name: field.dataType.simpleString() for field in schema.fields}
        refuse(UnusableTopic, f"{self._label}:", mismatches(columns, self._options.topic))

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        """Write the batch's rows to a file, in one Spark action, and stage it.

        Raises:
            RowsRefused: a row cannot become a record.
            StoreError: the store refused it.
        """
        file = self._context.staging.scratch / f"{batch_id}-{secrets.token_hex(6)}"
        try:
            rows = records(batch, self._options.topic)
            outcome = self._kafka.stage(rows, file, self._options.longest_request)
            if not outcome.isdigit():
                raise RowsRefused(
                    f"{self._label}: {outcome}", "correct the rows of the job, or raise kafka.max.request.size"
                )
            if outcome == "0":
                return Staged(None, 0)
            staged = _StagedBatch(name=self._context.staging.put(file), rows=int(outcome))
        finally:
            # Including the parts of other tasks, if a task failed.
            for left in file.parent.glob(f"{file.name}*"):
                left.unlink(missing_ok=True)
        return Staged(staged.model_dump(mode="json"), staged.rows)

    def commit(self, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        """Produce the rows of the checkpoint's batches, and record this, in one transaction.

        Raises:
            UnreadableCommittable: a committable does not belong to this sink.
            StagedRowsGone: rows are neither staged nor recorded as committed.
            RowsRefused, TopicMissing: a topic refuses the rows.
            TransactionTimedOut: the brokers aborted the transaction.
            ProducerFenced: another process commits for the sink.
            CommitFailed, KafkaUnreachable, KafkaRefuses: the transaction failed.
            StoreError: staged rows cannot be read or deleted.
        """
        batches = [read_committable(_StagedBatch, committable, self._label) for committable in committables]
        if not batches:
            return
        if self._producer is None:
            self._connect()
        try:
            self._send(checkpoint, [batch for batch in batches if not is_recorded(self._record, batch.name)])
        except BaseException:
            # It may be unknown whether the transaction was committed; the next connection finds out.
            self._disconnect()
            raise
        with suppress(StoreError):
            self._delete_committed()

    def abort(self) -> None:
        """Delete objects that lower epochs have staged. Raises StoreError."""
        staging, epoch = self._context.staging, self._context.epoch
        staging.delete([each.name for each in staging.list() if each.epoch < epoch])

    def close(self) -> None:
        """Release the client."""
        self._disconnect()

    def _send(self, checkpoint: CheckpointId, batches: Sequence[_StagedBatch]) -> None:
        # Recorded objects must be deleted before the next record replaces this one.
        self._delete_committed()
        producer = self._producer
        assert producer is not None
        doing = f"publish checkpoint {checkpoint}"
        sent: list[str] = []
        for batch in batches:
            file = self._context.staging.scratch / f"publish-{secrets.token_hex(6)}"
            try:
                staged = self._context.staging.fetch(batch.name, file)
                match verdict(self._record, checkpoint, batch.name, staged=staged):
                    case Verdict.DONE:
                        continue
                    case Verdict.GONE:
                        self._rows_gone(checkpoint, batch.name)
                if not sent:
                    producer.begin()
                producer.send(file, doing)
                sent.append(batch.name)
            finally:
                file.unlink(missing_ok=True)
        if not sent:
            return
        record = following(self._record, self._context.epoch, checkpoint, sent)
        where = self._options.commits_topic, partition_of(self._identity, self._partitions)
        producer.record(*where, self._identity, record.model_dump_json(), doing)
        producer.commit(doing)
        self._record = record
        self._committed = tuple(sent)

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

    def _connect(self) -> None:
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

    def _disconnect(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def _newest_record(self) -> CommitRecord | None:
        own = partition_of(self._identity, self._partitions)
        # Partitions may have been added since the sink's first record.
        partitions = (own, *(each for each in range(self._partitions) if each != own))
        return read_record(self._kafka.newest(self._options.commits_topic, partitions, self._identity), self._label)

    def _check_topic(self, name: str, admin: KafkaAdmin) -> None:
        topic = admin.describe(name)
        if topic is not None:
            self._check_writable(name, topic)
        elif admin.makes_topics() is not True:
            raise TopicMissing(f"{self._label}: there is no topic {name}", "make it, or correct the option topic")
        else:
            log.warning("%s: there is no topic %s; the brokers make it with their own settings", self._label, name)

    def _check_writable(self, name: str, topic: Topic) -> None:
        if not topic.writable:
            raise KafkaRefuses(f"{self._label}: the sink may not write to topic {name}", "allow Write on it")

    def _commits_topic(self, admin: KafkaAdmin) -> Topic:
        name = self._options.commits_topic
        topic = admin.describe(name)
        if topic is None:
            try:
                admin.make(name, _COMMITS_PARTITIONS, _COMMITS_SETTINGS)
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
