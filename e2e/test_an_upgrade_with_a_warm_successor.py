"""A user upgrades a job whose next driver is prepared beside the running one: it stands still for a shorter time."""

from __future__ import annotations

import sys
import time
from datetime import datetime
from typing import Any

import pytest
from e2e.harness.controller import StreamJobs, condition
from e2e.harness.shouting import (
    NAME,
    NO_EFFORT,
    Producer,
    apply,
    check_output,
    standstill,
    wait_for_new_shouts,
    wait_for_shouts,
)
from tests.servers.kafka import KafkaServer

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

WORDS_PER_SECOND = 50
NO_IMAGE = {"ErrImagePull", "ImagePullBackOff"}


def began_to_stop(jobs: StreamJobs) -> float:
    """Return when the controller last began to stop a driver for another revision, in seconds since 1970."""
    stops = [event for event in jobs.namespace.all("Event") if event["reason"] == "SpecChanged"]
    return max(datetime.fromisoformat(event["firstTimestamp"]).timestamp() for event in stops)


def upgrade(jobs: StreamJobs, kafka: KafkaServer, **change: Any) -> float:
    """Upgrade the job while words arrive, wait until it is ready again, and return for how long it stood still."""
    before = jobs.wait_until_ready(NAME)
    jobs.change(NAME, **change)
    attempt = before["jobStatus"]["attempt"] + 1
    after = jobs.wait_until_ready(NAME, attempt=attempt)
    assert after["reconciliation"]["lastReconciledRevision"] != before["reconciliation"]["lastReconciledRevision"]
    assert after["restoredFrom"]["kind"] == "savepoint"
    jobs.namespace.wait_gone("Pod", f"{NAME}-driver-{attempt - 1}")
    assert jobs.drivers(NAME) == [f"{NAME}-driver-{attempt}"]
    wait_for_new_shouts(kafka, time.time())
    return standstill(kafka, began_to_stop(jobs))


def test_an_upgrade_with_a_warm_successor_stands_still_for_less_time_and_its_output_is_exact(
    kafka: KafkaServer, jobs: StreamJobs
) -> None:
    with Producer(kafka) as producer:
        producer.write(100)
        apply(
            jobs,
            kafka,
            NO_EFFORT,
            upgrade={"warmSuccessor": True},
            checkpointing={"location": jobs.namespace.location, "interval": "1s"},
        )
        wait_for_shouts(kafka, lambda shouts: len(shouts) >= 100, within=180, every=0.5)
        producer.rate = WORDS_PER_SECOND

        warm = upgrade(jobs, kafka, sparkConf={"spark.sql.session.timeZone": "UTC"})
        jobs.wait_for_events(NAME, "PreparingSuccessor")
        assert not jobs.events(NAME, "SuccessorFailed")
        jobs.change(NAME, upgrade={"warmSuccessor": False})
        cold = upgrade(jobs, kafka, sparkConf={"spark.sql.session.timeZone": "Europe/Berlin"})
        producer.rate = 0

    measured = f"{warm:.1f} s with a warm successor, {cold:.1f} s without"
    sys.stdout.write(f"From the last row before the upgrade to the first one after it: {measured}\n")
    check_output(kafka, producer.written)
    assert kafka.open_transactions() == []


def begin(jobs: StreamJobs, kafka: KafkaServer, producer: Producer) -> None:
    """Start a job whose upgrades have a successor, and let words arrive once it is ready."""
    producer.write(100)
    apply(jobs, kafka, NO_EFFORT, upgrade={"warmSuccessor": True})
    wait_for_shouts(kafka, lambda shouts: len(shouts) >= 100, within=180, every=0.5)
    jobs.wait_until_ready(NAME)
    producer.rate = WORDS_PER_SECOND


def test_a_successor_that_is_killed_costs_the_upgrade_nothing_but_its_speed(
    kafka: KafkaServer, jobs: StreamJobs
) -> None:
    with Producer(kafka) as producer:
        begin(jobs, kafka, producer)
        jobs.change(NAME, sparkConf={"spark.sql.session.timeZone": "UTC"})
        jobs.namespace.wait(
            "Pod", f"{NAME}-driver-2", lambda pod: pod["status"]["phase"] == "Running", what="successor"
        )
        jobs.namespace.delete("Pod", f"{NAME}-driver-2", grace=0)
        after = jobs.wait_until_ready(NAME, attempt=3)
        producer.rate = 0

    assert after["jobStatus"]["attempt"] == 3
    jobs.wait_for_events(NAME, "SuccessorFailed")
    check_output(kafka, producer.written)


def test_a_job_whose_next_image_is_missing_runs_on_until_the_spec_is_corrected(
    kafka: KafkaServer, jobs: StreamJobs
) -> None:
    with Producer(kafka) as producer:
        begin(jobs, kafka, producer)
        jobs.change(NAME, image="localhost/absent:1")
        status = jobs.wait(NAME, lambda seen: condition(seen, "Reconciling")["reason"] in NO_IMAGE, what="no image")
        assert "the job runs on" in condition(status, "Reconciling")["message"]
        wait_for_new_shouts(kafka, time.time())
        jobs.change(NAME, image=None)
        jobs.namespace.wait_gone("Pod", f"{NAME}-driver-2")
        after = jobs.wait_until_ready(NAME, attempt=1)
        producer.rate = 0

    assert after["jobStatus"]["restarts"] == 0
    check_output(kafka, producer.written)
