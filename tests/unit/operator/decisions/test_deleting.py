"""The end of a StreamJob, and its remains."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.unit.operator.decisions.user import User

from streamjob_operator.decisions import decide
from streamjob_operator.decisions.values.actions import AddFinalizer, DisposeCheckpoints, Emit, RemoveFinalizer, StopJob
from streamjob_operator.decisions.values.observation import StoredLog, StoreProblem, StoreTrouble
from streamjob_operator.decisions.values.situation import Limits
from streamjob_operator.resources.conditions import Condition, ConditionType
from streamjob_operator.resources.status import LifecycleState


def test_a_job_that_is_deleted_before_anything_was_done_is_let_go() -> None:
    user = User()
    user.world.delete()

    user.look(3)

    assert user.world.gone
    assert not user.did(AddFinalizer)


def test_without_the_fallback_too_a_deletion_does_not_wait_for_ever_for_a_savepoint() -> None:
    user = User.with_stable_job(savepoints={"onDeletion": True}, upgrade={"lastStateFallback": False})
    user.world.api_up = False
    user.world.delete()

    user.wait(lambda: user.world.gone)


def test_a_deletion_tries_its_savepoint_three_times() -> None:
    user = User.with_stable_job(savepoints={"onDeletion": True})
    user.world.delete()
    while not user.world.gone:
        user.world.next_fault = "savepoint fails"
        user.look()

    assert len({each.trigger_id for each in user.did(StopJob) if each.savepoint}) == 3


def test_a_job_that_never_ran_disposes_of_nothing_that_is_stored_under_its_name() -> None:
    before = User.with_stable_job()
    user = User(deletionPolicy="Delete", suspend=True)
    user.world.log = before.world.log
    user.wait_for(LifecycleState.SUSPENDED)

    user.world.delete()
    user.wait(lambda: user.world.gone)

    assert not user.did(DisposeCheckpoints)


def test_checkpoints_that_somebody_else_has_claimed_since_are_kept() -> None:
    user = User.with_stable_job(deletionPolicy="Delete")
    user.world.delete()
    user.wait(lambda: user.state is LifecycleState.DELETING and not user.world.processes)
    user.wait(lambda: user.status.reconciliation.stop is None)
    stored = user.world.stored
    # The claim of the disposal itself is one above the last driver's.
    log = StoredLog(attempt=user.attempt + 2, newest=user.world.log.newest)

    actions = decide(user.world.resource(stored), replace(user.world.observe(stored), log=log)).actions

    assert [type(action) for action in actions] == [RemoveFinalizer, Emit]


def test_the_disposal_fences_off_every_driver_and_the_finalizer_goes_behind_it() -> None:
    user = User.with_stable_job(deletionPolicy="Delete")
    attempt = user.attempt

    user.world.delete()
    user.wait(lambda: user.world.gone)

    assert user.did(DisposeCheckpoints)[-1].attempt == attempt + 1
    last = [type(action) for action in user.world.actions if not isinstance(action, Emit)][-2:]
    assert last == [DisposeCheckpoints, RemoveFinalizer]


def test_a_job_whose_checkpoints_go_with_it_takes_no_last_one() -> None:
    user = User.with_stable_job(deletionPolicy="Delete")

    user.world.delete()
    user.wait(lambda: user.world.gone)

    assert not user.did(StopJob)


def test_a_deletion_waits_ten_minutes_for_a_store_that_is_away_and_deletes_once_it_is_back() -> None:
    user = User.with_stable_job(deletionPolicy="Delete")
    user.world.store_up = False
    user.world.delete()
    user.wait(lambda: user.state is LifecycleState.DELETING and not user.world.processes)
    user.look(int(Limits().disposal / 5) - 20, seconds=5)
    assert not user.world.gone
    assert "timed out" in user.condition(ConditionType.RECONCILING).message

    user.world.store_up = True
    user.wait(lambda: user.world.gone)

    assert user.did(DisposeCheckpoints)
    assert "CleanupFailed" not in user.reasons()


@pytest.mark.parametrize(
    ("problem", "seconds"),
    [(StoreProblem.SECRET_MISSING, 90), (StoreProblem.ACCESS_DENIED, 700), (StoreProblem.UNREACHABLE, 700)],
)
def test_a_deletion_does_not_wait_for_ever_for_a_store_and_says_where_the_checkpoints_are(
    problem: StoreProblem, seconds: int
) -> None:
    user = User.with_stable_job(deletionPolicy="Delete")
    user.world.trouble = StoreTrouble(reason=problem, message="the reason of the store")
    user.world.store_up = False
    user.world.delete()

    user.wait(lambda: user.world.gone, seconds=seconds)

    assert not user.did(DisposeCheckpoints)
    (event,) = [each for each in user.world.events if each.reason == "CleanupFailed"]
    assert "the reason of the store" in event.message
    assert "s3://bucket/snapshots/default/job/" in event.message


def test_a_disposal_that_fails_for_ten_minutes_is_given_up() -> None:
    user = User.with_stable_job(deletionPolicy="Delete")
    user.world.delete()
    user.wait(lambda: user.state is LifecycleState.DELETING and not user.world.processes)
    user.wait(lambda: user.status.reconciliation.stop is None)
    resource = user.world.resource(user.world.stored)
    failed = Condition(
        type=ConditionType.READY,
        status="False",
        reason="ReconcileFailed",
        message="cannot delete s3://bucket/snapshots: AccessDenied",
        last_transition_time=datetime.fromtimestamp(user.world.now, UTC),
    )
    resource = replace(resource, status=resource.status.model_copy(update={"conditions": (failed,)}))
    seen = user.world.observe(user.world.stored)

    at_first = decide(resource, seen).actions
    later = decide(resource, replace(seen, now=seen.now + Limits().disposal + 1)).actions

    assert DisposeCheckpoints in [type(action) for action in at_first]
    assert [type(action) for action in later if not isinstance(action, Emit)] == [RemoveFinalizer]
    assert any(isinstance(each, Emit) and "AccessDenied. Its checkpoints are kept at" in each.message for each in later)
