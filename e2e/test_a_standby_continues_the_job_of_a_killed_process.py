"""A driver with a standby loses its process: the standby continues in the same pod, and the output does not show it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import pytest
from e2e.harness.controller import StreamJobs, last_checkpoint
from e2e.harness.members import kill_member, members
from e2e.harness.shouting import NAME as SHOUTING
from e2e.harness.shouting import (
    NO_EFFORT,
    Producer,
    apply,
    check_output,
    standstill,
    wait_for_new_shouts,
    wait_for_shouts,
)
from e2e.harness.visits import visits
from tests.servers.kafka import KafkaServer

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"
WORDS_PER_SECOND = 50


def test_a_job_with_a_standby_goes_on_in_the_same_pod(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME, driver={**jobs.namespace.driver, "standby": 1})
    before = jobs.wait_for_checkpoint(NAME)
    (pod,) = jobs.drivers(NAME)
    ready = jobs.wait(NAME, lambda _status: len(members(jobs, pod)) == 2, what="second process in the pod")
    assert ready["jobStatus"]["attempt"] == before["jobStatus"]["attempt"]

    kill_member(jobs, pod, members(jobs, pod)[0])
    jobs.namespace.write(visits(20, 40))
    after = jobs.wait(
        NAME,
        lambda status: (
            status["jobStatus"]["epoch"] > before["jobStatus"]["epoch"]
            and last_checkpoint(status) > last_checkpoint(before)
        ),
        what="checkpoint of the standby",
    )

    assert after["jobStatus"]["attempt"] == before["jobStatus"]["attempt"]
    assert jobs.drivers(NAME) == [pod]
    jobs.wait_for_whole_report(NAME, 40)


def stands_by(jobs: StreamJobs, pod: str) -> bool:
    """Return whether the pod's second process has rehearsed the job, and has the files of a checkpoint."""
    return "is at hand" in jobs.namespace.cluster.logs(jobs.namespace.name, pod, "streamjob")


def stands_still(jobs: StreamJobs, kafka: KafkaServer, kill: Callable[[], None]) -> float:
    """Kill what runs the job while words arrive; return for how long the job stood still, in seconds."""
    wait_for_new_shouts(kafka, time.time())
    at = time.time()
    kill()
    wait_for_new_shouts(kafka, at + 1)
    jobs.wait_until_ready(SHOUTING)
    wait_for_new_shouts(kafka, time.time())
    return standstill(kafka, at)


def test_a_killed_driver_is_missed_for_a_shorter_time_with_a_standby(kafka: KafkaServer, jobs: StreamJobs) -> None:
    driver = {**jobs.namespace.driver, "memory": "1536m"}
    with Producer(kafka) as producer:
        producer.write(100)
        apply(
            jobs,
            kafka,
            NO_EFFORT,
            driver={**driver, "standby": 1},
            checkpointing={"location": jobs.namespace.location, "interval": "1s"},
        )
        wait_for_shouts(kafka, lambda shouts: len(shouts) >= 100, within=180, every=0.5)
        (pod,) = jobs.drivers(SHOUTING)
        jobs.wait(SHOUTING, lambda _status: stands_by(jobs, pod), what="standby with the newest checkpoint")
        producer.rate = WORDS_PER_SECOND

        warm = stands_still(jobs, kafka, lambda: kill_member(jobs, pod, members(jobs, pod)[0]))
        assert jobs.drivers(SHOUTING) == [pod]
        jobs.change(SHOUTING, driver={**driver, "standby": 0})
        jobs.wait_until_ready(SHOUTING, attempt=2)
        (pod,) = jobs.drivers(SHOUTING)
        cold = stands_still(jobs, kafka, lambda: jobs.namespace.delete("Pod", pod, grace=0))
        producer.rate = 0

    measured = f"{warm:.1f} s with a standby, {cold:.1f} s without"
    sys.stdout.write(f"From the last row before the kill to the first one after it: {measured}\n")
    check_output(kafka, producer.written)
    assert kafka.open_transactions() == []
