"""The translation of Kafka client errors for callers of the brokers."""

from __future__ import annotations

import pytest

from streamjob.errors import StreamJobError
from streamjob.job.connectors.options import UnusableOptions
from streamjob_runtime.kafka.errors import KafkaRefuses, KafkaUnreachable, TopicMissing
from streamjob_runtime.kafka.explaining import Cause, Circumstances, explained, read_causes

AT = Circumstances(who="Source 'orders'", servers="broker:9092", doing="describe orders")


@pytest.mark.parametrize(
    ("name", "message", "kind", "says"),
    [
        ("TimeoutException", "no node", KafkaUnreachable, "the brokers at broker:9092 do not answer in time: no node"),
        ("TimeoutException", "", KafkaUnreachable, "do not answer in time: TimeoutException"),
        ("ConfigException", "No resolvable bootstrap urls given", KafkaUnreachable, "broker:9092 cannot be found"),
        ("ConfigException", "Invalid value x", UnusableOptions, "its options cannot be used: Invalid value x"),
        ("PatternSyntaxException", "Unclosed group", UnusableOptions, "its options cannot be used: Unclosed group"),
        ("SslAuthenticationException", "no TLS", KafkaRefuses, "the brokers at broker:9092 do not let it in: no TLS"),
        ("GroupAuthorizationException", "group g", KafkaRefuses, "it may not: group g"),
        ("PolicyViolationException", "3 replicas", KafkaRefuses, "policies do not allow it: 3 replicas"),
        ("UnknownTopicOrPartitionException", "", TopicMissing, "there is no such topic"),
        ("SomethingNew", "some {words}", KafkaUnreachable, "could not describe orders: some {words}"),
    ],
)
def test_an_error_says_what_is_wrong_and_what_to_do(
    name: str, message: str, kind: type[StreamJobError], says: str
) -> None:
    error = explained((Cause("KafkaException", ""), Cause(name, message)), AT)

    assert type(error) is kind
    assert error.what.startswith("Source 'orders': could not describe orders: ")
    assert says in error.what
    assert error.fix


def test_the_outermost_cause_that_is_known_counts() -> None:
    causes = (Cause("TimeoutException", "late"), Cause("SaslAuthenticationException", "wrong"))

    assert isinstance(explained(causes, AT), KafkaUnreachable)


def test_a_client_that_cannot_be_made_has_options_that_are_wrong() -> None:
    causes = (Cause("KafkaException", "Failed to create new KafkaAdminClient"), Cause("IllegalArgument", "JAAS"))
    error = explained(causes, AT)

    assert isinstance(error, UnusableOptions)
    assert "JAAS" in error.what


def test_the_causes_come_as_lines() -> None:
    assert read_causes("A\tone\tand more\nB\t") == (Cause("A", "one\tand more"), Cause("B", ""))
