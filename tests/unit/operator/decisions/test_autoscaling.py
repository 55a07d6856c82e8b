"""The controller scales a job by its load: it decides, records all of it in the status, and restarts the job."""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation.operator.load import LoadedCluster
from tests.unit.operator.decisions.user import SPEC, User, merged

from streamjob.autoscaling import State, unpack_memory
from streamjob_operator.decisions.actions import CreateDriver, ResizeDriver, StopJob
from streamjob_operator.decisions.slots import format_cpu
from streamjob_operator.resources.conditions import ConditionType
from streamjob_operator.resources.pods import DriverSpec
from streamjob_operator.resources.status import AutoscalingStatus, LifecycleState

MIB = 1024**2
ACT: dict[str, Any] = {"mode": "Act", "min": 1, "max": 16, "maxLag": "1m", "scaleDownDelay": "10m"}

RESTARTS = ACT | {"means": ["Restart"]}
IN_PLACE = ACT | {"cpuPerSlot": "500m"}
EXECUTORS: dict[str, Any] = {"executor": {"cores": 2}, "checkpointing": {"location": "s3://bucket/job"}}


class Operator(User):
    """A user whose job has a load."""

    world: LoadedCluster

    def __init__(self, *, autoscaling: dict[str, Any], rate: float = 30_000, **changes: Any) -> None:
        self.world = LoadedCluster(rate=rate)
        self.world.apply(merged(SPEC, {"parallelism": 4, "autoscaling": autoscaling, **changes}))
        self.wait_for(LifecycleState.STABLE)

    @property
    def scaling(self) -> AutoscalingStatus:
        found = self.status.autoscaling
        assert found is not None
        return found

    def minutes(self, number: float) -> None:
        """Let time pass, with a look as often as the decisions ask for it."""
        until = self.world.now + number * 60
        while self.world.now < until:
            decision = self.world.reconcile()
            if decision is None:
                return
            self.world.tick(max(1, min(decision.requeue if decision.requeue is not None else 15, 15)))


def change_rate(user: Operator, rate: int, *, minutes: int) -> None:
    """Let the job run for ten minutes, then change its load and let it run on."""
    user.minutes(10)
    user.world.rate = rate
    user.minutes(minutes)


def test_without_a_mode_there_is_no_status_of_it() -> None:
    user = Operator(autoscaling={"mode": "Off"})
    user.minutes(5)

    assert user.status.autoscaling is None


def test_advice_says_how_many_slots_fit_and_changes_nothing() -> None:
    user = Operator(autoscaling=ACT | {"mode": "Advise", "max": 60})
    user.minutes(10)
    assert (user.scaling.state, user.scaling.recommended, user.scaling.parallelism) == (State.STEADY, 4, None)
    assert "30,000 records/s arrive" in user.scaling.reason
    user.world.rate = 80_000
    user.minutes(10)

    assert (user.scaling.state, user.attempt, user.world.slots) == (State.BEHIND, 1, 4)
    assert user.scaling.recommended is not None
    assert user.scaling.recommended >= 9
    assert 1 <= user.reasons().count("ScalingAdvised") <= 4
    assert user.scaling.last_scaling is None
    assert user.condition(ConditionType.READY).status == "True"


def test_a_step_of_the_load_restarts_the_job_once_behind_a_checkpoint_and_never_writes_the_spec() -> None:
    user = Operator(autoscaling=ACT)
    user.minutes(10)
    spec, generation = user.world.stored.spec, user.world.stored.generation
    user.world.rate = 80_000
    user.minutes(10)

    assert (user.attempt, user.state) == (2, LifecycleState.STABLE)
    assert user.world.slots == user.scaling.parallelism == user.status.replicas
    assert 9 <= user.world.slots <= 14
    (stop,) = user.did(StopJob)
    assert not stop.savepoint
    assert [each.restore_from for each in user.did(CreateDriver)] == ["latest", "latest"]
    assert (user.world.stored.spec, user.world.stored.generation) == (spec, generation)
    assert user.reasons().count("ScaledUp") == 1
    assert "Rescaling" in user.reasons()
    last = user.scaling.last_scaling
    assert last is not None
    assert (last.before, last.after, last.rule) == (4, user.world.slots, "Behind")
    assert f"Change from 4 to {last.after} slots by a restart" in last.reason
    assert user.scaling.restart_seconds is not None
    assert user.condition(ConditionType.READY).status == "True"
    assert user.world.unread < 80_000


