"""The control API shows which executors there are and how much state each has."""

from __future__ import annotations

from pathlib import Path

from tests.unit.executors.test_fleet import INVITATION, OFFER

from streamjob.ids import Epoch
from streamjob_runtime.executors.build_id import this_build
from streamjob_runtime.executors.driver.driver_side import DriverSide
from streamjob_runtime.executors.driver.fleet import Fleet
from streamjob_runtime.executors.driver.loads import Loads, read_totals
from streamjob_runtime.executors.driver.options import ExecutorOptions
from streamjob_runtime.executors.driver.view import executors_view
from streamjob_runtime.executors.messages import Store


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


def test_a_partition_of_a_join_has_several_stores(tmp_path: Path) -> None:
    driver = DriverSide(ExecutorOptions(1), tmp_path, "file:///snapshots/", lambda: 0.0)
    driver.fleet.open(INVITATION)
    offer = OFFER.model_copy(update={"build": this_build()})
    driver.fleet.registered_in_spark(driver.fleet.register("a", "a", offer).executor, "10.0.0.1")
    driver.state.begin(Epoch(1), {})
    for path in ("0/0/left-keyToNumValues", "0/0/right-keyToNumValues", "0/1/left-keyToNumValues", "1/0"):
        store = Store(executor="1", directory=f"/1/joined/checkpoint/state/{path}")
        driver.state.handlers()["adopted"]("", "a", store.model_dump_json().encode())

    (view,) = driver.view().executors

    assert (view.state_partitions, view.state_stores) == (3, 4)


def test_the_work_of_an_executor_is_what_its_tasks_report() -> None:
    loads = Loads()
    for second in range(3):
        done = 500 * second
        loads.note(read_totals(f"1 {second} {done} {10 * done} 64 {7 * second}\n2 0 0 0 0 0\n"), now=float(second))
    fleet = Fleet(2, {}, lambda: 0.0)
    fleet.open(INVITATION)
    for name in "ab":
        fleet.registered_in_spark(fleet.register(name, name, OFFER.model_copy(update={"cores": 2})).executor, "here")

    view = executors_view(fleet, {}, {"1": 100, "2": 300}, loads.of)

    first, second_one = view.executors
    assert (first.tasks, first.records_in, first.bytes_in, first.state_rows) == (2, 10_000, 64, 14)
    assert (first.records_in_per_second, first.busy) == (5000, 0.25)
    assert (second_one.busy, second_one.state_rows) == (0, None)
    assert (view.row_skew, view.byte_skew, view.work_skew, view.skew) == (2, 1.5, 2, None)


def test_an_executor_that_is_lost_is_counted(tmp_path: Path) -> None:
    driver = DriverSide(ExecutorOptions(1), tmp_path, "file:///snapshots/", lambda: 0.0)
    driver.fleet.open(INVITATION)
    offer = OFFER.model_copy(update={"build": this_build()})
    driver.fleet.registered_in_spark(driver.fleet.register("a", "a", offer).executor, "10.0.0.1")

    driver.fleet.lose("1", "killed")

    assert (driver.view().lost, driver.view().executors, driver.view().skew) == (1, (), None)
