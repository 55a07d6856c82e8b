"""A user suspends a job, changes it while it rests, and resumes it: it continues from exactly its last state."""

from __future__ import annotations

import pytest
from e2e.harness.controller import StreamJobs
from e2e.harness.snapshots import path_of, wait_for_completed
from e2e.harness.visits import expected, last_visit, visits, visits_job

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"


def test_a_job_that_was_changed_while_it_was_suspended_resumes_from_its_savepoint(jobs: StreamJobs) -> None:
    kept = f"{jobs.namespace.location}/kept"
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME, savepoints={"location": kept})
    before = jobs.wait_for_state(NAME, "STABLE")

    jobs.change(NAME, suspend=True)
    suspended = jobs.wait_for_state(NAME, "SUSPENDED")
    savepoint = suspended["savepoint"]["lastCompleted"]
    assert savepoint["path"].startswith(f"{kept}/")
    assert savepoint["path"] == suspended["checkpoint"]["lastCompleted"]["path"]
    assert jobs.is_stored(savepoint["path"])
    assert suspended["replicas"] == 0
    (recorded,) = wait_for_completed(jobs, NAME, 1, "suspend")
    assert path_of(recorded) == savepoint["path"]

    job = visits_job(NAME, bounded=False)
    (counts,) = job["operators"]
    changed = {**job, "operators": [{**counts, "sql": f"{counts['sql']} HAVING count(*) > 0"}]}
    jobs.change(NAME, parallelism=2, job=changed)
    jobs.namespace.write(visits(20, 40))
    jobs.namespace.write(last_visit())
    waits = jobs.wait_until_ready(NAME)
    assert waits["lifecycleState"] == "SUSPENDED"
    jobs.wait_until_no_driver(NAME)

    jobs.change(NAME, suspend=False)
    resumed = jobs.wait_until_ready(NAME)
    assert resumed["restoredFrom"]["path"] == savepoint["path"]
    assert resumed["reconciliation"]["lastReconciledRevision"] != before["reconciliation"]["lastReconciledRevision"]
    assert resumed["replicas"] == 2
    jobs.wait_for_report(NAME, expected(40))


def test_a_job_that_is_suspended_by_last_state_resumes_from_a_checkpoint(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME, upgradeMode="last-state")
    jobs.wait_for_state(NAME, "STABLE")

    jobs.change(NAME, suspend=True)
    suspended = jobs.wait_for_state(NAME, "SUSPENDED")
    assert suspended["checkpoint"]["lastCompleted"]["kind"] == "checkpoint"

    jobs.namespace.write(visits(20, 40))
    jobs.namespace.write(last_visit())
    jobs.change(NAME, suspend=False)
    resumed = jobs.wait_until_ready(NAME)
    assert resumed["restoredFrom"]["path"] == suspended["checkpoint"]["lastCompleted"]["path"]
    jobs.wait_for_report(NAME, expected(40))
