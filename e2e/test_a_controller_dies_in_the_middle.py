"""The controller is killed while it upgrades a job: the next one brings it to the end that was decided on."""

from __future__ import annotations

import pytest
from e2e.harness.controller import ControllerProcess, StreamJobs
from e2e.harness.visits import visits

pytestmark = pytest.mark.timeout(900)

NAME = "visits"


def test_a_job_whose_controller_dies_goes_on_and_is_upgraded_by_the_next_one(
    jobs: StreamJobs, controller: ControllerProcess
) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    before = jobs.wait_for_state(NAME, "STABLE")

    jobs.change(NAME, sparkConf={"spark.sql.session.timeZone": "UTC"})
    jobs.wait_for_state(NAME, "UPGRADING", "DEPLOYING")
    controller.kill()
    jobs.namespace.write(visits(20, 40))
    controller.start_again()
    after = jobs.wait_for_state(NAME, "STABLE")

    assert after["reconciliation"]["lastReconciledRevision"] != before["reconciliation"]["lastReconciledRevision"]
    assert after["restoredFrom"]["kind"] == "savepoint"
    assert after["jobStatus"]["attempt"] == 2
    assert len(jobs.drivers(NAME)) == 1
    jobs.wait_for_whole_report(NAME, 40)
