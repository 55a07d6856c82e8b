"""The controller gives a driver the memory that it needs, within the bounds of the user."""

from __future__ import annotations

from tests.unit.operator.decisions.scaled_user import ACT, RESTARTS, Operator, change_rate, fields

from streamjob_operator.decisions.values.actions import CreateDriver, StopJob
from streamjob_operator.resources.conditions import ConditionType
from streamjob_operator.resources.pods import DriverSpec
from streamjob_operator.resources.status import LifecycleState

MIB = 1024**2
SIZED = ACT | {"maxMemory": "4g", "minMemory": "1g"}


def driver_of(user: Operator) -> DriverSpec:
    return user.world.revisions[user.world.pods[-1].revision].spec().driver


def test_a_driver_that_is_killed_for_its_memory_gets_more_within_the_bound() -> None:
    user = Operator(autoscaling=ACT | {"maxMemory": "2g"}, driver={"memory": "1g", "memoryOverhead": "512m"})
    user.world.needs = 1700 * 1024**2
    user.minutes(8)

    memories = [user.world.revisions[each.revision].spec().driver.memory // 1024**2 for each in user.did(CreateDriver)]
    assert memories == [1024, 1536, 2048]
    driver = user.world.revisions[user.world.pods[-1].revision].spec().driver
    assert driver.memory_overhead == 1024 * 1024**2
    assert user.state is LifecycleState.STABLE
    assert user.reasons().count("MemoryRaised") == 2
    assert user.scaling.driver_memory == 2 * 1024**3
    assert all(each.restore_from == "latest" for each in user.did(CreateDriver))


def test_a_driver_at_the_bound_is_replaced_with_the_same_memory() -> None:
    user = Operator(autoscaling=ACT | {"maxMemory": "1200m"}, driver={"memory": "1g"})
    user.world.needs = 4000 * 1024**2
    user.minutes(8)

    memories = [user.world.revisions[each.revision].spec().driver.memory // 1024**2 for each in user.did(CreateDriver)]
    assert memories[:2] == [1024, 1200]
    assert set(memories[1:]) == {1200}
    assert len(memories) >= 4
    assert user.status.job_status.failures > 0


def test_more_slots_whose_drivers_exceed_their_memory_are_taken_back() -> None:
    user = Operator(autoscaling=RESTARTS, driver={"memory": "1g"})
    user.world.needs_per_slot = 150 * 1024**2
    change_rate(user, 80_000, minutes=15)

    assert (user.world.slots, user.state) == (4, LifecycleState.STABLE)
    told = [event.message for event in user.world.events if event.reason == "ScalingLimited"]
    assert told
    assert "task slots exceeded their memory of 1Gi" in told[0]
    assert "autoscaling.maxMemory" in told[0]


def test_without_a_bound_a_killed_driver_gets_no_more() -> None:
    user = Operator(autoscaling=ACT)
    user.world.needs = 4000 * 1024**2
    user.minutes(3)

    assert {user.world.revisions[each.revision].spec().driver.memory for each in user.did(CreateDriver)} == {1024**3}
    assert "MemoryRaised" not in user.reasons()


def test_a_driver_whose_heap_is_nearly_full_restarts_behind_a_checkpoint_with_more_memory() -> None:
    user = Operator(autoscaling=SIZED, driver={"memory": "2g"})
    user.world.live = 1400 * MIB
    user.minutes(5)

    assert (user.attempt, user.state, user.world.slots) == (2, LifecycleState.STABLE, 4)
    assert driver_of(user).memory == user.scaling.driver_memory
    assert 3000 * MIB <= driver_of(user).memory <= 3300 * MIB
    (stop,) = user.did(StopJob)
    assert not stop.savepoint
    (said,) = [event.message for event in user.world.events if event.reason == "MemoryRaised"]
    assert "a collection has left 1400Mi in its heap of 1536Mi" in said
    user.minutes(10)
    assert user.attempt == 2


def test_memory_for_which_the_quota_forbids_the_pod_is_taken_back_and_tried_again_after_an_hour() -> None:
    user = Operator(autoscaling=SIZED, driver={"memory": "2g"})
    user.world.live, user.world.most_memory = 1400 * MIB, 2048 * MIB
    user.minutes(10)

    assert (user.attempt, driver_of(user).memory, user.scaling.driver_memory) == (1, 2048 * MIB, 2048 * MIB)
    (said,) = [event.message for event in user.world.events if event.reason == "ScalingLimited"]
    assert said.startswith("the driver cannot have more memory: ")
    assert user.condition(ConditionType.READY).status == "True"
    user.minutes(50)
    assert user.reasons().count("MemoryRaised") == 1
    user.minutes(10)
    assert user.reasons().count("MemoryRaised") == 2


def test_a_driver_that_needed_little_memory_for_hours_gets_less_with_the_next_restart() -> None:
    user = Operator(autoscaling=SIZED | {"means": ["Restart"]}, driver={"memory": "4g"})
    user.world.live = 500 * MIB
    user.minutes(10)
    assert user.scaling.memory_use is not None
    assert user.scaling.memory_use.live_heap == 500 * MIB
    hours = user.scaling.memory_use.replaced(live_heap_before=600 * MIB)
    status = user.status.model_copy(update={"autoscaling": user.scaling.replaced(memory_use=hours)})
    user.world._write(user.world.stored.__class__(**{**fields(user), "status": status.to_dict()}))
    user.minutes(5)
    assert (user.attempt, driver_of(user).memory) == (1, 4096 * MIB)
    user.world.rate = 80_000
    user.minutes(10)

    assert (user.attempt, user.state) == (2, LifecycleState.STABLE)
    assert user.world.slots >= 9
    assert driver_of(user).memory == user.scaling.driver_memory
    assert 1024 * MIB <= driver_of(user).memory < 1500 * MIB
    assert driver_of(user).container_memory - driver_of(user).memory > 1638 * MIB
    assert user.reasons().count("MemoryReduced") == 1
    user.edit(driver={"memory": "3g"})
    user.minutes(5)
    assert driver_of(user).memory == 3072 * MIB


def test_without_bounds_the_memory_stays_as_it_is() -> None:
    user = Operator(autoscaling=ACT, driver={"memory": "2g"})
    user.world.live = 1500 * MIB
    user.minutes(10)

    assert (user.attempt, user.scaling.driver_memory) == (1, None)
