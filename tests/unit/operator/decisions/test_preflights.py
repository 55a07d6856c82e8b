"""Before a driver is stopped for another revision, a pod of that revision checks that it can start."""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation.operator.preflights import FOUND, PreflightPod
from tests.unit.operator.decisions.user import User

from streamjob_operator.decisions.values.actions import CreateDriver, CreatePreflight, StopJob
from streamjob_operator.resources.conditions import ConditionType
from streamjob_operator.resources.status import LifecycleState

PASSED = ConditionType.PREFLIGHT_PASSED
WARM = {"upgrade": {"warmSuccessor": True}}


def upgraded(**changes: Any) -> User:
    """Return a user whose job runs, and whose changed spec was looked at until a preflight has a pod."""
    user = User.with_stable_job()
    user.edit(**(changes or {"image": "two"}))
    user.wait(lambda: bool(user.did(CreatePreflight)))
    return user


def upgrade_ends(user: User) -> None:
    user.wait(lambda: user.state is LifecycleState.STABLE and user.attempt > 1)


def test_the_driver_runs_until_a_pod_of_the_new_revision_has_found_that_it_can_start() -> None:
    user = upgraded()
    made = user.did(CreatePreflight)[0]
    assert made.revision == user.world.resource(user.world.stored).wanted.name  # type: ignore[union-attr]
    assert (made.number, made.restore_from, made.location, made.allow_non_restored_state) == (1, "latest", None, False)
    assert made.require_snapshot, "a wrong Secret may lead to an empty store"
    assert not user.did(StopJob)
    assert user.condition(PASSED).reason == "PreflightRunning"
    assert user.condition(ConditionType.RECONCILING).reason == "PreflightRunning"

    upgrade_ends(user)

    assert len(user.did(CreatePreflight)) == 1
    assert user.condition(PASSED).status == "True"
    assert user.condition(ConditionType.READY).status == "True"
    assert "PreflightPassed" in user.reasons()
    assert not user.world.preflights.pods
    assert not [each for each in user.world.events if each.type == "Warning"]


@pytest.mark.parametrize("behaviour", ["invalid", "unrestorable"])
def test_a_revision_that_cannot_start_leaves_the_driver_alone_until_the_spec_changes(behaviour: str) -> None:
    user = upgraded(job={"behaviour": behaviour})
    user.wait(lambda: user.condition(PASSED).status == "False")
    user.look(300)

    assert FOUND in user.condition(PASSED).message
    assert user.condition(PASSED).reason == "PreflightFailed"
    for kind in (ConditionType.READY, ConditionType.STALLED):
        assert FOUND in user.condition(kind).message
    assert user.condition(ConditionType.STALLED).status == "True"
    assert [FOUND in each.message for each in user.world.events if each.reason == "PreflightFailed"] == [True]
    assert user.condition(ConditionType.RUNNING).status == "True"
    assert user.state is LifecycleState.STABLE
    assert not user.did(StopJob)
    assert len(user.did(CreatePreflight)) == 1
    assert [pod.name for pod in user.world.preflights.pods] == ["job-preflight-1"], "its log is gone"

    user.edit(job={"behaviour": "good"}, image="two")
    upgrade_ends(user)

    assert user.world.preflights.made == [1, 2]
    assert user.condition(PASSED).status == "True"


def test_a_new_generation_of_the_same_revision_is_checked_again() -> None:
    user = upgraded(job={"behaviour": "invalid"})
    user.wait(lambda: user.condition(PASSED).status == "False")
    user.world.preflights.exit_code = 0

    user.edit(savepoints={"schedule": "6h"})
    user.wait(lambda: user.condition(PASSED).status == "True")

    assert user.world.preflights.made == [1, 2]


def test_while_its_image_is_missing_the_job_runs_on_and_the_condition_says_so_at_once() -> None:
    user = upgraded(job={"behaviour": "no-image"})
    user.look(2)
    assert (user.condition(PASSED).status, user.condition(PASSED).reason) == ("False", "ImagePullBackOff")
    user.look(300)

    assert "the job runs on" in user.condition(ConditionType.RECONCILING).message
    assert user.reasons().count("ImagePullBackOff") == 1
    assert user.condition(ConditionType.RUNNING).status == "True"
    assert not user.did(StopJob)

    user.world.pull_images()
    user.wait(lambda: bool(user.did(StopJob)))


