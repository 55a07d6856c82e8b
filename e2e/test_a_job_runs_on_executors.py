"""A job runs on executors in pods of their own: they die, their number changes, and its output does not show it."""

from __future__ import annotations

import pytest
from e2e.harness.cluster import Object
from e2e.harness.controller import StreamJobs, condition, last_checkpoint
from e2e.harness.numbers import NAME, apply, executors, wait_for_executors, wait_for_numbers

pytestmark = pytest.mark.timeout(1500)


def wait_for_the_next_driver(jobs: StreamJobs, before: Object) -> None:
    """Wait until a later attempt than that of a status has begun."""
    attempt = before["jobStatus"]["attempt"]
    jobs.wait(NAME, lambda status: status["jobStatus"]["attempt"] > attempt, what="next driver")


def test_a_job_whose_executor_is_killed_goes_on_and_its_output_is_exact(jobs: StreamJobs) -> None:
    apply(jobs)
    before = wait_for_executors(jobs, 2)
    seen = wait_for_numbers(jobs)
    first, _ = sorted(executors(jobs))
    assert before["replicas"] == 2

    jobs.namespace.delete("Pod", first, grace=0)
    jobs.wait(NAME, lambda status: status["executors"]["lost"] == 1, what="lost executor")
    after = wait_for_executors(jobs, 2, jobs.status(NAME))

    assert after["jobStatus"]["attempt"] == before["jobStatus"]["attempt"]
    jobs.wait_for_events(NAME, "ExecutorsLost")
    wait_for_numbers(jobs, seen)


@pytest.mark.thorough
def test_executors_come_and_go_with_the_parallelism_and_a_suspension(jobs: StreamJobs) -> None:
    apply(jobs)
    before = wait_for_executors(jobs, 2)
    wait_for_numbers(jobs)
    kept = {name: pod["metadata"]["uid"] for name, pod in executors(jobs).items()}

    jobs.change(NAME, parallelism=3)
    wider = wait_for_executors(jobs, 3, before)
    assert kept.items() <= {name: pod["metadata"]["uid"] for name, pod in executors(jobs).items()}.items()
    assert wider["jobStatus"]["attempt"] == before["jobStatus"]["attempt"]

    jobs.change(NAME, suspend=True)
    jobs.wait_for_state(NAME, "SUSPENDED")
    for name in executors(jobs):
        jobs.namespace.wait_gone("Pod", name)
    seen = wait_for_numbers(jobs)

    jobs.change(NAME, suspend=False, parallelism=2)
    wait_for_executors(jobs, 2, wider)
    wait_for_numbers(jobs, seen)

    jobs.remove_all()
    for kind in ("StatefulSet", "PodDisruptionBudget", "Service"):
        for each in jobs.namespace.all(kind, f"streamjob.io/name={NAME}"):
            jobs.namespace.wait_gone(kind, each["metadata"]["name"])
    for name in executors(jobs):
        jobs.namespace.wait_gone("Pod", name)


@pytest.mark.thorough
def test_driver_and_executors_die_together(jobs: StreamJobs) -> None:
    apply(jobs)
    before = wait_for_executors(jobs, 2)
    seen = wait_for_numbers(jobs)

    for pod in (*executors(jobs), *jobs.drivers(NAME)):
        jobs.namespace.delete("Pod", pod, grace=0)
    wait_for_the_next_driver(jobs, before)
    after = wait_for_executors(jobs, 2, before)

    assert after["restoredFrom"]["id"] >= last_checkpoint(before)
    wait_for_numbers(jobs, seen)


def test_executors_are_scaled_from_one_to_three_and_to_two_while_rows_arrive(jobs: StreamJobs) -> None:
    apply(jobs, parallelism=1)
    status = before = wait_for_executors(jobs, 1)
    for number in (3, 2):
        seen = wait_for_numbers(jobs)
        jobs.change(NAME, parallelism=number)
        ready = jobs.wait_until_ready(NAME)
        assert ready["executors"] == {"desired": number, "ready": number, "lost": 0}
        assert sum(pod["status"]["phase"] == "Running" for pod in executors(jobs).values()) == number
        assert last_checkpoint(ready) > last_checkpoint(status)
        status = wait_for_executors(jobs, number, status)
        assert status["jobStatus"]["attempt"] == before["jobStatus"]["attempt"]
        assert status["jobStatus"]["restarts"] == 0
        assert status["checkpoint"]["counts"].get("failed", 0) == 0
        wait_for_numbers(jobs, seen)
    assert jobs.events(NAME, "ExecutorsLost") == []


@pytest.mark.thorough
def test_an_upgrade_runs_on_the_new_executors_and_one_that_does_not_start_is_rolled_back(jobs: StreamJobs) -> None:
    apply(jobs, upgrade={"preflight": False, "rollback": {"enabled": True, "readinessTimeout": "90s"}})
    before = wait_for_executors(jobs, 2)
    seen = wait_for_numbers(jobs)

    jobs.change(NAME, executor={"template": {"metadata": {"labels": {"team": "numbers"}}}})
    wait_for_the_next_driver(jobs, before)
    upgraded = wait_for_executors(jobs, 2, before)
    assert upgraded["restoredFrom"]["kind"] == "savepoint"
    assert {pod["metadata"]["labels"].get("team") for pod in executors(jobs).values()} == {"numbers"}
    seen = wait_for_numbers(jobs, seen)

    jobs.change(NAME, image="localhost/no-such-image:1")
    back = jobs.wait(
        NAME,
        lambda status: status["lifecycleState"] == "ROLLED_BACK" and condition(status, "Running")["status"] == "True",
        what="running rolled back",
        within=420,
    )
    assert back["reconciliation"]["lastReconciledRevision"] == upgraded["reconciliation"]["lastStableRevision"]
    wait_for_numbers(jobs, seen)


@pytest.mark.thorough
def test_a_node_with_an_executor_is_drained(jobs: StreamJobs) -> None:
    apply(jobs)
    before = wait_for_executors(jobs, 2)
    seen = wait_for_numbers(jobs)
    first, _ = sorted(executors(jobs))

    jobs.namespace.cluster.evict(jobs.namespace.name, first)
    jobs.wait(NAME, lambda status: status["executors"]["ready"] < 2, what="executor that leaves")
    after = wait_for_executors(jobs, 2, before)

    assert after["jobStatus"]["attempt"] == before["jobStatus"]["attempt"]
    wait_for_numbers(jobs, seen)
