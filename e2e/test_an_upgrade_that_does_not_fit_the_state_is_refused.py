"""Somebody renames an operator with state: there is no place for that state, and the job runs on until there is one."""

from __future__ import annotations

from typing import Any

import pytest
from e2e.harness.cluster import Object
from e2e.harness.controller import StreamJobs, condition, expected, last_checkpoint, last_visit, visits, visits_job
from e2e.harness.lifecycle import wait_until_ready

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"


def renamed_job(**uid: Any) -> Object:
    """Return the job with another name of its operator."""
    job = visits_job(NAME, bounded=False)
    (counts,), (report,) = job["operators"], job["sinks"]
    return {**job, "operators": [{**counts, "name": "totals", **uid}], "sinks": [{**report, "input": "totals"}]}


def test_a_job_runs_on_untouched_until_its_new_spec_has_a_place_for_its_state(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    before = jobs.wait_for_state(NAME, "STABLE")
    drivers = jobs.drivers(NAME)

    jobs.change(NAME, job=renamed_job())
    refused = jobs.wait(NAME, lambda status: condition(status, "StateCompatible")["status"] == "False", what="refusal")
    assert "counts" in condition(refused, "StateCompatible")["message"]
    assert condition(refused, "StateCompatible")["reason"] == "Incompatible"
    stalled, ready = condition(refused, "Stalled"), condition(refused, "Ready")
    assert (stalled["status"], stalled["reason"]) == ("True", "StateIncompatible")
    assert (ready["status"], ready["reason"]) == ("False", "StateIncompatible")
    assert condition(refused, "Running")["status"] == "True"

    jobs.namespace.write(visits(20, 30))
    later = jobs.wait(NAME, lambda status: last_checkpoint(status) > last_checkpoint(refused), what="checkpoint")
    assert later["reconciliation"]["lastReconciledRevision"] == before["reconciliation"]["lastReconciledRevision"]
    assert later["jobStatus"]["attempt"] == 1
    assert jobs.drivers(NAME) == drivers

    jobs.change(NAME, job=renamed_job(uid="counts"))
    after = wait_until_ready(jobs, NAME)
    assert after["jobStatus"]["attempt"] == 2
    assert after["restoredFrom"]["kind"] == "savepoint"
    assert condition(after, "StateCompatible")["status"] == "True"
    assert condition(after, "Stalled")["status"] == "False"
    jobs.namespace.write(visits(30, 40))
    jobs.namespace.write(last_visit())
    jobs.wait_for_report(NAME, expected(40))
