"""A type is wider than another one if it has each of its values."""

from __future__ import annotations

import pytest

from streamjob.migration.widening import cast, same_values, widens

WIDER = [
    ("int", "int"),
    *(("tinyint", each) for each in ("smallint", "int", "bigint")),
    ("smallint", "int"),
    ("smallint", "bigint"),
    ("int", "bigint"),
    ("float", "double"),
    ("date", "timestamp"),
    ("decimal(10,2)", "decimal(12,2)"),
    ("decimal(10,2)", "decimal(12,4)"),
    ("decimal(10,2)", "decimal(10,2)"),
    ("struct<a:int>", "struct<a:int>"),
]
NOT_WIDER = [
    ("bigint", "int"),
    ("int", "double"),
    ("int", "string"),
    ("bigint", "double"),
    ("double", "float"),
    ("timestamp", "date"),
    ("date", "timestamp_ntz"),
    ("decimal(10,2)", "decimal(9,2)"),
    ("decimal(10,2)", "decimal(12,1)"),
    ("decimal(10,2)", "decimal(11,4)"),
    ("decimal(10,2)", "bigint"),
    ("int", "decimal(10,0)"),
    ("struct<a:int>", "struct<a:bigint>"),
]


@pytest.mark.parametrize(("before", "after"), WIDER)
def test_a_type_with_room_for_all_values_is_wider(before: str, after: str) -> None:
    assert widens(before, after)


@pytest.mark.parametrize(("before", "after"), NOT_WIDER)
def test_a_type_that_loses_a_value_is_not_wider(before: str, after: str) -> None:
    assert not widens(before, after)


def test_a_value_is_cast_only_to_another_type() -> None:
    assert cast("v", "int", "int") == "v"
    assert cast("v", "int", "bigint") == "CAST(v AS bigint)"


@pytest.mark.parametrize(
    ("before", "after", "was", "now", "expected"),
    [
        ("int", "bigint", ["7", "null"], ["7", "null"], True),
        ("int", "bigint", ["7"], ["8"], False),
        ("int", "bigint", ["null"], ["0"], False),
        # The first day, and its first moment in UTC.
        ("date", "timestamp", ["0"], ["0"], False),
        ("float", "double", ["0.1"], ["0.10000000149011612"], True),
        ("float", "double", ["0.1"], ["0.2"], False),
        ("float", "double", ["no number"], ["7"], True),
        ("float", "double", ["1"], ["1e300"], False),
        ("decimal(6,2)", "decimal(9,3)", ["7.00"], ["7.000"], True),
        ("decimal(6,2)", "decimal(9,3)", ["7.00"], ["7.001"], False),
        ("decimal(6,2)", "decimal(9,3)", ["7.00"], ["null"], False),
        ("decimal(6,2)", "decimal(9,3)", ["no number"], ["7"], True),
        ("decimal(6,2)", "decimal(6,2)", ["7.00"], ["7.000"], False),
    ],
)
def test_values_are_the_same_ones_of_a_wider_type_or_cannot_be_compared(
    before: str, after: str, was: list[str], now: list[str], expected: bool
) -> None:
    assert same_values(before, after, was, now) is expected
