"""Which savepoint a status names as the newest, which as the one to come, and which as the job's beginning."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.operator.decisions.user import User

from streamjob.client.models import RestoredFromView, SnapshotKind
from streamjob.ids import CheckpointId
from streamjob.protocol.lifecycle import JobState
from streamjob_operator.decisions import decide
from streamjob_operator.decisions.values.observation import KnownSnapshot
from streamjob_operator.resources.snapshot import SnapshotState
from streamjob_operator.resources.status import LifecycleState, SavepointStatus, TriggerPurpose

ASKED_FOR = KnownSnapshot(name="by-hand", kind="savepoint", created=1000.0)


def savepoints(user: User, *snapshots: KnownSnapshot) -> SavepointStatus:
    """Return what the status says of savepoints if these StreamSnapshots are there."""
    stored = user.world.stored
    seen = replace(user.world.observe(stored), snapshots=snapshots)
    return decide(user.world.resource(stored), seen).status.savepoint


def test_the_savepoint_of_a_suspension_is_pending_until_the_job_rests_on_it() -> None:
    user = User.with_stable_job()
    user.edit(suspend=True)
    user.wait_for(LifecycleState.SUSPENDING)

    pending = user.status.savepoint.pending
    assert pending is not None
    assert pending.purpose is TriggerPurpose.SUSPEND

    user.wait_for(LifecycleState.SUSPENDED)
    user.look()
    assert user.status.savepoint.pending is None
    assert user.status.savepoint.last_completed is not None
    assert user.status.savepoint.last_completed.path == user.newest


def test_a_stop_without_a_savepoint_leaves_none_pending() -> None:
    user = User.with_stable_job(upgradeMode="last-state")
    user.edit(suspend=True)
    user.wait_for(LifecycleState.SUSPENDING)

    assert user.status.savepoint.pending is None


def test_the_oldest_snapshot_that_is_not_taken_yet_is_pending() -> None:
    user = User.with_stable_job()
    younger = replace(ASKED_FOR, name="younger", created=1001.0, origin="schedule")
    done = replace(ASKED_FOR, name="done", created=999.0, state=SnapshotState.COMPLETED)
    going = replace(ASKED_FOR, name="going", created=998.0, deleting=True)

    pending = savepoints(user, younger, ASKED_FOR, done, going).pending
    assert pending is not None
    assert (pending.snapshot, pending.purpose) == ("by-hand", None)

    scheduled = savepoints(user, younger).pending
    assert scheduled is not None
    assert scheduled.purpose is TriggerPurpose.SCHEDULE


def test_a_checkpoint_on_demand_is_no_pending_savepoint() -> None:
    user = User.with_stable_job()

    assert savepoints(user, replace(ASKED_FOR, kind="checkpoint")).pending is None


def test_the_newest_savepoint_bears_the_name_of_its_snapshot() -> None:
    user = User.with_stable_job()
    user.edit(suspend=True)
    user.wait_for(LifecycleState.SUSPENDED)
    user.look()

    taken = replace(ASKED_FOR, state=SnapshotState.COMPLETED, path=user.newest)
    found = savepoints(user, taken).last_completed
    assert found is not None
    assert found.snapshot == "by-hand"


def test_the_newest_savepoint_has_the_size_that_its_snapshot_tells_and_keeps_it() -> None:
    user = User.with_stable_job()
    user.edit(suspend=True)
    user.wait_for(LifecycleState.SUSPENDED)
    user.look()
    taken = replace(ASKED_FOR, state=SnapshotState.COMPLETED, path=user.newest, size=1200)
    stored = user.world.stored
    seen = replace(user.world.observe(stored), snapshots=(taken,))
    first = decide(user.world.resource(stored), seen).status

    later = decide(replace(user.world.resource(stored), status=first), replace(seen, snapshots=())).status

    for status in (first, later):
        assert status.savepoint.last_completed is not None
        assert status.savepoint.last_completed.size_bytes == 1200


@pytest.mark.parametrize(("state", "kept"), [(JobState.RUNNING, False), (JobState.RESTORING, True)])
def test_a_job_that_runs_from_nothing_is_not_said_to_come_from_what_an_earlier_one_came_from(
    state: JobState, kept: bool
) -> None:
    user = User.with_stable_job()
    stored = user.world.stored
    seen = user.world.observe(stored)
    assert seen.job is not None
    source = RestoredFromView(id=CheckpointId(3), kind=SnapshotKind.CHECKPOINT, path="s3://bucket/3/manifest.json")
    told = replace(seen, job=seen.job.model_copy(update={"restored_from": source}))
    resource = user.world.resource(stored)
    restored = decide(resource, told).status
    assert restored.restored_from is not None
    assert restored.restored_from.path == source.path

    later = replace(seen, job=seen.job.model_copy(update={"state": state}))
    found = decide(replace(resource, status=restored), later).status.restored_from

    assert found == (restored.restored_from if kept else None)
