"""A user changes the application: the job stops with a savepoint, and the new revision continues from it."""

from __future__ import annotations

import pytest
from e2e.harness.controller import StreamJobs, condition, last_checkpoint
from e2e.harness.visits import visits, visits_job

pytestmark = pytest.mark.timeout(900)

NAME = "visits"
NO_IMAGE = {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull"}


def test_an_upgraded_job_goes_on_from_its_savepoint_and_its_output_is_exact(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    before = jobs.wait_for_state(NAME, "STABLE")

    jobs.change(NAME, sparkConf={"spark.sql.session.timeZone": "UTC"})
    jobs.namespace.write(visits(20, 40))
    after = jobs.wait_for_state(NAME, "STABLE")

    assert after["reconciliation"]["lastReconciledRevision"] != before["reconciliation"]["lastReconciledRevision"]
    assert after["restoredFrom"]["kind"] == "savepoint"
    assert after["jobStatus"]["attempt"] == 2
    assert condition(after, "Ready")["status"] == "True"
    jobs.wait_for_whole_report(NAME, 40)


def test_a_changed_checkpoint_interval_needs_no_restart(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 3))
    jobs.apply(NAME)
    jobs.wait_for_state(NAME, "STABLE")
    before = jobs.drivers(NAME)

    jobs.change(NAME, checkpointing={"location": jobs.namespace.location, "interval": "2s"})
    changed = jobs.wait(NAME, lambda status: condition(status, "Ready")["status"] == "True", what="Ready")
    jobs.wait_for_checkpoint(NAME, last_checkpoint(changed) + 1)

    assert jobs.drivers(NAME) == before


def test_a_running_job_is_left_alone_by_a_revision_that_cannot_start(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    before = jobs.wait_for_state(NAME, "STABLE")
    job = visits_job(NAME, bounded=False)
    (counts,) = job["operators"]

    for broken, said in (
        (counts["sql"].replace("SELECT", "SELEC", 1), "SELEC"),
        (counts["sql"].replace("page,", "pages,", 1), "pages"),
    ):
        jobs.change(NAME, job={**job, "operators": [{**counts, "sql": broken}]})
        refused = jobs.wait(
            NAME, lambda status: condition(status, "PreflightPassed")["status"] == "False", what="failed preflight"
        )
        for kind, value in (("PreflightPassed", "False"), ("Stalled", "True"), ("Ready", "False")):
            found = condition(refused, kind)
            assert (found["status"], found["reason"]) == (value, "PreflightFailed")
            assert said in found["message"]
        jobs.wait_for_events(NAME, "PreflightFailed", saying=said)

    jobs.change(NAME, job=job, image="localhost/no-such-image:1")
    waits = jobs.wait(
        NAME, lambda status: condition(status, "PreflightPassed")["reason"] in NO_IMAGE, what="missing image"
    )
    assert condition(waits, "PreflightPassed")["status"] == "False"
    jobs.namespace.write(visits(20, 30))
    later = jobs.wait_for_checkpoint(NAME, last_checkpoint(waits) + 1)
    assert condition(later, "Running")["status"] == "True"
    assert later["jobStatus"]["attempt"] == 1
    assert later["jobStatus"]["restarts"] == 0
    assert later["reconciliation"]["lastReconciledRevision"] == before["reconciliation"]["lastReconciledRevision"]
    assert jobs.drivers(NAME) == [f"{NAME}-driver-1"]

    jobs.change(NAME, image=None, sparkConf={"spark.sql.session.timeZone": "UTC"})
    after = jobs.wait_until_ready(NAME, attempt=2)
    assert condition(after, "PreflightPassed")["status"] == "True"
    assert after["restoredFrom"]["kind"] == "savepoint"
    jobs.namespace.write(visits(30, 40))
    jobs.wait_for_whole_report(NAME, 40)
