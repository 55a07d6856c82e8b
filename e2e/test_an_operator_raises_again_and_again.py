"""An operator raises on a row, whenever it is restarted: the driver gives up, and the job fails with the error."""

from __future__ import annotations

import pytest
from e2e.harness.controller import StreamJobs, condition, last_checkpoint
from e2e.harness.faults import checked_visits_job
from e2e.harness.visits import visits

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1200)]

NAME = "visits"
POISON = {"visits/poison.csv": "seen,page\n2024-01-01 00:00:05,poison\n"}
STRICT = "SELECT seen, CASE WHEN page = 'poison' THEN raise_error('a poisoned visit') ELSE page END AS page FROM visits"
LENIENT = "SELECT seen, page FROM visits WHERE page <> 'poison'"


def test_a_job_that_its_driver_has_given_up_fails_with_the_error_and_goes_on_once_corrected(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME, job=checked_visits_job(NAME, sql=STRICT), restartPolicy={"onFailureRetries": 0})
    before = jobs.wait_for_checkpoint(NAME)

    jobs.namespace.write(POISON)
    restarting = jobs.wait(NAME, lambda status: status["jobStatus"]["restarts"] >= 2, what="restarts")
    assert condition(restarting, "Stalled")["status"] == "False"
    assert restarting["jobStatus"]["attempt"] == 1

    failed = jobs.wait_for_state(NAME, "FAILED", within=600)
    stalled = condition(failed, "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "JobFailed")
    assert "a poisoned visit" in stalled["message"]
    assert failed["jobStatus"]["attempt"] == 1
    (event,) = jobs.wait_for_events(NAME, "JobFailed")
    assert "a poisoned visit" in event

    jobs.namespace.write(visits(20, 40))
    jobs.change(NAME, job=checked_visits_job(NAME, sql=LENIENT))
    after = jobs.wait_for_state(NAME, "STABLE")
    assert after["restoredFrom"]["id"] >= last_checkpoint(before)
    assert condition(after, "Stalled")["status"] == "False"
    jobs.wait_for_whole_report(NAME, 40)
