"""A driver dies without a word: the next one continues from the last checkpoint, and the output does not show it."""

from __future__ import annotations

import pytest
from e2e.harness.controller import StreamJobs, last_checkpoint
from e2e.harness.visits import visits

pytestmark = pytest.mark.timeout(900)

NAME = "visits"


def test_a_job_whose_driver_is_killed_goes_on_and_its_output_is_exact(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME, restartPolicy={"onFailureRetryInterval": "1s"})
    before = jobs.wait_for_checkpoint(NAME)

    (driver,) = jobs.drivers(NAME)
    jobs.namespace.delete("Pod", driver, grace=0)
    jobs.namespace.write(visits(20, 40))
    after = jobs.wait(
        NAME,
        lambda status: status["checkpoint"]["lastCompleted"]["attempt"] > before["jobStatus"]["attempt"],
        what="checkpoint of the next driver",
    )

    assert after["jobStatus"]["epoch"] > before["jobStatus"]["epoch"]
    assert after["jobStatus"]["restarts"] >= 1
    assert after["restoredFrom"]["id"] >= last_checkpoint(before)
    jobs.wait_for_whole_report(NAME, 40)
