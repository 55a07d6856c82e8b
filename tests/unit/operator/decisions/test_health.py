"""When a driver that runs is replaced, and when it is left alone."""

from __future__ import annotations

from tests.unit.operator.decisions.user import User

from streamjob_operator.resources.conditions import ConditionType
from streamjob_operator.resources.status import LifecycleState


def test_a_silent_driver_whose_checkpoints_go_on_is_left_alone() -> None:
    user = User.with_stable_job()
    user.world.api_up = False

    user.look(200)

    assert user.attempt == 1
    assert user.condition(ConditionType.RUNNING).status == "Unknown"


def test_nothing_is_concluded_while_neither_driver_nor_store_answers() -> None:
    user = User.with_stable_job()
    user.world.api_up = user.world.store_up = False

    user.look(200)

    assert user.attempt == 1
    assert user.state is LifecycleState.STABLE


def test_a_health_check_that_is_off_replaces_nothing() -> None:
    user = User(job={"behaviour": "hang"}, healthCheck={"enabled": False})

    user.look(300)

    assert user.attempt == 1
