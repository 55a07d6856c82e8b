"""The settings of Kafka's client that a source's options give."""

from __future__ import annotations

import pytest

from streamjob_runtime.kafka.client import client_settings, for_batches, with_defaults

OPTIONS = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"}


def test_a_source_asks_brokers_not_to_wait_for_records_behind_a_batch() -> None:
    assert client_settings(for_batches(OPTIONS))["fetch.max.wait.ms"] == "1"


@pytest.mark.parametrize("name", ["kafka.fetch.max.wait.ms", "KAFKA.Fetch.Max.Wait.Ms"])
def test_the_job_s_own_wait_takes_precedence(name: str) -> None:
    given = {**OPTIONS, name: "500"}

    assert client_settings(for_batches(given))["fetch.max.wait.ms"] == "500"


def test_by_default_committed_records_are_read_and_no_topic_is_made() -> None:
    by_default = {"isolation.level": "read_committed", "allow.auto.create.topics": "false"}
    assert by_default.items() <= client_settings(for_batches(OPTIONS)).items()
    given = {**OPTIONS, "kafka.Isolation.level": "read_uncommitted", "kafka.allow.auto.create.topics": "true"}
    assert with_defaults(given) == given
