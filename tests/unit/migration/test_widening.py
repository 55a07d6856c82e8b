"""A type is wider than another one if it has each of its values."""

from __future__ import annotations

import pytest

from streamjob.migration.widening import cast, widens

WIDER = [
    ("int", "int"),
    ("tinyint", "smallint"),
    ("smallint", "int"),
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
