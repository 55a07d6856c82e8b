"""A user applies a StreamJob over bounded input: it runs, its checkpoints show, and it finishes with exact output."""

from __future__ import annotations

import pytest
from e2e.harness.controller import StreamJobs, condition, last_checkpoint
from e2e.harness.visits import expected, visits

pytestmark = pytest.mark.timeout(900)

NAME = "visits"
SECONDS = 40


def test_a_job_that_is_applied_runs_shows_its_checkpoints_and_finishes(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, SECONDS))
    jobs.apply(NAME, bounded=True)

    running = jobs.wait_for_checkpoint(NAME)
    assert running["jobStatus"]["attempt"] == 1
    assert running["checkpoint"]["lastCompleted"]["path"].startswith(jobs.namespace.location)

    finished = jobs.wait_for_state(NAME, "FINISHED")
    assert condition(finished, "Ready")["status"] == "True"
    assert condition(finished, "Running")["status"] == "False"
    assert jobs.report(NAME) == expected(SECONDS)


def test_a_spec_that_is_wrong_is_told_and_starts_nothing(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 3))
    jobs.apply(NAME)
    jobs.wait(NAME, last_checkpoint, what="first checkpoint")
    before = jobs.drivers(NAME)

    jobs.change(NAME, job={"sinks": [{"name": "report", "input": "nobody", "format": "console"}]})
    stalled = jobs.wait(NAME, lambda status: condition(status, "Stalled")["status"] == "True", what="Stalled")

    assert "nobody" in condition(stalled, "Stalled")["message"]
    assert condition(stalled, "Running")["status"] == "True"
    assert jobs.drivers(NAME) == before
