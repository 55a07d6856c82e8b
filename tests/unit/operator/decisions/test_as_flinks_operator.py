"""Behaviour that users of the Flink operator rely on, and lessons of its issues; docstrings have the issue numbers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation.operator.world import Mishap
from tests.unit.operator.decisions.user import User

from streamjob.snapshot.record import RecordKind
from streamjob_operator.decisions.values.actions import CreateDriver, DeleteDriver, DisposeCheckpoints, StopJob
from streamjob_operator.decisions.values.situation import Limits
from streamjob_operator.resources.conditions import ConditionType
from streamjob_operator.resources.status import LifecycleState


def kinds(user: User) -> list[RecordKind]:
    return [completion.kind for completion in user.world.log.completions]


def test_an_upgrade_by_savepoint_goes_on_from_the_savepoint_it_took() -> None:
    user = User.with_stable_job()

    user.edit(image="two")
    user.wait_for(LifecycleState.UPGRADING)
    user.wait_for(LifecycleState.STABLE)

    start = user.world.starts[-1]
    assert (start.attempt, start.restore_from) == (2, "latest")
    assert start.newest is not None
    assert start.newest.kind is RecordKind.SAVEPOINT
    assert user.did(CreateDriver)[-1].require_snapshot


def test_an_upgrade_by_last_state_takes_no_savepoint() -> None:
    user = User.with_stable_job(upgradeMode="last-state")

    user.edit(image="two")
    user.wait(lambda: len(user.world.starts) == 2)

    assert RecordKind.SAVEPOINT not in kinds(user)
    assert user.world.starts[-1].restore_from == "latest"


def test_a_last_state_upgrade_takes_a_savepoint_if_the_last_checkpoint_is_too_old() -> None:
    user = User.with_stable_job(
        upgradeMode="last-state",
        upgrade={"preflight": False, "maxAllowedCheckpointAge": "5s"},
        checkpointing={"interval": "30s"},
    )
    user.world.tick(20)

    user.edit(image="two")
    user.wait(lambda: len(user.world.starts) == 2)

    assert kinds(user)[-1] is RecordKind.SAVEPOINT


def test_a_stateless_upgrade_starts_from_nothing_and_says_so_to_the_runtime() -> None:
    user = User.with_stable_job(upgradeMode="stateless")

    user.edit(image="two")
    user.wait(lambda: len(user.world.starts) == 2)

    assert user.world.starts[-1].restore_from == "none"
    assert not user.did(StopJob)


def test_a_stateless_start_that_dies_before_its_first_checkpoint_does_not_fall_back_to_the_state_it_left() -> None:
    user = User.with_stable_job(upgradeMode="stateless")
    user.edit(image="two", checkpointing={"interval": "100s"})
    user.wait(lambda: len(user.world.starts) == 2)

    user.world.kill_driver()
    user.wait(lambda: len(user.world.starts) == 3)

    assert user.world.starts[-1].restore_from == "none"


def test_a_stateless_start_that_dies_after_its_first_checkpoint_goes_on_from_that() -> None:
    user = User.with_stable_job(upgradeMode="stateless")
    user.edit(image="two")
    user.wait_for(LifecycleState.UPGRADING)
    user.wait_for(LifecycleState.STABLE)

    user.world.kill_driver()
    user.wait(lambda: len(user.world.starts) == 3)

    assert user.world.starts[-1].restore_from == "latest"


def test_a_savepoint_upgrade_of_a_job_that_does_not_answer_falls_back_to_the_last_state() -> None:
    user = User.with_stable_job()
    user.world.api_up = False

    user.edit(image="two")
    user.wait(lambda: len(user.world.starts) == 2)

    assert user.world.starts[-1].restore_from == "latest"
    assert "LastStateFallback" in user.reasons()


def test_one_unanswered_question_is_no_reason_to_give_the_savepoint_up() -> None:
    """FLINK-39270: a slow driver during a savepoint upgrade."""
    user = User.with_stable_job()
    user.edit(image="two")
    user.wait(lambda: bool(user.did(StopJob)))

    user.world.api_up = False
    user.look(2)
    user.world.api_up = True
    user.wait(lambda: len(user.world.starts) == 2)

    assert kinds(user)[-1] is RecordKind.SAVEPOINT
    assert "LastStateFallback" not in user.reasons()


def test_without_the_fallback_an_upgrade_waits_until_a_savepoint_can_be_taken() -> None:
    user = User.with_stable_job(upgrade={"lastStateFallback": False})
    user.world.api_up = False
    user.edit(image="two")
    user.look(200)
    assert len(user.world.starts) == 1

    user.world.api_up = True
    user.wait(lambda: len(user.world.starts) == 2)

    start = user.world.starts[-1]
    assert start.newest is not None
    assert start.newest.kind is RecordKind.SAVEPOINT


def test_a_failed_upgrade_savepoint_leaves_the_job_running_and_is_tried_again() -> None:
    user = User.with_stable_job()
    user.world.next_fault = "savepoint fails"

    user.edit(image="two")
    user.wait(lambda: "SavepointError" in user.reasons())

    assert user.state is LifecycleState.STABLE
    assert not user.did(DeleteDriver)
    assert user.condition(ConditionType.RECONCILING).reason == "UpgradePutOff"
    user.wait(lambda: len(user.world.starts) == 2)
    first, second = {stop.trigger_id for stop in user.did(StopJob)}
    assert first != second


def test_a_savepoint_whose_job_fails_while_it_stops_is_used() -> None:
    """FLINK-33522."""
    user = User.with_stable_job(upgrade={"lastStateFallback": False})
    user.world.next_fault = "crash behind savepoint"

    user.edit(image="two")
    user.wait(lambda: len(user.world.starts) == 2)

    start = user.world.starts[-1]
    assert start.newest is not None
    assert start.newest.kind is RecordKind.SAVEPOINT
    assert user.did(CreateDriver)[-1].revision == user.status.reconciliation.last_reconciled_revision
    assert user.world.revisions[user.did(CreateDriver)[-1].revision].content["image"] == "two"


def test_a_failed_job_is_deployed_again_from_its_latest_checkpoint() -> None:
    """FLINK-35857."""
    user = User.with_stable_job()
    newest = user.newest

    user.world.kill_driver()
    user.wait(lambda: len(user.world.starts) == 2)

    start = user.world.starts[-1]
    assert start.restore_from == "latest"
    assert start.newest is not None
    assert start.newest.path == newest


def test_a_terminal_job_is_not_restarted_by_the_health_check() -> None:
    """FLINK-39507."""
    user = User(job={"behaviour": "finite"})
    user.wait_for(LifecycleState.FINISHED)

    user.look(100, seconds=5)

    assert user.state is LifecycleState.FINISHED
    assert len(user.did(CreateDriver)) == 1
    assert user.condition(ConditionType.READY).status == "True"


def test_a_finished_job_stays_finished_when_nothing_changes_and_runs_for_a_real_change() -> None:
    user = User(job={"behaviour": "finite"})
    user.wait_for(LifecycleState.FINISHED)

    user.edit(savepoints={"onDeletion": True})
    user.look(20)
    assert user.state is LifecycleState.FINISHED

    user.edit(upgradeMode="stateless", image="two")
    user.wait(lambda: len(user.world.starts) == 2)
    assert user.world.starts[-1].restore_from == "none"


def test_a_driver_that_dies_behind_its_final_checkpoint_is_replaced_by_one_that_publishes_it() -> None:
    user = User(job={"behaviour": "finite-crash"})

    user.wait_for(LifecycleState.FINISHED)

    assert user.world.log.final_committed
    assert len(user.world.starts) == 2


def test_a_job_that_completes_no_checkpoint_for_long_is_restarted() -> None:
    user = User(job={"behaviour": "hang"})

    user.wait(lambda: "RestartUnhealthyJob" in user.reasons())
    user.wait(lambda: len(user.world.starts) == 2)


def test_a_revision_is_stable_only_once_it_completed_a_checkpoint() -> None:
    """In Flink's operator seeing it RUNNING is enough."""
    user = User(job={"behaviour": "hang"}, healthCheck={"checkpointProgress": {"window": "1h"}})
    user.wait_for(LifecycleState.DEPLOYED)

    user.look(100)

    assert user.state is LifecycleState.DEPLOYED
    assert user.condition(ConditionType.READY).status == "False"


