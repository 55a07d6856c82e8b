"""Translates errors of Kafka's client in a sink's transactions; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from streamjob.errors import StreamJobError
from streamjob.job.connectors.kafka_sink import LONGEST_REQUEST, TRANSACTION_TIMEOUT
from streamjob.job.connectors.kafka_source import CLIENT
from streamjob_runtime.kafka.errors import KafkaRefuses, KafkaUnreachable, TopicMissing
from streamjob_runtime.kafka.explaining import EXPLANATIONS, Cause, Circumstances, Explanation, explained
from streamjob_runtime.sinks.errors import RowsRefused, StagedRowsGone
from streamjob_runtime.sinks.kafka.errors import (
    CommitFailed,
    ProducerFenced,
    TransactionTimedOut,
)

_SETTING = CLIENT + TRANSACTION_TIMEOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitCircumstances(Circumstances):
    """The context in which the client failed.

    Args:
        transactional_id: the id of the sink's transactions.
        transaction_timeout: maximum duration of a transaction, in seconds.
        elapsed: age of the open transaction, in seconds; 0 if there was none.
    """

    transactional_id: str
    transaction_timeout: float = 900.0
    elapsed: float = 0.0


_TAKEN = Explanation(
    (
        *("ProducerFencedException", "InvalidProducerEpochException", "FencedInstanceIdException"),
        "InvalidTxnStateException",
    ),
    ProducerFenced,
    "another process makes transactions with the id {at.transactional_id}, or the brokers gave the transaction up "
    "after {at.elapsed:.0f} s",
    "run only one job of this namespace and name with these brokers",
)
_OUTLIVED = replace(
    _TAKEN,
    error=TransactionTimedOut,
    what="the transaction had taken {at.elapsed:.0f} s, and the brokers give it up after {at.transaction_timeout:g} s",
    fix=f"raise the option {_SETTING}, and transaction.max.timeout.ms of the brokers with it; or take checkpoints more "
    "often, so that each publishes less",
)
_TOO_LONG_A_TIMEOUT = Explanation(
    ("InvalidTxnTimeoutException",),
    KafkaRefuses,
    "a transaction of {at.transaction_timeout:g} s is longer than the brokers allow",
    f"lower the option {_SETTING}, or raise transaction.max.timeout.ms of the brokers",
)

_OWN = (
    _TOO_LONG_A_TIMEOUT,
    # Its class may be a general one.
    replace(_TOO_LONG_A_TIMEOUT, kinds=(), saying="transaction.max.timeout.ms"),
    Explanation(
        ("TimeoutException",),
        TopicMissing,
        "the topic is not there, or lacks the partition: {said}",
        "make the topic, or give it as many partitions as the column partition names",
        saying="not present in metadata",
    ),
    Explanation(
        ("HeldBack",),
        KafkaUnreachable,
        "another sink's transaction is open, and does not end: {said}",
        f"it ends when that sink's job starts again, or after its {_SETTING}",
    ),
    Explanation(
        ("TransactionalIdAuthorizationException",),
        KafkaRefuses,
        "it may not use the transactional id {at.transactional_id}",
        "allow Write and Describe on transactional ids that begin with streamjob/, or say delivery: at-least-once",
    ),
    Explanation(
        ("ClusterAuthorizationException",),
        KafkaRefuses,
        "it may not: {said}",
        "allow IdempotentWrite on the cluster, or Write on the topic",
    ),
    Explanation(
        ("InvalidPidMappingException",),
        CommitFailed,
        "the brokers have forgotten the transactional id {at.transactional_id}",
        "the restart takes it again; transactional.id.expiration.ms limits how long the brokers keep an idle id",
    ),
    Explanation(
        ("RecordTooLargeException", "RecordBatchTooLargeException"),
        RowsRefused,
        "a row is too large: {said}",
        f"raise the topic's max.message.bytes ({CLIENT}{LONGEST_REQUEST} is the client's limit)",
    ),
    Explanation(
        (
            *("InvalidTimestampException", "InvalidRecordException", "CorruptRecordException"),
            *("PolicyViolationException", "SerializationException"),
        ),
        RowsRefused,
        "a row is refused: {said}",
        "change the topic's settings, or the rows of the job",
    ),
    Explanation(
        ("Unreadable",),
        StagedRowsGone,
        "its staged rows cannot be read: {said}",
        "bring the object back from a copy of the store",
    ),
)


def explained_commit(causes: Sequence[Cause], at: CommitCircumstances) -> StreamJobError:
    """Return the error that explains an error of the client, with a fix."""
    if causes and causes[0].name == "SendFailed":
        at = replace(at, doing=f"{at.doing} to {causes[0].message}")
        causes = causes[1:]
    fenced = _OUTLIVED if at.elapsed >= at.transaction_timeout else _TAKEN
    return explained(causes, at, (fenced, *_OWN, *EXPLANATIONS), otherwise=CommitFailed)
