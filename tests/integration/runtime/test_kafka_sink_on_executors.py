"""Executors on other machines stage their own records, and each is published once."""

from __future__ import annotations

import secrets
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests import jobs
from tests.integration.runtime.agents import Agents
from tests.integration.runtime.processes import JobRuns
from tests.integration.runtime.purchases import write_job

if TYPE_CHECKING:
    from tests.servers.kafka import KafkaServer

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

LONG = 300.0
BATCHES, RECORDS = 6, 1500
COPIES = (
    "SELECT CAST(value AS STRING) || '-' || n AS key, repeat('x', 1000) AS value "
    f"FROM (SELECT value, explode(sequence(1, {RECORDS})) AS n FROM numbers)"
)
"""A task has more bytes than it hands to the driver."""


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_each_record_of_executors_is_published_once_although_they_and_the_driver_are_killed(
    kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    read = f"numbers-{secrets.token_hex(4)}"
    kafka_server.create_topic(read, 2)
    for partition in range(2):
        values = [f"{partition}-{number}" for number in range(BATCHES)]
        kafka_server.produce(read, [(None, value) for value in values], partition=partition)
    numbers = jobs.topic("numbers", kafka_server.bootstrap, read, {"maxOffsetsPerTrigger": 2}, bounded=True)
    written = {"kafka.bootstrap.servers": kafka_server.bootstrap, "topic": topic}
    sinks = [jobs.sink("copies", "kafka", options=written)]
    how = {"name": "numbers", "maxParallelism": 2, "checkpointing": {"interval": "500ms"}}
    job = jobs.job_file(jobs.sql("copies", "numbers", COPIES), sources=[numbers], sinks=sinks, **how)
    file = write_job(tmp_path, job)
    runs = JobRuns(file, tmp_path / "snapshots", "numbers")
    agents = Agents(tmp_path / "machines", share_files=False)
    agents.start()
    try:
        first = runs.start(*agents.arguments, environment=agents.environment)
        runs.wait(lambda: runs.furthest() > 0, "checkpoint", first, LONG)
        agents.kill(0)
        agents.add()
        runs.wait_for_progress(runs.furthest(), first)
        first.kill()
        last = runs.start(*agents.arguments, workdir="another", environment=agents.environment)
        assert last.wait(LONG) == 0, last.output()
    finally:
        runs.end()
        agents.end()

    found = Counter(message.key for message in kafka_server.consume(topic))
    assert len(found) == 2 * BATCHES * RECORDS
    assert set(found.values()) == {1}
