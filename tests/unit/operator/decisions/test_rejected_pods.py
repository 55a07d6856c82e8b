"""The API server rejects the next driver's pod: the running driver is left alone, and the status says why."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.simulation.operator.world import REJECTION
from tests.unit.operator.decisions.user import User

from streamjob_operator.decisions import Limits
from streamjob_operator.decisions.values.actions import CreateDriver, DeleteDriver, StopJob
from streamjob_operator.resources.conditions import ConditionType
from streamjob_operator.resources.status import LifecycleState

ROLLBACK = {"rollback": {"enabled": True, "readinessTimeout": "2m"}}


@pytest.mark.parametrize(
    "change",
    [
        {"job": {"behaviour": "no-account"}},
        {"parallelism": 3},
        {"image": "two"},
        {"savepointRedeployNonce": 1, "initialSavepointPath": "s3://b/s/manifest.json"},
    ],
)
@pytest.mark.parametrize("mode", ["savepoint", "last-state", "stateless"])
def test_a_running_driver_is_not_stopped_for_a_pod_that_is_rejected(change: dict[str, object], mode: str) -> None:
    user = User.with_stable_job(upgradeMode=mode)
    user.world.rejects = True

    user.edit(**change)
    user.look(300)

    assert user.attempt == 1
    assert not user.did(StopJob)
    assert not user.did(DeleteDriver)
    assert user.condition(ConditionType.RUNNING).status == "True"
    for kind in (ConditionType.READY, ConditionType.STALLED):
        assert user.condition(kind).reason == "PodRejected"
        assert REJECTION in user.condition(kind).message
    assert any(event.reason == "PodRejected" and REJECTION in event.message for event in user.world.events)


@pytest.mark.parametrize(
    "change", [{"image": "two"}, {"savepointRedeployNonce": 1, "initialSavepointPath": "s3://b/s/manifest.json"}]
)
def test_a_pod_that_is_taken_after_all_runs_without_another_change(change: dict[str, object]) -> None:
    user = User.with_stable_job()
    user.world.rejects = True
    user.edit(**change)
    user.look(100)

    user.world.rejects = False
    user.wait(lambda: user.attempt == 2 and user.state is LifecycleState.STABLE, seconds=120)

    assert user.condition(ConditionType.READY).status == "True"
    assert user.status.reconciliation.trials == ()


def test_a_rejected_pod_is_tried_less_and_less_often() -> None:
    user = User.with_stable_job()
    user.world.rejects = True
    user.edit(image="two")

    times = []
    for _ in range(400):
        before = user.status.reconciliation.trials
        user.look()
        after = user.status.reconciliation.trials
        if after and before and after[0].rejections > before[0].rejections:
            times.append(user.world.now)

    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses[0] < 5
    assert pauses == sorted(pauses)
    assert pauses[-1] >= Limits().rejections[-1]


def test_a_change_that_is_taken_back_leaves_no_trace() -> None:
    user = User.with_stable_job()
    user.world.rejects = True
    user.edit(image="two")
    user.look(60)

    user.edit(image="one")
    user.look(3)

    assert user.status.reconciliation.trials == ()
    assert user.condition(ConditionType.READY).status == "True"
    assert user.attempt == 1


def test_a_correction_is_not_held_up_by_what_was_rejected_before() -> None:
    user = User.with_stable_job()
    user.edit(job={"behaviour": "no-account"})
    user.look(300)

    user.edit(job={"behaviour": "good"}, image="two")

    user.wait(lambda: user.attempt == 2 and user.state is LifecycleState.STABLE, seconds=40)


def test_an_upgrade_whose_pod_is_rejected_for_too_long_is_rolled_back_and_nothing_was_stopped() -> None:
    user = User.with_stable_job(upgrade=ROLLBACK)
    ran = user.status.reconciliation.last_reconciled_revision
    user.edit(job={"behaviour": "no-account"})

    user.wait_for(LifecycleState.ROLLED_BACK, seconds=200)
    user.look(200)

    assert user.attempt == 1
    assert user.status.reconciliation.last_reconciled_revision == ran
    assert user.condition(ConditionType.ROLLED_BACK).status == "True"
    assert user.condition(ConditionType.STALLED).reason == "RolledBack"
    assert REJECTION in user.condition(ConditionType.STALLED).message
    assert "Rollback" in user.reasons()
    user.edit(job={"behaviour": "good"}, image="two")
    user.wait(lambda: user.attempt == 2 and user.state is LifecycleState.STABLE, seconds=60)


def test_a_pod_that_is_rejected_only_once_the_driver_has_stopped_is_rolled_back_in_time() -> None:
    user = User.with_stable_job(upgrade=ROLLBACK)
    user.edit(job={"behaviour": "no-account"})
    takes, user.world.takes = user.world.takes, lambda revision: True  # type: ignore[method-assign]
    user.wait(lambda: user.state is LifecycleState.UPGRADING)

    user.world.takes = takes  # type: ignore[method-assign]
    user.wait(lambda: user.condition(ConditionType.READY).reason == "PodRejected")
    assert REJECTION in user.condition(ConditionType.READY).message
    user.wait_for(LifecycleState.ROLLED_BACK, seconds=200)

    assert user.condition(ConditionType.RUNNING).status == "True"
    assert user.condition(ConditionType.ROLLED_BACK).status == "True"
    assert any(event.reason == "Rollback" and REJECTION in event.message for event in user.world.events)


def test_a_first_start_whose_pod_is_rejected_says_so_and_goes_on_once_it_is_taken() -> None:
    user = User()
    user.world.rejects = True
    user.look(100)

    assert user.condition(ConditionType.STALLED).reason == "PodRejected"
    assert REJECTION in user.condition(ConditionType.STALLED).message
    assert user.condition(ConditionType.RECONCILING).status == "False"
    tries = len(user.did(CreateDriver))
    assert 3 <= tries <= 8
    user.world.rejects = False
    user.wait_for(LifecycleState.STABLE, seconds=90)
    assert user.status.reconciliation.trials == ()


def test_a_rejection_that_passes_at_once_never_makes_the_job_stalled() -> None:
    user = User()
    user.world.rejects = True
    stalled = set()
    for _ in range(20):
        user.look()
        stalled.add(user.condition(ConditionType.STALLED).status)
    user.world.rejects = False
    user.wait_for(LifecycleState.STABLE)

    assert stalled == {"False"}


def test_an_unhealthy_driver_is_kept_while_the_pod_that_would_replace_it_is_rejected() -> None:
    user = User(job={"behaviour": "hang"})
    user.wait_for(LifecycleState.DEPLOYED)
    user.world.rejects = True
    user.look(200)

    assert user.attempt == 1
    assert not user.did(DeleteDriver)
    assert user.condition(ConditionType.READY).reason == "PodRejected"
    user.world.rejects = False
    user.wait(lambda: user.attempt == 2, seconds=100)


def test_an_unhealthy_driver_is_replaced_though_the_pod_of_an_upgrade_is_rejected() -> None:
    user = User(job={"behaviour": "hang"})
    user.wait_for(LifecycleState.DEPLOYED)
    user.edit(job={"behaviour": "no-account"})

    user.wait(lambda: user.attempt == 2, seconds=200)

    trials = user.status.reconciliation.trials
    assert user.status.reconciliation.last_reconciled_revision not in {each.revision for each in trials}


def test_a_failed_driver_whose_successor_is_rejected_comes_back_once_it_is_taken() -> None:
    user = User.with_stable_job()
    user.world.rejects = True
    user.world.kill_driver()
    user.look(100)

    assert user.condition(ConditionType.STALLED).reason == "PodRejected"
    user.world.rejects = False
    user.wait_for(LifecycleState.STABLE, seconds=120)


@pytest.mark.parametrize("asked", [{"suspend": True}, None])
def test_a_suspension_and_a_deletion_do_not_wait_for_a_pod(asked: dict[str, object] | None) -> None:
    user = User.with_stable_job()
    user.world.rejects = True
    user.edit(image="two")
    user.look(60)

    if asked is None:
        user.world.delete()
        user.wait(lambda: user.world.gone, seconds=60)
    else:
        user.edit(**asked)
        user.wait_for(LifecycleState.SUSPENDED, seconds=60)
