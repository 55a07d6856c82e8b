"""A user renames an operator with state: no operator takes over that state, and the job runs on until one does."""

from __future__ import annotations

from typing import Any

import pytest
from e2e.harness.cluster import Object
from e2e.harness.controller import StreamJobs, condition, last_checkpoint
from e2e.harness.reading import wait_until_read
from e2e.harness.visits import visits, visits_job

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
    # A checkpoint from before the first batch has no state that could be in the way.
    wait_until_read(jobs, NAME, 20)
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
    later = jobs.wait_for_checkpoint(NAME, last_checkpoint(refused) + 1)
    assert later["reconciliation"]["lastReconciledRevision"] == before["reconciliation"]["lastReconciledRevision"]
    assert later["jobStatus"]["attempt"] == 1
    assert jobs.drivers(NAME) == drivers

    jobs.change(NAME, job=renamed_job(uid="counts"))
    after = jobs.wait_until_ready(NAME)
    assert after["jobStatus"]["attempt"] == 2
    assert after["restoredFrom"]["kind"] == "savepoint"
    assert condition(after, "StateCompatible")["status"] == "True"
    assert condition(after, "Stalled")["status"] == "False"
    jobs.namespace.write(visits(30, 40))
    jobs.wait_for_whole_report(NAME, 40)
