"""Savepoints come by a schedule, and retention disposes of them: resources and files, whether the job runs or not."""

from __future__ import annotations

import pytest
from e2e.harness.controller import StreamJobs, expected, last_visit, visits
from e2e.harness.snapshots import is_completed, path_of, snapshots_of, wait_for_completed

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

    jobs.namespace.wait_gone("StreamSnapshot", first["metadata"]["name"])
    assert not jobs.is_stored(path_of(first))

    jobs.change(NAME, suspend=True)
    jobs.wait_for_state(NAME, "SUSPENDED")
    kept = [each for each in snapshots_of(jobs, NAME, "schedule") if is_completed(each)]
    jobs.change(NAME, savepoints={"schedule": "4s", "retention": {"maxCount": 1}})
    (oldest, *_) = kept
    assert len(kept) == 2
    jobs.namespace.wait_gone("StreamSnapshot", oldest["metadata"]["name"])
    assert not jobs.is_stored(path_of(oldest))
    assert len(snapshots_of(jobs, NAME, "schedule")) <= 1
    assert jobs.is_stored(by_hand["path"])

    jobs.namespace.write(visits(20, 40))
    jobs.namespace.write(last_visit())
    jobs.change(NAME, suspend=False, savepoints={"schedule": "1h"})
    jobs.wait_for_report(NAME, expected(40))


def test_a_schedule_by_cron_is_followed_and_savepoints_are_kept_by_age(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 3))
    jobs.apply(NAME, savepoints={"schedule": "* * * * *"}, savepointTriggerNonce=1)
    jobs.wait_for_state(NAME, "STABLE")
    jobs.change(NAME, savepointTriggerNonce=2)
    (asked,) = wait_for_completed(jobs, NAME, 1, "nonce")

    (scheduled,) = wait_for_completed(jobs, NAME, 1, "schedule")
    status = jobs.status(NAME)
    assert status["savepoint"]["lastScheduled"] == scheduled["metadata"]["creationTimestamp"] or is_completed(scheduled)

    jobs.change(NAME, savepoints={"schedule": "1h", "retention": {"maxAge": "1s"}})
    jobs.namespace.wait_gone("StreamSnapshot", asked["metadata"]["name"])
    assert not jobs.is_stored(path_of(asked))
    assert jobs.is_stored(path_of(scheduled))
    assert len(snapshots_of(jobs, NAME, "schedule")) == 1