def test_a_broken_image_is_rolled_back_to_the_last_stable_revision() -> None:
    rollback = {"enabled": True, "readinessTimeout": "1m"}
    user = User.with_stable_job(upgrade={"preflight": False, "rollback": rollback})
    stable = user.status.reconciliation.last_stable_revision

    user.edit(job={"behaviour": "no-image"})
    user.wait_for(LifecycleState.ROLLED_BACK)

    assert user.status.reconciliation.last_reconciled_revision == stable
    assert user.condition(ConditionType.ROLLED_BACK).status == "True"
    assert user.condition(ConditionType.STALLED).reason == "RolledBack"
    assert user.world.starts[-1].restore_from == "latest"


@pytest.mark.parametrize(
    ("pull", "least", "most"),
    [
        ('failed to resolve reference "registry/shop:2": registry/shop:2: not found', 0, 10),
        ("pull access denied, repository does not exist or may require authorization", 0, 10),
        ('Back-off pulling image "registry/shop:2": connection refused', Limits().pull, Limits().pull + 10),
    ],
    ids=["missing", "forbidden", "registry away"],
)
def test_a_rollback_from_a_missing_image_begins_at_once_by_default_and_names_the_image(
    pull: str, least: float, most: float
) -> None:
    user = User.with_stable_job(upgrade={"preflight": False})
    user.world.pull = pull
    user.edit(job={"behaviour": "no-image"}, image="registry/shop:2")
    user.wait(lambda: any(pod.process is None for pod in user.world.pods))
    began = user.world.now

    user.wait_for(LifecycleState.ROLLING_BACK)

    assert least <= user.world.now - began <= most
    user.wait_for(LifecycleState.ROLLED_BACK)
    told = user.condition(ConditionType.ROLLED_BACK)
    for text in ("ImagePullBackOff", "registry/shop:2", pull):
        assert text in told.message
    user.world.kill_driver()
    user.look(3)
    user.wait_for(LifecycleState.ROLLED_BACK)
    assert user.condition(ConditionType.ROLLED_BACK).message == told.message


