"""A driver crashes whenever it is started: the controller waits longer each time, gives up, and takes the next spec."""

from __future__ import annotations

import pytest
from e2e.harness.cluster import Object
from e2e.harness.controller import StreamJobs, condition, last_checkpoint
from e2e.harness.faults import CRASH, apply_faulty_job, checked_visits_job
from e2e.harness.visits import visits

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1200)]

NAME = "visits"


def test_a_job_that_crashes_fails_after_its_restarts_and_goes_on_with_another_spec(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    apply_faulty_job(jobs, NAME, restartPolicy={"onFailureRetries": 2, "onFailureRetryInterval": "2s"})
    before = jobs.wait_for_checkpoint(NAME)

    jobs.namespace.write({CRASH: ""})

    def has_failed_and_was_not_ready_between_crashes(status: Object) -> bool:
        assert not status["jobStatus"].get("failures") or condition(status, "Ready")["status"] == "False"
        return bool(status["lifecycleState"] == "FAILED")

    failed = jobs.wait(NAME, has_failed_and_was_not_ready_between_crashes, what="FAILED")
    stalled = condition(failed, "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "RestartsExhausted")
    assert "exit code 134" in stalled["message"]
    assert condition(failed, "Ready")["status"] == "False"
    assert failed["jobStatus"]["attempt"] == 3
    assert failed["jobStatus"]["failures"] == 2
    restarts = jobs.wait_for_events(NAME, "DriverFailed", number=2)
    assert [text.rpartition("; ")[2] for text in restarts] == ["restart 1 in 0 s", "restart 2 in 4 s"]
    assert len(jobs.wait_for_events(NAME, "RestartsExhausted")) == 1

    jobs.namespace.write(visits(20, 40))
    jobs.change(NAME, job=checked_visits_job(NAME, sql="SELECT * FROM visits"))
    after = jobs.wait_for_state(NAME, "STABLE")
    assert after["jobStatus"]["attempt"] == 4
    assert after["jobStatus"]["failures"] == 0
    assert after["restoredFrom"]["id"] >= last_checkpoint(before)
    assert condition(after, "Stalled")["status"] == "False"
    jobs.wait_for_whole_report(NAME, 40)
