"""A job reads a topic and writes one; its driver dies on the way, and readers of committed rows do not see it."""

from __future__ import annotations

import pytest
from e2e.harness.controller import StreamJobs
from e2e.harness.shouting import NAME, NO_EFFORT, shouting, wait_for_shouts, words
from tests.servers.kafka import KafkaServer

pytestmark = pytest.mark.timeout(900)


def test_a_job_between_topics_whose_driver_is_killed_writes_each_row_once(kafka: KafkaServer, jobs: StreamJobs) -> None:
    kafka.produce("words", words(0, 100))
    jobs.apply(NAME, job=shouting(kafka, NO_EFFORT, 20), restartPolicy={"onFailureRetryInterval": "1s"})
    before = jobs.wait_until_ready(NAME)
    wait_for_shouts(kafka, lambda shouts: shouts, within=180, every=0.5)

    (driver,) = jobs.drivers(NAME)
    jobs.namespace.delete("Pod", driver, grace=0)
    kafka.produce("words", words(100, 200))
    shouts = wait_for_shouts(kafka, lambda shouts: len(shouts) >= 200, within=180, every=0.5)
    after = jobs.wait_until_ready(NAME)

    assert sorted(shouts) == sorted(word.upper() for _, word in words(0, 200))
    assert after["jobStatus"]["attempt"] > before["jobStatus"]["attempt"]
    assert kafka.open_transactions() == []
