"""Reactions to the end of a driver: restarts, their delays, and when there are none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.operator.objects import Stored
from tests.unit.operator.decisions.user import User

from streamjob.errors import ExitCode
from streamjob_operator.decisions.values.actions import CreateDriver
from streamjob_operator.decisions.values.observation import Observation, StoreProblem
from streamjob_operator.resources.conditions import ConditionType
from streamjob_operator.resources.status import LifecycleState


def end_driver(user: User, code: int) -> None:
    user.world.processes[-1].exit_code = code
    user.world.processes.clear()


def see_pods(user: User, **said: Any) -> None:
    """Have the cluster say more of the pods than it does by itself."""
    observe = user.world.observe

    def seen(read: Stored) -> Observation:
        observed = observe(read)
        return replace(observed, pods=tuple(replace(pod, **said) for pod in observed.pods))

    user.world.observe = seen  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("code", "reason"), [(2, "InvalidJob"), (3, "CannotRestore"), (4, "Superseded")], ids=lambda each: str(each)
)
def test_what_a_restart_cannot_mend_stalls_the_job_until_its_spec_changes(code: int, reason: str) -> None:
    user = User.with_stable_job()
    user.world.check_status = lambda: None  # type: ignore[method-assign]
    end_driver(user, code)
    user.wait_for(LifecycleState.FAILED)
    user.look(50)

    stalled = user.condition(ConditionType.STALLED)
    assert (stalled.status, stalled.reason) == ("True", reason)
    assert user.condition(ConditionType.RECONCILING).status == "False"
    assert len(user.did(CreateDriver)) == 1

    user.edit(restartNonce=1)
    user.wait_for(LifecycleState.STABLE)


@pytest.mark.parametrize("code", [5, 137, 143, 1, 0])
def test_a_driver_that_ended_for_any_other_reason_is_replaced(code: int) -> None:
    user = User.with_stable_job()
    end_driver(user, code)

    user.wait(lambda: len(user.world.starts) == 2)

    assert user.world.starts[-1].restore_from == "latest"


def test_an_evicted_pod_is_replaced_at_once() -> None:
    user = User.with_stable_job()
    user.world.evict_driver()

    user.wait(lambda: len(user.world.pods) == 1, seconds=5)

    assert "DriverLost" in user.reasons()


def test_an_eviction_is_told_while_the_driver_still_stops_and_after_its_pod_is_gone() -> None:
    user = User.with_stable_job()
    see_pods(user, reason="Evicted", message="Eviction API: evicting", deleting=user.world.now + 30)
    user.look(2)
    leaving = user.condition(ConditionType.RECONCILING)
    assert (leaving.status, leaving.reason) == ("True", "Evicted")
    assert user.condition(ConditionType.READY).reason == "Evicted"

    user.world.evict_driver()
    user.look(2)

    (event,) = [each for each in user.world.events if each.type == "Warning"]
    assert event.reason == "Evicted"
    assert "Eviction API: evicting" in event.message
    assert user.status.job_status.failure_reason == "Evicted"


def test_the_end_of_a_driver_that_follows_an_evicted_one_is_its_own() -> None:
    user = User.with_stable_job()
    observe = user.world.observe
    see_pods(user, reason="Evicted", deleting=user.world.now + 30)
    user.look(2)
    user.world.evict_driver()
    user.world.observe = observe  # type: ignore[method-assign]
    user.wait_for(LifecycleState.DEPLOYING)
    user.wait_for(LifecycleState.STABLE)

    user.world.evict_driver()
    user.wait(lambda: len(user.world.starts) == 3)

    assert user.status.job_status.failure_reason == "DriverLost"


@pytest.mark.parametrize("code", [0, 5, 137, 143])
def test_a_driver_that_ended_while_it_was_evicted_was_evicted(code: int) -> None:
    user = User.with_stable_job()
    see_pods(user, reason="Evicted")
    end_driver(user, code)

    user.wait(lambda: len(user.world.starts) == 2)

    assert user.status.job_status.failure_reason == "Evicted"


@pytest.mark.parametrize("code", [5, 137])
def test_a_driver_that_took_too_much_memory_says_so_whichever_of_its_processes_was_killed(code: int) -> None:
    user = User.with_stable_job(restartPolicy={"onFailureRetryInterval": "20s"})
    see_pods(user, reason="OOMKilled", message="Spark's process has ended")
    end_driver(user, code)
    user.look(2)

    assert user.status.job_status.failure_reason == "OOMKilled"
    waiting = user.condition(ConditionType.RECONCILING)
    assert waiting.reason == "WaitingToRestart"
    assert f"took more memory than it may, and ended with exit code {code}: Spark's process" in waiting.message


def test_a_driver_that_was_stopped_after_it_lost_a_worker_for_its_memory_was_stopped() -> None:
    user = User.with_stable_job()
    see_pods(user, reason="OOMKilled")
    end_driver(user, 0)
    user.look(2)

    assert user.status.job_status.failure_reason == "DriverStopped"


def test_a_crash_is_told_with_its_exit_code_and_the_last_words() -> None:
    user = User.with_stable_job()
    see_pods(user, reason="Error", message="a long log\n" * 100 + "Fatal Python error: Aborted")
    end_driver(user, 134)
    user.look(2)

    failure = user.status.job_status.failure
    assert user.status.job_status.failure_reason == "DriverFailed"
    assert failure is not None
    assert "exit code 134" in failure
    assert failure.endswith("Fatal Python error: Aborted")
    assert len(failure) < 500


@pytest.mark.parametrize("code", sorted({*ExitCode, 1, 7, 137} - {ExitCode.SUPERSEDED}))
def test_each_exit_code_is_the_end_of_an_attempt(code: int) -> None:
    user = User.with_stable_job()
    end_driver(user, code)
    user.look(2)

    assert user.status.job_status.failure_reason or user.status.lifecycle_state in (
        LifecycleState.FAILED,
        LifecycleState.FINISHED,
    )


def test_the_delay_doubles_with_every_failure_up_to_the_longest() -> None:
    user = User(job={"behaviour": "crash"}, restartPolicy={"onFailureRetryInterval": "20s", "maxRetryInterval": "1m"})
    user.wait(lambda: len(user.world.starts) == 5)

    times = [user.world.times[i] for i, each in enumerate(user.world.memories) if each.lifecycle.value == "DEPLOYING"]
    decided = sorted({each.last_failure for each in user.world.memories if each.last_failure is not None})
    restarts = [each.next_restart for each in user.world.memories if each.next_restart is not None]
    delays = [next(r for r in sorted(set(restarts)) if r > failed) - failed for failed in decided[:4]]
    assert times
    assert delays == [20, 40, 60, 60]


def test_restarts_end_when_the_policy_allows_no_more() -> None:
    user = User(job={"behaviour": "crash"}, restartPolicy={"onFailureRetries": 2, "onFailureRetryInterval": "5s"})

    user.wait_for(LifecycleState.FAILED)

    assert len(user.world.starts) == 3
    assert user.condition(ConditionType.STALLED).reason == "RestartsExhausted"


def test_a_job_whose_policy_is_never_is_not_restarted() -> None:
    user = User.with_stable_job(restartPolicy={"type": "Never"})
    user.world.kill_driver()

    user.wait_for(LifecycleState.FAILED)

    stalled = user.condition(ConditionType.STALLED)
    assert stalled.reason == "DriverFailed"
    assert stalled.message.startswith("driver ")


@pytest.mark.parametrize("error", list(StoreProblem))
def test_a_driver_that_a_store_refused_says_so_by_its_reason_and_is_replaced_until_it_is_let_in(
    error: StoreProblem,
) -> None:
    user = User.with_stable_job()
    see_pods(user, error=error.value)
    for _ in range(5):
        end_driver(user, 5)
        user.wait_for(LifecycleState.DEPLOYING)
        assert user.status.job_status.failure_reason == error.value
        user.wait_for(LifecycleState.STABLE)

    assert user.reasons().count(error.value) == 5


def test_counting_restarts_after_a_quiet_time() -> None:
    user = User.with_stable_job(
        restartPolicy={"onFailureRetries": 1, "onFailureRetryInterval": "5s", "resetAfter": "1m"}
    )
    for _ in range(4):
        user.world.kill_driver()
        user.wait_for(LifecycleState.DEPLOYING)
        user.wait_for(LifecycleState.STABLE)
        user.look(20, seconds=5)

    assert user.status.job_status.failures == 1


def test_a_failed_driver_of_a_revision_that_completed_nothing_is_rolled_back_if_that_is_enabled() -> None:
    user = User.with_stable_job(upgrade={"preflight": False, "rollback": {"enabled": True, "readinessTimeout": "1h"}})

    user.edit(job={"behaviour": "unrestorable"})
    user.wait_for(LifecycleState.ROLLED_BACK)

    assert "CannotRestore" in (user.condition(ConditionType.STALLED).message)


def test_a_job_is_not_rolled_back_while_nobody_knows_what_its_revision_completed() -> None:
    user = User.with_stable_job(upgrade={"preflight": False, "rollback": {"enabled": True, "readinessTimeout": "1m"}})
    user.edit(job={"behaviour": "invalid"})
    user.wait(lambda: len(user.did(CreateDriver)) == 2)
    user.world.store_up = False

    user.look(200)
    assert "Rollback" not in user.reasons()
    assert user.state is LifecycleState.DEPLOYING

    user.world.store_up = True
    user.wait_for(LifecycleState.ROLLED_BACK)


def test_a_job_that_ended_well_waits_for_the_log_to_say_whether_it_is_done() -> None:
    user = User.with_stable_job()
    process = user.world.processes[-1]
    user.world.store_up = False
    process.exit_code = 0
    # An old image leaves no termination message.
    user.world.pods[-1].silent_end = True

    user.look(30)
    assert user.condition(ConditionType.RECONCILING).reason == "StoreUnreachable"
    assert len(user.did(CreateDriver)) == 1

    user.world.store_up = True
    user.wait(lambda: len(user.world.starts) == 2)


def test_a_hopeless_driver_whose_revision_completed_something_unseen_is_not_rolled_back() -> None:
    user = User.with_stable_job(upgrade={"rollback": {"enabled": True}})
    user.edit(image="two")
    user.wait_for(LifecycleState.UPGRADING)
    user.wait_for(LifecycleState.DEPLOYED)
    user.world.tick(12)
    end_driver(user, 3)

    user.wait_for(LifecycleState.FAILED)

    assert "Rollback" not in user.reasons()


def test_an_old_final_record_does_not_finish_a_job_that_was_started_from_nothing() -> None:
    user = User(job={"behaviour": "finite"})
    user.wait_for(LifecycleState.FINISHED)
    user.edit(job={"behaviour": "hang"}, upgradeMode="stateless")
    user.wait_for(LifecycleState.DEPLOYED)

    user.world.pods[-1].silent_end = True
    end_driver(user, 0)
    user.wait(lambda: len(user.did(CreateDriver)) == 3)

    assert user.did(CreateDriver)[-1].restore_from == "none"


def test_a_driver_that_ended_by_its_own_fault_waits_also_the_first_time() -> None:
    user = User.with_stable_job()
    end_driver(user, 5)

    user.look(5)

    assert user.condition(ConditionType.RECONCILING).reason == "WaitingToRestart"
    assert len(user.did(CreateDriver)) == 1
    assert [pod.attempt for pod in user.world.pods] == [1], "its log is wanted"


def test_a_driver_that_is_killed_again_and_again_waits_from_the_second_time_on() -> None:
    user = User.with_stable_job()
    user.world.kill_driver()
    user.wait(lambda: user.attempt == 2 and bool(user.world.processes))
    user.world.kill_driver()
    user.wait(lambda: user.attempt == 3)

    restarts = sorted({each.next_restart for each in user.world.memories if each.next_restart is not None})
    failures = sorted({each.last_failure for each in user.world.memories if each.last_failure is not None})
    assert [at - failed for at, failed in zip(restarts, failures, strict=True)] == [0, 20]


def test_a_failed_job_can_be_suspended_and_resumed() -> None:
    user = User.with_stable_job(restartPolicy={"type": "Never"})
    user.world.kill_driver()
    user.wait_for(LifecycleState.FAILED)

    user.edit(suspend=True)
    user.wait_for(LifecycleState.SUSPENDED)
    user.edit(suspend=False)
    user.wait_for(LifecycleState.STABLE)

    assert user.world.starts[-1].restore_from == "latest"
