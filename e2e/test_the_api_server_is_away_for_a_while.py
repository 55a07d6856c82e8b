"""The controller loses its way to the API server: the job runs on meanwhile, and is looked after again afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.harness.controller import ControllerProcess, StreamJobs, condition, last_checkpoint, running_controller
from e2e.harness.namespace import Namespace
from e2e.harness.proxy import ApiProxy
from e2e.harness.visits import visits

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"


@pytest.fixture
def proxy(kubeconfig: Path) -> Iterator[ApiProxy]:
    """The controller's way to the API server."""
    with ApiProxy(kubeconfig) as made:
        yield made


@pytest.fixture
def controller(definitions: None, namespace: Namespace, proxy: ApiProxy, tmp_path: Path) -> Iterator[ControllerProcess]:
    """A controller that connects through the proxy."""
    proxy.write_kubeconfig(tmp_path / "kubeconfig")
    with running_controller(namespace, environment={"KUBECONFIG": str(tmp_path / "kubeconfig")}) as running:
        yield running


def test_a_change_that_was_made_while_the_controller_was_cut_off_is_acted_on_afterwards(
    jobs: StreamJobs, controller: ControllerProcess, proxy: ApiProxy
) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    before = jobs.wait_for_state(NAME, "STABLE")

    proxy.cut()
    jobs.change(NAME, sparkConf={"spark.sql.session.timeZone": "UTC"})
    jobs.namespace.write(visits(20, 40))
    jobs.wait_for_stored_checkpoint(NAME, last_checkpoint(before) + 10)
    assert jobs.status(NAME)["jobStatus"]["attempt"] == 1

    proxy.mend()
    after = jobs.wait(
        NAME,
        lambda status: status["lifecycleState"] == "STABLE" and status["jobStatus"]["attempt"] == 2,
        what="upgrade",
    )
    assert controller.exit_code is None
    assert after["reconciliation"]["lastReconciledRevision"] != before["reconciliation"]["lastReconciledRevision"]
    assert after["restoredFrom"]["kind"] == "savepoint"
    assert condition(after, "Ready")["status"] == "True"
    jobs.wait_for_whole_report(NAME, 40)


def test_a_driver_that_dies_while_the_controller_is_cut_off_is_replaced_afterwards(
    jobs: StreamJobs, controller: ControllerProcess, proxy: ApiProxy
) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    before = jobs.wait_for_checkpoint(NAME)

    proxy.cut()
    (driver,) = jobs.drivers(NAME)
    jobs.namespace.delete("Pod", driver, grace=0)
    jobs.namespace.wait_gone("Pod", driver)
    jobs.namespace.write(visits(20, 40))
    proxy.mend()

    after = jobs.wait(NAME, lambda status: status["jobStatus"]["attempt"] == 2, what="next driver")
    assert after["jobStatus"]["failureReason"] == "DriverLost"
    after = jobs.wait_for_state(NAME, "STABLE")
    assert after["restoredFrom"]["id"] >= last_checkpoint(before)
    assert controller.exit_code is None
    jobs.wait_for_whole_report(NAME, 40)
