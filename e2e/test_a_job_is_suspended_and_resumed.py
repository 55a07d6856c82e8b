"""A user suspends a job and resumes it later: nothing runs meanwhile, and nothing is lost."""

from __future__ import annotations

import pytest
from e2e.harness.controller import StreamJobs, condition
from e2e.harness.visits import expected, last_visit, visits

pytestmark = pytest.mark.timeout(900)

NAME = "visits"


def test_a_resumed_job_goes_on_where_it_was_suspended(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    jobs.wait_for_state(NAME, "STABLE")

    jobs.change(NAME, suspend=True)
    suspended = jobs.wait_for_state(NAME, "SUSPENDED")
    jobs.wait_until_no_driver(NAME)
    assert condition(suspended, "Ready")["status"] == "True"
    assert suspended["checkpoint"]["lastCompleted"]["kind"] == "savepoint"

    jobs.namespace.write(visits(20, 40))
    jobs.namespace.write(last_visit())
    jobs.change(NAME, suspend=False)
    resumed = jobs.wait_for_state(NAME, "STABLE")

    assert resumed["restoredFrom"]["id"] == suspended["checkpoint"]["lastCompleted"]["id"]
    jobs.wait_for_report(NAME, expected(40))
