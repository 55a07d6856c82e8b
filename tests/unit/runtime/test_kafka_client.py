"""The settings of Kafka's client that a source's options give."""

from __future__ import annotations

import pytest

from streamjob_runtime.kafka.client import client_settings, for_batches

OPTIONS = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"}


def test_a_source_asks_brokers_not_to_wait_for_records_behind_a_batch() -> None:
    assert client_settings(for_batches(OPTIONS))["fetch.max.wait.ms"] == "1"


@pytest.mark.parametrize("name", ["kafka.fetch.max.wait.ms", "KAFKA.Fetch.Max.Wait.Ms"])
def test_the_job_s_own_wait_takes_precedence(name: str) -> None:
    given = {**OPTIONS, name: "500"}

    assert for_batches(given) == given
