"""The end of a StreamJob, and its remains."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.operator.decisions.user import User

from streamjob_operator.decisions import decide
from streamjob_operator.decisions.actions import AddFinalizer, DisposeCheckpoints, Emit, RemoveFinalizer, StopJob
from streamjob_operator.decisions.observation import StoredLog
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
    log = StoredLog(attempt=user.attempt + 5, epoch=9, newest=user.world.log.newest)

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
