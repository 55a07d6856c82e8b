"""The Kafka sink's checks on a real broker before anything starts."""

from __future__ import annotations

import secrets

import pytest
from tests.integration.sinks.topics import UID, Topics
from tests.servers.process import LOOPBACK, free_port

from streamjob.ids import Epoch
from streamjob.sink import SinkContext
from streamjob_runtime.kafka.errors import KafkaRefuses, KafkaUnreachable, TopicMissing
from streamjob_runtime.sinks.kafka.errors import UnusableTopic

pytestmark = [pytest.mark.spark, pytest.mark.server]


def test_brokers_that_do_not_answer_are_told(topics: Topics) -> None:
    address = f"{LOOPBACK}:{free_port()}"
    options = {"kafka.bootstrap.servers": address, "kafka.default.api.timeout.ms": "1000"}

    with pytest.raises(KafkaUnreachable, match=f"sink alerts: .* the brokers at {address} do not answer in time"):
        topics.open(options=topics.options(**options, **{"kafka.request.timeout.ms": "1000"}))


def test_brokers_that_cannot_be_found_are_told(topics: Topics) -> None:
    with pytest.raises(KafkaUnreachable, match=r"the brokers at nowhere\.invalid:9092 cannot be found"):
        topics.open(options=topics.options(**{"kafka.bootstrap.servers": "nowhere.invalid:9092"}))


def test_a_topic_that_is_missing_is_told(topics: Topics) -> None:
    with pytest.raises(TopicMissing, match="sink alerts: there is no topic missing"):
        topics.open(options=topics.options(topic="missing"))


def test_a_timeout_that_the_brokers_do_not_allow_is_told_with_both_settings(topics: Topics) -> None:
    with pytest.raises(KafkaRefuses, match="a transaction of 3600 s is longer than the brokers allow") as caught:
        topics.open(options=topics.options(**{"kafka.transaction.timeout.ms": "3600000"}))

    assert "kafka.transaction.timeout.ms" in caught.value.fix
    assert "transaction.max.timeout.ms" in caught.value.fix


def test_the_topic_of_commits_is_made_compacted(topics: Topics) -> None:
    name = f"commits-{secrets.token_hex(4)}"
    sink = topics.open(options=topics.options(commitsTopic=name))
    topics.commit(sink, 1, topics.stage(sink, "1"))

    assert topics.server.partitions(name) == 16
    assert len(topics.server.consume(name)) == 1


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_of_commits_that_would_forget_them_is_refused(topics: Topics, policy: str) -> None:
    name = f"forgetful-{secrets.token_hex(4)}"
    topics.server.create_topic(name, cleanup_policy=policy)

    with pytest.raises(UnusableTopic, match="deletes records by their age"):
        topics.open(options=topics.options(commitsTopic=name))


def test_a_setting_that_the_client_cannot_use_is_told_without_secrets(topics: Topics) -> None:
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required username=u password='hunter2'"
    options = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": jaas,
    }

    with pytest.raises(Exception, match="sink alerts: could not connect: its options cannot be used") as caught:
        topics.open(options=topics.options(**options))

    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_columns_that_no_record_has_a_place_for_are_told_all_at_once(topics: Topics) -> None:
    sink = topics.open()
    rows = topics.spark.createDataFrame([(1, 2)], "key int, price int")

    with pytest.raises(UnusableTopic) as caught:
        sink.check_schema(rows.schema)

    assert "no column value" in caught.value.what
    assert "the column key is int, and has to be string or binary" in caught.value.what
    assert "no place for the column price" in caught.value.what


def test_what_was_published_is_known_without_the_right_to_commit(topics: Topics) -> None:
    running = topics.open()
    preview = topics.sink()
    preview.preview(SinkContext(topics.job, "default", UID, Epoch(0), topics.options()), None)
    assert preview.newest_published() is None
    topics.commit(running, 7, topics.stage(running, "a"))
    assert preview.newest_published() == 7

    topics.commit(running, 8, topics.stage(running, "b"))
    assert topics.values() == ["a", "b"]