def test_slots_that_are_idle_are_removed_after_the_delay() -> None:
    user = Operator(autoscaling=ACT, rate=110_000, parallelism=14)
    user.minutes(20)
    assert user.world.slots == 14
    user.world.rate = 20_000
    user.minutes(40)

    assert user.world.slots <= 5
    assert "ScaledDown" in user.reasons()
    assert user.scaling.moves_today <= 3


def test_the_first_driver_has_as_many_slots_as_the_limits_allow() -> None:
    user = Operator(autoscaling=ACT | {"min": 6})

    assert (user.world.slots, user.attempt) == (6, 1)


def test_a_processor_for_each_slot_is_requested() -> None:
    user = Operator(autoscaling=RESTARTS | {"cpuPerSlot": "500m"}, driver={"coreLimit": "2"})
    change_rate(user, 80_000, minutes=10)

    driver = user.world.revisions[user.world.pods[-1].revision].spec().driver
    assert user.world.slots > 4
    assert driver.core_request == driver.core_limit
    assert float((driver.core_request or "").removesuffix("m")) in (user.world.slots / 2, user.world.slots * 500)


def test_max_is_never_exceeded_and_named_where_more_would_help() -> None:
    user = Operator(autoscaling=ACT | {"max": 6})
    change_rate(user, 200_000, minutes=20)

    assert (user.world.slots, user.scaling.state) == (6, State.LIMITED)
    assert user.scaling.limit == "`max` of the autoscaling"
    assert "ScalingLimited" in user.reasons()


def test_the_state_partitions_limit_the_slots_and_the_reason_names_the_rewrite() -> None:
    user = Operator(autoscaling=ACT)
    user.world.partitions = 8
    change_rate(user, 200_000, minutes=20)

    assert user.world.slots == 8
    assert "A restart with a larger maxParallelism removes this limit. It reads all state" in user.scaling.reason


def test_the_partitions_of_the_source_limit_the_slots_of_a_job_without_state() -> None:
    user = Operator(autoscaling=ACT)
    user.world.read_from, user.world.stateful = 6, False
    change_rate(user, 200_000, minutes=20)

    assert user.world.slots == 6
    assert "More partitions in the sources' topics remove this limit" in user.scaling.reason


def test_slots_that_do_not_help_are_undone_and_reported() -> None:
    user = Operator(autoscaling=ACT)
    user.world.useful = 6
    change_rate(user, 100_000, minutes=60)

    assert user.world.slots <= 7
    assert "ScalingUndone" in user.reasons()
    assert user.scaling.state is State.SATURATED
    assert "do not help" in user.scaling.reason or "did not help" in user.scaling.reason


def test_a_pod_that_the_quota_forbids_leaves_the_job_running_and_is_not_asked_for_again_at_once() -> None:
    user = Operator(autoscaling=ACT)
    user.world.quota = 6
    change_rate(user, 80_000, minutes=4)

    assert (user.world.slots, user.attempt, user.scaling.parallelism) == (4, 1, 4)
    assert user.scaling.state in (State.LIMITED, State.PAUSED)
    assert "ScalingLimited" in user.reasons()
    assert user.reasons().count("PodRejected") <= 3
    assert not user.status.reconciliation.trials
    assert unpack_memory(user.scaling.memory).moves == ()


def test_a_pod_for_which_no_node_has_room_is_taken_back() -> None:
    user = Operator(autoscaling=RESTARTS | {"cpuPerSlot": "1"})
    user.world.room = 6
    change_rate(user, 80_000, minutes=8)

    assert (user.world.slots, user.state) == (4, LifecycleState.STABLE)
    (said,) = [event.message for event in user.world.events if event.reason == "ScalingLimited"]
    assert "no node has room" in said
    assert "Insufficient cpu" in said
    user.minutes(30)
    assert user.world.slots == 4


