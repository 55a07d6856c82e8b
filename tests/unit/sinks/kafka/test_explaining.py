"""What errors of Kafka's client mean."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamjob.errors import StreamJobError
from streamjob.job.kafka_sink import UnusableOptions
from streamjob_runtime.sinks.kafka.errors import (
    BrokersRefuse,
    BrokersUnreachable,
    PublicationFailed,
    PublisherFenced,
    RowsRefused,
    TransactionTimedOut,
    UnusableTopic,
)
from streamjob_runtime.sinks.kafka.explaining import Cause, Circumstances, explained, read_causes

AT = Circumstances(
    sink="sink alerts",
    servers="broker:9092",
    transactional_id="streamjob/default/job/alerts",
    doing="publish checkpoint 7",
    topic="alerts",
)


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("TimeoutException", BrokersUnreachable, "the brokers at broker:9092 do not answer in time"),
        ("NotEnoughReplicasException", BrokersUnreachable, "do not answer in time"),
        ("SaslAuthenticationException", BrokersRefuse, "do not let the sink in"),
        ("TransactionalIdAuthorizationException", BrokersRefuse, "the transactional id streamjob/default/job/alerts"),
        ("TopicAuthorizationException", BrokersRefuse, "may not publish checkpoint 7: topic alerts"),
        ("ClusterAuthorizationException", BrokersRefuse, "could not publish checkpoint 7"),
        ("InvalidTxnTimeoutException", BrokersRefuse, "a transaction of 900 s is longer than the brokers allow"),
        ("ProducerFencedException", PublisherFenced, "another process makes transactions"),
        ("InvalidPidMappingException", PublicationFailed, "have forgotten the transactional id"),
        ("RecordTooLargeException", RowsRefused, "a row is too large for alerts"),
        ("UnknownTopicOrPartitionException", UnusableTopic, "there is no topic alerts"),
        ("InvalidTimestampException", RowsRefused, "topic alerts refuses a row"),
        ("SomethingNew", PublicationFailed, "could not publish checkpoint 7 to topic alerts: some words"),
    ],
)
def test_an_error_says_what_is_wrong_and_what_to_do(name: str, kind: type[StreamJobError], says: str) -> None:
    error = explained((Cause("KafkaException", ""), Cause(name, "some words")), AT)

    assert type(error) is kind
    assert error.what.startswith("sink alerts: ")
    assert says in error.what
    assert error.fix


def test_a_transaction_that_outlived_its_timeout_was_not_taken_by_another_process() -> None:
    error = explained((Cause("InvalidProducerEpochException", ""),), replace(AT, elapsed=900.5))

    assert isinstance(error, TransactionTimedOut)
    assert "kafka.transaction.timeout.ms" in error.fix


def test_a_partition_that_is_missing_is_no_broker_that_is_away() -> None:
    error = explained((Cause("TimeoutException", "Topic alerts not present in metadata after 60000 ms."),), AT)

    assert isinstance(error, UnusableTopic)


def test_a_timeout_that_is_too_long_is_known_by_what_is_said_of_it() -> None:
    said = "The transaction timeout is larger than the maximum (as configured by transaction.max.timeout.ms)."
    error = explained((Cause("KafkaException", "Unexpected error"), Cause("KafkaException", said)), AT)

    assert isinstance(error, BrokersRefuse)
    assert "a transaction of 900 s is longer than the brokers allow" in error.what


def test_a_client_that_cannot_be_made_has_settings_that_are_wrong() -> None:
    causes = (Cause("KafkaException", "Failed to construct kafka producer"), Cause("IllegalArgumentException", "JAAS"))

    assert isinstance(explained(causes, AT), UnusableOptions)


def test_the_causes_come_as_lines() -> None:
    assert read_causes("A\tone\tand more\nB\t") == (Cause("A", "one\tand more"), Cause("B", ""))
