"""A user changes the application: the job stops with a savepoint, and the new revision continues from it."""

from __future__ import annotations

import pytest
from e2e.harness.controller import StreamJobs, condition, last_checkpoint
from e2e.harness.visits import visits

pytestmark = pytest.mark.timeout(900)

NAME = "visits"


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
