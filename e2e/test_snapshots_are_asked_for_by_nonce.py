"""A user changes a nonce: one snapshot is taken for it, however often it is reconciled."""

from __future__ import annotations

import pytest
from e2e.harness.controller import ControllerProcess, StreamJobs, last_checkpoint
from e2e.harness.snapshots import path_of, snapshots_of, wait_for_completed
from e2e.harness.visits import visits

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"


def test_a_changed_nonce_takes_one_snapshot_and_a_restarted_controller_takes_no_other(
    jobs: StreamJobs, controller: ControllerProcess
) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(
        NAME,
        savepointTriggerNonce=7,
        savepoints={"location": f"{jobs.namespace.location}/kept"},
        checkpointing={"location": jobs.namespace.location, "interval": "1h"},
    )
    first = jobs.wait(NAME, lambda status: status["lifecycleState"] in ("DEPLOYED", "STABLE"), what="running job")
    driver = jobs.drivers(NAME)

    jobs.change(NAME, checkpointTriggerNonce=1)
    (checkpoint,) = wait_for_completed(jobs, NAME, 1, "nonce")
    assert checkpoint["spec"].get("checkpoint") is not None
    after_checkpoint = jobs.wait_for_state(NAME, "STABLE")
    assert after_checkpoint["checkpoint"]["lastCompleted"]["path"] == path_of(checkpoint)
    assert after_checkpoint["checkpoint"]["lastCompleted"]["kind"] == "checkpoint"
    assert last_checkpoint(after_checkpoint) == last_checkpoint(first) + 1

    jobs.change(NAME, savepointTriggerNonce=8)
    _, savepoint = sorted(wait_for_completed(jobs, NAME, 2, "nonce"), key=lambda each: int(each["status"]["id"]))
    assert path_of(savepoint).startswith(f"{jobs.namespace.location}/kept/")
    told = jobs.wait(
        NAME,
        lambda status: (status["savepoint"].get("lastCompleted") or {}).get("path") == path_of(savepoint),
        what="savepoint in its status",
    )
    assert told["savepoint"]["lastCompleted"]["snapshot"] == savepoint["metadata"]["name"]
    assert last_checkpoint(told) == last_checkpoint(after_checkpoint) + 1
    assert jobs.is_stored(path_of(savepoint))

    controller.kill()
    jobs.namespace.write(visits(20, 40))
    controller.start_again()
    jobs.change(NAME, checkpointTriggerNonce=2)
    wait_for_completed(jobs, NAME, 3, "nonce")

    assert jobs.drivers(NAME) == driver
    jobs.change(NAME, checkpointing={"location": jobs.namespace.location, "interval": "1s"})
    jobs.wait_for_whole_report(NAME, 40)
    assert len(snapshots_of(jobs, NAME)) == 3
