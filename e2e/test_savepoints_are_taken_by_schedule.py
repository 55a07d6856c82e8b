"""Savepoints come by a schedule, and retention disposes of them: resources and files, whether the job runs or not."""

from __future__ import annotations

import pytest
from e2e.harness.controller import StreamJobs
from e2e.harness.snapshots import name_of, path_of, snapshots_of, wait_for_completed
from e2e.harness.visits import expected, last_visit, visits

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"


def test_scheduled_savepoints_are_kept_by_number_and_those_that_go_take_their_files_along(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME, savepoints={"schedule": "4s", "retention": {"maxCount": 2}})
    jobs.wait_for_state(NAME, "STABLE")
    by_hand = jobs.snapshot("by-hand", NAME)
    (first, *_) = wait_for_completed(jobs, NAME, 2, "schedule")
    assert jobs.is_stored(path_of(first))
    assert first["spec"]["savepoint"].get("disposeOnDelete") is not True

    jobs.namespace.wait_gone("StreamSnapshot", name_of(first))
    assert not jobs.is_stored(path_of(first))

    jobs.change(NAME, savepoints={"schedule": "1h", "retention": {"maxCount": 2}})
    jobs.wait_until_ready(NAME)
    wait_for_completed(jobs, NAME, 2, "schedule")
    jobs.change(NAME, suspend=True)
    jobs.wait_for_state(NAME, "SUSPENDED")
    # The savepoint of the suspension counts among them.
    before = wait_for_completed(jobs, NAME, 3)
    jobs.change(NAME, savepoints={"schedule": "1h", "retention": {"maxCount": 1}})
    left = wait_for_completed(jobs, NAME, 2)
    (newest,) = snapshots_of(jobs, NAME, "suspend")
    assert {path_of(each) for each in left} == {by_hand["path"], path_of(newest)}
    for each in before:
        assert jobs.is_stored(path_of(each)) is (name_of(each) in ("by-hand", name_of(newest)))

    jobs.namespace.write(visits(20, 40))
    jobs.namespace.write(last_visit())
    jobs.change(NAME, suspend=False)
    jobs.wait_for_report(NAME, expected(40))


def test_a_schedule_by_cron_is_followed_and_savepoints_are_kept_by_age(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 3))
    jobs.apply(NAME, savepoints={"schedule": "* * * * *"}, savepointTriggerNonce=1)
    jobs.wait_for_state(NAME, "STABLE")
    jobs.change(NAME, savepointTriggerNonce=2)
    (asked,) = wait_for_completed(jobs, NAME, 1, "nonce")

    (scheduled,) = wait_for_completed(jobs, NAME, 1, "schedule")
    assert jobs.status(NAME)["savepoint"]["lastScheduled"] <= scheduled["metadata"]["creationTimestamp"]

    jobs.change(NAME, savepoints={"schedule": "1h", "retention": {"maxAge": "1s"}})
    older, newer = sorted((asked, scheduled), key=lambda each: (each["status"]["resultTimestamp"], name_of(each)))
    jobs.namespace.wait_gone("StreamSnapshot", name_of(older))
    assert not jobs.is_stored(path_of(older))
    assert jobs.is_stored(path_of(newer))
    assert [name_of(each) for each in snapshots_of(jobs, NAME)] == [name_of(newer)]
