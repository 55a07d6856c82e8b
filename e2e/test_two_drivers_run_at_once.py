"""A user starts a second driver of a job by hand: the older one gives way, and nothing is published twice."""

from __future__ import annotations

import pytest
from e2e.harness.cluster import Object
from e2e.harness.controller import StreamJobs, condition
from e2e.harness.namespace import Namespace
from e2e.harness.visits import visits

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"
INTRUDER = "by-hand"
ATTEMPT = 7


def start_copy(namespace: Namespace, driver: str) -> None:
    """Start a copy of a driver's pod, as a later attempt that no controller knows."""
    found = namespace.get("Pod", driver)
    assert found is not None
    spec: Object = {key: value for key, value in found["spec"].items() if key not in ("nodeName", "tolerations")}
    (container,) = spec["containers"]
    arguments = list(container["args"])
    arguments[arguments.index("--attempt") + 1] = str(ATTEMPT)
    namespace.create("v1", "Pod", INTRUDER, spec={**spec, "containers": [{**container, "args": arguments}]})


def test_a_driver_that_is_superseded_stops_and_its_job_waits_for_a_person(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    before = jobs.wait_for_state(NAME, "STABLE")

    start_copy(jobs.namespace, f"{NAME}-driver-1")
    failed = jobs.wait_for_state(NAME, "FAILED")
    assert failed["jobStatus"]["state"] == "SUPERSEDED"
    assert failed["jobStatus"]["attempt"] == before["jobStatus"]["attempt"]
    stalled = condition(failed, "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "Superseded")
    assert condition(failed, "Ready")["status"] == "False"
    assert len(jobs.wait_for_events(NAME, "Superseded")) == 1

    # The other driver owns the log undisturbed.
    jobs.namespace.write(visits(20, 40))
    jobs.wait_for_stored_checkpoint(NAME, jobs.log(NAME).last_id)
    assert jobs.log(NAME).attempt == ATTEMPT
    jobs.namespace.wait("Pod", INTRUDER, lambda pod: pod["status"]["phase"] == "Running", what="running pod")

    jobs.namespace.delete("Pod", INTRUDER)
    jobs.namespace.wait_gone("Pod", INTRUDER)
    jobs.change(NAME, restartNonce=1)
    after = jobs.wait_for_state(NAME, "STABLE")
    assert after["jobStatus"]["attempt"] == ATTEMPT + 1
    assert after["restoredFrom"]["id"] >= before["checkpoint"]["lastCompleted"]["id"]
    assert condition(after, "Stalled")["status"] == "False"
    jobs.wait_for_whole_report(NAME, 40)
