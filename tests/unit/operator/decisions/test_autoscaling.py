"""The controller scales a job by its load: it decides, records all of it in the status, and restarts the job."""

from __future__ import annotations

import pytest
from tests.unit.operator.decisions.scaled_user import ACT, IN_PLACE, RESTARTS, Operator, change_rate, fields

from streamjob.autoscaling import State, unpack_memory
from streamjob_operator.decisions.values.actions import CreateDriver, ResizeDriver, StopJob
from streamjob_operator.decisions.values.slots import format_cpu
from streamjob_operator.resources.conditions import ConditionType
from streamjob_operator.resources.status import LifecycleState


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
    user.world._write(user.world.stored.__class__(**{**fields(user), "status": status.to_dict()}))
    user.minutes(5)

    assert user.world.slots == 4
    assert unpack_memory(user.scaling.memory).seen is not None
