"""A job is upgraded, suspended, resumed and deleted, as its user asks: no stop leaves a warning among the events."""

from __future__ import annotations

from collections import Counter

import pytest
from e2e.harness.controller import StreamJobs
from e2e.harness.namespace import Namespace
from e2e.harness.visits import visits

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1200)]

NAME = "visits"


def warnings(namespace: Namespace) -> Counter[str]:
    """Return the warnings of a namespace, and how often each was given; a start of more than 30 s has some."""
    found = [event for event in namespace.all("Event") if event["type"] == "Warning"]
    return Counter(
        {
            f"{each['involvedObject']['kind']} {each['involvedObject']['name']}: {each['reason']}: {each['message']}": (
                each.get("count") or 1
            )
            for each in found
        }
    )


def test_a_job_that_stops_as_it_is_asked_leaves_no_warnings(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    jobs.wait_until_ready(NAME)
    started = warnings(jobs.namespace)
    jobs.change(NAME, suspend=True)
    jobs.wait_for_state(NAME, "SUSPENDED")
    jobs.wait_until_no_driver(NAME)
    suspended = warnings(jobs.namespace)
    lives = [jobs.status(NAME)]
    sizes = [jobs.status(NAME)["savepoint"]["lastCompleted"].get("sizeBytes")]

    jobs.change(NAME, suspend=False)
    jobs.wait_until_ready(NAME, attempt=2)
    before_upgrade = warnings(jobs.namespace)
    lives.append(jobs.status(NAME))
    jobs.change(NAME, sparkConf={"spark.sql.session.timeZone": "UTC"})
    lives.append(jobs.wait_until_ready(NAME, attempt=3))
    after_upgrade = warnings(jobs.namespace)
    sizes.append(jobs.status(NAME)["savepoint"]["lastCompleted"].get("sizeBytes"))
    jobs.namespace.delete("StreamJob", NAME)
    jobs.namespace.wait_gone("StreamJob", NAME)
    jobs.wait_until_no_driver(NAME)
    deleted = warnings(jobs.namespace)

    # Neither has a checkpoint given way to a stop as a failed one, nor was a driver replaced as a crashed one.
    assert [each["jobStatus"]["restarts"] for each in lives] == [0, 0, 0]
    assert [each["checkpoint"]["counts"].get("failed", 0) for each in lives] == [0, 0, 0]
    assert suspended - started == Counter()
    upgraded = after_upgrade - before_upgrade
    assert {each: number for each, number in upgraded.items() if f"{NAME}-driver-3" not in each} == {}
    assert deleted - after_upgrade == Counter()
    assert all(sizes)
