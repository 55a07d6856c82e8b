"""A user rescales a job by `kubectl scale`: it continues with other task slots, from a savepoint."""

from __future__ import annotations

import subprocess

import pytest
from e2e.harness.cluster import Object
from e2e.harness.controller import StreamJobs
from e2e.harness.snapshots import manifest_of
from e2e.harness.visits import visits

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"


def kubectl(jobs: StreamJobs, *arguments: str) -> str:
    """Return what `kubectl` prints in the scenario's namespace."""
    command = ["kubectl", "--kubeconfig", str(jobs.namespace.cluster.kubeconfig), "-n", jobs.namespace.name]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def scale(jobs: StreamJobs, slots: int, before: Object) -> Object:
    """Rescale the job, and return its status once it runs with the new number of task slots, from a savepoint."""
    kubectl(jobs, "scale", f"streamjob/{NAME}", f"--replicas={slots}")
    after = jobs.wait(
        NAME,
        lambda status: status["lifecycleState"] == "STABLE" and status["replicas"] == slots,
        what=f"job with {slots} task slots",
    )
    assert after["jobStatus"]["attempt"] == before["jobStatus"]["attempt"] + 1
    assert after["restoredFrom"]["kind"] == "savepoint"
    assert after["restoredFrom"]["path"] == after["savepoint"]["lastCompleted"]["path"]
    return after


def partitions(jobs: StreamJobs, status: Object) -> int:
    """Return into how many partitions the state of the newest snapshot is divided."""
    return int(manifest_of(jobs, status["checkpoint"]["lastCompleted"]["path"])["graph"]["maxParallelism"])


def test_a_job_is_rescaled_up_and_down_by_savepoints_and_its_output_is_exact(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    first = jobs.wait_for_state(NAME, "STABLE")
    assert (first["replicas"], partitions(jobs, first)) == (1, 2)

    jobs.namespace.write(visits(20, 30))
    second = scale(jobs, 2, first)
    assert partitions(jobs, second) == 2
    assert second["selector"]
    assert jobs.namespace.all("Pod", second["selector"]) == []

    jobs.namespace.write(visits(30, 40))
    third = scale(jobs, 1, second)
    assert partitions(jobs, third) == 2
    jobs.wait_for_whole_report(NAME, 40)
