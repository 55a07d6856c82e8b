"""The outcomes of StreamSnapshots during a job's life."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.simulation.operator.snapshots import SnapshotWorld
from tests.simulation.operator.world import Mishap
from tests.unit.operator.decisions.user import SPEC, merged

from streamjob_operator.decisions.snapshots import NamedSavepoint, SnapshotDecision, SnapshotSituation, decide_snapshot
from streamjob_operator.decisions.values.actions import Emit
from streamjob_operator.resources.snapshot import SnapshotState, StreamSnapshot
from streamjob_operator.resources.status import LifecycleState

DISPOSED = {"savepoint": {"disposeOnDelete": True}}


def wait(world: SnapshotWorld, done: Callable[[], bool], seconds: int = 1500, life: Mishap | None = None) -> None:
    until = world.now + seconds
    while not done():
        assert world.now < until, (world.resources, world.status.to_dict())
        world.reconcile()
        world.reconcile_snapshots(life)
        if life is not None:
            world.reconcile_snapshots()
        world.tick()


def stable(**changes: Any) -> SnapshotWorld:
    world = SnapshotWorld()
    world.apply(merged(SPEC, changes))
    wait(world, lambda: world.status.lifecycle_state is LifecycleState.STABLE)
    return world


def test_a_savepoint_is_not_disposed_of_while_the_job_would_restart_from_it() -> None:
    """FLINK-38033."""
    world = stable(checkpointing={"interval": "60s"}, healthCheck={"enabled": False})
    world.request("one", DISPOSED)
    wait(world, lambda: world.state_of("one") is SnapshotState.COMPLETED)
    path = world.resources["one"].status["path"]
    assert world.log.newest is not None
    assert world.log.newest.path == path

    world.remove("one")
    for _ in range(5):
        world.reconcile_snapshots()
    assert world.removed == []

    wait(world, lambda: "one" not in world.resources)
    assert world.removed == [path]
    assert world.log.newest.path != path


def test_a_savepoint_is_not_disposed_of_while_nobody_knows_whether_the_job_needs_it() -> None:
    world = stable()
    world.request("one", DISPOSED)
    wait(world, lambda: world.state_of("one") is SnapshotState.COMPLETED)
    path = world.resources["one"].status["path"]
    wait(world, lambda: world.log.newest is not None and world.log.newest.path != path)

    world.store_up = False
    world.remove("one")
    for _ in range(5):
        world.reconcile_snapshots()
    assert world.removed == []

    world.store_up = True
    wait(world, lambda: "one" not in world.resources)
    assert world.removed == [path]


def test_a_savepoint_that_a_redeployed_job_started_from_stays_until_that_has_completed_something() -> None:
    world = stable()
    world.request("one", DISPOSED)
    wait(world, lambda: world.state_of("one") is SnapshotState.COMPLETED)
    path = world.resources["one"].status["path"]
    world.tick(30)
    world.apply(
        merged(
            world.stored.spec,
            {"initialSavepointPath": path, "savepointRedeployNonce": 1, "job": {"behaviour": "hang"}},
        )
    )
    wait(world, lambda: world.starts[-1].restore_from == path)

    world.remove("one")
    for _ in range(20):
        world.reconcile_snapshots()
        world.tick()
    assert world.removed == []

    world.processes[-1].behaviour = "good"
    wait(world, lambda: "one" not in world.resources)


def test_the_files_of_a_savepoint_under_way_are_not_left_behind() -> None:
    world = stable()
    world.request("one", DISPOSED)
    wait(world, lambda: world.state_of("one") is SnapshotState.IN_PROGRESS)

    world.remove("one")
    wait(world, lambda: "one" not in world.resources)

    assert len(world.removed) == 1


def test_a_driver_that_takes_the_place_of_another_is_asked_for_the_same_savepoint() -> None:
    world = stable()
    world.processes[-1].savepoint_seconds = 100
    world.request("one", {"savepoint": {}})
    wait(world, lambda: bool(world.asked))

    world.kill_driver()
    wait(world, lambda: world.state_of("one") is SnapshotState.COMPLETED)

    assert len(set(world.asked["one"])) == 1


@pytest.mark.parametrize("dies_at", [0, 1])
def test_a_controller_that_dies_between_two_writes_asks_for_no_second_savepoint(dies_at: int) -> None:
    world = stable()
    world.request("one", {"savepoint": {}})

    wait(world, lambda: world.state_of("one") is SnapshotState.COMPLETED, life=Mishap(dies_at=dies_at))

    assert len(set(world.asked["one"])) == 1
    assert [each.kind.value for each in world.log.completions].count("savepoint") == 1


def test_a_snapshot_that_may_fail_once_fails_at_the_second_time() -> None:
    world = stable(job={"behaviour": "stubborn"})
    world.request("one", {"savepoint": {}, "backoffLimit": 1})

    wait(world, lambda: world.state_of("one") is SnapshotState.FAILED)

    assert len(set(world.asked["one"])) == 2


def test_a_snapshot_without_a_limit_is_tried_for_ever() -> None:
    """FLINK-39967: -1 was not infinite."""
    world = stable(job={"behaviour": "stubborn"})
    world.request("one", {"savepoint": {}, "backoffLimit": -1})

    wait(world, lambda: len(set(world.asked.get("one", []))) >= 5)

    assert not world.state_of("one").terminal


def test_a_snapshot_is_abandoned_when_its_job_ends() -> None:
    world = stable()
    world.processes[-1].savepoint_seconds = 10_000
    world.request("one", {"savepoint": {}})
    wait(world, lambda: bool(world.asked))

    world.delete()
    wait(world, lambda: world.state_of("one").terminal)

    assert world.state_of("one") in (SnapshotState.ABANDONED, SnapshotState.FAILED)


def test_a_snapshot_waits_while_its_job_is_restarted() -> None:
    world = stable()
    world.kill_driver()
    world.request("one", {"checkpoint": {}})

    wait(world, lambda: world.state_of("one") is SnapshotState.COMPLETED)

    assert world.status.job_status.attempt == 2


AT = datetime(2026, 1, 1, tzinfo=UTC)


def _looked_at(named: NamedSavepoint | None = None, *, path: str | None = None, **status: Any) -> SnapshotDecision:
    """Return the decision about a StreamSnapshot whose StreamJob is not there."""
    savepoint = {} if path is None else {"path": path}
    snapshot = StreamSnapshot.model_validate(
        {
            "metadata": {
                "name": "one",
                "namespace": "shop",
                "uid": "u",
                "generation": 1,
                "creationTimestamp": AT.isoformat(),
            },
            "spec": {"jobRef": {"name": "views"}, "savepoint": savepoint},
            "status": status,
        }
    )
    return decide_snapshot(
        SnapshotSituation(snapshot=snapshot, job=None, seen=None, finalizer=False, now=AT, named=named)
    )


def _ready(decision: SnapshotDecision) -> tuple[str, str]:
    (ready,) = [each for each in decision.status.conditions if each.type == "Ready"]
    return ready.reason, ready.message


def test_a_snapshot_of_a_path_at_which_nothing_is_is_tried_again_and_says_so() -> None:
    nothing = NamedSavepoint(problem="there is no savepoint at s3://bucket/old/manifest.json")

    decision = _looked_at(nothing, path="s3://bucket/old")

    assert decision.status.state is SnapshotState.PENDING
    assert decision.status.next_try == AT + timedelta(seconds=10)
    assert _ready(decision) == ("Pending", "there is no savepoint at s3://bucket/old/manifest.json")
    assert [action.reason for action in decision.actions if isinstance(action, Emit)] == ["SnapshotError"]


def test_a_snapshot_of_a_path_whose_store_does_not_answer_waits_without_counting_a_failure() -> None:
    decision = _looked_at(NamedSavepoint(problem="the store does not answer", silent=True), path="s3://bucket/old")

    assert (decision.status.state, decision.status.failures) == (SnapshotState.PENDING, 0)
    assert decision.requeue is not None
    assert _ready(decision) == ("Pending", "the store does not answer")


def test_a_snapshot_of_a_savepoint_that_exists_tells_its_size() -> None:
    status = _looked_at(NamedSavepoint(id=7, size_bytes=1200), path="s3://bucket/old").status

    assert (status.state, status.id, status.size_bytes) == (SnapshotState.COMPLETED, 7, 1200)


def test_a_snapshot_of_a_job_that_is_not_there_says_at_once_why_it_waits() -> None:
    reason, message = _ready(_looked_at())

    assert reason == "WaitingForJob"
    assert message == "there is no StreamJob views; the snapshot is abandoned 5 minutes after it was made"


def test_a_snapshot_of_a_suspended_job_says_at_once_why_it_waits() -> None:
    world = stable()
    world.apply(merged(world.stored.spec, {"suspend": True}))
    wait(world, lambda: world.status.lifecycle_state is LifecycleState.SUSPENDED)
    world.request("one", {"savepoint": {}})
    world.reconcile_snapshots()

    conditions = {each["type"]: each for each in world.resources["one"].status["conditions"]}
    assert conditions["Ready"]["reason"] == "WaitingForJob"
    assert "is suspended: the snapshot is taken once the job runs again" in conditions["Ready"]["message"]


def test_a_snapshot_of_a_savepoint_that_exists_is_complete_at_once_whatever_its_job_does() -> None:
    world = stable()
    world.request("one", {"savepoint": {"path": "s3://bucket/savepoints/old"}})
    world.delete()
    wait(world, lambda: world.gone)
    world.request("two", {"savepoint": {"path": "s3://bucket/savepoints/old/manifest.json"}})

    world.reconcile_snapshots()

    for name in ("one", "two"):
        assert world.state_of(name) is SnapshotState.COMPLETED
        assert world.resources[name].status["path"] == "s3://bucket/savepoints/old/manifest.json"
    assert not world.asked
