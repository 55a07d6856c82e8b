"""A StreamJob with a schedule: runs continue each other, nothing runs in between, and a killed driver is replaced."""

from __future__ import annotations

import time

import pytest
from e2e.harness.cluster import Object
from e2e.harness.controller import StreamJobs, condition
from e2e.harness.visits import expected, last_visit, visits

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"
YEARLY = "0 0 1 1 *"


def wait_for_run(jobs: StreamJobs, attempt: int) -> Object:
    """Wait until the run of a driver is over, and return the status."""

    def is_over(status: Object) -> bool:
        return bool(status["lifecycleState"] == "SCHEDULED" and status["jobStatus"]["attempt"] == attempt)

    status = jobs.wait(NAME, is_over, what=f"end of the run of driver {attempt}", within=300.0)
    assert status["checkpoint"]["lastCompleted"]["kind"] == "checkpoint"
    jobs.wait_until_no_driver(NAME)
    return status


def wait_until_running(jobs: StreamJobs, driver: str) -> None:
    end = time.monotonic() + 120
    while (jobs.namespace.get("Pod", driver) or {}).get("status", {}).get("phase") != "Running":
        assert time.monotonic() < end, f"{driver} does not run"
        time.sleep(0.3)


def test_runs_of_a_streamjob_continue_each_other_and_its_output_is_exact(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME, schedule={"cron": YEARLY, "timeZone": "Europe/Berlin"})
    waits = jobs.wait_until_ready(NAME)
    assert (waits["lifecycleState"], waits["jobStatus"]["attempt"]) == ("SCHEDULED", 0)
    assert waits["schedule"]["nextRun"].endswith("-12-31T23:00:00Z")

    jobs.change(NAME, schedule={"cron": "* * * * *"})
    jobs.wait(NAME, lambda status: status["jobStatus"]["attempt"] == 1, what="first run")
    jobs.change(NAME, schedule={"cron": YEARLY})
    first = wait_for_run(jobs, 1)
    assert first["schedule"]["lastRun"] <= first["schedule"]["lastCompleted"] < first["schedule"]["nextRun"]
    assert condition(first, "Ready")["reason"] == "Scheduled"
    assert jobs.report(NAME) == {}, "a run has flushed windows"

    # A spec that changes between two runs needs no driver, and no savepoint.
    jobs.change(NAME, restartNonce=1)
    changed = jobs.wait_until_ready(NAME)
    assert changed["jobStatus"]["attempt"] == 1
    assert jobs.drivers(NAME) == []

    jobs.namespace.write(visits(20, 40) | last_visit())
    jobs.change(NAME, schedule={"runNonce": 1})
    wait_until_running(jobs, f"{NAME}-driver-2")
    jobs.namespace.delete("Pod", f"{NAME}-driver-2", grace=0)
    second = wait_for_run(jobs, 3)
    revisions = [each["reconciliation"]["lastReconciledRevision"] for each in (first, changed, second)]
    assert revisions[0] == revisions[1] != revisions[2]
    assert second["restoredFrom"]["kind"] == "checkpoint"
    assert jobs.report(NAME) == expected(40)
    jobs.wait_for_events(NAME, "RunStarted", saying="a run begins: runNonce has changed")

    jobs.change(NAME, suspend=True)
    suspended = jobs.wait_for_state(NAME, "SUSPENDED")
    assert "nextRun" not in suspended["schedule"]
    jobs.change(NAME, suspend=False, schedule={"runNonce": 2})
    wait_for_run(jobs, 4)
    assert jobs.report(NAME) == expected(40)
