"""The control API shows which executors there are and how much state each has."""

from __future__ import annotations

from pathlib import Path

from tests.unit.executors.test_fleet import INVITATION, OFFER

from streamjob.ids import Epoch
from streamjob_runtime.executors.build_id import this_build
from streamjob_runtime.executors.driver_side import DriverSide
from streamjob_runtime.executors.messages import Store
from streamjob_runtime.executors.options import ExecutorOptions


def test_executors_are_shown_with_the_stores_that_they_have_open(tmp_path: Path) -> None:
    driver = DriverSide(ExecutorOptions(3), tmp_path, "file:///snapshots/", lambda: 0.0)
    driver.fleet.open(INVITATION)
    offer = OFFER.model_copy(update={"build": this_build()})
    for name in "ab":
        driver.fleet.registered_in_spark(driver.fleet.register(name, name, offer).executor, "10.0.0.1")
    driver.state.begin(Epoch(1), {})
    for partition, executor in enumerate(["1", "1", "1", "2"]):
        store = Store(executor=executor, directory=f"/1/counts/checkpoint/state/0/{partition}")
        driver.state.handlers()["adopted"]("", "ab"[int(executor) - 1], store.model_dump_json().encode())

    view = driver.view()

    assert (view.wanted, view.lost, view.skew) == (3, 0, 1.5)
    assert [(each.name, each.state_stores) for each in view.executors] == [("a", 3), ("b", 1)]


def test_an_executor_that_is_lost_is_counted(tmp_path: Path) -> None:
    driver = DriverSide(ExecutorOptions(1), tmp_path, "file:///snapshots/", lambda: 0.0)
    driver.fleet.open(INVITATION)
    offer = OFFER.model_copy(update={"build": this_build()})
    driver.fleet.registered_in_spark(driver.fleet.register("a", "a", offer).executor, "10.0.0.1")

    driver.fleet.lose("1", "killed")

    assert (driver.view().lost, driver.view().executors, driver.view().skew) == (1, (), None)
