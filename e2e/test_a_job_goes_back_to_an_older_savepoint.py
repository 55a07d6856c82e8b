"""A user restarts a job from an older savepoint: everything after it is computed again."""

from __future__ import annotations

import pytest
from e2e.harness.controller import StreamJobs
from e2e.harness.visits import expected, last_visit, visits, visits_job

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"


def test_a_job_goes_back_to_a_savepoint_once_for_each_nonce_and_its_new_output_is_exact(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    jobs.wait_for_state(NAME, "STABLE")
    older = jobs.snapshot("older", NAME)
    jobs.namespace.write(visits(20, 40))
    jobs.wait_for_whole_report(NAME, 40)

    # By itself the path is for a first deployment.
    jobs.change(NAME, initialSavepointPath=older["path"])
    before = jobs.wait_until_ready(NAME)
    assert before["jobStatus"]["attempt"] == 1

    # Into another place: what was published since the savepoint is published again.
    jobs.change(NAME, savepointRedeployNonce=1, job=visits_job("again", bounded=False))
    forked = jobs.wait_until_ready(NAME)
    assert forked["restoredFrom"]["path"] == older["path"]
    assert forked["jobStatus"]["attempt"] == 2
    jobs.wait_for_report("again", expected(40))
    assert jobs.report(NAME) == expected(40)

    # The fork's own state counts from there on.
    jobs.change(NAME, sparkConf={"spark.sql.session.timeZone": "UTC"})
    upgraded = jobs.wait_until_ready(NAME)
    assert upgraded["restoredFrom"]["id"] > forked["restoredFrom"]["id"]
    assert upgraded["restoredFrom"]["kind"] == "savepoint"
    assert jobs.report("again") == expected(40)


def test_a_new_job_starts_from_the_savepoint_that_its_spec_names(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply("first", savepoints={"location": f"{jobs.namespace.location}/kept", "onDeletion": True})
    jobs.wait_for_state("first", "STABLE")
    jobs.change("first", suspend=True)
    path = jobs.wait_for_state("first", "SUSPENDED")["savepoint"]["lastCompleted"]["path"]

    jobs.namespace.write(visits(20, 40))
    jobs.namespace.write(last_visit())
    jobs.apply("second", initialSavepointPath=path)
    restored = jobs.wait_for_state("second", "STABLE")
    assert restored["restoredFrom"]["path"] == path
    jobs.wait_for_report("second", expected(40))
    assert jobs.report("first") == {}