def test_a_driver_that_dies_while_its_next_image_is_missing_is_replaced_by_one_of_its_revision() -> None:
    user = upgraded(job={"behaviour": "no-image"})
    user.look(5)
    revision = user.status.reconciliation.last_reconciled_revision

    user.world.kill_driver()
    user.wait(lambda: len(user.world.starts) == 2)

    assert user.status.reconciliation.last_reconciled_revision == revision
    assert user.condition(PASSED).reason == "ImagePullBackOff"


def test_a_driver_that_dies_behind_a_failed_preflight_is_replaced_by_one_of_its_revision() -> None:
    user = upgraded(job={"behaviour": "invalid"})
    user.wait(lambda: user.condition(PASSED).status == "False")
    revision = user.status.reconciliation.last_reconciled_revision

    user.world.kill_driver()
    user.wait(lambda: len(user.world.starts) == 2)

    assert user.status.reconciliation.last_reconciled_revision == revision
    assert user.condition(ConditionType.STALLED).reason == "PreflightFailed"


def test_a_failure_that_may_pass_is_repeated_with_growing_delays() -> None:
    user = User.with_stable_job()
    user.world.preflights.exit_code = 137
    user.edit(image="two")
    user.wait(lambda: len(user.world.preflights.made) == 4)
    user.look(10)

    assert user.condition(ConditionType.STALLED).status == "False"
    assert user.condition(ConditionType.RECONCILING).reason == "PreflightFailed"
    assert "exit code 137" in user.condition(ConditionType.RECONCILING).message
    made = [each.number for each in user.did(CreatePreflight)]
    assert made == [1, 2, 3, 4]
    assert len(user.world.preflights.pods) == 1

    user.world.preflights.exit_code = None
    upgrade_ends(user)


def test_what_it_says_itself_is_told_from_its_beginning_and_without_an_exit_code() -> None:
    user = User.with_stable_job()
    user.world.preflights.exit_code = 5
    user.edit(image="two")
    user.wait(lambda: "PreflightFailed" in user.reasons())

    assert user.condition(PASSED).message == FOUND
    assert user.condition(ConditionType.STALLED).status == "False", "a store may answer again"


def test_state_that_an_older_runtime_does_not_find_is_looked_for_again() -> None:
    user = upgraded(job={"behaviour": "unrestorable"})
    user.world.preflights.pods[0].is_of_an_older_runtime = True
    user.wait(lambda: user.world.preflights.made == [1, 2])

    assert not user.did(StopJob)
    user.wait(lambda: user.condition(ConditionType.STALLED).status == "True")
    assert user.world.preflights.made == [1, 2]


def test_a_check_that_hangs_is_ended_and_repeated() -> None:
    user = User.with_stable_job()
    user.world.preflights.never_end = True
    user.edit(image="two")
    user.wait(lambda: "PreflightFailed" in user.reasons())
    user.look(3)

    assert "did not end within 300 s" in user.condition(PASSED).message
    assert not user.world.preflights.pods
    assert not user.did(StopJob)

    user.world.preflights.never_end = False
    upgrade_ends(user)


def test_a_pod_that_somebody_deletes_is_made_again_under_another_name() -> None:
    user = upgraded()
    user.look(2)
    user.world.preflights.pods.clear()
    upgrade_ends(user)

    assert user.world.preflights.made == [1, 2]


def test_a_name_that_another_pod_has_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    user = User.with_stable_job()
    with monkeypatch.context() as taken:
        taken.setattr(user.world.preflights, "create", lambda *arguments: None)
        user.edit(image="two")
        user.wait(lambda: bool(user.did(CreatePreflight)))
        user.wait(lambda: user.did(CreatePreflight)[-1].number == 2)
    upgrade_ends(user)

    assert user.world.preflights.made == [2]


