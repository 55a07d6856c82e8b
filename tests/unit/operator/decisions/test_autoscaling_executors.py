"""The controller scales a job on executors by adding and removing them beside its driver."""

from __future__ import annotations

import pytest
from tests.unit.operator.decisions.scaled_user import ACT, EXECUTORS, Operator, change_rate
from tests.unit.operator.decisions.user import merged

from streamjob.autoscaling import State, unpack_memory
from streamjob_operator.decisions.values.actions import StopJob
from streamjob_operator.resources.status import LifecycleState


def test_executors_are_added_and_removed_beside_the_same_driver() -> None:
    user = Operator(autoscaling=ACT, **EXECUTORS)
    user.minutes(10)
    assert (user.world.slots, user.status.replicas, user.scaling.state) == (4, 4, State.STEADY)
    user.world.rate = 80_000
    user.minutes(3)

    assert (user.attempt, user.state) == (1, LifecycleState.STABLE)
    assert user.world.slots == user.scaling.parallelism == user.status.replicas
    assert user.world.slots in (10, 12, 14)
    last = user.scaling.last_scaling
    assert last is not None
    assert (last.means, last.before, user.scaling.moves_today) == ("Executors", 4, 0)
    assert f"Change from 4 to {last.after} slots by executors" in last.reason
    assert user.reasons().count("ScaledUp") == 1
    assert unpack_memory(user.scaling.memory).moves[-1].confirmed
    user.world.rate = 20_000
    user.minutes(40)
    assert (user.attempt, user.world.slots) == (1, 4)
    assert not user.did(StopJob)


@pytest.mark.parametrize(("cores", "label"), [(1, "app.kubernetes.io/component=executor"), (2, "task-slots-of")])
def test_an_autoscaler_of_pods_finds_executors_if_each_has_one_slot(cores: int, label: str) -> None:
    user = Operator(autoscaling={"mode": "Off"}, **merged(EXECUTORS, {"executor": {"cores": cores}}))

    assert label in (user.status.selector or "")
    assert ("streamjob.io/uid=" in (user.status.selector or "")) is (cores == 1)


def test_executors_stay_within_bounds_that_are_no_multiple_of_their_slots() -> None:
    user = Operator(autoscaling=ACT | {"min": 3, "max": 7}, **EXECUTORS)
    change_rate(user, 200_000, minutes=10)
    assert (user.world.slots, user.scaling.state) == (6, State.LIMITED)
    user.world.rate = 100
    user.minutes(60)

    assert (user.attempt, user.world.slots) == (1, 4)


def test_nothing_is_decided_while_executors_are_missing() -> None:
    user = Operator(autoscaling=ACT, **EXECUTORS)
    user.minutes(10)
    user.world.executors.created[1] = user.world.now + 600
    user.world.rate = 80_000
    user.minutes(3)

    assert (user.scaling.state, user.scaling.parallelism) == (State.PAUSED, 4)
    assert "busy with executors that are missing" in user.scaling.reason


@pytest.mark.parametrize(("full", "words"), [("room", "Insufficient cpu"), ("quota", "exceeded quota")])
def test_executors_that_the_cluster_does_not_run_are_taken_back_and_reported(full: str, words: str) -> None:
    user = Operator(autoscaling=ACT, **EXECUTORS)
    setattr(user.world.executors, full, 3)
    change_rate(user, 120_000, minutes=10)

    (said,) = [event.message for event in user.world.events if event.reason == "ScalingLimited"]
    assert said.startswith("Back to 4 task slots: the executors for ")
    assert words in said
    assert (user.world.slots, user.attempt, user.state) == (4, 1, LifecycleState.STABLE)
    assert user.scaling.state is State.LIMITED
    assert said.removeprefix("Back to 4 task slots: ") == user.scaling.limit


def test_a_driver_killed_while_executors_join_continues_with_all_of_them() -> None:
    user = Operator(autoscaling=ACT, **EXECUTORS)
    user.minutes(10)
    user.world.rate = 80_000
    user.wait(lambda: user.scaling.parallelism != 4)
    user.world.kill_driver()
    user.minutes(6)

    assert user.world.slots == user.scaling.parallelism
    assert user.world.slots >= 10
    assert (user.attempt, user.state) == (2, LifecycleState.STABLE)
