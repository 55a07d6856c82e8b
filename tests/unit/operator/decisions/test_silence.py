"""A driver that does not answer: what is said of its job, and when."""

from __future__ import annotations

from tests.unit.operator.decisions.user import User

from streamjob_operator.decisions.values.situation import Limits
from streamjob_operator.resources.conditions import ConditionType
from streamjob_operator.resources.status import LifecycleState

SILENCE = Limits().silence


def verdict(user: User, kind: ConditionType) -> tuple[str, str]:
    found = user.condition(kind)
    return found.status, found.reason


def is_silent(user: User) -> bool:
    return user.status.job_status.silent_since is not None


def test_one_request_without_an_answer_changes_no_condition() -> None:
    user = User.with_stable_job()
    user.look(3)
    before = user.status.conditions
    user.world.api_up = False
    user.look(2)

    assert is_silent(user)
    assert user.status.conditions == before

    user.world.api_up = True
    user.look()
    assert not is_silent(user)
    assert user.status.conditions == before
    assert "NoAnswer" not in user.reasons()


def test_a_job_whose_driver_is_silent_for_long_is_not_ready_and_says_so_once() -> None:
    user = User.with_stable_job(healthCheck={"enabled": False})
    user.world.api_up = False
    user.look(int(SILENCE) + 5)

    assert verdict(user, ConditionType.RUNNING) == ("Unknown", "NoAnswer")
    assert verdict(user, ConditionType.READY) == ("False", "NoAnswer")
    assert verdict(user, ConditionType.RECONCILING) == ("True", "NoAnswer")
    assert user.reasons().count("NoAnswer") == 1
    assert user.attempt == 1

    user.world.api_up = True
    user.look(2)
    assert verdict(user, ConditionType.RUNNING) == ("True", "Running")
    assert verdict(user, ConditionType.READY) == ("True", "Stable")


def test_an_answer_now_and_then_restarts_the_count() -> None:
    user = User.with_stable_job()
    for _ in range(5):
        user.world.api_up = False
        user.look(int(SILENCE) - 5)
        user.world.api_up = True
        user.look()

    assert "NoAnswer" not in user.reasons()
    assert verdict(user, ConditionType.READY) == ("True", "Stable")


def test_a_silent_driver_whose_checkpoints_keep_coming_is_not_replaced() -> None:
    user = User.with_stable_job()
    user.world.api_up = False
    user.look(400)

    assert user.attempt == 1
    assert verdict(user, ConditionType.CHECKPOINT_HEALTHY) == ("True", "CheckpointsComplete")


def test_a_driver_that_is_being_stopped_may_be_silent() -> None:
    user = User.with_stable_job()
    user.edit(suspend=True)
    user.wait_for(LifecycleState.SUSPENDING)
    user.world.api_up = False
    user.look(2)

    assert verdict(user, ConditionType.RUNNING) == ("Unknown", "Stopping")
    assert "NoAnswer" not in user.reasons()


def test_a_driver_that_is_being_started_may_be_silent() -> None:
    user = User()
    user.world.api_up = False
    user.wait_for(LifecycleState.DEPLOYING)
    user.look(int(SILENCE) + 5)

    assert not is_silent(user)
    assert "NoAnswer" not in user.reasons()
