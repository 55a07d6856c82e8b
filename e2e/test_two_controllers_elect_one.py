"""Two controllers run at once: one leads, and when it dies, or loses the API server, the other takes over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from e2e.harness.controller import ControllerProcess, StreamJobs, running_controller
from e2e.harness.namespace import Namespace
from e2e.harness.proxy import ApiProxy
from e2e.harness.visits import visits

from streamjob.errors import ExitCode

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"
LEASE = "controller"
REPLICAS = ("one", "two")


@dataclass(frozen=True, slots=True)
class Replica:
    """A controller, and its way to the API server."""

    controller: ControllerProcess
    way: ApiProxy


@pytest.fixture
def replicas(definitions: None, namespace: Namespace, kubeconfig: Path, tmp_path: Path) -> Iterator[dict[str, Replica]]:
    """The controllers, by the names that they are elected by."""
    options = ("--own-namespace", namespace.name, "--lease-name", LEASE, "--lease-duration", "9s")
    with ExitStack() as stack:
        found = {}
        for name in REPLICAS:
            way = stack.enter_context(ApiProxy(kubeconfig))
            way.write_kubeconfig(tmp_path / name)
            running = running_controller(
                namespace, (*options, "--own-name", name), environment={"KUBECONFIG": str(tmp_path / name)}
            )
            found[name] = Replica(stack.enter_context(running), way)
        yield found


@pytest.fixture
def controller(replicas: dict[str, Replica]) -> object:
    """Two of them, in place of the usual one."""
    return replicas


def leader(namespace: Namespace) -> str:
    """Return the holder of the Lease, once there is one."""
    lease = namespace.wait("Lease", LEASE, lambda each: each["spec"].get("holderIdentity"), what="holder")
    return str(lease["spec"]["holderIdentity"])


def test_the_other_controller_ends_the_upgrade_that_the_killed_one_began(
    jobs: StreamJobs, replicas: dict[str, Replica]
) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    before = jobs.wait_for_state(NAME, "STABLE")
    assert jobs.drivers(NAME) == [f"{NAME}-driver-1"]

    first = leader(jobs.namespace)
    (other,) = set(REPLICAS) - {first}
    jobs.change(NAME, sparkConf={"spark.sql.session.timeZone": "UTC"})
    jobs.wait_for_state(NAME, "UPGRADING", "DEPLOYING")
    replicas[first].controller.kill()
    jobs.namespace.write(visits(20, 40))
    after = jobs.wait_for_state(NAME, "STABLE")

    assert leader(jobs.namespace) == other
    assert replicas[other].controller.exit_code is None
    assert after["reconciliation"]["lastReconciledRevision"] != before["reconciliation"]["lastReconciledRevision"]
    assert after["restoredFrom"]["kind"] == "savepoint"
    assert after["jobStatus"]["attempt"] == 2
    assert jobs.drivers(NAME) == [f"{NAME}-driver-2"]
    # One claim of the log for each attempt: no driver was started twice.
    assert after["jobStatus"]["epoch"] == 2

    replicas[first].controller.start_again()
    jobs.wait_for_whole_report(NAME, 40)
    assert leader(jobs.namespace) == other
    assert jobs.drivers(NAME) == [f"{NAME}-driver-2"]


def test_a_controller_that_loses_the_api_server_gives_up_and_the_other_one_leads(
    jobs: StreamJobs, replicas: dict[str, Replica]
) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    jobs.wait_for_state(NAME, "STABLE")

    first = leader(jobs.namespace)
    (other,) = set(REPLICAS) - {first}
    replicas[first].way.cut()
    jobs.change(NAME, sparkConf={"spark.sql.session.timeZone": "UTC"})
    jobs.namespace.write(visits(20, 40))
    after = jobs.wait(
        NAME,
        lambda status: status["lifecycleState"] == "STABLE" and status["jobStatus"]["attempt"] == 2,
        what="upgrade",
    )

    assert leader(jobs.namespace) == other
    assert replicas[first].controller.wait_end() == ExitCode.FAILED
    assert after["restoredFrom"]["kind"] == "savepoint"
    assert after["jobStatus"]["epoch"] == 2
    replicas[first].way.mend()
    replicas[first].controller.start_again()
    jobs.wait_for_whole_report(NAME, 40)
    assert leader(jobs.namespace) == other
    assert jobs.drivers(NAME) == [f"{NAME}-driver-2"]
