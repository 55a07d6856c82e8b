"""A StreamJob is deleted without its driver, which runs on alone; applied again, it takes the driver over as it is."""

from __future__ import annotations

import pytest
from e2e.harness.cluster import Object
from e2e.harness.controller import StreamJobs, condition, last_checkpoint
from e2e.harness.reading import wait_until_read
from e2e.harness.visits import expected, last_visit, visits

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"


def the_driver(jobs: StreamJobs) -> Object:
    """Return the only driver's pod."""
    (name,) = jobs.drivers(NAME)
    pod = jobs.namespace.get("Pod", name)
    assert pod is not None
    return pod


def test_a_driver_that_is_orphaned_publishes_on_and_is_taken_over(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    before = jobs.wait_until_ready(NAME)
    started = the_driver(jobs)["metadata"]
    wait_until_read(jobs, NAME, 20)

    jobs.namespace.delete("StreamJob", NAME, cascade="orphan")
    jobs.namespace.wait_gone("StreamJob", NAME)
    # The visits of minutes later close the windows of the first ones.
    jobs.namespace.write(visits(300, 320))
    jobs.wait_for_report(NAME, expected(20))
    jobs.wait_for_stored_checkpoint(NAME, later_than=jobs.log(NAME).last_id)
    alone = the_driver(jobs)["metadata"]
    assert (alone["uid"], alone.get("ownerReferences")) == (started["uid"], None)

    jobs.apply(NAME)
    after = jobs.wait_until_ready(NAME)

    owner = jobs.namespace.get("StreamJob", NAME)
    assert owner is not None
    assert owner["metadata"]["uid"] != started["ownerReferences"][0]["uid"]
    pod = the_driver(jobs)
    assert pod["metadata"]["uid"] == started["uid"]
    assert [each["uid"] for each in pod["metadata"]["ownerReferences"]] == [owner["metadata"]["uid"]]
    assert jobs.wait_for_events(NAME, "Adopted") == [
        f"driver {started['name']}, which ran on without its StreamJob, is taken over"
    ]
    # It is the same driver in the same start: nothing was restored.
    same = ("attempt", "epoch", "restarts")
    assert [after["jobStatus"][each] for each in same] == [before["jobStatus"][each] for each in same]
    assert after.get("restoredFrom") == before.get("restoredFrom")
    (revision,) = {each["reconciliation"]["lastReconciledRevision"] for each in (before, after)}
    assert condition(after, "Running")["message"] == condition(before, "Running")["message"]
    assert revision in after["reconciliation"]["lastStableRevision"]
    assert condition(after, "Ready")["message"] == condition(before, "Ready")["message"]

    # And it does what the new StreamJob asks for.
    stopped_at = jobs.snapshot("by-hand", NAME)
    assert last_checkpoint(after) < stopped_at["id"]
    jobs.namespace.write(last_visit())
    jobs.wait_for_report(NAME, expected(20) + expected(320, start=300))
    assert jobs.drivers(NAME) == [started["name"]]
