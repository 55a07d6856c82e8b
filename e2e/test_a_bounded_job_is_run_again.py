"""A bounded job has finished, and stays so until its spec asks for other work, as batch jobs of Flink's operator do."""

from __future__ import annotations

from typing import Any

import pytest
from e2e.harness.cluster import Object
from e2e.harness.controller import StreamJobs
from e2e.harness.visits import expected, visits, visits_job

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"


def run_again(jobs: StreamJobs, attempt: int, **spec: Any) -> Object:
    """Change a finished job, and return its status once it has finished again."""
    jobs.change(NAME, **spec)
    return jobs.wait(
        NAME,
        lambda status: status["lifecycleState"] == "FINISHED" and status["jobStatus"]["attempt"] == attempt,
        what=f"end of attempt {attempt}",
    )


def test_a_finished_job_stays_finished_until_its_work_changes(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME, bounded=True, upgradeMode="stateless")
    first = jobs.wait_for_state(NAME, "FINISHED")
    assert first["jobStatus"]["attempt"] == 1
    assert first["checkpoint"]["lastCompleted"]["kind"] == "final"
    assert jobs.report(NAME) == expected(20)

    jobs.namespace.write(visits(20, 30))
    jobs.change(NAME, suspend=False, savepoints={"onDeletion": True}, restartPolicy={"onFailureRetries": 3})
    unchanged = jobs.wait_until_ready(NAME)
    assert unchanged["lifecycleState"] == "FINISHED"
    assert unchanged["jobStatus"]["attempt"] == 1

    # From the beginning, into another place: what there is by now is computed once more.
    again = run_again(jobs, 2, job=visits_job("again", bounded=True))
    assert again["checkpoint"]["lastCompleted"]["id"] > first["checkpoint"]["lastCompleted"]["id"]
    assert again.get("restoredFrom") is None
    assert jobs.report("again") == expected(30)

    # From its end: nothing is left to be done.
    jobs.namespace.write(visits(30, 40))
    ended = run_again(jobs, 3, restartNonce=1, upgradeMode="savepoint")
    assert ended["checkpoint"]["lastCompleted"]["path"] == again["checkpoint"]["lastCompleted"]["path"]
    assert jobs.report("again") == expected(30)
    assert jobs.report(NAME) == expected(20)
