"""Runs by a schedule: when they begin, when they do not, and what rests between them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.operator.decisions.user import User

from streamjob.errors import ExitCode
from streamjob.snapshot.record import RecordKind
from streamjob_operator.decisions.values.actions import CreateDriver, Emit
from streamjob_operator.resources.base import stamp_of
from streamjob_operator.resources.conditions import ConditionType
from streamjob_operator.resources.status import LifecycleState

OFTEN = {"cron": "*/5 * * * *"}
PERIOD = 300
"""The world begins at 13:46:40."""


def scheduled(**changes: Any) -> User:
    """Return a user whose job waits for its first run, at 13:50."""
    user = User(**{"schedule": OFTEN, **changes})
    user.wait(lambda: user.state is LifecycleState.SCHEDULED and user.status.schedule.next_run is not None)
    return user


def during_a_run(**changes: Any) -> User:
    user = scheduled(**changes)
    user.wait_for(LifecycleState.STABLE)
    return user


def next_run(user: User) -> str:
    assert user.status.schedule.next_run is not None
    return user.status.schedule.next_run.strftime("%H:%M")


def runs_begun(user: User) -> list[str]:
    """Return the messages of the runs that have begun."""
    return [event.message for event in user.world.events if event.reason == "RunStarted"]


def skipped(user: User) -> list[Emit]:
    return [event for event in user.world.events if event.reason == "RunSkipped"]


def test_a_new_job_waits_for_its_first_time_and_is_ready_meanwhile() -> None:
    user = scheduled()

    user.look(100)

    assert not user.did(CreateDriver)
    assert next_run(user) == "13:50"
    ready = user.condition(ConditionType.READY)
    assert (ready.status, ready.reason) == ("True", "Scheduled")
    assert ready.message == "no run is under way; the next one begins at 1970-01-12T13:50:00Z"


def test_a_job_that_rests_is_looked_at_again_when_its_next_run_is_due() -> None:
    user = scheduled()

    decision = user.world.reconcile()

    assert decision is not None
    assert decision.requeue == PERIOD - user.world.now % PERIOD


def test_each_run_continues_from_the_last_checkpoint_of_the_one_before() -> None:
    user = scheduled()
    for number in range(1, 4):
        user.wait(lambda: len(user.world.starts) == number, seconds=2 * PERIOD)  # noqa: B023
        user.wait_for(LifecycleState.SCHEDULED)
        user.look(2)
        assert user.world.pods == []

    assert [each.available_now for each in user.did(CreateDriver)] == [True] * 3
    assert [each.require_snapshot for each in user.did(CreateDriver)] == [False, True, True]
    assert {each.kind for each in user.world.log.completions} == {RecordKind.CHECKPOINT}
    assert runs_begun(user) == [
        f"a run begins: it was due at 1970-01-12T{time}:00Z" for time in ("13:50", "13:55", "14:00")
    ]
    schedule = user.status.schedule
    assert schedule.last_run is not None
    assert schedule.last_completed is not None
    assert schedule.last_run.strftime("%H:%M:%S") == "14:00:00"
    assert schedule.last_run < schedule.last_completed
    assert not schedule.under_way
    assert user.status.job_status.restarts == 0


def test_a_time_in_a_time_zone_is_one_of_its_clock() -> None:
    user = scheduled(schedule={"cron": "30 20 * * *", "timeZone": "Asia/Kolkata"})

    assert next_run(user) == "15:00"


def test_a_time_passes_while_a_run_is_under_way() -> None:
    user = during_a_run(schedule={"cron": "* * * * *"}, checkpointing={"interval": "80s"}, healthCheck=None)

    user.wait_for(LifecycleState.SCHEDULED)

    first, *_ = skipped(user)
    assert first.type == "Warning"
    began = stamp_of(user.status.schedule.last_run.timestamp()) if user.status.schedule.last_run else ""
    assert first.message == (
        "the run that was due at 1970-01-12T13:48:00Z does not begin: the one before, which began at "
        f"{began}, is still under way"
    )
    assert len(user.did(CreateDriver)) == 1
    user.wait(lambda: len(runs_begun(user)) == 2, seconds=60)


def test_the_end_of_a_run_is_seen_before_a_time_that_has_passed_with_it() -> None:
    user = during_a_run(schedule={"cron": "* * * * *"})
    user.world.tick(120)

    user.wait_for(LifecycleState.SCHEDULED, seconds=5)

    assert skipped(user) == []


def test_times_that_were_missed_are_made_up_for_by_one_run() -> None:
    user = scheduled()
    user.world.tick(5 * PERIOD)

    user.wait_for(LifecycleState.STABLE)
    user.wait_for(LifecycleState.SCHEDULED)
    user.look(100)

    assert runs_begun(user) == ["a run begins: it was due at 1970-01-12T13:50:00Z"]
    assert next_run(user) == "14:15"


@pytest.mark.parametrize(("away", "runs"), [(PERIOD + 350, 0), (PERIOD + 220, 1), (220, 1), (350, 0)])
def test_a_run_does_not_begin_later_than_its_deadline(away: int, runs: int) -> None:
    user = scheduled(schedule={**OFTEN, "startingDeadline": "90s"})
    user.world.tick(away)

    user.look(60)

    assert len(runs_begun(user)) == runs
    passed = "the run that was due at 1970-01-12T13:50:00Z does not begin: it could not begin within 90 s"
    assert [event.message for event in skipped(user)] == [passed] * (1 - runs)


@pytest.mark.parametrize("code", [ExitCode.INTERRUPTED, ExitCode.FAILED, 137])
def test_a_driver_that_does_not_come_to_the_end_of_its_run_is_replaced(code: int) -> None:
    user = during_a_run()
    user.world.processes[-1].exit_code = code

    user.wait(lambda: len(user.world.starts) == 2)
    user.wait_for(LifecycleState.SCHEDULED)

    assert [each.available_now for each in user.did(CreateDriver)] == [True, True]
    assert len(runs_begun(user)) == 1
    assert user.status.job_status.failures == 0


def test_a_driver_that_was_stopped_before_it_had_read_all_says_so() -> None:
    user = during_a_run()
    user.world.processes[-1].exit_code = ExitCode.INTERRUPTED
    user.look(2)

    assert user.status.job_status.failure_reason == "DriverStopped"
    assert user.status.job_status.failure == "driver job-driver-1 was stopped before it had read all that was there"


def test_a_run_that_has_failed_for_good_ends_and_the_next_one_begins_at_its_time() -> None:
    user = scheduled(job={"behaviour": "crash"}, restartPolicy={"onFailureRetries": 1, "onFailureRetryInterval": "5s"})
    user.wait_for(LifecycleState.FAILED)
    assert user.condition(ConditionType.STALLED).reason == "RestartsExhausted"
    user.look(60)
    assert len(user.did(CreateDriver)) == 2

    user.wait(lambda: len(runs_begun(user)) == 2, seconds=PERIOD)
    user.wait_for(LifecycleState.FAILED)

    assert len(user.did(CreateDriver)) == 4
    assert skipped(user) == []


def test_a_run_that_has_failed_for_good_is_repeated_at_once_for_a_changed_spec() -> None:
    user = scheduled(job={"behaviour": "invalid"})
    user.wait_for(LifecycleState.FAILED)

    user.edit(job={"behaviour": "good"})
    user.wait_for(LifecycleState.STABLE, seconds=60)

    assert user.did(CreateDriver)[-1].available_now
    user.wait_for(LifecycleState.SCHEDULED)


def test_a_run_that_is_repeated_for_a_changed_spec_is_the_one_that_its_nonce_asks_for() -> None:
    user = scheduled(schedule={"cron": "0 3 * * *", "runNonce": 1}, job={"behaviour": "invalid"})
    user.edit(schedule={"cron": "0 3 * * *", "runNonce": 2})
    user.wait_for(LifecycleState.FAILED)
    began = user.status.schedule.last_run
    assert began is not None

    user.edit(schedule={"cron": "0 3 * * *", "runNonce": 3}, job={"behaviour": "good"})
    user.wait_for(LifecycleState.SCHEDULED)
    user.look(100)

    assert len(user.did(CreateDriver)) == 2
    assert user.status.schedule.last_run is not None
    assert user.status.schedule.last_run > began


def test_a_job_that_another_owner_has_superseded_begins_no_run() -> None:
    user = during_a_run()
    user.world.check_status = lambda: None  # type: ignore[method-assign]
    user.world.processes[-1].exit_code = ExitCode.SUPERSEDED
    user.world.processes.clear()

    user.wait_for(LifecycleState.FAILED)
    user.look(30, seconds=30)
    decision = user.world.reconcile()

    assert len(user.did(CreateDriver)) == 1
    assert decision is not None
    assert decision.requeue is None


def test_a_changed_spec_waits_for_the_next_run_and_needs_no_savepoint() -> None:
    user = during_a_run()
    user.edit(image="two")
    user.look(3)
    waits = user.condition(ConditionType.RECONCILING)
    assert (waits.reason, waits.message) == (
        "SpecChanged",
        "the running job does not match the spec yet; the next run does",
    )

    user.wait_for(LifecycleState.SCHEDULED)
    user.wait(lambda: len(user.world.starts) == 2, seconds=2 * PERIOD)

    first, second = (user.world.revisions[each.revision].content["image"] for each in user.did(CreateDriver))
    assert (first, second) == ("one", "two")
    assert not user.world.taken
    assert len(runs_begun(user)) == 2


def test_a_changed_spec_replaces_a_driver_that_has_not_come_to_run() -> None:
    user = scheduled(job={"behaviour": "no-image"})
    user.wait_for(LifecycleState.DEPLOYING)
    user.look(20)

    user.edit(job={"behaviour": "good"})
    user.wait_for(LifecycleState.STABLE)
    user.wait_for(LifecycleState.SCHEDULED)

    assert len(runs_begun(user)) == 1


def test_a_spec_that_does_not_fit_the_state_begins_no_run_until_it_does() -> None:
    user = scheduled()
    user.wait_for(LifecycleState.STABLE)
    user.wait_for(LifecycleState.SCHEDULED)
    user.world.apply(user.world.stored.spec, valid=False)
    user.look(20, seconds=30)
    assert len(user.did(CreateDriver)) == 1
    assert user.condition(ConditionType.STALLED).reason == "InvalidSpec"

    user.world.apply(user.world.stored.spec, valid=True)
    user.wait_for(LifecycleState.STABLE, seconds=60)


def test_an_invalid_spec_of_a_run_that_has_failed_is_not_looked_at_all_the_time() -> None:
    user = scheduled(job={"behaviour": "invalid"})
    user.wait_for(LifecycleState.FAILED)
    user.world.apply(user.world.stored.spec, valid=False)
    user.look(20, seconds=30)

    decision = user.world.reconcile()

    assert decision is not None
    assert decision.requeue is None


def test_a_changed_schedule_counts_from_now_on() -> None:
    user = scheduled(schedule={"cron": "0 3 * * *"})
    user.look(10)

    user.edit(schedule={"cron": "55 * * * *"})
    user.look(3)

    assert next_run(user) == "13:55"
    assert runs_begun(user) == []


def test_a_suspended_job_begins_no_run_and_makes_up_for_none_when_it_is_resumed() -> None:
    user = scheduled()
    user.edit(suspend=True)
    user.wait_for(LifecycleState.SUSPENDED)
    user.look(16, seconds=60)
    assert user.did(CreateDriver) == []
    assert user.status.schedule.next_run is None

    user.edit(suspend=False)
    user.wait_for(LifecycleState.SCHEDULED)
    user.look(60)

    assert user.did(CreateDriver) == []
    assert next_run(user) == "14:05"


def test_a_suspension_stops_a_run_with_a_savepoint_from_which_the_next_one_continues() -> None:
    user = during_a_run()
    user.edit(suspend=True)
    user.wait_for(LifecycleState.SUSPENDED)
    assert user.world.log.newest is not None
    assert user.world.log.newest.kind is RecordKind.SAVEPOINT
    taken = user.newest

    user.edit(suspend=False)
    user.wait(lambda: len(user.world.starts) == 2, seconds=2 * PERIOD)

    newest = user.world.starts[-1].newest
    assert newest is not None
    assert newest.path == taken


def test_a_job_that_runs_all_the_time_stops_with_its_state_for_a_schedule() -> None:
    user = User.with_stable_job()
    user.edit(schedule=OFTEN)
    user.wait_for(LifecycleState.SUSPENDING)
    user.wait_for(LifecycleState.SCHEDULED)
    assert "Scheduling" in user.reasons()
    assert user.world.log.newest is not None
    assert user.world.log.newest.kind is RecordKind.SAVEPOINT

    user.wait(lambda: len(user.world.starts) == 2, seconds=2 * PERIOD)

    assert [each.available_now for each in user.did(CreateDriver)] == [False, True]


@pytest.mark.parametrize("state", [LifecycleState.SCHEDULED, LifecycleState.STABLE])
def test_a_job_without_its_schedule_runs_all_the_time_once_its_run_is_over(state: LifecycleState) -> None:
    user = scheduled()
    user.wait_for(state)

    user.edit(schedule=None)
    user.wait(lambda: bool(user.did(CreateDriver)) and not user.did(CreateDriver)[-1].available_now)
    user.wait_for(LifecycleState.STABLE)
    user.look(20, seconds=30)

    assert user.state is LifecycleState.STABLE
    assert user.status.schedule.next_run is None
    assert [each.restore_from for each in user.did(CreateDriver)] == ["latest"] * len(user.did(CreateDriver))


def test_a_run_is_asked_for_by_nonce_also_behind_the_one_that_is_under_way() -> None:
    user = scheduled(schedule={**OFTEN, "runNonce": 1})
    user.look(20)
    assert user.did(CreateDriver) == [], "a first nonce asks for nothing"

    user.edit(schedule={"runNonce": 2})
    user.wait_for(LifecycleState.STABLE, seconds=60)
    user.edit(schedule={"runNonce": 3})
    user.wait(lambda: len(user.did(CreateDriver)) == 2, seconds=300)
    user.wait_for(LifecycleState.SCHEDULED)
    user.look(20)

    assert runs_begun(user)[:2] == ["a run begins: runNonce has changed"] * 2
    assert user.world.processes == []


def test_the_runs_of_a_revision_that_was_rolled_back_are_those_of_the_stable_one() -> None:
    user = scheduled(upgrade={"rollback": {"enabled": True, "readinessTimeout": "1m"}})
    user.wait_for(LifecycleState.STABLE)
    user.wait_for(LifecycleState.SCHEDULED)
    user.edit(job={"behaviour": "no-image"})

    user.wait(lambda: "RolledBack" in {user.condition(ConditionType.ROLLED_BACK).reason}, seconds=2 * PERIOD)
    user.wait_for(LifecycleState.SCHEDULED)
    user.wait(lambda: len(runs_begun(user)) == 3, seconds=2 * PERIOD)
    user.wait_for(LifecycleState.SCHEDULED)

    made = user.did(CreateDriver)
    assert [made[i].revision == made[0].revision for i in range(len(made))] == [True, False, True, True]


def test_a_job_that_rests_can_be_deleted() -> None:
    user = scheduled()
    user.world.delete()

    user.wait(lambda: user.world.gone)