def test_what_a_pod_of_another_revision_has_found_under_its_name_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user = User.with_stable_job()
    now = user.world.now
    older = PreflightPod("job-preflight-1", "its uid", 1, "older", now, "good", started=now, exit_code=0)
    user.world.preflights.pods.append(older)
    with monkeypatch.context() as stuck:
        stuck.setattr(user.world.preflights, "delete", lambda name: None)
        user.edit(image="two")
        user.wait(lambda: bool(user.did(CreatePreflight)))
    upgrade_ends(user)

    assert user.world.preflights.made == [2]


@pytest.mark.parametrize("full", ["nodes", "quota"])
def test_without_room_for_a_second_pod_the_upgrade_goes_on_without_and_says_so(full: str) -> None:
    user = User.with_stable_job()
    user.world.preflights.no_room = full == "nodes"
    user.edit(image="two")
    user.wait(lambda: user.status.reconciliation.preflight is not None)
    user.world.rejects = full == "quota"
    user.wait(lambda: "PreflightSkipped" in user.reasons())
    user.world.rejects = False
    upgrade_ends(user)

    assert user.condition(PASSED).status == "Unknown"
    assert user.condition(PASSED).reason == "PreflightSkipped"
    assert not [each for each in user.world.events if each.type == "Warning" and each.reason != "PodRejected"]


def test_a_pod_that_no_node_would_take_in_the_place_of_the_driver_either_is_waited_for() -> None:
    user = User.with_stable_job()
    user.world.preflights.no_room = True
    user.edit(image="two")
    user.wait(lambda: bool(user.world.preflights.pods))
    words = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
    user.world.preflights.pods[0].message = words
    user.look(300)

    assert (user.condition(PASSED).status, user.condition(PASSED).reason) == ("False", "Unschedulable")
    assert words in user.condition(PASSED).message
    assert not user.did(StopJob)


def test_a_running_job_keeps_its_savepoints_and_its_health_check_while_a_preflight_waits() -> None:
    user = upgraded(job={"behaviour": "no-image"}, savepoints={"schedule": "30s"})

    user.wait(lambda: len(user.world.snapshots) > 1, seconds=120)

    assert not user.did(StopJob)


@pytest.mark.parametrize("seconds", [0, 2, 5])
def test_a_suspension_a_deletion_or_a_withdrawal_removes_the_preflight(seconds: int) -> None:
    suspended, deleted, withdrawn, off = upgraded(), upgraded(), upgraded(), upgraded(job={"behaviour": "no-image"})
    for user in (suspended, deleted, withdrawn, off):
        user.look(seconds)

    suspended.edit(suspend=True)
    suspended.wait(lambda: suspended.state is LifecycleState.SUSPENDED and not suspended.world.preflights.pods)
    deleted.world.delete()
    deleted.wait(lambda: deleted.world.gone)
    withdrawn.edit(image="one")
    withdrawn.wait(
        lambda: not withdrawn.world.preflights.pods and withdrawn.condition(ConditionType.READY).status == "True"
    )
    off.edit(upgrade={"preflight": False})
    off.wait(lambda: bool(off.did(StopJob)) and not off.world.preflights.pods)

    assert withdrawn.attempt == 1
    assert not withdrawn.did(StopJob)


def test_a_spec_that_changes_again_is_checked_instead() -> None:
    user = upgraded()
    user.edit(job={"behaviour": "invalid"})
    user.wait(lambda: user.condition(PASSED).status == "False")

    assert user.world.preflights.made == [1, 2]
    assert not user.did(StopJob)


def test_a_rescale_needs_none_and_one_during_a_preflight_begins_another() -> None:
    user = User.with_stable_job()
    user.edit(parallelism=2)
    upgrade_ends(user)
    assert not user.did(CreatePreflight)

    user.edit(image="two")
    user.wait(lambda: bool(user.did(CreatePreflight)))
    user.edit(parallelism=3)
    user.wait(lambda: user.state is LifecycleState.STABLE and user.attempt == 3)

    assert user.world.preflights.made == [1, 2]


