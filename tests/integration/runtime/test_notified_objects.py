"""A source with a queue reads what its messages tell of, each object once, however its job is killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.runtime.killing import killer
from tests.integration.runtime.test_objects_that_arrive import OF_AN_OBJECT, job_of, put
from tests.integration.sinks.buckets import Bucket
from tests.servers.sqs import QueueServer, find_elasticmq
from tests.unit.runtime.discovery.test_notifications import of_s3

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

STEPS = ("receive 1", "tend 2", "receive 3")


@pytest.fixture
def server() -> Iterator[QueueServer]:
    if find_elasticmq() is None:
        pytest.skip("ElasticMQ cannot be fetched")
    with QueueServer() as started:
        yield started


@pytest.mark.timeout(400)
@pytest.mark.parametrize("lives", [1, pytest.param(6, marks=pytest.mark.thorough)])
def test_rows_are_read_once_and_messages_go_after_kills_around_a_checkpoint(
    bucket: Bucket, server: QueueServer, tmp_path: Path, lives: int
) -> None:
    """The listing finds what was written before the first start, and nothing later."""
    url, client = server.make_queue("arrivals"), server.client()
    number = 0

    def arrive(objects: int) -> None:
        nonlocal number
        for _ in range(objects):
            put(bucket, f"day={number % 3}/a b+ü%20-{number}.json", number * OF_AN_OBJECT)
            key = f"lake/out/in/day={number % 3}/a b+ü%20-{number}.json"
            client.send_message(QueueUrl=url, MessageBody=of_s3(key, bucket=bucket.name))
            number += 1

    def left() -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = client.get_queue_attributes(QueueUrl=url, AttributeNames=names)
        return sum(int(each) for each in found["Attributes"].values())

    environment = bucket.server.environment | killer(tmp_path)
    arrive(3)
    with job_of(bucket, tmp_path, "id BIGINT, day INT", queueUrl=url, checkInterval="1h") as job:
        for life in range(lives):
            at = f"streamjob_runtime.discovery.notifications Notifications.{STEPS[life % len(STEPS)]}"
            process = job.runs.start(environment=environment | {"KILLED_AT": at})
            arrive(2)
            process.wait()
        process = job.start()
        arrive(2)
        job.wait_for_rows(number * OF_AN_OBJECT, process)
        # What a killed process has received comes again when its time is over, after two minutes.
        job.wait_for(lambda: left() <= (number - 2 if lives == 1 else 0), "deletion of the messages", process)
        process.kill()
        assert job.ids() == Counter(range(number * OF_AN_OBJECT))
