"""A user takes a savepoint, deletes the job, and starts another one from it."""

from __future__ import annotations

import pytest
from e2e.harness.cluster import Object
from e2e.harness.controller import StreamJobs, condition
from e2e.harness.visits import expected, last_visit, visits

pytestmark = pytest.mark.timeout(900)


def test_a_job_of_another_name_goes_on_from_the_savepoint_of_a_deleted_one(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply("first", deletionPolicy="Delete")
    jobs.wait_for_state("first", "STABLE")
    taken = jobs.snapshot("keep", "first", disposeOnDelete=True)
    jobs.namespace.delete("StreamJob", "first")
    jobs.namespace.wait_gone("StreamJob", "first")

    jobs.namespace.write(visits(20, 40))
    jobs.namespace.write(last_visit())
    jobs.apply("second", initialSnapshotRef={"name": "keep"})
    restored = jobs.wait_for_state("second", "STABLE")

    assert restored["restoredFrom"]["path"] == taken["path"]
    jobs.wait_for_report("second", expected(40))

    jobs.namespace.delete("StreamSnapshot", "keep")
    claimed = jobs.namespace.wait(
        "StreamSnapshot",
        "keep",
        lambda thing: condition(thing["status"], "Ready")["reason"] == "SavepointClaimed",
        what="SavepointClaimed",
    )
    assert f"{jobs.namespace.name}/second" in condition(claimed["status"], "Ready")["message"]
    assert jobs.is_stored(taken["path"])
    jobs.change("second", deletionPolicy="Delete")
    jobs.namespace.delete("StreamJob", "second")
    jobs.namespace.wait_gone("StreamJob", "second")
    jobs.namespace.wait_gone("StreamSnapshot", "keep")
    assert not jobs.is_stored(taken["path"])
    jobs.namespace.cluster.delete(jobs.namespace.where)
    jobs.namespace.cluster.wait(jobs.namespace.where, lambda thing: thing is None, within=120, what="end of it")


def test_a_savepoint_that_is_disposed_of_goes_with_its_resource(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 3))
    jobs.apply("visits")
    jobs.wait_for_state("visits", "STABLE")
    taken: Object = jobs.snapshot("throw-away", "visits", disposeOnDelete=True)
    assert jobs.is_stored(taken["path"])

    # A later checkpoint takes its place as what the job restarts from.
    jobs.wait_for_checkpoint("visits", taken["id"] + 1)
    jobs.namespace.delete("StreamSnapshot", "throw-away")
    jobs.namespace.wait_gone("StreamSnapshot", "throw-away")

    assert not jobs.is_stored(taken["path"])