def test_with_processors_for_each_slot_a_step_is_followed_in_place() -> None:
    user = Operator(autoscaling=IN_PLACE)
    user.minutes(10)
    assert (user.world.slots, user.status.replicas) == (4, 4)
    user.world.rate = 80_000
    user.minutes(10)

    assert (user.attempt, user.state) == (1, LifecycleState.STABLE)
    assert user.world.slots == user.scaling.parallelism == user.status.replicas
    assert user.world.slots >= 9
    assert not user.did(StopJob)
    assert user.did(ResizeDriver)[-1].cpu == format_cpu(user.world.slots / 2)
    assert "Resized" in user.reasons()
    last = user.scaling.last_scaling
    assert last is not None
    assert (last.means, user.scaling.moves_today) == ("InPlace", 0)
    assert user.condition(ConditionType.READY).status == "True"
    user.world.rate = 20_000
    user.minutes(20)
    assert (user.attempt, user.world.slots <= 5) == (1, True)


def test_a_process_that_is_resized_in_place_is_as_wide_as_the_limits_allow() -> None:
    user = Operator(autoscaling=IN_PLACE, maxParallelism=12)

    spec = user.world.revisions[user.world.pods[-1].revision].spec()
    assert (spec.parallelism, spec.driver.core_request, spec.driver.core_limit) == (12, "2", "2")
    assert spec.spark_conf["spark.driver.extraJavaOptions"] == "-XX:+UseParallelGC -XX:ParallelGCThreads=3"


def test_a_full_node_is_reported_and_the_job_restarts_elsewhere() -> None:
    user = Operator(autoscaling=IN_PLACE)
    user.minutes(10)
    user.world.room, user.world.rate = 6, 80_000
    user.wait(lambda: "ScalingLimited" in user.reasons())
    user.world.room = 100
    user.minutes(5)

    (said,) = [event.message for event in user.world.events if event.reason == "ScalingLimited"]
    assert "Deferred: Node didn't have enough resource: cpu. The job restarts for them" in said
    assert (user.attempt, user.state) == (2, LifecycleState.STABLE)
    assert user.world.slots == user.scaling.parallelism
    assert user.world.slots >= 9


def test_a_full_node_without_another_means_leaves_the_job_as_it_is() -> None:
    user = Operator(autoscaling=IN_PLACE | {"means": ["InPlace"]})
    user.minutes(10)
    user.world.room, user.world.rate = 6, 80_000
    user.minutes(3)

    assert (user.attempt, user.world.slots, user.scaling.state) == (1, 4, State.LIMITED)
    assert user.did(ResizeDriver)[-1].cpu == "2"
    assert "Deferred: Node didn't have enough resource: cpu" in user.scaling.limit
    assert user.scaling.limit in user.scaling.reason
    assert user.condition(ConditionType.READY).status == "True"


def test_a_resize_that_takes_its_time_is_waited_for_once_the_node_has_made_it() -> None:
    user = Operator(autoscaling=IN_PLACE)
    user.minutes(10)
    user.world.rate = 80_000
    user.wait(lambda: bool(user.did(ResizeDriver)))
    user.world.tick(120)
    user.minutes(2)

    assert user.attempt == 1
    assert "Resized" in user.reasons()
    assert "ScalingLimited" not in user.reasons()


def test_a_kubernetes_that_cannot_resize_pods_leaves_the_restart() -> None:
    user = Operator(autoscaling=IN_PLACE)
    user.world.resizes = False
    change_rate(user, 80_000, minutes=8)

    assert (user.attempt, user.state) == (2, LifecycleState.STABLE)
    assert user.world.slots >= 9


def test_a_driver_killed_while_it_is_resized_is_replaced_with_the_new_slots() -> None:
    user = Operator(autoscaling=IN_PLACE)
    user.minutes(10)
    user.world.rate = 80_000
    user.wait(lambda: bool(user.did(ResizeDriver)))
    user.world.kill_driver()
    user.minutes(6)

    assert user.world.slots == user.scaling.parallelism
    assert user.world.slots >= 9
    assert user.state is LifecycleState.STABLE


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


def test_nothing_is_scaled_in_an_excluded_period() -> None:
    user = Operator(autoscaling=ACT | {"excludedPeriods": [{"start": "* * * * *", "duration": "5m"}]})
    change_rate(user, 80_000, minutes=10)

    assert (user.attempt, user.scaling.state) == (1, State.PAUSED)
    assert "an excluded period" in user.scaling.reason


