"""Helm installs a controller for all namespaces: one that comes later is looked after like those that were there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from e2e.harness.cluster import Cluster
from e2e.harness.controller import StreamJobs
from e2e.harness.helm import Release
from e2e.harness.namespace import Namespace
from e2e.harness.visits import visits

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1200)]

NAME = "visits"


@pytest.fixture
def controller(release: Release, namespace: Namespace) -> Release:
    """A controller inside the cluster, of all namespaces; the scenario's own is there already."""
    release.install({"watchNamespaces": [], "reconcileInterval": "2s"})
    return release


@pytest.fixture
def later(controller: Release, other: Namespace) -> Iterator[StreamJobs]:
    """The StreamJobs of a namespace that came after the controller."""
    found = StreamJobs(other)
    yield found
    found.remove_all()


def test_jobs_of_all_namespaces_run_are_upgraded_and_are_deleted(
    cluster: Cluster, jobs: StreamJobs, later: StreamJobs, controller: Release
) -> None:
    for each in (jobs, later):
        each.namespace.write(visits(0, 20))
        each.apply(NAME)
    for each in (jobs, later):
        each.wait_until_ready(NAME)

    later.change(NAME, sparkConf={"spark.sql.session.timeZone": "UTC"})
    upgraded = later.wait_until_ready(NAME, attempt=2)
    assert upgraded["restoredFrom"]["kind"] == "savepoint"
    assert jobs.status(NAME)["jobStatus"]["attempt"] == 1
    kept = later.snapshot("kept", NAME)
    assert kept["path"].startswith(later.namespace.location)

    for each in (jobs, later):
        each.namespace.write(visits(20, 40))
        each.wait_for_whole_report(NAME, 40)
    (driver,) = jobs.drivers(NAME)
    jobs.namespace.delete("StreamJob", NAME)
    jobs.namespace.wait_gone("StreamJob", NAME)
    jobs.namespace.wait_gone("Pod", driver)
    assert later.wait_until_ready(NAME)["jobStatus"]["restarts"] == 0
    assert "forbidden" not in controller.logs(cluster).lower()
