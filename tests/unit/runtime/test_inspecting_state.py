"""Views of state, and rows in flight, as `snapshots inspect` shows them; without Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.unit.runtime.rows_in_flight import InFlight

from streamjob.ids import ChainUid, OperatorUid
from streamjob.store.opening import Location
from streamjob.stored.reading import StoredSnapshot
from streamjob.stored.state_stores import StateOperator, StateStore, StateUnreadable
from streamjob.stored.state_tables import TablesRequest
from streamjob_runtime.inspection import read_tables
from streamjob_runtime.inspection.state_views import views_of
from streamjob_runtime.restoring.download import SnapshotFileCorrupt
from streamjob_runtime.spark.text.json_values import exact_number

pytest.importorskip("pyarrow")
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


def operator(name: str, *stores: str, number: int = 0, **facts: Any) -> StateOperator:
    return StateOperator(
        chain=ChainUid("report"),
        id=number,
        name=name,
        uids=(OperatorUid("delays"),),
        stores=tuple(StateStore(each, 2, 1, 10) for each in stores),
        variables=facts.get("variables", {}),
        timers=facts.get("timers", False),
    )


def shown(*operators: StateOperator) -> dict[str, dict[str, str]]:
    """The views that are shown without a query, and the options of Spark's reader for each."""
    return {view.name: dict(view.options) for view in views_of(operators) if not view.internal}


def test_an_operator_of_one_store_is_one_view() -> None:
    assert shown(operator("stateStoreSave", "default")) == {"state": {"storeName": "default"}}


def test_a_join_is_a_view_for_each_side_and_queries_see_its_stores_too() -> None:
    join = operator("symmetricHashJoin", "left-keyToNumValues", "right-keyToNumValues")

    assert shown(join) == {"state_left": {"joinSide": "left"}, "state_right": {"joinSide": "right"}}
    assert [view.name for view in views_of([join]) if view.internal] == [
        "state_left_keyToNumValues",
        "state_right_keyToNumValues",
    ]


def test_each_state_variable_is_a_view_and_so_are_the_timers() -> None:
    variables = {"seen at": "MapState", "count": "ValueState", "$hidden": "ValueState"}

    assert shown(operator("transformWithStateExec", "default", variables=variables, timers=True)) == {
        "state_count": {"stateVarName": "count"},
        "state_seen_at": {"stateVarName": "seen at"},
        "state_timers": {"readRegisteredTimers": "true"},
    }
    assert shown(operator("transformWithStateExec", "default", variables={"n": "ValueState"})) == {
        "state": {"stateVarName": "n"}
    }


def test_views_of_several_operators_carry_chain_and_number() -> None:
    assert list(shown(operator("dedupe", "default"), operator("dedupe", "default", number=1))) == [
        "state_report_0",
        "state_report_1",
    ]


@pytest.fixture
def in_flight(tmp_path: Path) -> InFlight:
    return InFlight(tmp_path)


def test_rows_in_flight_are_shown_in_the_order_in_which_they_will_be_read(in_flight: InFlight) -> None:
    in_flight.add({"k": "b", "at": NOON}, {"k": "a", "at": None})
    in_flight.add({"k": "c", "at": NOON})

    (table,) = in_flight.read()
    assert (table.view, table.columns, table.more) == ("in_flight", (("k",), ("at",)), False)
    assert table.rows == (
        {"k": "b", "at": "2024-01-01T12:00:00.000000Z"},
        {"k": "a", "at": None},
        {"k": "c", "at": "2024-01-01T12:00:00.000000Z"},
    )


def test_no_more_rows_are_shown_than_asked_for(in_flight: InFlight) -> None:
    in_flight.add({"k": "a", "raw": b"\x00\x01"}, {"k": "b", "raw": b""})
    in_flight.add({"k": "c", "raw": b""})

    (table,) = in_flight.read(limit=1)
    assert (table.rows, table.more) == (({"k": "a", "raw": "AAE="},), True)
    assert in_flight.read(limit=3)[0].more is False


def test_a_channel_with_nothing_in_flight_has_no_rows(in_flight: InFlight) -> None:
    (table,) = in_flight.read()

    assert (table.columns, table.rows) == ((), ())


def test_progress_counts_the_bytes_that_are_fetched(in_flight: InFlight) -> None:
    in_flight.add({"k": "a"})
    in_flight.add({"k": "b"})
    told: list[tuple[str, int, int]] = []
    in_flight.read(progress=lambda *each: told.append(each))

    total = sum(segment.length for entry in in_flight.entries for segment in entry.segments)
    assert told[0] == ("fetching", 0, total)
    assert told[-1] == ("fetching", total, total)


def test_damaged_segments_are_not_shown(in_flight: InFlight) -> None:
    in_flight.add({"k": "a"})
    segment = in_flight.directory / "segment-0"
    segment.write_bytes(segment.read_bytes()[:-1] + b"\x01")

    with pytest.raises(SnapshotFileCorrupt, match="s0"):
        in_flight.read()


def test_a_snapshot_without_a_manifest_has_no_tables() -> None:
    snapshot = StoredSnapshot(uri="file:///x/manifest.json", home=Location("file:///x/"), problem="it is gone")

    with pytest.raises(StateUnreadable, match="it is gone"):
        next(read_tables(TablesRequest(snapshot=snapshot)))


def test_a_number_is_text_where_a_float_would_lose_digits() -> None:
    assert [exact_number(text) for text in ("1.50", "0.1234567890123456789", "1e999")] == [
        1.5,
        "0.1234567890123456789",
        "1e999",
    ]