def test_the_budget_of_restarts_is_kept_by_a_job_that_is_not_late() -> None:
    user = Operator(autoscaling=ACT | {"maxMovesPerDay": 1}, rate=110_000, parallelism=14)
    user.minutes(20)
    user.world.rate = 20_000
    user.minutes(40)

    assert (user.attempt, user.scaling.moves_today) == (1, 0)
    assert "the budget of restarts is spent" in user.scaling.reason


def test_a_suspended_job_is_left_alone_and_its_rest_is_no_restart() -> None:
    user = Operator(autoscaling=ACT)
    user.minutes(10)
    user.edit(suspend=True)
    user.wait_for(LifecycleState.SUSPENDED)
    user.world.rate = 0
    user.minutes(60)
    assert user.scaling.state is State.PAUSED
    written = len(user.world.history)
    user.minutes(10)
    assert len(user.world.history) == written
    user.world.rate = 30_000
    user.edit(suspend=False)
    user.wait_for(LifecycleState.STABLE)
    user.minutes(5)

    assert user.scaling.restart_seconds is None or user.scaling.restart_seconds < 60
    assert user.world.slots == 4


def test_an_upgrade_keeps_the_slots_that_were_decided_on() -> None:
    user = Operator(autoscaling=ACT)
    change_rate(user, 80_000, minutes=10)
    slots = user.world.slots
    user.edit(image="two")
    user.minutes(5)

    assert slots > 4
    assert (user.world.slots, user.attempt, user.state) == (slots, 3, LifecycleState.STABLE)
    assert user.did(StopJob)[-1].savepoint


def test_a_scale_by_others_has_no_effect_and_is_named() -> None:
    user = Operator(autoscaling=ACT)
    user.edit(parallelism=9)
    user.minutes(5)

    assert (user.world.slots, user.attempt) == (4, 1)
    assert "parallelism was changed from 4 to 9, which has no effect" in user.scaling.conflict
    assert user.reasons().count("ScaleIgnored") == 1
    user.edit(parallelism=4)
    user.minutes(1)
    assert user.scaling.conflict == ""


def test_without_the_mode_the_spec_holds_again() -> None:
    user = Operator(autoscaling=ACT)
    change_rate(user, 80_000, minutes=10)
    user.edit(autoscaling={"mode": "Off"})
    user.minutes(5)

    assert (user.world.slots, user.status.autoscaling) == (4, None)


def test_a_driver_killed_in_the_middle_of_a_move_is_replaced_with_the_new_slots() -> None:
    user = Operator(autoscaling=ACT)
    user.minutes(10)
    user.world.rate = 80_000
    user.wait(lambda: user.state is LifecycleState.UPGRADING)
    user.world.kill_driver()
    user.minutes(5)

    assert user.world.slots == user.scaling.parallelism
    assert user.world.slots > 4
    assert user.state is LifecycleState.STABLE


def test_a_deleted_job_is_no_longer_scaled() -> None:
    user = Operator(autoscaling=ACT)
    user.minutes(10)
    user.world.delete()
    user.minutes(2)

    assert user.world.gone


@pytest.mark.parametrize("text", ["", "nonsense", "e30="])
def test_a_memory_that_cannot_be_read_is_forgotten(text: str) -> None:
    user = Operator(autoscaling=ACT)
    user.minutes(5)
    status = user.status.model_copy(update={"autoscaling": user.scaling.replaced(memory=text)})
    user.world._write(user.world.stored.__class__(**{**_fields(user), "status": status.to_dict()}))
    user.minutes(5)

    assert user.world.slots == 4
    assert unpack_memory(user.scaling.memory).seen is not None


def _fields(user: Operator) -> dict[str, Any]:
    stored = user.world.stored
    return {name: getattr(stored, name) for name in stored.__dataclass_fields__}


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


SIZED = ACT | {"maxMemory": "4g", "minMemory": "1g"}


def driver_of(user: Operator) -> DriverSpec:
    return user.world.revisions[user.world.pods[-1].revision].spec().driver


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
    user.world._write(user.world.stored.__class__(**{**_fields(user), "status": status.to_dict()}))
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
