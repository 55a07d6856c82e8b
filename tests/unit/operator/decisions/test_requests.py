"""StreamSnapshots that the controller makes, and which it keeps."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.operator.decisions.user import User

from streamjob_operator.decisions import decide
from streamjob_operator.decisions.values.actions import CreateSnapshot, DeleteSnapshot
from streamjob_operator.decisions.values.observation import KnownSnapshot, Observation, SnapshotOrigin
from streamjob_operator.resources.snapshot import SnapshotState
from streamjob_operator.resources.status import LifecycleState


def test_a_changed_nonce_takes_one_snapshot_and_another_number_another_one() -> None:
    user = User.with_stable_job(savepointTriggerNonce=1)
    user.look(10)
    assert not user.world.snapshots

    user.edit(savepointTriggerNonce=2)
    user.look(10)
    user.edit(savepointTriggerNonce=1)
    user.look(10)
    user.edit(checkpointTriggerNonce=1)
    user.look(10)

    kinds = [(each.kind, each.origin) for each in user.world.snapshots.values()]
    assert kinds == [("savepoint", "nonce"), ("savepoint", "nonce"), ("checkpoint", "nonce")]
    assert len({each.name for each in user.did(CreateSnapshot)}) == 3


def test_a_nonce_that_changes_while_the_job_rests_counts_when_it_runs_again() -> None:
    user = User.with_stable_job()
    user.edit(suspend=True)
    user.wait_for(LifecycleState.SUSPENDED)

    user.edit(savepointTriggerNonce=1)
    user.look(10)
    assert [each.origin for each in user.world.snapshots.values()] == ["suspend"]

    user.edit(suspend=False)
    user.wait(lambda: [each.origin for each in user.world.snapshots.values()] == ["suspend", "nonce"])


def test_a_schedule_takes_a_savepoint_each_time_it_is_due() -> None:
    user = User.with_stable_job(savepoints={"schedule": "1m"})

    user.look(200)

    assert [each.origin for each in user.world.snapshots.values()] == ["schedule"] * 3


def test_times_that_were_missed_are_not_made_up_for() -> None:
    user = User.with_stable_job(savepoints={"schedule": "1m"})
    user.look(5)
    user.world.tick(600)

    user.look(10)

    assert len(user.world.snapshots) == 1


def snapshot(
    number: int, state: SnapshotState = SnapshotState.COMPLETED, origin: SnapshotOrigin = "schedule"
) -> KnownSnapshot:
    return KnownSnapshot(
        name=f"s{number}",
        kind="savepoint",
        origin=origin,
        created=1000.0 + number,
        completed=1000.0 + number if state is SnapshotState.COMPLETED else None,
        state=state,
        path=f"s3://bucket/savepoints/s{number}/manifest.json" if state is SnapshotState.COMPLETED else None,
    )


def deleted(user: User, *snapshots: KnownSnapshot, now: float | None = None) -> list[str]:
    """Return the names of the snapshots that are deleted if these are there."""
    stored = user.world.stored
    seen: Observation = replace(user.world.observe(stored), snapshots=snapshots)
    seen = replace(seen, now=seen.now if now is None else now)
    actions = decide(user.world.resource(stored), seen).actions
    return sorted(action.name for action in actions if isinstance(action, DeleteSnapshot))


def test_only_so_many_snapshots_are_kept() -> None:
    user = User.with_stable_job(savepoints={"retention": {"maxCount": 2}})

    assert deleted(user, *(snapshot(number) for number in range(4))) == ["s0", "s1"]


def test_snapshots_that_are_too_old_are_deleted_but_the_newest_never_is() -> None:
    user = User.with_stable_job(savepoints={"retention": {"maxAge": "1m"}})

    assert deleted(user, snapshot(0), snapshot(1), now=1_000_000) == ["s0"]


def test_a_snapshot_under_way_or_of_a_user_is_never_deleted() -> None:
    """FLINK-40384: a cleanup deleted snapshots in progress."""
    user = User.with_stable_job(savepoints={"retention": {"maxCount": 1}})
    kept = [
        snapshot(0, SnapshotState.PENDING),
        snapshot(1, SnapshotState.IN_PROGRESS),
        snapshot(2, origin="manual"),
        snapshot(3),
    ]

    assert deleted(user, *kept) == []


def test_a_snapshot_that_is_being_deleted_is_not_deleted_again() -> None:
    user = User.with_stable_job(savepoints={"retention": {"maxCount": 1}})

    assert deleted(user, replace(snapshot(0), deleting=True), snapshot(1)) == []


def test_the_schedule_waits_for_the_savepoint_before() -> None:
    user = User.with_stable_job(savepoints={"schedule": "1m"})
    user.look(70)
    (first,) = user.world.snapshots
    user.world.snapshots[first] = replace(user.world.snapshots[first], state=SnapshotState.IN_PROGRESS)

    user.look(150)
    assert list(user.world.snapshots) == [first]

    user.world.snapshots[first] = replace(user.world.snapshots[first], state=SnapshotState.COMPLETED)
    user.wait(lambda: len(user.world.snapshots) == 2)


def test_the_snapshot_that_the_next_driver_starts_from_is_not_deleted() -> None:
    """FLINK-38033: an upgrade savepoint was disposed of."""
    user = User.with_stable_job(savepoints={"retention": {"maxCount": 1}})
    needed = replace(snapshot(0), path=user.newest)

    assert deleted(user, needed, snapshot(1), snapshot(2)) == ["s1"]


def test_retention_also_works_while_no_job_runs() -> None:
    user = User.with_stable_job(savepoints={"retention": {"maxCount": 1}})
    user.edit(suspend=True)
    user.wait_for(LifecycleState.SUSPENDED)
    user.wait(lambda: not user.world.pods)

    assert deleted(user, snapshot(0), snapshot(1)) == ["s0"]


def test_the_snapshot_that_a_redeployed_job_starts_from_is_kept_until_it_completed_something() -> None:
    user = User.with_stable_job(savepoints={"retention": {"maxCount": 1}})
    source = snapshot(0)
    user.edit(initialSavepointPath=source.path, savepointRedeployNonce=1, checkpointing={"interval": "30s"})
    user.wait(lambda: user.world.starts[-1].restore_from == source.path and user.state is LifecycleState.DEPLOYED)
    assert deleted(user, source, snapshot(1)) == []

    user.wait_for(LifecycleState.STABLE)

    assert deleted(user, source, snapshot(1)) == ["s0"]
