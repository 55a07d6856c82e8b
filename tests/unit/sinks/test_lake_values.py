"""Values that a lake table's readers cannot hold are found wherever they are, and told with their row."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from streamjob_runtime.sinks.errors import RowsRefused
from streamjob_runtime.sinks.lakes.values import refuse_unreadable

MICROS = pa.timestamp("us", "UTC")
BEYOND = 253402300800_000000
NOT_UTF8 = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")])


def nested(kind: str, times: pa.Array) -> pa.Array:
    offsets = pa.array([0, 1], pa.int32())
    if kind == "list":
        return pa.ListArray.from_arrays(offsets, times)
    if kind == "struct":
        return pa.StructArray.from_arrays([times], ["t"])
    if kind == "map":
        return pa.MapArray.from_arrays(offsets, pa.array(["k"]), times)
    return times


@pytest.mark.parametrize("kind", ["plain", "list", "struct", "map"])
@pytest.mark.parametrize("zone", ["UTC", None])
@pytest.mark.parametrize("micros", [BEYOND, -62135596800_000001])
def test_a_time_outside_the_years_1_to_9999_is_refused(kind: str, zone: str | None, micros: int) -> None:
    kinds = pa.timestamp("us", zone)
    good, bad = (pa.array([value], pa.int64()).cast(kinds) for value in (micros + (-1 if micros > 0 else 1), micros))
    fine = pa.table({"id": [1], "v": nested(kind, good)})
    refuse_unreadable("sink report", fine)

    rows = pa.concat_tables([fine] * 9 + [pa.table({"id": [7], "v": nested(kind, bad)})] + [fine] * 3)
    with pytest.raises(RowsRefused) as raised:
        refuse_unreadable("sink report", rows)
    assert raised.value.what.startswith(
        "sink report: the column 'v' has a time outside the years 1 to 9999, in the row"
    )
    assert "{id: 7, v: " in raised.value.what


@pytest.mark.parametrize(
    ("values", "what"),
    [
        (pa.array([2932897], pa.int32()).cast(pa.date32()), "has a date outside the years 1 to 9999"),
        (pa.array([-719163], pa.int32()).cast(pa.date32()), "has a date outside the years 1 to 9999"),
        (NOT_UTF8, "has a text that is not valid UTF-8"),
    ],
)
def test_other_values_that_cannot_be_read_are_refused(values: pa.Array, what: str) -> None:
    with pytest.raises(RowsRefused, match=f"the column 'v' {what}, in the row"):
        refuse_unreadable("sink report", pa.table({"v": values}))


@pytest.mark.parametrize(
    "values",
    [
        [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None],
        ["", "zzz\ud7ff", "\U0010ffff", "a\0b", None],
        [None],
        [float("nan"), float("inf"), -0.0],
        [[], None],
    ],
)
def test_extremes_are_no_reason_to_refuse(values: list[Any]) -> None:
    refuse_unreadable("sink report", pa.table({"v": values}))
