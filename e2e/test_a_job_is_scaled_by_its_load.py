"""A producer steps, spikes and goes silent: the controller gives the job task slots, and takes them away."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from e2e.harness.cluster import Object
from e2e.harness.controller import ControllerProcess, StreamJobs
from e2e.harness.namespace import SMALL
from e2e.harness.nodes import full_node
from e2e.harness.shouting import NAME, TIME, WORK, Producer, apply, check_output
from tests.servers.kafka import KafkaServer

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1500)]

SLOW, FAST = 30, 400
"""Records per second."""
KEEPS_UP = 45.0
"""Seconds without lag after which a spike is too low."""


def act(**autoscaling: object) -> Object:
    """Return the section `autoscaling` of a job that the controller scales."""
    return {"mode": "Act", "maxLag": "30s", **autoscaling}


def processors(jobs: StreamJobs) -> str:
    """Return the CPU request of the newest driver."""
    pod = jobs.namespace.get("Pod", jobs.drivers(NAME)[-1])
    assert pod is not None
    return str(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def scaling(jobs: StreamJobs, condition: Callable[[Object], object], *, what: str, within: float = 400.0) -> Object:
    """Wait until the status of the automatic scaling fulfils a condition, and return it."""
    found = jobs.wait(NAME, lambda status: condition(status.get("autoscaling") or {}), what=what, within=within)
    status: Object = found["autoscaling"]
    return status


def uids(jobs: StreamJobs, component: str) -> dict[str, str]:
    """Return the names and identities of a component's pods."""
    labels = f"streamjob.io/name={NAME},app.kubernetes.io/component={component}"
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in jobs.namespace.all("Pod", labels)}


def test_a_job_follows_its_load_with_its_driver_and_controller_killed_in_the_middle(
    kafka: KafkaServer, jobs: StreamJobs, controller: ControllerProcess
) -> None:
    apply(jobs, kafka, TIME, autoscaling=act(max=6, scaleDownDelay="1m", cpuPerSlot="50m", means=["Restart"]))
    with Producer(kafka) as producer:
        producer.rate = SLOW
        jobs.wait_until_ready(NAME)
        steady = scaling(jobs, lambda status: status.get("state") == "Steady", what="steady job")
        assert steady["parallelism"] == 1

        producer.rate = FAST
        moved = scaling(jobs, lambda status: status.get("parallelism", 1) > 1, what="decision for more slots")
        assert "records/s arrive" in moved["reason"]
        controller.kill()
        for driver in jobs.drivers(NAME):
            jobs.namespace.delete("Pod", driver, grace=0)
        controller.start_again()
        jobs.wait(NAME, lambda status: status["replicas"] == moved["parallelism"], what="driver with these slots")
        after = jobs.wait_until_ready(NAME)
        assert after["autoscaling"]["lastScaling"]["before"] == 1

        scaling(jobs, lambda status: status.get("lagSeconds", 99) < 5, what="job that has caught up")
        producer.rate = 0
    down = scaling(jobs, lambda status: status.get("parallelism") == 1, what="decision for one slot", within=600)
    last = jobs.wait_until_ready(NAME)

    assert down["lastScaling"]["rule"] == "Idle"
    assert processors(jobs) == "50m"
    assert last["savepoint"].get("lastCompleted") is None
    thing = jobs.namespace.get("StreamJob", NAME)
    assert thing is not None
    assert (thing["spec"]["parallelism"], thing["metadata"]["generation"]) == (1, 1)
    jobs.wait_for_events(NAME, "ScaledUp")
    jobs.wait_for_events(NAME, "ScaledDown")
    check_output(kafka, producer.written)