def test_a_job_that_keeps_no_state_is_not_rolled_back_by_default() -> None:
    user = User.with_stable_job(upgradeMode="stateless", upgrade={"preflight": False})
    user.edit(job={"behaviour": "no-image"})
    user.look(100, seconds=5)

    assert user.state is LifecycleState.DEPLOYING
    assert user.condition(ConditionType.READY).reason == "ImagePullBackOff"


def test_a_revision_that_is_only_slow_is_not_rolled_back_by_default() -> None:
    user = User.with_stable_job(healthCheck={"enabled": False})
    user.edit(job={"behaviour": "stuck"})
    user.look(200, seconds=5)

    assert "Rollback" not in user.reasons()


def test_a_rolled_back_revision_is_not_tried_again_until_the_spec_changes() -> None:
    rollback = {"enabled": True, "readinessTimeout": "1m"}
    user = User.with_stable_job(upgrade={"preflight": False, "rollback": rollback})
    user.edit(job={"behaviour": "no-image"})
    user.wait_for(LifecycleState.ROLLED_BACK)
    attempts = user.attempt
    user.look(50)
    assert user.attempt == attempts

    user.edit(job={"behaviour": "good"}, image="three")
    user.wait_for(LifecycleState.STABLE)

    assert user.condition(ConditionType.READY).status == "True"


def test_a_revision_that_completed_something_is_not_rolled_back() -> None:
    user = User.with_stable_job(upgrade={"rollback": {"enabled": True, "readinessTimeout": "1m"}})
    user.edit(image="two")
    user.wait_for(LifecycleState.UPGRADING)
    user.wait_for(LifecycleState.STABLE)

    for _ in range(5):
        user.world.kill_driver()
        user.look(60)

    assert "Rollback" not in user.reasons()


def test_suspending_takes_a_savepoint_and_resuming_goes_on_from_exactly_that() -> None:
    user = User.with_stable_job()

    user.edit(suspend=True)
    user.wait_for(LifecycleState.SUSPENDED)
    newest = user.newest
    assert kinds(user)[-1] is RecordKind.SAVEPOINT
    assert user.condition(ConditionType.READY).reason == "Suspended"
    user.wait(lambda: not user.world.pods)

    user.edit(suspend=False)
    user.wait(lambda: len(user.world.starts) == 2)
    start = user.world.starts[-1]
    assert start.newest is not None
    assert start.newest.path == newest


def test_an_edit_during_a_slow_suspension_is_picked_up_on_resumption() -> None:
    user = User.with_stable_job()
    user.edit(suspend=True)
    user.wait_for(LifecycleState.SUSPENDING)

    user.edit(image="two", suspend=False)
    user.wait_for(LifecycleState.STABLE)

    assert user.world.revisions[str(user.status.reconciliation.last_reconciled_revision)].content["image"] == "two"


def test_the_initial_savepoint_path_counts_for_the_first_deployment_only() -> None:
    path = "s3://bucket/savepoints/one/manifest.json"
    user = User.with_stable_job(initialSavepointPath=path)
    assert user.world.starts[0].restore_from == path

    user.edit(image="two")
    user.wait(lambda: len(user.world.starts) == 2)

    assert user.world.starts[-1].restore_from == "latest"


