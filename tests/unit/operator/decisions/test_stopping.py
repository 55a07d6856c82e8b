"""How a driver is stopped, step by step, and what happens if it does not do as it is asked."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.operator.decisions.user import User

from streamjob.snapshot.record import RecordKind
from streamjob_operator.decisions import decide, wanted_triggers
from streamjob_operator.decisions.values.actions import CreateDriver, DeleteDriver, StopJob
from streamjob_operator.resources.conditions import ConditionType
from streamjob_operator.resources.status import LifecycleState, TriggerPurpose


def newest_kind(user: User) -> RecordKind:
    assert user.world.log.newest is not None
    return user.world.log.newest.kind


def test_the_stop_is_stored_with_its_trigger_before_the_driver_hears_of_it() -> None:
    user = User.with_stable_job()
    user.edit(image="two")

    user.wait_for(LifecycleState.UPGRADING)
    assert not user.did(StopJob)
    (trigger,) = wanted_triggers(user.status)
    user.wait(lambda: bool(user.did(StopJob)))

    (asked, *_) = user.did(StopJob)
    assert (asked.trigger_id, asked.attempt, asked.savepoint) == (trigger, 1, True)


def test_a_savepoint_goes_where_the_spec_says() -> None:
    user = User.with_stable_job(savepoints={"location": "s3://bucket/mine"})
    user.edit(image="two")

    user.wait(lambda: bool(user.did(StopJob)))

    assert user.did(StopJob)[0].location == "s3://bucket/mine"


def test_only_a_deletion_drains_and_only_if_asked_to() -> None:
    user = User.with_stable_job(savepoints={"onDeletion": True, "drain": True})
    user.edit(image="two")
    user.wait_for(LifecycleState.UPGRADING)
    user.wait_for(LifecycleState.STABLE)
    user.world.delete()
    user.wait(lambda: user.world.gone)

    assert {(each.attempt, each.drain) for each in user.did(StopJob)} == {(1, False), (2, True)}


def test_a_driver_that_has_stopped_and_does_not_end_is_deleted() -> None:
    user = User.with_stable_job()
    user.world.processes[-1].lingers = True
    user.edit(image="two")

    user.wait(lambda: len(user.world.starts) == 2)

    assert user.did(DeleteDriver)[0].name == "job-driver-1"
    assert newest_kind(user) is RecordKind.SAVEPOINT


def test_an_older_driver_that_turns_up_during_a_stop_has_to_go_too() -> None:
    user = User.with_stable_job()
    older = user.world.observe(user.world.stored).pods[0]
    user.world.kill_driver()
    user.wait(lambda: user.attempt == 2 and user.state is LifecycleState.STABLE)
    user.world.processes[-1].savepoint_seconds = 100
    user.edit(image="two")
    user.wait(lambda: bool(user.did(StopJob)))
    user.look(3)
    stored = user.world.stored
    seen = user.world.observe(stored)

    decision = decide(user.world.resource(stored), replace(seen, pods=(*seen.pods, older)))

    assert DeleteDriver(name=older.name) in decision.actions


def test_a_savepoint_that_takes_for_ever_is_given_up() -> None:
    user = User.with_stable_job()
    user.world.processes[-1].savepoint_seconds = 100_000
    user.edit(image="two")

    user.wait(lambda: len(user.world.starts) == 2, seconds=3000)

    assert "LastStateFallback" in user.reasons()


def test_a_long_savepoint_is_waited_for() -> None:
    user = User.with_stable_job()
    user.world.processes[-1].savepoint_seconds = 500
    user.edit(image="two")

    user.wait(lambda: len(user.world.starts) == 2)

    start = user.world.starts[-1]
    assert start.newest is not None
    assert start.newest.kind is RecordKind.SAVEPOINT


def test_a_savepoint_may_take_as_long_as_a_checkpoint_may() -> None:
    user = User.with_stable_job(checkpointing={"timeout": "30m"})
    user.world.processes[-1].savepoint_seconds = 1500
    user.edit(image="two")

    user.wait(lambda: len(user.world.starts) == 2, seconds=3000)

    assert "LastStateFallback" not in user.reasons()


def test_a_silent_driver_is_asked_by_signal_where_the_last_checkpoint_will_do() -> None:
    user = User.with_stable_job(upgradeMode="last-state")
    user.world.api_up = False
    before = len(user.world.log.completions)

    user.edit(image="two")
    user.wait(lambda: len(user.world.starts) == 2)

    assert not user.did(StopJob)
    assert user.did(DeleteDriver)[0].grace is None
    assert len(user.world.log.completions) > before


def test_an_upgrade_that_was_put_off_is_tried_at_once_for_another_revision() -> None:
    user = User.with_stable_job(upgrade={"preflight": False})
    user.world.next_fault = "savepoint fails"
    user.edit(image="two")
    user.wait(lambda: "SavepointError" in user.reasons())
    user.look(2)

    user.edit(image="three")
    user.wait_for(LifecycleState.UPGRADING, seconds=5)


def test_an_upgrade_of_a_job_that_fails_under_its_savepoint_goes_on_from_the_last_checkpoint_at_once() -> None:
    user = User.with_stable_job(job={"behaviour": "failing"})

    user.edit(image="two", job={"behaviour": "good"})
    user.wait(lambda: len(user.world.starts) == 2, seconds=60)

    assert "LastStateFallback" in user.reasons()
    assert "SavepointError" not in user.reasons()
    assert user.world.starts[-1].restore_from == "latest"
    assert user.world.starts[-1].newest is not None


def test_an_upgrade_of_a_job_that_fails_is_put_off_where_a_savepoint_is_insisted_on() -> None:
    user = User.with_stable_job(job={"behaviour": "failing"}, upgrade={"lastStateFallback": False})

    user.edit(image="two", job={"behaviour": "good"})
    user.wait(lambda: "SavepointError" in user.reasons())
    user.look(30)

    assert len(user.world.starts) == 1
    assert user.condition(ConditionType.RUNNING).status == "True"


def test_an_upgrade_that_was_put_off_comes_at_once_when_the_driver_dies() -> None:
    user = User.with_stable_job(job={"behaviour": "stubborn"})
    user.edit(image="two", job={"behaviour": "good"})
    user.wait(lambda: "SavepointError" in user.reasons())
    user.look(1)

    user.world.kill_driver()
    user.wait(lambda: len(user.world.starts) == 2, seconds=15)

    assert user.status.reconciliation.last_reconciled_revision != user.status.reconciliation.last_stable_revision


def test_a_suspension_that_was_put_off_is_forgotten_when_it_is_no_longer_wanted() -> None:
    user = User.with_stable_job()
    user.world.next_fault = "savepoint fails"
    user.edit(suspend=True)
    user.wait(lambda: "SavepointError" in user.reasons())

    user.edit(suspend=False)
    user.look(100)

    assert user.state is LifecycleState.STABLE
    assert user.attempt == 1
    assert user.condition(ConditionType.READY).status == "True"


def test_a_deletion_in_the_middle_of_an_upgrade_deploys_nothing_any_more() -> None:
    user = User.with_stable_job()
    user.edit(image="two")
    user.wait_for(LifecycleState.UPGRADING)

    user.world.delete()
    user.wait(lambda: user.world.gone)

    assert len(user.world.starts) == 1
    assert newest_kind(user) is RecordKind.SAVEPOINT


def test_a_suspension_in_the_middle_of_an_upgrade_suspends_and_resumes_with_the_new_revision() -> None:
    user = User.with_stable_job()
    user.edit(image="two")
    user.wait_for(LifecycleState.UPGRADING)

    user.edit(suspend=True)
    user.wait_for(LifecycleState.SUSPENDED)
    user.edit(suspend=False)
    user.wait(lambda: len(user.world.starts) == 2)

    assert user.world.revisions[str(user.status.reconciliation.last_reconciled_revision)].content["image"] == "two"


def test_a_spec_that_becomes_invalid_in_the_middle_of_an_upgrade_leaves_the_upgrade_as_it_was_decided() -> None:
    user = User.with_stable_job()
    user.edit(image="two")
    user.wait_for(LifecycleState.UPGRADING)
    user.world.apply({**user.world.stored.spec, "image": "three"}, valid=False)

    user.wait(lambda: len(user.world.starts) == 2)

    assert user.world.revisions[str(user.status.reconciliation.last_reconciled_revision)].content["image"] == "two"


def test_a_failed_revision_gets_no_time_for_a_last_checkpoint_before_its_rollback() -> None:
    user = User.with_stable_job(upgrade={"rollback": {"enabled": True, "readinessTimeout": "1m"}})
    user.edit(job={"behaviour": "hang"})

    user.wait_for(LifecycleState.ROLLED_BACK)

    assert user.did(DeleteDriver)[-1].grace == 1


def test_a_revision_that_completes_something_while_it_is_rolled_back_is_kept() -> None:
    user = User.with_stable_job(upgrade={"rollback": {"enabled": True, "readinessTimeout": "1m"}})
    user.edit(job={"behaviour": "hang"})
    user.wait_for(LifecycleState.ROLLING_BACK)
    late = user.world.processes[-1]
    late.behaviour = "good"
    late.step(user.world.now + 1000)

    user.wait_for(LifecycleState.DEPLOYING)

    assert "RollbackCancelled" in user.reasons()
    assert user.status.reconciliation.failed_revision is None
    assert user.did(DeleteDriver)
    stop = user.status.reconciliation.stop
    assert stop is None or stop.purpose is not TriggerPurpose.ROLLBACK


def killed_before_its_savepoint() -> User:
    user = User.with_stable_job(upgrade={"lastStateFallback": False})
    user.world.processes[-1].savepoint_seconds = 100
    user.edit(image="two")
    user.wait(lambda: bool(user.did(StopJob)))
    user.look(3)
    user.world.kill_driver()
    return user


def test_without_the_fallback_a_driver_that_dies_before_its_savepoint_is_started_again_to_take_one() -> None:
    user = killed_before_its_savepoint()

    user.wait(lambda: len(user.world.starts) == 3)

    images = [user.world.revisions[each.revision].content["image"] for each in user.did(CreateDriver)]
    assert list(dict.fromkeys(zip(images, (each.attempt for each in user.did(CreateDriver)), strict=True))) == [
        ("one", 1),
        ("one", 2),
        ("two", 3),
    ]
    start = user.world.starts[-1]
    assert start.newest is not None
    assert start.newest.kind is RecordKind.SAVEPOINT


def test_whether_a_savepoint_was_completed_is_asked_of_the_log_before_anything_follows() -> None:
    user = User.with_stable_job(upgrade={"lastStateFallback": False})
    user.world.next_fault = "crash behind savepoint"
    user.edit(image="two")
    user.wait(lambda: bool(user.did(StopJob)))
    user.world.store_up = False

    user.look(60)
    assert user.state is LifecycleState.UPGRADING
    assert user.condition(ConditionType.RECONCILING).reason == "StoreUnreachable"

    user.world.store_up = True
    user.wait(lambda: len(user.world.starts) == 2)
    assert user.world.revisions[user.did(CreateDriver)[-1].revision].content["image"] == "two"


def test_a_job_that_finishes_as_it_is_to_be_suspended_has_finished() -> None:
    user = User.with_stable_job(job={"behaviour": "finite"})
    user.world.tick(60)

    user.edit(suspend=True)
    user.look(10)

    assert user.state is LifecycleState.FINISHED
