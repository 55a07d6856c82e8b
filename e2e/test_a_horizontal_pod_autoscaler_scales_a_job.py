"""A HorizontalPodAutoscaler scales a job by the lag of its source: up while records wait, and down again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.harness.cluster import Object
from e2e.harness.controller import API, StreamJobs
from e2e.harness.external_metrics import JOB_LABEL, served_external_metrics
from e2e.harness.namespace import Namespace
from e2e.harness.shouting import NAME, TIME, Producer, apply, check_output
from tests.servers.kafka import KafkaServer

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

KIND = "HorizontalPodAutoscaler"
MOST = 3
AUTOSCALER = {
    "scaleTargetRef": {"apiVersion": API, "kind": "StreamJob", "name": NAME},
    "minReplicas": 1,
    "maxReplicas": MOST,
    "behavior": {"scaleDown": {"stabilizationWindowSeconds": 15}},
    "metrics": [
        {
            "type": "External",
            "external": {
                "metric": {"name": "streamjob_source_lag_records", "selector": {"matchLabels": {JOB_LABEL: NAME}}},
                "target": {"type": "AverageValue", "averageValue": "1000"},
            },
        }
    ],
}


@pytest.fixture
def external_metrics(namespace: Namespace, tmp_path: Path) -> Iterator[None]:
    """The metrics of the namespace's drivers, as autoscalers ask for them."""
    with served_external_metrics(namespace, tmp_path / "certificate"):
        yield


def wait_until_active(jobs: StreamJobs) -> None:
    """Wait until the autoscaler has found the job's slots and their metric."""

    def is_active(thing: Object) -> bool:
        conditions = (thing.get("status") or {}).get("conditions") or ()
        return any((each["type"], each["status"]) == ("ScalingActive", "True") for each in conditions)

    jobs.namespace.wait(KIND, NAME, is_active, what="condition ScalingActive")


def wait_for_slots(jobs: StreamJobs, slots: int, before: Object) -> Object:
    """Wait until a later driver runs with so many task slots, from a savepoint, and return the status."""
    after = jobs.wait(
        NAME,
        lambda status: status["lifecycleState"] == "STABLE" and status["replicas"] == slots,
        what=f"job with {slots} task slots",
    )
    assert after["jobStatus"]["attempt"] > before["jobStatus"]["attempt"]
    assert after["restoredFrom"]["kind"] == "savepoint"
    return after


def test_a_job_gets_task_slots_while_records_wait_and_loses_them_when_it_has_caught_up(
    kafka: KafkaServer, jobs: StreamJobs, external_metrics: None
) -> None:
    apply(jobs, kafka, TIME, most=400)
    first = jobs.wait_until_ready(NAME)
    assert first["replicas"] == 1

    jobs.namespace.create("autoscaling/v2", KIND, NAME, spec=AUTOSCALER)
    wait_until_active(jobs)
    producer = Producer(kafka)
    producer.write(15_000)
    wide = wait_for_slots(jobs, MOST, first)
    wait_for_slots(jobs, 1, wide)
    check_output(kafka, producer.written)