def test_a_changed_redeploy_nonce_starts_from_the_initial_savepoint_path_once() -> None:
    path = "s3://bucket/savepoints/one/manifest.json"
    user = User.with_stable_job()

    user.edit(initialSavepointPath=path, savepointRedeployNonce=1)
    user.wait(lambda: len(user.world.starts) == 2)
    user.wait_for(LifecycleState.STABLE)
    user.world.kill_driver()
    user.wait(lambda: len(user.world.starts) == 3)

    assert [start.restore_from for start in user.world.starts] == ["latest", path, "latest"]


def test_a_changed_policy_reaches_the_running_job_without_a_restart() -> None:
    user = User.with_stable_job()

    user.edit(checkpointing={"interval": "5s"})
    (process,) = user.world.processes
    user.wait(lambda: process.policy.interval == 5)
    assert user.attempt == 1
    revisions = user.status.reconciliation
    assert revisions.last_stable_revision == revisions.last_reconciled_revision
    user.world.kill_driver()
    user.wait(lambda: len(user.world.starts) == 2)
    assert user.world.processes[-1].policy.interval == 5


@pytest.mark.parametrize("changed", [{"timeout": "50ms"}, {"tolerableFailedCheckpoints": 2**63 - 1}], ids=str)
def test_a_running_job_takes_over_each_policy_that_a_resource_can_have(changed: dict[str, Any]) -> None:
    user = User.with_stable_job(checkpointing=changed)

    user.edit(checkpointing={"minPause": "1s"})
    (process,) = user.world.processes
    user.wait(lambda: process.policy.min_pause == 1)

    assert user.attempt == 1


def test_a_changed_parallelism_goes_by_savepoint_also_where_upgrades_go_by_last_state() -> None:
    user = User.with_stable_job(upgradeMode="last-state", parallelism=1)

    user.edit(parallelism=2)
    user.wait(lambda: len(user.world.starts) == 2)

    assert kinds(user)[-1] is RecordKind.SAVEPOINT


def test_an_invalid_spec_leaves_the_job_running_and_being_healed() -> None:
    user = User.with_stable_job()
    user.world.apply({**user.world.stored.spec, "image": "two"}, valid=False)
    user.look(10)
    stalled = user.condition(ConditionType.STALLED)
    assert (stalled.status, stalled.reason, stalled.message) == ("True", "InvalidSpec", "job: it makes no sense")
    assert user.condition(ConditionType.RUNNING).status == "True"

    user.world.kill_driver()
    user.wait(lambda: len(user.world.starts) == 2)

    assert user.world.revisions[user.did(CreateDriver)[-1].revision].content["image"] == "one"


@pytest.mark.parametrize("dies_at", [0, 1, 2])
def test_an_upgrade_goes_on_where_a_controller_died(dies_at: int) -> None:
    user = User.with_stable_job()
    user.edit(image="two")

    for _ in range(200):
        user.world.reconcile(Mishap(dies_at=dies_at))
        user.world.reconcile()
        user.world.tick()

    assert user.state is LifecycleState.STABLE
    assert [start.restore_from for start in user.world.starts] == ["latest", "latest"]


def test_deletion_takes_a_savepoint_if_asked_to() -> None:
    """FLINK-32551."""
    user = User.with_stable_job(savepoints={"onDeletion": True})

    user.world.delete()
    user.wait(lambda: user.world.gone)

    assert kinds(user)[-1] is RecordKind.SAVEPOINT
    assert not [process for process in user.world.processes if process.alive]


def test_a_savepoint_that_fails_on_deletion_does_not_block_it_for_ever() -> None:
    user = User.with_stable_job(savepoints={"onDeletion": True}, job={"behaviour": "stubborn"})

    user.world.delete()
    user.wait(lambda: user.world.gone, seconds=3000)

    assert kinds(user)[-1] is RecordKind.CHECKPOINT


def test_deletion_keeps_the_checkpoints_unless_it_is_told_to_delete_them() -> None:
    user = User.with_stable_job()
    user.world.delete()
    user.wait(lambda: user.world.gone)
    assert not user.did(DisposeCheckpoints)

    other = User.with_stable_job(deletionPolicy="Delete")
    other.world.delete()
    other.wait(lambda: other.world.gone)
    assert other.world.disposed


def test_checkpoints_are_disposed_of_only_once_the_store_answers() -> None:
    """FLINK-39439: a snapshot that is forgotten before it is deleted is never deleted."""
    user = User.with_stable_job(deletionPolicy="Delete")
    user.world.store_up = False
    user.world.delete()
    user.look(300)
    assert not user.world.gone

    user.world.store_up = True
    user.wait(lambda: user.world.gone)

    assert user.world.disposed
