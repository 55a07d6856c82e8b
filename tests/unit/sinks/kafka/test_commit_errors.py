"""The translation of Kafka client errors for a sink."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamjob.errors import StreamJobError
from streamjob.job.connectors.options import UnusableOptions
from streamjob_runtime.kafka.errors import KafkaRefuses, KafkaUnreachable, TopicMissing
from streamjob_runtime.kafka.explaining import Cause
from streamjob_runtime.sinks.errors import RowsRefused, StagedRowsGone
from streamjob_runtime.sinks.kafka.commit_errors import CommitCircumstances, explained_commit
from streamjob_runtime.sinks.kafka.errors import (
    CommitFailed,
    ProducerFenced,
    TransactionTimedOut,
)

AT = CommitCircumstances(
    who="sink alerts",
    servers="broker:9092",
    transactional_id="streamjob/default/job/alerts",
    doing="publish checkpoint 7",
)


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("TimeoutException", KafkaUnreachable, "the brokers at broker:9092 do not answer in time"),
        ("NotEnoughReplicasException", KafkaUnreachable, "do not answer in time"),
        ("SaslAuthenticationException", KafkaRefuses, "do not let it in"),
        ("TransactionalIdAuthorizationException", KafkaRefuses, "the transactional id streamjob/default/job/alerts"),
        ("TopicAuthorizationException", KafkaRefuses, "could not publish checkpoint 7 to topic alerts: it may not"),
        ("ClusterAuthorizationException", KafkaRefuses, "could not publish checkpoint 7 to topic alerts: it may not"),
        ("InvalidTxnTimeoutException", KafkaRefuses, "a transaction of 900 s is longer than the brokers allow"),
        ("ProducerFencedException", ProducerFenced, "another process makes transactions"),
        ("InvalidPidMappingException", CommitFailed, "have forgotten the transactional id"),
        ("RecordTooLargeException", RowsRefused, "to topic alerts: a row is too large: some words"),
        ("UnknownTopicOrPartitionException", TopicMissing, "to topic alerts: there is no such topic"),
        ("InvalidTimestampException", RowsRefused, "to topic alerts: a row is refused"),
        ("HeldBack", KafkaUnreachable, "another sink's transaction is open"),
        ("Unreadable", StagedRowsGone, "its staged rows cannot be read: some words"),
        ("SomethingNew", CommitFailed, "could not publish checkpoint 7 to topic alerts: some words"),
    ],
)
def test_an_error_says_what_is_wrong_and_what_to_do(name: str, kind: type[StreamJobError], says: str) -> None:
    sent = Cause("SendFailed", "topic alerts")

    error = explained_commit((sent, Cause("KafkaException", ""), Cause(name, "some words")), AT)

    assert type(error) is kind
    assert error.what.startswith("sink alerts: ")
    assert says in error.what
    assert error.fix


def test_a_transaction_that_outlived_its_timeout_was_not_taken_by_another_process() -> None:
    error = explained_commit((Cause("InvalidProducerEpochException", ""),), replace(AT, elapsed=900.5))

    assert isinstance(error, TransactionTimedOut)
    assert "kafka.transaction.timeout.ms" in error.fix


def test_a_partition_that_is_missing_is_no_broker_that_is_away() -> None:
    error = explained_commit((Cause("TimeoutException", "Topic alerts not present in metadata after 60000 ms."),), AT)

    assert isinstance(error, TopicMissing)


def test_a_timeout_that_is_too_long_is_known_by_what_is_said_of_it() -> None:
    said = "The transaction timeout is larger than the maximum (as configured by transaction.max.timeout.ms)."
    error = explained_commit((Cause("KafkaException", "Unexpected error"), Cause("KafkaException", said)), AT)

    assert isinstance(error, KafkaRefuses)
    assert "a transaction of 900 s is longer than the brokers allow" in error.what


def test_a_client_that_cannot_be_made_has_settings_that_are_wrong() -> None:
    causes = (Cause("KafkaException", "Failed to construct kafka producer"), Cause("IllegalArgumentException", "JAAS"))

    assert isinstance(explained_commit(causes, AT), UnusableOptions)
