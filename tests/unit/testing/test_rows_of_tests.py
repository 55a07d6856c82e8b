"""The rows in tests of jobs: how their values are read, and how rows are compared."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import types as t

from streamjob_runtime.testing.comparing import compare
from streamjob_runtime.testing.values import BadValue, json_of, read_value, same, shown

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
POINT = t.StructType([t.StructField("x", t.IntegerType()), t.StructField("y", t.DoubleType())])


@pytest.mark.parametrize(
    ("given", "kind", "read", "json"),
    [
        (True, t.BooleanType(), True, True),
        (3, t.LongType(), 3, 3),
        (3, t.DoubleType(), 3.0, 3.0),
        ("Infinity", t.DoubleType(), float("inf"), "Infinity"),
        ("1.10", t.DecimalType(5, 2), Decimal("1.10"), "1.10"),
        ("é", t.BinaryType(), "é".encode(), "w6k="),
        ({"base64": "AAE="}, t.BinaryType(), b"\0\1", "AAE="),
        ({"k": "é", "n": 1}, t.BinaryType(), '{"k": "é", "n": 1}'.encode(), "eyJrIjogIsOpIiwgIm4iOiAxfQ=="),
        ("2026-01-31", t.DateType(), date(2026, 1, 31), "2026-01-31"),
        ("2026-01-01T12:00:00Z", t.TimestampType(), NOON, "2026-01-01T12:00:00+00:00"),
        ("2026-01-01T14:00:00+02:00", t.TimestampType(), NOON, "2026-01-01T12:00:00+00:00"),
        ("2026-01-01 12:00:00", t.TimestampType(), NOON, "2026-01-01T12:00:00+00:00"),
        ([1, None], t.ArrayType(t.IntegerType()), [1, None], [1, None]),
        ([("a", 1)], t.MapType(t.StringType(), t.IntegerType()), {"a": 1}, {"a": 1}),
        ({"x": 1}, POINT, {"x": 1, "y": None}, {"x": 1, "y": None}),
    ],
)
def test_a_value_is_read_by_the_type_of_its_column(given: Any, kind: t.DataType, read: Any, json: Any) -> None:
    value = read_value(given, kind, UTC)

    assert value == read
    assert json_of(value) == json
    assert same(read_value(value, kind, UTC), read)


@pytest.mark.parametrize(
    ("given", "kind", "fix"),
    [
        ("yes", t.BooleanType(), "write true or false"),
        (True, t.LongType(), "write a whole number"),
        (1.5, t.IntegerType(), "write a whole number"),
        (7, t.StringType(), "write a text; put it in quotes"),
        ("tomorrow", t.TimestampType(), "write a time like 2026-01-31T12:00:00Z"),
        (5, t.DateType(), "write a date like 2026-01-31"),
        ("ab", t.ArrayType(t.StringType()), "write a list"),
        ("ab", t.MapType(t.StringType(), t.StringType()), "write a mapping"),
        ({"z": 1}, POINT, "the columns are x, y"),
        (5, t.BinaryType(), "write a text, which becomes UTF-8, a mapping, which becomes JSON, or {base64: …}"),
        ({"base64": "?"}, t.BinaryType(), "write base64"),
    ],
)
def test_a_value_that_does_not_fit_its_column_is_refused(given: Any, kind: t.DataType, fix: str) -> None:
    with pytest.raises(BadValue) as error:
        read_value(given, kind, UTC)

    assert error.value.fix == fix


def test_rows_are_compared_in_any_order_and_each_as_often_as_it_is_there() -> None:
    rows = [{"n": 1}, {"n": 2}, {"n": 1}]

    assert not compare(rows, rows[::-1])
    assert compare(rows, rows[:2]).missing == ({"n": 1},)
    assert compare(rows[:2], rows).surplus == ({"n": 1},)


def test_columns_that_no_expected_row_names_do_not_count() -> None:
    assert not compare([{"n": 1}], [{"n": 1, "at": NOON}])


def test_an_expected_sum_of_floating_point_numbers_may_differ_in_its_last_digits() -> None:
    assert not compare([{"x": 0.3}], [{"x": 0.1 + 0.2}])
    assert compare([{"x": 0.3}], [{"x": 0.3001}])


def test_values_are_shown_as_a_test_would_have_them() -> None:
    row = {"at": NOON, "day": NOON.date(), "ok": True, "no": None, "raw": b"a", "bits": b"\xff", "list": [1, {"x": 2}]}

    assert shown(row) == (
        "{at: 2026-01-01T12:00:00Z, day: 2026-01-01, ok: true, no: null, raw: a, bits: {base64: /w==}, "
        "list: [1, {x: 2}]}"
    )
