"""StreamSnapshots of the savepoints that upgrades, suspensions and deletions take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.operator.world import Mishap
from tests.unit.operator.decisions.user import User

from streamjob.client.models import RestoredFromView, SnapshotKind
from streamjob_operator.decisions import decide
from streamjob_operator.decisions.values.actions import CreateSnapshot, DeleteSnapshot, RemoveFinalizer
from streamjob_operator.decisions.values.observation import KnownSnapshot, Observation, StoredLog
from streamjob_operator.resources.snapshot import SnapshotState
from streamjob_operator.resources.status import LifecycleState


def recorded(user: User) -> list[tuple[str, str | None]]:
    """Return the origins and paths of the StreamSnapshots for savepoints of stops."""
    return [(each.origin, each.path) for each in user.world.snapshots.values()]


def savepoints(user: User) -> list[str]:
    return [each.path for each in user.world.log.completions if each.kind.value == "savepoint"]


@pytest.mark.parametrize("change", [{"image": "two"}, {"parallelism": 3}], ids=["upgrade", "rescale"])
def test_the_savepoint_of_an_upgrade_gets_a_snapshot_that_the_status_names(change: dict[str, Any]) -> None:
    user = User.with_stable_job()
    user.edit(**change)
    user.wait(lambda: user.attempt == 2)
    user.wait_for(LifecycleState.STABLE)

    (path,) = savepoints(user)
    assert recorded(user) == [("upgrade", path)]
    (name,) = user.world.snapshots
    reference = user.status.savepoint.upgrade_snapshot_reference
    assert reference is not None
    assert (reference.name, reference.path) == (name, path)
    assert user.status.reconciliation.recordings == ()


def test_the_savepoint_of_a_suspension_gets_a_snapshot_while_the_job_rests() -> None:
    user = User.with_stable_job()
    user.edit(suspend=True)
    user.wait_for(LifecycleState.SUSPENDED)
    user.look(2)

    assert recorded(user) == [("suspend", path) for path in savepoints(user)]


def test_a_savepoint_on_deletion_has_its_snapshot_before_the_job_is_let_go() -> None:
    user = User.with_stable_job(savepoints={"onDeletion": True})
    user.world.delete()
    user.wait(lambda: user.world.gone)

    assert recorded(user) == [("delete", path) for path in savepoints(user)]
    order = [type(each) for each in user.world.actions if isinstance(each, CreateSnapshot | RemoveFinalizer)]
    assert order == [CreateSnapshot, RemoveFinalizer]


def test_a_deletion_does_not_wait_for_ever_for_a_snapshot_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a namespace that is being deleted nothing can be made."""
    user = User.with_stable_job(savepoints={"onDeletion": True})
    act = user.world._act
    monkeypatch.setattr(user.world, "_act", lambda action: not isinstance(action, CreateSnapshot) and act(action))
    user.world.delete()

    user.wait(lambda: user.world.gone, seconds=200)


@pytest.mark.parametrize("mode", ["last-state", "stateless"])
def test_an_upgrade_without_a_savepoint_makes_no_snapshot(mode: str) -> None:
    user = User.with_stable_job(upgradeMode=mode)
    user.edit(image="two")
    user.wait(lambda: user.attempt == 2)
    user.wait_for(LifecycleState.STABLE)

    assert recorded(user) == []
    assert user.status.savepoint.upgrade_snapshot_reference is None


def test_a_savepoint_that_failed_is_not_recorded() -> None:
    user = User.with_stable_job(job={"behaviour": "stubborn"})
    user.edit(image="two")
    user.look(100)

    assert recorded(user) == []


@pytest.mark.parametrize("dies_at", [0, 1, 2, 3])
def test_a_controller_that_dies_between_any_two_writes_neither_loses_nor_doubles_a_record(dies_at: int) -> None:
    user = User.with_stable_job()
    user.edit(image="two")
    for _ in range(200):
        user.world.reconcile(Mishap(dies_at=dies_at))
        user.world.reconcile()
        user.world.tick()

    assert recorded(user) == [("upgrade", path) for path in savepoints(user)]
    assert len(recorded(user)) == 1


def test_a_store_that_is_away_at_the_end_of_a_stop_delays_the_record_only() -> None:
    user = User.with_stable_job()
    user.edit(image="two")
    user.wait(lambda: user.state is LifecycleState.UPGRADING)
    user.world.store_up = False
    user.wait(lambda: user.attempt == 2)
    (pending,) = user.status.reconciliation.recordings
    assert pending.path is None
    user.world.store_up = True
    user.look(3)

    assert recorded(user) == [("upgrade", path) for path in savepoints(user)]


def without_log(user: User, **changes: Any) -> Observation:
    """Return what is seen where only drivers can read the log."""
    return replace(user.world.observe(user.world.stored), log=StoredLog(attempt=2, remembered=True), **changes)


@pytest.mark.parametrize(("kind", "records"), [(SnapshotKind.SAVEPOINT, 1), (SnapshotKind.CHECKPOINT, 0)])
def test_where_only_drivers_read_the_log_the_next_one_tells_of_the_savepoint(kind: SnapshotKind, records: int) -> None:
    user = User.with_stable_job()
    user.edit(image="two")
    user.wait(lambda: user.state is LifecycleState.UPGRADING)
    user.world.store_up = False
    user.wait(lambda: user.attempt == 2)
    for _ in range(20):
        job = user.world.observe(user.world.stored).job
        source = RestoredFromView(id=savepoint_id(user), kind=kind, path=savepoints(user)[0])
        told = None if job is None else job.model_copy(update={"restored_from": source})
        decision = decide(user.world.resource(user.world.stored), without_log(user, job=told))
        user.world._write(replace(user.world.stored, status=decision.status.to_dict()))
        for action in decision.actions:
            user.world._act(action)
        user.world.tick()

    assert len(recorded(user)) == records
    assert user.status.reconciliation.recordings == ()


def savepoint_id(user: User) -> Any:
    return next(each.id for each in user.world.log.completions if each.kind.value == "savepoint")


def test_the_snapshot_that_a_new_attempt_starts_from_outlives_retention_until_something_newer_is_complete() -> None:
    user = User.with_stable_job(savepoints={"retention": {"maxCount": 1}}, healthCheck={"enabled": False})
    user.edit(job={"behaviour": "hang"})
    user.wait(lambda: user.attempt == 2)
    user.wait_for(LifecycleState.DEPLOYED)
    (only,) = user.world.snapshots.values()
    assert only.path == user.newest
    user.world.snapshots["newer"] = replace(only, name="newer", path="s3://x/manifest.json", completed=2e9)
    user.look(10)
    assert only.name in user.world.snapshots

    user.world.processes[-1].behaviour = "good"
    user.wait(lambda: only.name not in user.world.snapshots)

    assert [each.name for each in user.did(DeleteSnapshot)] == [only.name]


def test_files_that_another_snapshot_stands_for_are_not_disposed_of() -> None:
    user = User.with_stable_job(savepoints={"retention": {"maxCount": 1}})
    old = KnownSnapshot(
        name="old", kind="savepoint", origin="upgrade", created=1, completed=1,
        state=SnapshotState.COMPLETED, path="s3://bucket/old/manifest.json",
    )  # fmt: skip
    newer = replace(old, name="newer", completed=2, path="s3://bucket/newer/manifest.json")
    own = replace(old, name="own", origin="manual")
    for each in (old, newer, own):
        user.world.snapshots[each.name] = each

    user.look(3)
    assert set(user.world.snapshots) == {"old", "newer", "own"}

    del user.world.snapshots["own"]
    user.look(3)
    assert set(user.world.snapshots) == {"newer"}
