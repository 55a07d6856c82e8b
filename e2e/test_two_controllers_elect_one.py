"""Two controllers run at once: one leads, and when it is killed in the middle of an upgrade, the other ends it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from e2e.harness.controller import ControllerProcess, StreamJobs, expected, last_visit, running_controller, visits
from e2e.harness.namespace import Namespace

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"
LEASE = "controller"
REPLICAS = ("one", "two")


@pytest.fixture
def replicas(definitions: None, namespace: Namespace) -> Iterator[dict[str, ControllerProcess]]:
    """The controllers, by the names that they are elected by."""
    with ExitStack() as stack:
        options = ("--own-namespace", namespace.name, "--lease-name", LEASE, "--lease-duration", "9s")
        yield {
            name: stack.enter_context(running_controller(namespace, (*options, "--own-name", name)))
            for name in REPLICAS
        }


@pytest.fixture
def jobs(namespace: Namespace, replicas: dict[str, ControllerProcess]) -> Iterator[StreamJobs]:
    """The StreamJobs of the scenario's namespace."""
    found = StreamJobs(namespace, replicas["one"])
    yield found
    found.remove_all()


def leader(namespace: Namespace) -> str:
    """Return who holds the Lease, once somebody does."""
    lease = namespace.wait("Lease", LEASE, lambda each: each["spec"].get("holderIdentity"), what="holder")
    return str(lease["spec"]["holderIdentity"])


def test_the_other_controller_ends_the_upgrade_that_the_killed_one_began(
    jobs: StreamJobs, replicas: dict[str, ControllerProcess]
) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    before = jobs.wait_for_state(NAME, "STABLE")
    assert jobs.drivers(NAME) == [f"{NAME}-driver-1"]

    first = leader(jobs.namespace)
    (other,) = set(REPLICAS) - {first}
    jobs.change(NAME, sparkConf={"spark.sql.session.timeZone": "UTC"})
    jobs.wait_for_state(NAME, "UPGRADING", "DEPLOYING")
    replicas[first].kill()
    jobs.namespace.write(visits(20, 40))
    after = jobs.wait_for_state(NAME, "STABLE")

    assert leader(jobs.namespace) == other
    assert replicas[other].exit_code is None
    assert after["reconciliation"]["lastReconciledRevision"] != before["reconciliation"]["lastReconciledRevision"]
    assert after["restoredFrom"]["kind"] == "savepoint"
    assert after["jobStatus"]["attempt"] == 2
    assert jobs.drivers(NAME) == [f"{NAME}-driver-2"]
    # One claim of the log for each attempt: nobody started a driver twice.
    assert after["jobStatus"]["epoch"] == 2

    replicas[first].start_again()
    jobs.namespace.write(last_visit())
    jobs.wait_for_report(NAME, expected(40))
    assert leader(jobs.namespace) == other
    assert jobs.drivers(NAME) == [f"{NAME}-driver-2"]
