"""When a driver that runs is replaced, and when it is left alone."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.operator.decisions.user import User

from streamjob.protocol.lifecycle import JobState
from streamjob_operator.decisions import decide
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


def test_a_checkpoint_that_is_overdue_is_told_also_where_nothing_is_done_about_it() -> None:
    user = User(job={"behaviour": "hang"}, healthCheck={"enabled": False, "checkpointProgress": {"window": "1m"}})
    user.wait_for(LifecycleState.DEPLOYED)

    user.wait(lambda: user.condition(ConditionType.CHECKPOINT_HEALTHY).reason == "CheckpointOverdue")

    assert user.attempt == 1


def test_a_job_that_has_ended_is_not_called_unhealthy_while_its_process_lingers() -> None:
    """FLINK-39507."""
    user = User.with_stable_job()
    stored = user.world.stored
    seen = user.world.observe(stored)
    assert seen.job is not None
    ended = seen.job.model_copy(update={"state": JobState.FINISHED})

    decision = decide(user.world.resource(stored), replace(seen, job=ended, now=seen.now + 1000))

    assert decision.status.lifecycle_state is LifecycleState.STABLE
    assert decision.actions == ()


def test_a_driver_that_never_comes_to_run_is_replaced_too() -> None:
    user = User(job={"behaviour": "stuck"}, checkpointing={"timeout": "30s", "tolerableFailedCheckpoints": 0})

    user.wait(lambda: "RestartUnhealthyJob" in user.reasons())
    user.wait(lambda: user.attempt == 2)


def test_a_short_window_leaves_a_driver_the_time_to_restore_what_is_much() -> None:
    user = User(job={"behaviour": "stuck"}, healthCheck={"checkpointProgress": {"window": "10s"}})

    user.look(600)

    assert user.attempt == 1


def test_a_pod_whose_container_has_not_started_is_left_to_kubernetes() -> None:
    user = User(job={"behaviour": "no-image"})

    user.look(300)

    assert user.attempt == 1
    assert user.condition(ConditionType.RECONCILING).reason == "ImagePullBackOff"