def test_a_redeployment_is_checked_against_the_snapshot_that_it_names() -> None:
    user = upgraded(savepointRedeployNonce=1, initialSavepointPath="s3://b/s/manifest.json")
    assert user.did(CreatePreflight)[0].restore_from == "s3://b/s/manifest.json"
    upgrade_ends(user)
    assert user.world.starts[-1].restore_from == "s3://b/s/manifest.json"

    refused = User.with_stable_job()
    refused.world.preflights.exit_code = 3
    refused.edit(savepointRedeployNonce=1, initialSavepointPath="s3://b/s/manifest.json")
    refused.wait(lambda: refused.condition(ConditionType.STALLED).reason == "PreflightFailed")
    refused.look(100)
    assert not refused.did(StopJob)


def test_a_stateless_job_is_checked_without_state_and_a_move_against_the_place_that_it_leaves() -> None:
    stateless = upgraded(upgradeMode="stateless", image="two")
    moved = upgraded(checkpointing={"location": "s3://bucket/elsewhere"})

    none = stateless.did(CreatePreflight)[0]
    assert (none.restore_from, none.require_snapshot) == ("none", False)
    made = moved.did(CreatePreflight)[0]
    assert (made.restore_from, made.location, made.require_snapshot) == ("latest", "s3://bucket/snapshots", True)


def test_it_can_be_turned_off() -> None:
    user = User.with_stable_job(upgrade={"preflight": False})
    user.edit(image="two")
    upgrade_ends(user)

    assert not user.did(CreatePreflight)
    assert user.condition(PASSED).status == "Unknown"


def test_a_first_start_and_a_resumption_leave_it_to_the_driver() -> None:
    user = User(job={"behaviour": "invalid"})
    user.wait_for(LifecycleState.FAILED)
    assert user.condition(ConditionType.STALLED).reason == "InvalidJob"
    assert len(user.did(CreateDriver)) == 1

    resumed = User.with_stable_job()
    resumed.edit(suspend=True)
    resumed.wait_for(LifecycleState.SUSPENDED)
    resumed.edit(suspend=False, image="two")
    resumed.wait_for(LifecycleState.STABLE)

    assert not user.did(CreatePreflight) + resumed.did(CreatePreflight)


def test_a_warm_successor_takes_its_place() -> None:
    user = User.with_stable_job(**WARM)
    user.edit(image="two")
    upgrade_ends(user)

    assert not user.did(CreatePreflight)
    assert user.condition(PASSED).status == "True"
    assert "job-driver-2" in user.condition(PASSED).message


def test_a_warm_successor_that_cannot_start_is_a_failed_preflight() -> None:
    user = User.with_stable_job(**WARM)
    user.edit(job={"behaviour": "invalid"})
    user.wait(lambda: user.condition(ConditionType.STALLED).reason == "PreflightFailed")
    user.look(100)

    assert "SuccessorFailed" not in user.reasons()
    assert not user.did(StopJob)
    assert not user.did(CreatePreflight)
    assert [pod.attempt for pod in user.world.pods] == [1]

    user.edit(job={"behaviour": "good"}, image="two")
    upgrade_ends(user)
    assert user.attempt == 3


def test_behind_a_successor_without_room_a_preflight_is_tried() -> None:
    user = User.with_stable_job(**WARM)
    user.edit(image="two")
    user.wait(lambda: user.status.reconciliation.successor is not None)
    user.world.rejects = True
    user.wait(lambda: "SuccessorFailed" in user.reasons())
    user.world.rejects = False
    upgrade_ends(user)

    assert len(user.did(CreatePreflight)) == 1


def test_a_job_whose_restarts_are_used_up_does_not_start_a_revision_that_failed_its_preflight() -> None:
    user = User.with_stable_job(restartPolicy={"type": "Never"})
    user.edit(job={"behaviour": "invalid"})
    user.wait(lambda: user.condition(ConditionType.STALLED).reason == "PreflightFailed")

    user.world.processes[0].end(5, user.world.processes[0].state)
    user.wait_for(LifecycleState.FAILED)
    user.look(30)

    assert len(user.did(CreateDriver)) == 1
    user.edit(job={"behaviour": "good"}, image="two")
    user.wait_for(LifecycleState.STABLE)
