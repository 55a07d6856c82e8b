"""Executors write their own rows: into a bucket, and into a topic although they and the driver are killed."""

from __future__ import annotations

import secrets
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests import jobs
from tests.integration.runtime.agents import Agents
from tests.integration.runtime.processes import JobRuns, job_runs
from tests.integration.runtime.purchases import write_job
from tests.integration.sinks.buckets import Bucket

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.servers.kafka import KafkaServer

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

FILES, ROWS = 4, 100_000
LONG = 300.0
BATCHES, RECORDS = 6, 1500
COPIES = (
    "SELECT CAST(value AS STRING) || '-' || n AS key, repeat('x', 1000) AS value "
    f"FROM (SELECT value, explode(sequence(1, {RECORDS})) AS n FROM numbers)"
)
"""A task has more bytes than it hands to the driver."""


def job(directory: Path, path: str) -> Path:
    """Write a job whose batches have too many rows for the driver."""
    (directory / "in").mkdir()
    for number in range(FILES):
        (directory / "in" / f"{number}.csv").write_text(f"{number}\n")
    many = f"SELECT file * {ROWS} + n AS id FROM (SELECT file, explode(sequence(0, {ROWS - 1})) AS n FROM files)"
    source, sinks = (
        jobs.files("files", "in", "file BIGINT", "csv", bounded=True),
        [jobs.sink("numbers", "parquet", path)],
    )
    numbers = jobs.sql("numbers", "files", many)
    return write_job(directory, jobs.job_file(numbers, sources=[source], sinks=sinks, name="numbers"))


@pytest.mark.timeout(600)
def test_each_executor_uploads_its_own_rows_and_the_driver_completes_them(
    spark: SparkSession, bucket: Bucket, tmp_path: Path
) -> None:
    with job_runs(job(tmp_path, bucket.path), tmp_path / "snapshots", "numbers") as runs:
        process = runs.start("--executors", "2", "--executor-memory", "600m", environment=bucket.server.environment)
        assert process.wait() == 0, process.output()

    found = spark.read.parquet(str(bucket.directory))
    assert found.count() == found.distinct().count() == FILES * ROWS
    assert len(bucket.files()) == FILES
    assert bucket.pending() == []


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
