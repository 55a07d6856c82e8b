"""A user deletes a job: its policies decide what remains, even if the controller was away at that moment."""

from __future__ import annotations

import pytest
from e2e.harness.controller import ControllerProcess, StreamJobs, last_checkpoint
from e2e.harness.reading import wait_until_read
from e2e.harness.snapshots import manifest_of, path_of, snapshots_of, stored_below
from e2e.harness.visits import expected, last_visit, visits

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"


def test_a_deleted_job_is_drained_into_a_savepoint_and_its_checkpoints_are_disposed_of(jobs: StreamJobs) -> None:
    kept = f"{jobs.namespace.location}-kept"
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME, savepoints={"location": kept, "onDeletion": True, "drain": True}, deletionPolicy="Delete")
    status = jobs.wait_for_state(NAME, "STABLE")
    (driver,) = jobs.drivers(NAME)
    wait_until_read(jobs, NAME, 20)

    jobs.namespace.delete("StreamJob", NAME)
    jobs.namespace.wait_gone("StreamJob", NAME, within=240)
    jobs.namespace.wait_gone("Pod", driver)

    # No visit has closed the windows: the drain has.
    assert jobs.report(NAME) == expected(20)
    assert not jobs.is_stored(status["checkpoint"]["lastCompleted"]["path"])
    remains = stored_below(jobs, jobs.namespace.location)
    assert [key for key in remains if "/log/" not in key] == []
    assert len(remains) == 1
    (savepoint,) = snapshots_of(jobs, NAME, "delete")
    assert path_of(savepoint).startswith(f"{kept}/")
    assert jobs.is_stored(path_of(savepoint))
    assert manifest_of(jobs, path_of(savepoint))["drained"] is True


def test_a_job_that_is_deleted_while_the_controller_is_away_goes_when_it_is_back(
    jobs: StreamJobs, controller: ControllerProcess
) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    jobs.wait_for_state(NAME, "STABLE")
    controller.kill()
    (driver,) = jobs.drivers(NAME)

    jobs.namespace.delete("StreamJob", NAME)
    left = jobs.namespace.wait(
        "StreamJob", NAME, lambda thing: thing["metadata"].get("deletionTimestamp"), what="deletion"
    )
    assert left["metadata"]["finalizers"] == ["streamjob.io/finalizer"]
    assert jobs.drivers(NAME) == [driver]
    controller.start_again()
    jobs.namespace.wait_gone("StreamJob", NAME, within=240)
    jobs.namespace.wait_gone("Pod", driver)

    # Its checkpoints are kept, and a job of that name goes on from them.
    jobs.namespace.write(visits(20, 40))
    jobs.namespace.write(last_visit())
    jobs.apply(NAME)
    back = jobs.wait_for_state(NAME, "STABLE")
    assert back["restoredFrom"]["id"] >= last_checkpoint(left["status"])
    assert back["jobStatus"]["attempt"] > left["status"]["jobStatus"]["attempt"]
    jobs.wait_for_report(NAME, expected(40))
