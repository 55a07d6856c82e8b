"""A user changes a job so that the cluster refuses its pod: the job runs on, and its status gives the reason."""

from __future__ import annotations

from typing import Any

import pytest
from e2e.harness.cluster import Object
from e2e.harness.controller import StreamJobs, condition
from e2e.harness.visits import visits

pytestmark = [pytest.mark.timeout(900), pytest.mark.thorough]

NAME = "visits"
ENFORCED = "pod-security.kubernetes.io/enforce"


def wait_until_rejected(jobs: StreamJobs, quoted: str) -> Object:
    """Wait until the status quotes the API server, and see that the driver was left alone."""

    def is_quoted(status: Object) -> bool:
        ready = condition(status, "Ready")
        return bool(ready["reason"] == "PodRejected" and quoted in ready["message"])

    status = jobs.wait(NAME, is_quoted, what=f"PodRejected with {quoted}", within=60)
    assert jobs.drivers(NAME) == [f"{NAME}-driver-1"]
    assert status["lifecycleState"] == "STABLE"
    assert condition(status, "Running")["status"] == "True"
    return status


def enforce(jobs: StreamJobs, level: str | None) -> None:
    """Set the level of Pod Security that the namespace enforces."""
    jobs.namespace.cluster.patch(jobs.namespace.where, {"metadata": {"labels": {ENFORCED: level}}})


def limit(jobs: StreamJobs, name: str, **hard: str) -> None:
    """Give the namespace a quota, and wait until it counts."""
    amounts = {resource.replace("_", "."): amount for resource, amount in hard.items()}
    jobs.namespace.create("v1", "ResourceQuota", name, spec={"hard": amounts})
    jobs.namespace.wait(
        "ResourceQuota", name, lambda thing: (thing.get("status") or {}).get("used"), what="counted quota"
    )


def test_a_job_runs_on_while_the_cluster_rejects_its_next_pod_and_goes_on_once_that_is_corrected(
    jobs: StreamJobs,
) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    jobs.wait_for_state(NAME, "STABLE")
    driver = jobs.namespace.driver
    env, mounts = {"name": "A=B", "value": "c"}, [{"name": "nowhere", "mountPath": "/nowhere"}]
    invalid: list[tuple[dict[str, Any], str]] = [
        ({"serviceAccount": "absent"}, 'serviceaccount "absent" not found'),
        ({"priorityClassName": "absent"}, "no PriorityClass with name absent was found"),
        ({"env": [env]}, "spec.containers[0].env["),
        ({"volumeMounts": [*driver["volumeMounts"], *mounts]}, 'Not found: "nowhere"'),
    ]

    for change, quoted in invalid:
        jobs.apply(NAME, driver={**driver, **change})
        wait_until_rejected(jobs, quoted)

    enforce(jobs, "restricted")
    jobs.apply(NAME, driver={**driver, "securityContext": {"runAsNonRoot": False, "runAsUser": 0}})
    wait_until_rejected(jobs, 'violates PodSecurity "restricted:latest"')
    enforce(jobs, None)

    limit(jobs, "small", requests_memory="100Mi")
    jobs.apply(NAME, restartNonce=1)
    wait_until_rejected(jobs, "exceeded quota: small")
    jobs.wait(NAME, lambda status: condition(status, "Stalled")["status"] == "True", what="Stalled", within=120)
    jobs.wait_for_events(NAME, "PodRejected", saying="exceeded quota: small")

    limit(jobs, "exact", pods="1")
    jobs.namespace.delete("ResourceQuota", "small")
    jobs.wait_until_ready(NAME, attempt=2)

    assert jobs.drivers(NAME) == [f"{NAME}-driver-2"]
    jobs.namespace.delete("ResourceQuota", "exact")
    jobs.namespace.write(visits(20, 40))
    jobs.wait_for_whole_report(NAME, 40)
