"""A user deploys an image that does not start: the last stable revision comes back, with its state."""

from __future__ import annotations

import pytest
from e2e.harness.controller import StreamJobs, condition
from e2e.harness.visits import visits

pytestmark = pytest.mark.timeout(900)

NAME = "visits"
IMAGE = "localhost/no-such-image:1"


def test_a_job_whose_new_image_does_not_start_runs_its_last_stable_revision(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    # A preflight would not let it come so far.
    jobs.apply(NAME, upgrade={"preflight": False})
    stable = jobs.wait_for_state(NAME, "STABLE")

    jobs.change(NAME, image=IMAGE)
    back = jobs.wait(
        NAME,
        lambda status: status["lifecycleState"] == "ROLLED_BACK" and condition(status, "Running")["status"] == "True",
        what="running rolled back",
    )

    revision = stable["reconciliation"]["lastStableRevision"]
    assert back["reconciliation"]["lastReconciledRevision"] == revision
    assert condition(back, "RolledBack")["status"] == "True"
    assert IMAGE in condition(back, "RolledBack")["message"]
    assert condition(back, "Ready")["status"] == "False"
    jobs.namespace.write(visits(20, 40))
    jobs.wait_for_whole_report(NAME, 40)
