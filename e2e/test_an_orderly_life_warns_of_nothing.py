"""A job is upgraded, suspended, resumed and deleted, as its user asks: no start or stop raises a warning."""

from __future__ import annotations

from collections import Counter

import pytest
from e2e.harness import numbers
from e2e.harness.cluster import Object
from e2e.harness.controller import StreamJobs
from e2e.harness.namespace import Namespace
from e2e.harness.reading import wait_until_read
from e2e.harness.visits import visits

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1200)]

NAME = "visits"


def warnings(namespace: Namespace) -> Counter[str]:
    """Return the warnings of a namespace, and how often each was given.

    A probe that finds nobody is left out: the node may send one before it knows that the process has ended.
    """
    found = [
        event
        for event in namespace.all("Event")
        if event["type"] == "Warning" and not event["message"].endswith("connect: connection refused")
    ]
    return Counter(
        {
            f"{each['involvedObject']['kind']} {each['involvedObject']['name']}: {each['reason']}: {each['message']}": (
                each.get("count") or 1
            )
            for each in found
        }
    )


def wait_for_size(jobs: StreamJobs) -> Object:
    """Wait until the status has the size of the last savepoint, which its StreamSnapshot tells, and return it."""
    return jobs.wait(NAME, lambda status: status["savepoint"]["lastCompleted"].get("sizeBytes"), what="size")


def test_a_job_that_lives_as_it_is_asked_raises_no_warnings(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    jobs.wait_until_ready(NAME)
    wait_until_read(jobs, NAME, 20)
    jobs.change(NAME, suspend=True)
    jobs.wait_for_state(NAME, "SUSPENDED")
    jobs.wait_until_no_driver(NAME)
    lives = [wait_for_size(jobs)]

    jobs.change(NAME, suspend=False)
    lives.append(jobs.wait_until_ready(NAME, attempt=2))
    jobs.change(NAME, sparkConf={"spark.sql.session.timeZone": "UTC"})
    jobs.wait_until_ready(NAME, attempt=3)
    lives.append(wait_for_size(jobs))
    jobs.namespace.delete("StreamJob", NAME)
    jobs.namespace.wait_gone("StreamJob", NAME)
    jobs.wait_until_no_driver(NAME)

    # Neither has a checkpoint given way to a stop as a failed one, nor was a driver replaced as a crashed one.
    assert [each["jobStatus"]["restarts"] for each in lives] == [0, 0, 0]
    assert [each["checkpoint"]["counts"].get("failed", 0) for each in lives] == [0, 0, 0]
    assert warnings(jobs.namespace) == Counter()


def test_executors_that_start_with_their_driver_raise_no_warnings(jobs: StreamJobs) -> None:
    numbers.apply(jobs)
    numbers.wait_for_executors(jobs, 2)

    assert warnings(jobs.namespace) == Counter()
