"""A node is drained: the driver takes a last checkpoint, and the next one goes on from it."""

from __future__ import annotations

import pytest
from e2e.harness.controller import StreamJobs, condition, last_checkpoint
from e2e.harness.visits import visits

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"


def test_a_job_whose_driver_is_evicted_goes_on_from_its_last_checkpoint(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    before = jobs.wait_for_checkpoint(NAME)

    (driver,) = jobs.drivers(NAME)
    jobs.namespace.cluster.evict(jobs.namespace.name, driver)
    leaving = jobs.wait(NAME, lambda status: status["jobStatus"].get("failureReason"), what="reason of a failure")
    assert leaving["jobStatus"]["failureReason"] == "Evicted"
    assert condition(leaving, "Ready")["status"] == "False"
    jobs.namespace.write(visits(20, 40))
    after = jobs.wait_until_ready(NAME, attempt=2)

    assert after["jobStatus"]["restarts"] >= 1
    assert after["restoredFrom"]["id"] >= last_checkpoint(before)
    (event,) = jobs.wait_for_events(NAME, "Evicted")
    assert event.startswith(f"driver {driver} is evicted")
    assert event.endswith("restart 1 in 0 s")
    jobs.wait_for_whole_report(NAME, 40)
