"""A job reads a topic and writes one; its driver dies on the way, and who reads what is committed does not see it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from e2e.harness.cluster import Object
from e2e.harness.controller import StreamJobs
from tests.servers.kafka import KafkaServer

pytestmark = pytest.mark.timeout(900)

NAME = "shouting"


def test_a_job_between_topics_whose_driver_is_killed_writes_each_row_once(jobs: StreamJobs, kafka: KafkaServer) -> None:
    kafka.produce("words", _words(0, 100))
    jobs.apply(NAME, job=_shouting(kafka), restartPolicy={"onFailureRetryInterval": "1s"})
    before = jobs.wait_until_ready(NAME)
    _wait_for(kafka, lambda shouts: shouts)

    (driver,) = jobs.drivers(NAME)
    jobs.namespace.delete("Pod", driver, grace=0)
    kafka.produce("words", _words(100, 200))
    shouts = _wait_for(kafka, lambda shouts: len(shouts) >= 200)
    after = jobs.wait_until_ready(NAME)

    assert sorted(shouts) == sorted(word.upper() for _, word in _words(0, 200))
    assert after["jobStatus"]["attempt"] > before["jobStatus"]["attempt"]
    assert kafka.open_transactions() == []


def _wait_for(kafka: KafkaServer, condition: Callable[[list[str]], object]) -> list[str]:
    """Wait until what is committed fulfils a condition, and return it."""
    end = time.monotonic() + 180
    while not condition(found := [(message.value or b"").decode() for message in kafka.consume("shouts")]):
        assert time.monotonic() < end, f"what is committed stayed at {len(found)} rows"
        time.sleep(0.5)
    return found


def _words(start: int, end: int) -> list[tuple[str, str]]:
    return [(str(number), f"word {number}") for number in range(start, end)]


def _shouting(kafka: KafkaServer) -> Object:
    broker = {"kafka.bootstrap.servers": kafka.bootstrap}
    source = {"subscribe": "words", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"}
    return {
        "sources": [{"name": "words", "format": "kafka", "options": {**broker, **source}}],
        "operators": [
            {
                "name": "shouts",
                "inputs": ["words"],
                "sql": "SELECT key, upper(CAST(value AS STRING)) AS value FROM words",
            }
        ],
        "sinks": [{"name": "out", "input": "shouts", "format": "kafka", "options": {**broker, "topic": "shouts"}}],
    }
