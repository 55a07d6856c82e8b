"""An upgrade with a warm successor: the next driver is prepared while the job runs, and takes over when it stops."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.operator.decisions.user import User

from streamjob.snapshot.record import RecordKind
from streamjob_operator.decisions.values.actions import CreateDriver, DeleteDriver, StartJob, StopJob
from streamjob_operator.resources.conditions import ConditionType
from streamjob_operator.resources.status import LifecycleState, TriggerPurpose

WARM = {"upgrade": {"warmSuccessor": True}}


def prepared(**changes: Any) -> User:
    """Return a user whose job runs, and whose upgrade has a successor that was just created."""
    user = User.with_stable_job(**{**WARM, **changes})
    user.edit(image="two")
    user.wait(lambda: any(each.waits for each in user.did(CreateDriver)))
    return user


def attempts(user: User, kind: type) -> list[int]:
    return [each.attempt for each in user.did(kind)]


def test_the_successor_is_stored_and_then_made_while_the_job_runs() -> None:
    user = User.with_stable_job(**WARM)
    user.edit(image="two")

    user.wait(lambda: user.status.reconciliation.successor is not None)
    successor = user.status.reconciliation.successor
    assert successor is not None
    assert not [each for each in user.did(CreateDriver) if each.waits]
    user.wait(lambda: len(user.did(CreateDriver)) == 2)

    made = user.did(CreateDriver)[-1]
    assert (made.attempt, made.revision, made.waits) == (2, successor.revision, True)
    assert (made.restore_from, made.require_snapshot) == ("latest", True)
    assert user.attempt == 1
    assert not user.did(StopJob)
    assert user.condition(ConditionType.RECONCILING).reason == "PreparingSuccessor"
    assert user.condition(ConditionType.RUNNING).status == "True"


def test_the_driver_is_stopped_once_its_successor_is_prepared_and_that_one_takes_over() -> None:
    user = prepared()
    user.wait(lambda: bool(user.did(StopJob)))
    view = user.world.processes[-1].view()
    assert view is not None
    assert view.waiting == "prepared"
    user.wait(lambda: user.state is LifecycleState.STABLE and user.attempt == 2)

    assert attempts(user, CreateDriver) == [1, 2]
    assert set(attempts(user, StartJob)) == {2}
    start = user.world.starts[-1]
    assert (start.attempt, start.restore_from) == (2, "latest")
    assert start.newest is not None
    assert (start.newest.kind, start.newest.attempt) == (RecordKind.SAVEPOINT, 1)
    assert user.status.reconciliation.successor is None
    assert [pod.attempt for pod in user.world.pods] == [2]
    assert user.condition(ConditionType.READY).status == "True"


def test_it_takes_over_from_a_driver_that_has_stopped_and_has_not_ended_yet() -> None:
    user = prepared()
    user.world.processes[0].lingers = True

    user.wait(lambda: len(user.world.starts) == 2, seconds=60)

    assert user.world.starts[-1].attempt == 2
    user.wait(lambda: [pod.attempt for pod in user.world.pods] == [2])
    done = [each for each in user.world.actions if isinstance(each, StartJob | DeleteDriver)]
    assert isinstance(done[0], StartJob), "it waited until the pod of the driver had ended"
    assert isinstance(done[-1], DeleteDriver)
    assert done[-1].name == "job-driver-1"
    assert list(user.world.recorded) == ["job-upgrade-1"]


def test_a_stop_without_a_savepoint_is_taken_over_as_well() -> None:
    user = prepared(upgradeMode="last-state")

    user.wait(lambda: len(user.world.starts) == 2)

    assert user.world.starts[-1].attempt == 2
    assert attempts(user, CreateDriver) == [1, 2]


@pytest.mark.parametrize(
    "changes",
    [
        {"upgrade": {"warmSuccessor": False}},
        {"upgradeMode": "stateless"},
        {"executor": {"instances": 1}},
    ],
)
def test_an_upgrade_without_a_successor_is_unchanged(changes: dict[str, Any]) -> None:
    user = User.with_stable_job(**{**WARM, **changes})
    user.edit(image="two")

    user.wait(lambda: len(user.world.starts) == 2)

    assert not [each for each in user.did(CreateDriver) if each.waits]


def test_a_move_to_another_location_has_none() -> None:
    user = User.with_stable_job(**WARM)
    user.edit(checkpointing={"location": "s3://bucket/elsewhere"})

    user.wait(lambda: len(user.world.starts) == 2)

    assert not [each for each in user.did(CreateDriver) if each.waits]


def test_a_job_that_has_completed_nothing_has_none() -> None:
    user = User(**WARM, checkpointing={"interval": "1h"})
    user.wait_for(LifecycleState.DEPLOYED)
    user.edit(image="two")

    user.wait(lambda: len(user.world.starts) == 2)

    assert not [each for each in user.did(CreateDriver) if each.waits]


def test_suspensions_redeployments_and_rollbacks_have_none() -> None:
    user = User.with_stable_job(**WARM)
    user.edit(savepointRedeployNonce=1, initialSavepointPath="s3://b/s/manifest.json")
    user.wait(lambda: user.state is LifecycleState.STABLE and user.attempt == 2)
    user.edit(suspend=True)
    user.wait_for(LifecycleState.SUSPENDED)

    assert not [each for each in user.did(CreateDriver) if each.waits]


def test_a_successor_that_is_not_prepared_in_time_is_given_up_and_the_upgrade_goes_on() -> None:
    user = User.with_stable_job(**WARM)
    user.edit(job={"behaviour": "stuck"})
    user.wait(lambda: "SuccessorFailed" in user.reasons())

    assert user.world.now > 0
    user.wait(lambda: len(user.did(CreateDriver)) == 3)

    assert attempts(user, CreateDriver) == [1, 2, 3]
    assert user.did(DeleteDriver)[0].name == "job-driver-2"
    assert not user.did(CreateDriver)[-1].waits
    assert attempts(user, StopJob) == [1]
    assert not user.did(StartJob)


def test_a_successor_whose_pod_fails_is_given_up() -> None:
    user = User.with_stable_job(upgrade={"warmSuccessor": True, "preflight": False})
    user.edit(job={"behaviour": "invalid"})

    user.wait(lambda: "SuccessorFailed" in user.reasons())
    user.wait(lambda: user.attempt == 3)

    assert not user.did(StartJob)


def test_a_job_whose_next_image_is_missing_runs_on_until_the_spec_is_corrected() -> None:
    user = User.with_stable_job(**WARM)
    user.edit(job={"behaviour": "no-image"})
    user.wait(lambda: user.condition(ConditionType.RECONCILING).reason == "ImagePullBackOff")
    user.look(300)

    assert "the job runs on" in user.condition(ConditionType.RECONCILING).message
    assert user.condition(ConditionType.RUNNING).status == "True"
    assert user.reasons().count("ImagePullBackOff") == 1
    assert not user.did(StopJob)

    user.edit(job={"behaviour": "good"}, image="two")
    user.wait(lambda: user.state is LifecycleState.STABLE and user.attempt == 3)

    assert attempts(user, StopJob) == [1]
    assert set(attempts(user, StartJob)) == {3}


def test_a_successor_has_its_time_from_the_moment_when_its_image_is_there() -> None:
    user = User.with_stable_job(**WARM)
    user.edit(job={"behaviour": "no-image"})
    user.look(300)
    user.world.pull_images()
    user.wait(lambda: user.state is LifecycleState.STABLE and user.attempt == 2)

    assert "SuccessorFailed" not in user.reasons()
    assert set(attempts(user, StartJob)) == {2}


def test_a_successor_that_a_quota_rejects_is_given_up() -> None:
    user = User.with_stable_job(**WARM)
    user.edit(image="two")
    user.wait(lambda: user.status.reconciliation.successor is not None)
    user.world.rejects = True
    user.wait(lambda: "SuccessorFailed" in user.reasons())
    user.world.rejects = False

    user.wait(lambda: len(user.world.starts) == 2)

    assert [(each.attempt, each.waits) for each in user.did(CreateDriver)][-1] == (3, False)
    assert user.reasons().count("SuccessorFailed") == 1


def test_a_spec_that_is_withdrawn_removes_the_successor_and_its_number_is_not_used_again() -> None:
    user = prepared()
    user.edit(image="one")
    user.wait(lambda: len(user.world.pods) == 1, seconds=60)
    assert user.attempt == 1
    assert not user.did(StopJob)

    user.edit(image="three")
    user.wait(lambda: user.state is LifecycleState.STABLE and user.attempt != 1)

    assert user.attempt == 3
    assert attempts(user, CreateDriver) == [1, 2, 3]
    assert len(user.world.starts) == 2


def test_a_spec_that_changes_again_gets_another_successor() -> None:
    user = prepared()
    user.edit(image="three")

    user.wait(lambda: user.state is LifecycleState.STABLE and user.attempt != 1)

    assert attempts(user, CreateDriver) == [1, 2, 3]
    assert attempts(user, StartJob)[0] == 3


def test_a_driver_that_dies_while_its_successor_is_prepared_is_followed_by_it_at_once() -> None:
    user = prepared()
    user.look(2)
    user.world.processes[0].kill()

    user.wait(lambda: len(user.world.starts) == 2, seconds=20)

    assert user.world.starts[-1].attempt == 2
    assert not user.did(StopJob)


def test_a_successor_that_dies_while_the_driver_stops_is_replaced() -> None:
    user = prepared()
    user.wait(lambda: bool(user.did(StopJob)))
    user.world.processes[1].kill()

    user.wait(lambda: len(user.world.starts) == 2)

    assert user.world.starts[-1].attempt == 3


def test_a_driver_that_goes_on_after_a_stop_without_its_savepoint_is_not_replaced_by_the_successor() -> None:
    user = prepared(upgrade={"warmSuccessor": True, "lastStateFallback": False})
    revision = user.status.reconciliation.last_reconciled_revision
    user.world.processes[0].savepoint_seconds = 1000
    user.wait(lambda: bool(user.did(StopJob)))
    user.world.processes[0].kill()

    user.wait(lambda: len(user.world.starts) == 2)

    made = next(each for each in user.did(CreateDriver) if each.attempt == user.world.starts[-1].attempt)
    assert (made.attempt, made.revision, made.waits) == (3, revision, False)
    assert not user.did(StartJob)


@pytest.mark.parametrize(
    ("change", "source"),
    [
        ({"upgradeMode": "stateless"}, "none"),
        ({"allowNonRestoredState": True}, "latest"),
        ({"strictMigration": True}, "latest"),
    ],
)
def test_a_successor_that_was_prepared_for_another_start_does_not_take_over(
    change: dict[str, Any], source: str
) -> None:
    user = prepared()
    user.wait(lambda: bool(user.did(StopJob)))
    user.edit(**change)

    user.wait(lambda: len(user.world.starts) == 2)

    assert user.world.starts[-1].attempt == 3
    assert user.world.starts[-1].restore_from == source
    assert not user.did(StartJob)


@pytest.mark.parametrize("seconds", [0, 3, 8])
def test_a_suspension_removes_the_successor(seconds: int) -> None:
    user = prepared()
    user.look(seconds)
    user.edit(suspend=True)

    user.wait(lambda: user.state is LifecycleState.SUSPENDED and not user.world.pods)

    assert [start.attempt for start in user.world.starts] in ([1], [1, 2])


@pytest.mark.parametrize("seconds", [0, 3, 8])
def test_a_deletion_removes_the_successor(seconds: int) -> None:
    user = prepared()
    user.look(seconds)
    user.world.delete()

    user.wait(lambda: user.world.gone)

    assert not any(each.alive for each in user.world.processes)


def test_a_postponed_upgrade_lets_the_successor_go_until_it_is_tried_again() -> None:
    user = User.with_stable_job(upgrade={"warmSuccessor": True, "lastStateFallback": False})
    user.world.next_fault = "savepoint fails"
    user.edit(image="two")
    user.wait(lambda: "SavepointError" in user.reasons())
    user.wait(lambda: len(user.world.pods) == 1, seconds=10)

    user.wait(lambda: user.state is LifecycleState.STABLE and user.attempt != 1)

    assert user.attempt == 3
    assert attempts(user, CreateDriver) == [1, 2, 3]


def test_a_driver_that_finishes_while_its_successor_is_prepared_leaves_nothing_behind() -> None:
    user = prepared(job={"behaviour": "finite"})

    user.wait(lambda: user.state is LifecycleState.FINISHED or user.attempt == 2)
    user.wait(lambda: not any(each.waits for each in user.world.processes))


def test_a_successor_is_no_driver_that_an_unhealthy_job_waits_for() -> None:
    user = prepared()
    stop = user.status.reconciliation.stop

    assert stop is None or stop.purpose is TriggerPurpose.UPGRADE
    assert user.condition(ConditionType.CHECKPOINT_HEALTHY).status == "True"
