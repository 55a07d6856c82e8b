"""A driver's start: its snapshot, its number, and the moment at which its pod is created."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.simulation.operator.world import ClusterWorld
from tests.unit.operator.decisions.user import User

from streamjob.protocol.lifecycle import JobState
from streamjob_operator.decisions import decide
from streamjob_operator.decisions.values.actions import Action, AddFinalizer, CreateDriver, DeleteDriver, EnsureRevision
from streamjob_operator.decisions.values.memory import memory_of
from streamjob_operator.decisions.values.observation import KnownSnapshot
from streamjob_operator.decisions.values.revision import revision_of
from streamjob_operator.resources.conditions import ConditionType, find_condition
from streamjob_operator.resources.snapshot import SnapshotState
from streamjob_operator.resources.status import LifecycleState, StreamJobStatus


def test_nothing_is_made_before_the_resource_has_its_finalizer_and_its_revision_is_stored() -> None:
    user = User()

    user.wait_for(LifecycleState.STABLE)

    first = [type(action) for action in user.world.actions if type(action).__name__ != "Emit"][:3]
    assert first == [AddFinalizer, EnsureRevision, CreateDriver]


def test_the_first_status_is_in_progress_for_kstatus() -> None:
    user = User()

    user.world.reconcile()

    assert user.condition(ConditionType.READY).status == "False"
    assert user.condition(ConditionType.RECONCILING).status == "True"
    assert user.status.observed_generation == 1


def test_a_first_deployment_goes_on_from_what_is_stored_under_its_name() -> None:
    before = User.with_stable_job()
    user = User()
    user.world.log = before.world.log

    user.wait(lambda: bool(user.world.starts))

    assert user.did(CreateDriver)[0].restore_from == "latest"
    assert user.did(CreateDriver)[0].require_snapshot


def test_an_attempt_is_above_every_one_that_the_log_knows_so_that_a_lost_status_does_no_harm() -> None:
    user = User.with_stable_job()
    for _ in range(3):
        user.world.kill_driver()
        user.wait_for(LifecycleState.DEPLOYING)
        user.wait_for(LifecycleState.STABLE)
    attempt = user.attempt
    user.world.pods.clear()
    user.world.processes.clear()

    user.world.history.append(replace(user.world.stored, status={}, version=user.world.stored.version + 1))
    user.world.memories.append(memory_of(StreamJobStatus()))
    user.world.times.append(user.world.now)
    user.wait_for(LifecycleState.STABLE)

    assert user.attempt == attempt + 1


def test_a_first_deployment_waits_for_a_store_that_does_not_answer_but_not_for_ever() -> None:
    user = User()
    user.world.store_up = False

    user.look(10)
    assert user.condition(ConditionType.RECONCILING).reason == "StoreUnreachable"
    assert not user.did(CreateDriver)

    user.wait(lambda: bool(user.did(CreateDriver)))


def test_a_start_from_nothing_is_not_repeated_while_nobody_knows_what_it_has_completed() -> None:
    user = User.with_stable_job(upgradeMode="stateless")
    user.edit(image="two")
    user.wait(lambda: len(user.world.starts) == 2 and user.state is LifecycleState.DEPLOYED)
    user.world.store_up = user.world.api_up = False
    user.world.tick(30)
    assert user.world.log.newest is not None
    assert user.world.log.newest.attempt == 2

    user.world.kill_driver()
    user.look(100)
    assert len(user.world.starts) == 2
    assert user.condition(ConditionType.RECONCILING).reason == "StoreUnreachable"

    user.world.store_up = True
    user.wait(lambda: len(user.world.starts) == 3)
    assert user.world.starts[-1].restore_from == "latest"


def test_a_changed_revision_inherits_a_start_from_nothing_that_has_completed_nothing() -> None:
    user = User.with_stable_job(upgradeMode="stateless")
    user.edit(job={"behaviour": "hang"})
    user.wait(lambda: len(user.world.starts) == 2)

    user.edit(job={"behaviour": "good"}, upgradeMode="savepoint")
    user.wait(lambda: len(user.world.starts) == 3)

    assert user.world.starts[-1].restore_from == "none"


def test_a_job_that_is_resumed_in_stateless_mode_starts_from_nothing() -> None:
    user = User.with_stable_job(upgradeMode="stateless")
    user.edit(suspend=True)
    user.wait_for(LifecycleState.SUSPENDED)

    user.edit(suspend=False)
    user.wait(lambda: len(user.world.starts) == 2)

    assert user.world.starts[-1].restore_from == "none"


def test_a_first_revision_that_never_ran_gives_way_at_once_whatever_the_upgrade_mode() -> None:
    user = User(job={"behaviour": "no-image"}, upgrade={"lastStateFallback": False})
    user.wait(lambda: bool(user.world.pods))

    user.edit(job={"behaviour": "good"})
    user.wait(lambda: bool(user.world.starts), seconds=30)


def test_a_job_that_moves_to_another_place_starts_there_from_its_last_snapshot() -> None:
    user = User.with_stable_job()

    user.edit(checkpointing={"location": "s3://elsewhere/snapshots"})
    user.wait(lambda: len(user.did(CreateDriver)) == 2)

    assert user.did(CreateDriver)[-1].restore_from == user.newest
    assert user.newest.startswith("s3://bucket/")


def test_a_job_does_not_move_to_another_place_while_a_driver_may_live_on_a_lost_node() -> None:
    user = User.with_stable_job()
    user.world.lose_node()
    user.edit(checkpointing={"location": "s3://elsewhere/snapshots"})

    user.look(400)
    assert user.condition(ConditionType.RECONCILING).reason == "WaitingForOldDriver"
    assert len(user.did(CreateDriver)) == 1

    user.world.processes[-1].kill()
    user.world.give_node_up()
    user.wait(lambda: len(user.did(CreateDriver)) == 2)
    assert user.did(CreateDriver)[-1].restore_from == user.newest


def test_a_driver_waits_until_the_one_before_is_gone() -> None:
    user = User.with_stable_job()
    process = user.world.processes[-1]
    user.edit(image="two")

    user.wait(lambda: len(user.did(CreateDriver)) == 2)

    assert not process.alive


@pytest.mark.parametrize(("leaves", "actions"), [(False, [DeleteDriver]), (True, [])])
def test_an_older_driver_that_turns_up_has_to_go_first(leaves: bool, actions: list[type[Action]]) -> None:
    user = User.with_stable_job()
    older = user.world.observe(user.world.stored).pods[0]
    user.world.kill_driver()
    user.wait(lambda: user.attempt == 2)
    user.world.tick(60)
    stored = user.world.stored

    older = replace(older, deleting=user.world.now if leaves else None)
    decision = decide(user.world.resource(stored), replace(user.world.observe(stored), pods=(older,)))

    assert [type(action) for action in decision.actions] == actions
    reconciling = find_condition(decision.status.conditions, ConditionType.RECONCILING)
    assert reconciling is not None
    assert reconciling.reason == "WaitingForOldDriver"


def test_a_job_that_rested_for_long_gets_its_time_to_become_ready_before_it_is_rolled_back() -> None:
    user = User.with_stable_job(upgrade={"rollback": {"enabled": True, "readinessTimeout": "1m"}})
    user.edit(checkpointing={"interval": "50s"}, image="two")
    user.wait_for(LifecycleState.DEPLOYED)
    user.edit(suspend=True, upgradeMode="last-state")
    user.world.processes[-1].behaviour = "hang"
    user.wait_for(LifecycleState.SUSPENDED)
    user.world.tick(1000)

    user.edit(suspend=False)
    user.wait_for(LifecycleState.STABLE)

    assert "Rollback" not in user.reasons()


def test_a_driver_on_a_lost_node_does_not_block_the_next_one_for_ever() -> None:
    user = User.with_stable_job()
    user.world.lose_node()
    zombie = user.world.processes[-1]

    user.edit(image="two")
    user.wait(lambda: len(user.world.starts) == 2)
    assert user.did(DeleteDriver)

    user.wait(lambda: not zombie.alive)
    assert user.state is not LifecycleState.FAILED


def test_an_attempt_whose_pod_may_have_come_and_gone_is_not_made_a_second_time() -> None:
    user = User()
    user.wait(lambda: bool(user.world.pods))
    assert user.status.job_status.driver is None

    user.world.lose_node()
    user.world.give_node_up()
    zombie = user.world.processes[-1]
    user.wait(lambda: len(user.world.starts) == 2)

    assert zombie.attempt == 1
    assert user.attempt == 2


def test_a_pod_that_another_replaced_under_its_name_is_a_lost_one() -> None:
    user = User.with_stable_job()
    user.world.pods[-1].uid = "another"

    user.wait(lambda: "DriverLost" in user.reasons())
    user.wait(lambda: user.attempt == 2)


def test_a_job_starts_from_a_snapshot_by_name_once_that_is_complete() -> None:
    user = User(initialSnapshotRef={"name": "before"})
    world: ClusterWorld = user.world
    user.look(5)
    resource = world.resource(world.stored)
    assert resource.spec is not None
    seen = replace(world.observe(world.stored), revisions=(revision_of("job", resource.spec),))
    pending = KnownSnapshot(name="before", kind="savepoint", created=world.now)
    complete = replace(pending, state=SnapshotState.COMPLETED, path="s3://bucket/savepoints/before/manifest.json")
    failed = replace(pending, state=SnapshotState.FAILED)

    assert memory_of(decide(resource, replace(seen, initial=pending)).status).attempt == 0
    stalled = decide(resource, replace(seen, initial=failed)).status
    found = find_condition(stalled.conditions, ConditionType.STALLED)
    assert found is not None
    assert (found.status, found.reason) == ("True", "SnapshotUnusable")
    deployed = memory_of(decide(resource, replace(seen, initial=complete)).status)
    assert deployed.restore.source == complete.path


def test_a_driver_that_is_killed_in_its_first_seconds_without_a_word_is_replaced_after_growing_delays() -> None:
    user = User()
    delays = []
    for _ in range(3):
        user.wait(lambda: bool(user.world.processes))
        user.world.pods[-1].silent_end = True
        user.world.processes[-1].end(143, JobState.CREATED)
        ended, attempt = user.world.now, user.attempt
        user.wait(lambda attempt=attempt: user.attempt > attempt)  # type: ignore[misc]
        assert user.status.job_status.failure_reason == "DriverFailed"
        restart = user.status.job_status.next_restart_time
        assert restart is not None
        delays.append(round(restart.timestamp() - ended, -1))

    user.wait_for(LifecycleState.STABLE)
    assert delays == [0, 20, 40]
    assert all(each.lifecycle is not LifecycleState.FAILED for each in user.world.memories)
