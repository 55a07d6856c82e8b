"""A job is ready once it has completed a checkpoint since it runs as it does: not between two crashes, nor early."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.operator.objects import Stored
from tests.unit.operator.decisions.user import User

from streamjob_operator.decisions import decide
from streamjob_operator.decisions.values.actions import Emit
from streamjob_operator.decisions.values.decision import Resource
from streamjob_operator.decisions.values.observation import ExecutorPod, ExecutorSet, Observation, PodPhase
from streamjob_operator.resources.conditions import ConditionType, find_condition
from streamjob_operator.resources.status import LifecycleState, StreamJobStatus

WAITING = ("False", "WaitingForCheckpoint")
READY = ("True", "Stable")


def ready(user: User) -> tuple[str, str]:
    found = user.condition(ConditionType.READY)
    return found.status, found.reason


def completed(user: User) -> int:
    return len(user.world.log.completions)


def wait_until(user: User, wanted: tuple[str, str]) -> None:
    user.wait(lambda: ready(user) == wanted)


@pytest.mark.parametrize("end", [lambda user: user.world.kill_driver(), lambda user: user.world.evict_driver()])
def test_a_job_is_ready_again_only_when_its_next_driver_has_completed_a_checkpoint(end: Callable[[User], None]) -> None:
    user = User.with_stable_job()
    end(user)
    user.wait(lambda: user.attempt == 2 and user.state is LifecycleState.STABLE)
    assert ready(user) == WAITING
    assert user.condition(ConditionType.CHECKPOINT_HEALTHY).reason == "NoCheckpointYet"
    before = completed(user)

    wait_until(user, READY)

    assert completed(user) > before
    assert user.condition(ConditionType.CHECKPOINT_HEALTHY).status == "True"


def test_a_job_whose_drivers_crash_before_their_checkpoint_is_never_ready_and_says_why() -> None:
    user = User.with_stable_job()
    user.world.kill_driver()
    seen: set[tuple[str, str, str]] = set()
    while user.attempt < 5:
        for process in user.world.processes:
            process.behaviour = "crash"
        user.look()
        found = user.condition(ConditionType.READY)
        seen.add((found.status, found.reason, found.message.partition(": ")[0]))
        said_to_run = user.condition(ConditionType.CHECKPOINT_HEALTHY).message.startswith("the job runs")
        assert not said_to_run or user.condition(ConditionType.RUNNING).status == "True"

    assert {status for status, _, _ in seen} == {"False"}
    assert (*WAITING, "the job runs, and has not completed a checkpoint after restart 2") in seen


def test_a_restart_in_the_process_is_a_start_too() -> None:
    user = User.with_stable_job()
    user.look(3)
    for _ in range(3):
        user.world.processes[-1].restart()
        user.look()
        assert ready(user) == WAITING

    before = completed(user)
    wait_until(user, READY)

    assert completed(user) > before
    assert user.attempt == 1


def test_a_job_that_crashes_behind_each_checkpoint_is_not_ready_until_it_has_run_for_a_while() -> None:
    user = User.with_stable_job(restartPolicy={"onFailureRetryInterval": "1s", "resetAfter": "2m"})
    for crashes in range(5):
        expected = READY if crashes <= 3 else ("False", "RestartLoop")
        wait_until(user, expected)
        user.world.kill_driver()
        user.look(3)
    wait_until(user, ("False", "RestartLoop"))
    last = user.world.now

    wait_until(user, READY)

    assert user.world.now > last + 60


def test_a_job_that_is_moved_from_node_to_node_is_in_no_restart_loop() -> None:
    user = User.with_stable_job(restartPolicy={"onFailureRetryInterval": "1s", "resetAfter": "2m"})
    for _ in range(5):
        user.world.evict_driver()
        user.look(3)
        user.wait(lambda: ready(user) == READY, 300)


@pytest.mark.parametrize(
    ("restarts", "starts", "ago", "is_ready"),
    [(4, 7, 60, False), (4, 7, 600, True), (4, 6, 60, True), (3, 7, 60, True), (4, None, 60, True)],
)
def test_a_job_that_its_driver_restarts_often_is_not_ready(
    restarts: int, starts: int | None, ago: int, is_ready: bool
) -> None:
    user = User.with_stable_job()
    user.look(3)
    stored = user.world.stored
    seen, resource = user.world.observe(stored), user.world.resource(stored)
    assert seen.job is not None
    update = {"restarts": restarts, "starts": starts, "state_since": seen.now - ago, "failure": "the sink is full"}

    status = decide(resource, replace(seen, job=seen.job.model_copy(update=update))).status

    found = find_condition(status.conditions, ConditionType.READY)
    assert found is not None
    assert (found.status == "True") is is_ready
    assert is_ready or found.message == "the job has started 7 times in the last hour: the sink is full"


def test_a_failure_that_the_driver_reacts_to_has_one_event_with_its_cause() -> None:
    user = User.with_stable_job()
    user.look(3)
    stored = user.world.stored
    seen, resource = user.world.observe(stored), user.world.resource(stored)
    assert seen.job is not None
    running = seen.job
    failure = "chain totals: ValueError: no such airport (/job/steps.py:17, in check)"

    def told(resource: Resource, restarts: int) -> tuple[StreamJobStatus, list[str]]:
        job = running.model_copy(update={"restarts": restarts, "failure": failure})
        decision = decide(resource, replace(seen, job=job))
        events = [each for each in decision.actions if isinstance(each, Emit) and each.reason == "JobRestarted"]
        return decision.status, [each.message for each in events]

    status, first = told(resource, 1)
    after = replace(resource, status=status)

    assert first == [failure]
    assert told(after, 1)[1] == []
    assert told(after, 2)[1] == [failure]


def test_a_request_without_an_answer_calls_no_restarted_job_ready() -> None:
    user = User.with_stable_job()
    user.world.kill_driver()
    wait_until(user, WAITING)
    user.world.api_up = False
    user.look(3)

    assert ready(user) == WAITING


@pytest.mark.parametrize(
    "change",
    [
        {"checkpointing": {"interval": "15s"}},
        {"parallelism": 2},
        {"image": "two"},
        {"restartNonce": 1},
        {"image": "two", "upgrade": {"warmSuccessor": True}},
    ],
)
def test_a_changed_job_is_not_ready_before_a_checkpoint_of_what_it_was_changed_to(change: dict[str, Any]) -> None:
    user = User.with_stable_job()
    user.look(3)
    user.edit(**change)
    edited = user.world.now

    user.look()
    assert ready(user)[0] == "False"
    wait_until(user, READY)

    assert user.condition(ConditionType.READY).observed_generation == 2
    assert user.world.log.newest is not None
    assert user.world.log.newest.attempt == user.attempt
    assert user.world.log.newest.time > max(edited, user.world.memories[-1].revision_since)


def test_a_change_that_reaches_no_process_leaves_the_job_ready() -> None:
    user = User.with_stable_job()
    user.edit(savepoints={"onDeletion": True})
    user.look()

    assert ready(user) == READY


def with_executors(pods: list[ExecutorPod]) -> User:
    """Return a user whose job runs on two executors; the pods are what the cluster has of them."""
    user = User(executor={"instances": 2})
    observe = user.world.observe

    def seen(read: Stored) -> Observation:
        found = ExecutorSet(revision="", replicas=len(pods), template="now")
        return replace(observe(read), executors=found, executor_pods=tuple(pods))

    user.world.observe = seen  # type: ignore[method-assign]
    user.wait_for(LifecycleState.STABLE)
    wait_until(user, READY)
    return user


def executor(number: int, *, ready: bool = True) -> ExecutorPod:
    return ExecutorPod(name=f"e-{number}", template="now", phase=PodPhase.RUNNING, created=0, ready=ready)


def test_a_job_that_gets_an_executor_is_not_ready_before_a_checkpoint_with_it() -> None:
    pods = [executor(0), executor(1)]
    user = with_executors(pods)
    user.edit(executor={"instances": 3})
    for _ in range(30):
        user.look()
        assert ready(user)[0] == "False"
    assert user.condition(ConditionType.EXECUTORS_READY).status == "False"

    pods.append(executor(2))
    user.look()
    assert user.condition(ConditionType.EXECUTORS_READY).status == "True"
    assert ready(user) == WAITING
    before = completed(user)
    wait_until(user, READY)
    assert completed(user) > before
    assert user.attempt == 1


def test_a_job_that_loses_an_executor_by_its_spec_is_not_ready_while_that_is_there() -> None:
    pods = [executor(0), executor(1)]
    user = with_executors(pods)
    user.edit(executor={"instances": 1})
    for _ in range(30):
        user.look()
        assert ready(user)[0] == "False"
    assert ready(user)[1] == "ExecutorsLeaving"
    assert "ExecutorsLost" not in user.reasons()

    pods.pop()
    wait_until(user, READY)
    assert user.attempt == 1
