"""A job takes more memory than its driver may have: the kernel kills it, which is said, and its job goes on."""

from __future__ import annotations

import pytest
from e2e.harness.controller import StreamJobs, condition, last_checkpoint
from e2e.harness.faults import LEAK, apply_faulty_job
from e2e.harness.visits import visits

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"


def test_a_job_whose_driver_was_killed_for_its_memory_says_so_and_goes_on(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    apply_faulty_job(jobs, NAME, restartPolicy={"onFailureRetryInterval": "20s"})
    before = jobs.wait_for_checkpoint(NAME)

    jobs.namespace.write({LEAK: ""})
    waiting = jobs.wait(
        NAME, lambda status: condition(status, "Reconciling")["reason"] == "WaitingToRestart", what="delay of a restart"
    )
    assert waiting["jobStatus"]["failureReason"] == "OOMKilled"
    reconciling = condition(waiting, "Reconciling")
    assert "took more memory than it may" in reconciling["message"]
    assert condition(waiting, "Ready")["status"] == "False"

    jobs.namespace.write(visits(20, 40))
    after = jobs.wait_until_ready(NAME, attempt=2)
    assert after["jobStatus"]["restarts"] >= 1
    assert after["restoredFrom"]["id"] >= last_checkpoint(before)
    (event,) = jobs.wait_for_events(NAME, "OOMKilled")
    assert event.endswith("restart 1 in 20 s")
    jobs.wait_for_whole_report(NAME, 40)
