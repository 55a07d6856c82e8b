"""The savepoint of an upgrade cannot be written: the job runs on as it was, and the upgrade comes when it can be."""

from __future__ import annotations

import pytest
from e2e.harness.controller import StreamJobs, condition, last_checkpoint
from e2e.harness.visits import visits

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"


def test_a_job_runs_on_until_the_savepoint_of_its_upgrade_has_a_place(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    before = jobs.wait_for_state(NAME, "STABLE")
    drivers = jobs.drivers(NAME)

    jobs.change(
        NAME, savepoints={"location": "s3://no-such-bucket/kept"}, sparkConf={"spark.sql.session.timeZone": "UTC"}
    )
    put_off = jobs.wait(
        NAME, lambda status: condition(status, "Reconciling")["reason"] == "UpgradePutOff", what="upgrade put off"
    )
    assert condition(put_off, "Ready")["status"] == "False"
    assert condition(put_off, "Running")["status"] == "True"
    assert put_off["lifecycleState"] == "STABLE"
    jobs.wait_for_events(NAME, "SavepointError")
    jobs.namespace.write(visits(20, 30))
    later = jobs.wait_for_checkpoint(NAME, last_checkpoint(put_off) + 1)
    assert later["reconciliation"]["lastReconciledRevision"] == before["reconciliation"]["lastReconciledRevision"]
    assert later["jobStatus"]["restarts"] == 0
    assert jobs.drivers(NAME) == drivers

    kept = f"{jobs.namespace.location}/kept"
    jobs.change(NAME, savepoints={"location": kept})
    after = jobs.wait_until_ready(NAME)
    assert after["jobStatus"]["attempt"] == 2
    assert after["restoredFrom"]["path"].startswith(f"{kept}/")
    assert jobs.events(NAME, "LastStateFallback") == []
    jobs.namespace.write(visits(30, 40))
    jobs.wait_for_whole_report(NAME, 40)
