"""Which rows fit which tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamjob_runtime.sinks.postgresql.column_types import Form, TableColumn, form_of, key_mismatches, mismatches


def column(type_name: str, name: str = "x", **more: object) -> TableColumn:
    base, _, scale = type_name.partition(",")
    return replace(TableColumn(name, type_name, base, int(scale) if scale else None), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spark_type", "types"),
    [
        ("tinyint", "int2 int4 int8 numeric float4 float8"),
        ("int", "int4 int8 numeric float8"),
        ("bigint", "int8 numeric"),
        ("float", "float4 float8"),
        ("double", "float8"),
        ("boolean", "bool"),
        ("date", "date"),
        ("timestamp", "timestamptz"),
        ("timestamp_ntz", "timestamp"),
        ("string", "text varchar bpchar json jsonb uuid inet"),
        ("varchar(10)", "text varchar"),
        ("string collate UTF8_LCASE", "text"),
        ("binary", "bytea"),
        ("decimal(10,2)", "numeric numeric,2 numeric,4"),
        ("array<int>", "json jsonb"),
        ("map<string,int>", "jsonb"),
        ("struct<a:int,b:string>", "jsonb"),
        ("variant", "jsonb"),
        ("void", "text int8 bytea"),
    ],
)
def test_a_value_that_arrives_as_it_is_fits(spark_type: str, types: str) -> None:
    assert [mismatches([("x", spark_type)], [column(each)]) for each in types.split()] == [[] for _ in types.split()]


@pytest.mark.parametrize(
    ("spark_type", "types"),
    [
        ("bigint", "int4 float8 text"),
        ("double", "float4 numeric int8"),
        ("decimal(10,2)", "numeric,1 numeric,0 float8 int8"),
        ("string", "int8 date timestamptz bytea bool"),
        ("timestamp", "timestamp date text"),
        ("timestamp_ntz", "timestamptz"),
        ("array<int>", "text _int4"),
        ("interval day to second", "interval"),
    ],
)
def test_a_value_that_would_be_rounded_cut_or_shifted_does_not_fit(spark_type: str, types: str) -> None:
    for each in types.split():
        (found,) = mismatches([("x", spark_type)], [column(each)])
        assert f"column 'x' of type {each}" in found.what
        assert found.fix


def test_text_fits_an_enumeration() -> None:
    assert mismatches([("x", "string")], [column("mood", is_enum=True)]) == []
    assert mismatches([("x", "int")], [column("mood", is_enum=True)]) != []


def test_a_moment_for_a_column_without_zone_is_told_of_both_ways_out() -> None:
    (found,) = mismatches([("x", "timestamp")], [column("timestamp")])

    assert "with time zone" in found.fix
    assert "TIMESTAMP_NTZ" in found.fix


def test_everything_that_is_wrong_is_said_at_once() -> None:
    table = [
        column("int8", "total"),
        column("int8", "number", generated=True),
        column("int8", "closed", writable=False),
        column("text", "owner", not_null=True),
        column("text", "made", not_null=True, has_default=True),
    ]

    found = mismatches([("Total", "bigint"), ("number", "bigint"), ("closed", "bigint")], table)

    assert [each.what for each in found] == [
        "has no column 'Total'",
        "computes its column 'number' itself",
        "does not let the role write column 'closed'",
        "has column 'owner', which refuses NULL, and the rows do not have it",
    ]
    assert found[0].fix == "did you mean 'total'?; names are compared exactly"


def test_a_column_given_twice_is_refused() -> None:
    (found,) = mismatches([("x", "bigint"), ("x", "bigint")], [column("int8")])

    assert found.what == "is given the column 'x' twice"


TABLE = [column("int8", "id", not_null=True), column("date", "day", not_null=True), column("text", "note")]


def test_a_key_is_a_unique_index_of_columns_that_are_never_null() -> None:
    assert key_mismatches(["day", "id"], ["id", "day"], TABLE, [frozenset({"id", "day"})]) == []


@pytest.mark.parametrize(
    ("key", "rows", "what"),
    [
        (["id"], ["id", "day"], "has no unique index on (id) that holds for all rows at once"),
        (["nr"], ["id"], "has no column 'nr' for the key"),
        (["id", "day"], ["id"], "has the key column 'day', and the rows do not have it"),
        (["note"], ["note"], "has the key column 'note', which may be NULL: no two NULLs are the same"),
    ],
)
def test_a_key_that_does_not_tell_rows_apart_is_refused(key: list[str], rows: list[str], what: str) -> None:
    found = key_mismatches(key, rows, TABLE, [frozenset({"id", "day"}), frozenset({"note"})])

    assert [each.what for each in found] == [what]


def test_values_that_may_hold_commas_are_sent_in_quotes() -> None:
    assert form_of("string") is Form.QUOTED
    assert form_of("struct<a:int>") is Form.JSON
    assert form_of("decimal(10,2)") is Form.PLAIN
