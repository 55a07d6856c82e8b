"""The S3 server of the checkpoints goes away and comes back: the job runs on, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.harness.cluster import Cluster
from e2e.harness.controller import StreamJobs, condition, last_checkpoint
from e2e.harness.visits import visits
from tests.servers.s3 import S3Server

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"


@pytest.fixture
def s3(cluster: Cluster, tmp_path: Path) -> Iterator[S3Server]:
    """A server of the scenario's own, which it may stop."""
    with S3Server(tmp_path / "s3", host=cluster.way_back) as server:
        if not server.is_versitygw:
            pytest.skip("moto forgets what it has stored")
        yield server


def test_a_job_runs_on_without_its_store_and_completes_checkpoints_when_it_is_back(
    jobs: StreamJobs, s3: S3Server
) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    before = jobs.wait_for_checkpoint(NAME)
    drivers = jobs.drivers(NAME)

    s3.end()
    jobs.namespace.write(visits(20, 40))
    unhealthy = jobs.wait(
        NAME, lambda status: condition(status, "CheckpointHealthy")["status"] == "False", what="failed checkpoints"
    )
    assert condition(unhealthy, "CheckpointHealthy")["reason"] == "CheckpointsFail"
    assert condition(unhealthy, "Running")["status"] == "True"
    assert unhealthy["checkpoint"]["counts"]["consecutiveFailures"] >= 1
    assert unhealthy["checkpoint"]["lastFailed"]["message"]

    s3.start()
    after = jobs.wait(
        NAME, lambda status: condition(status, "CheckpointHealthy")["status"] == "True", what="completed checkpoint"
    )
    assert last_checkpoint(after) > last_checkpoint(before)
    assert jobs.drivers(NAME) == drivers
    assert after["jobStatus"]["restarts"] == 0
    jobs.wait_for_whole_report(NAME, 40)


def test_a_job_whose_driver_ends_without_its_store_goes_on_when_it_is_back(jobs: StreamJobs, s3: S3Server) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME, restartPolicy={"onFailureRetryInterval": "1s", "maxRetryInterval": "5s"})
    before = jobs.wait_for_checkpoint(NAME)

    s3.end()
    (driver,) = jobs.drivers(NAME)
    jobs.namespace.delete("Pod", driver, grace=0)
    jobs.namespace.write(visits(20, 40))
    jobs.wait(NAME, lambda status: status["jobStatus"]["failures"] >= 2, what="driver that failed without the store")

    s3.start()
    after = jobs.wait_for_state(NAME, "STABLE")
    assert after["restoredFrom"]["id"] >= last_checkpoint(before)
    jobs.wait_for_whole_report(NAME, 40)