def test_a_job_follows_its_load_by_executors_without_a_new_driver(
    kafka: KafkaServer, jobs: StreamJobs, controller: ControllerProcess
) -> None:
    # Executors have no volume in common, and this job needs none.
    pods: dict[str, Any] = {"driver": SMALL, "executor": SMALL, "volumes": []}
    apply(jobs, kafka, TIME, **pods, autoscaling=act(max=4, scaleDownDelay="3m"))
    with Producer(kafka) as producer:
        producer.rate = SLOW
        jobs.wait_until_ready(NAME)
        scaling(jobs, lambda status: status.get("state") == "Steady", what="steady job")
        driver = uids(jobs, "driver")

        producer.rate = FAST
        moved = scaling(jobs, lambda status: status.get("parallelism", 1) > 1, what="decision for more executors")
        assert moved["means"] == "Executors"
        controller.kill()
        controller.start_again()
        wider = jobs.wait(
            NAME,
            lambda status: status["executors"]["ready"] == status["autoscaling"]["parallelism"] > 1,
            what="more executors",
        )
        assert uids(jobs, "driver") == driver
        assert wider["jobStatus"]["attempt"] == 1
        jobs.namespace.delete("Pod", sorted(uids(jobs, "executor"))[0], grace=0)
        scaling(jobs, lambda status: status.get("lagSeconds", 99) < 5, what="job that has caught up", within=600)
        producer.rate = 0
    scaling(jobs, lambda status: status.get("parallelism") == 1, what="decision for one executor", within=600)
    last = jobs.wait(NAME, lambda status: status["executors"]["desired"] == 1, what="one executor")

    assert last["jobStatus"]["attempt"] == 1
    assert uids(jobs, "driver") == driver
    check_output(kafka, producer.written)


def test_a_job_follows_its_load_in_place_and_a_full_node_limits_it(
    kafka: KafkaServer, jobs: StreamJobs, controller: ControllerProcess
) -> None:
    slot = "400m"
    apply(jobs, kafka, WORK, autoscaling=act(max=4, scaleDownDelay="6m", cpuPerSlot=slot, means=["InPlace"]))
    with Producer(kafka) as producer:
        # Nothing waits at the start: while Java compiles, a slot of so little CPU is slow.
        jobs.wait_until_ready(NAME)
        producer.rate = 5
        scaling(jobs, lambda status: status.get("state") == "Steady", what="steady job")
        driver = uids(jobs, "driver")
        assert processors(jobs) == slot

        spike(producer, jobs)
        controller.kill()
        controller.start_again()
        jobs.wait_for_events(NAME, "Resized")
        assert processors(jobs) != slot
        scaling(jobs, lambda status: status.get("lagSeconds", 99) < 5, what="job that has caught up", within=600)
        producer.rate = 0
        scaling(jobs, lambda status: status.get("parallelism") == 1, what="decision for one slot", within=600)
        jobs.wait(NAME, lambda _: processors(jobs) == slot, what="driver with fewer processors")
        assert uids(jobs, "driver") == driver
        assert jobs.status(NAME)["jobStatus"]["attempt"] == 1

        with full_node(jobs.namespace):
            spike(producer, jobs)
            limited = scaling(
                jobs, lambda status: "cannot have the processors" in status.get("limit", ""), what="limited job"
            )
            assert limited["state"] == "Limited"
            assert limited["limit"] in limited["reason"]
            jobs.wait_for_events(NAME, "ScalingLimited")
        producer.rate = 0
    assert uids(jobs, "driver") == driver
    check_output(kafka, producer.written)


def spike(producer: Producer, jobs: StreamJobs) -> None:
    """Let more arrive than one slot processes until the decision is made for more of them."""
    raised = time.monotonic()

    def is_decided(status: Object) -> bool:
        nonlocal raised
        # Each batch tells better how much a slot processes. A slot that keeps up processes more than is known.
        rate = max(producer.rate, SLOW, min(FAST, round(1.8 * (status.get("capacity") or 0))))
        if time.monotonic() - raised > KEEPS_UP and status.get("lagSeconds", 0) < 2:
            rate = min(FAST, rate * 3 // 2)
        if rate != producer.rate:
            producer.rate, raised = rate, time.monotonic()
        return bool(status.get("parallelism", 1) > 1 or status.get("state") == "Limited")

    scaling(jobs, lambda status: status.get("capacity"), what="known capacity")
    scaling(jobs, is_decided, what="decision for more slots")
