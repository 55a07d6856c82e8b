"""A node is drained: the driver takes a last checkpoint, and the next one goes on from it."""

from __future__ import annotations

import pytest
from e2e.harness.controller import StreamJobs, condition, expected, last_checkpoint, last_visit, visits

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"


def test_a_job_whose_driver_is_evicted_goes_on_from_its_last_checkpoint(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    before = jobs.wait(NAME, lambda status: last_checkpoint(status) >= 2, what="second checkpoint")

    (driver,) = jobs.drivers(NAME)
    jobs.namespace.cluster.evict(jobs.namespace.name, driver)
    leaving = jobs.wait(NAME, lambda status: status["jobStatus"].get("failureReason"), what="reason of a failure")
    assert leaving["jobStatus"]["failureReason"] == "Evicted"
    assert condition(leaving, "Ready")["status"] == "False"
    jobs.namespace.write(visits(20, 40))
    after = jobs.wait(
        NAME,
        lambda status: status["jobStatus"]["attempt"] == 2 and condition(status, "Ready")["status"] == "True",
        what="Ready with the next driver",
    )

    assert after["jobStatus"]["restarts"] >= 1
    assert after["restoredFrom"]["id"] >= last_checkpoint(before)
    (event,) = jobs.events(NAME, "Evicted")
    assert event.startswith(f"driver {driver} is evicted")
    assert event.endswith("restart 1 in 0 s")
    jobs.namespace.write(last_visit())
    jobs.wait_for_report(NAME, expected(40))
