"""Which columns of the datasets the columns of operators come from."""

from __future__ import annotations

from typing import Any

import pytest
from tests.jobs import Part, job_file, python, source, sql
from tests.unit.lineage.jobs import known

from streamjob_runtime.lineage.columns import Columns, columns_of

ITEMS = source("items", "json", "id BIGINT, price DOUBLE, kind STRING", "/in")
SHOPS = source("shops", "json", "id BIGINT, city STRING", "/shops")


def columns(*operators: dict[str, Any], tables: tuple[dict[str, Any], ...] = ()) -> Columns | None:
    """Return the columns of the last operator of a job."""
    last = operators[-1]["name"]
    lineage = known(job_file(*operators, sources=[ITEMS, SHOPS], tables=list(tables)))
    return columns_of(lineage.spec, lineage.datasets).get(last)


def told(found: Columns | None) -> dict[str, Any]:
    """Return columns as short texts: the dataset's column, and how it is used."""
    assert found is not None
    return {
        name: None if fields is None else sorted(f"{each.dataset.name}.{each.column} {each.subtype}" for each in fields)
        for name, fields in found.fields.items()
    }


def used(found: Columns | None) -> list[str]:
    assert found is not None
    return sorted(f"{each.dataset.name}.{each.column} {each.subtype}" for each in found.used)


def query(text: str, *inputs: str, name: str = "rows") -> Part:
    return sql(name, inputs or ("items",), text)


def test_columns_are_followed_through_expressions_aggregates_and_names() -> None:
    found = columns(
        query("SELECT Kind AS Sort, sum(price * 2) AS t, max(id) id FROM items WHERE price > 3 GROUP BY kind")
    )

    assert told(found) == {
        "Sort": ["/in.kind IDENTITY"],
        "t": ["/in.price AGGREGATION"],
        "id": ["/in.id AGGREGATION"],
    }
    assert used(found) == ["/in.kind GROUP_BY", "/in.price FILTER"]


def test_columns_are_followed_through_several_operators_and_common_tables() -> None:
    first = query("SELECT id, upper(kind) AS k FROM items", name="first")
    second = query(
        "WITH c AS (SELECT * FROM shops) SELECT f.k, c.city FROM first f JOIN c ON f.id = c.id", "first", "shops"
    )

    found = columns(first, second)

    assert told(found) == {"k": ["/in.kind TRANSFORMATION"], "city": ["/shops.city IDENTITY"]}
    assert used(found) == ["/in.id JOIN", "/shops.id JOIN"]


def test_a_union_has_the_columns_of_both_sides() -> None:
    found = columns(query("SELECT id, kind FROM items UNION ALL SELECT id, city FROM shops", "items", "shops"))

    assert told(found)["kind"] == ["/in.kind IDENTITY", "/shops.city IDENTITY"]


def test_windows_of_event_time_are_read_as_spark_reads_them() -> None:
    found = columns(
        query("SELECT window(kind, '1 hour') AS w, count(*) AS n FROM items GROUP BY window(kind, '1 hour')")
    )

    assert told(found) == {"w": ["/in.kind TRANSFORMATION"], "n": []}


def test_a_lookup_adds_the_columns_of_its_table() -> None:
    at = {"url": "jdbc:postgresql://h/d", "dbtable": "prices"}
    table = source("prices", "jdbc", "item BIGINT, euros DOUBLE", options=at, lookup={})
    lookup = {"table": "prices", "on": ["id = item"], "select": ["euros AS eur"]}
    operator = {"name": "rows", "inputs": ["items"], "lookup": lookup}

    found = columns(operator, tables=(table,))

    assert told(found)["eur"] == ["d.public.prices.euros IDENTITY"]
    assert used(found) == ["/in.id JOIN", "d.public.prices.item JOIN"]


@pytest.mark.parametrize(
    "operators",
    [
        [python("rows", "items", "m:f")],
        [python("first", "items", "m:f"), query("SELECT * FROM first", "first")],
        [query("SELECT * FROM items LATERAL VIEW explode(array(1)) t AS x PIVOT (sum(price) FOR kind IN ('a'))")],
        [query("FROM items |> SELECT id")],
    ],
)
def test_columns_that_nobody_can_tell_are_not_guessed(operators: list[dict[str, Any]]) -> None:
    found = columns(*operators)

    assert found is None or all(fields is None or len(fields) <= 1 for fields in found.fields.values())


def test_a_column_of_a_function_is_unknown_beside_known_ones() -> None:
    function = python("scores", "items", "m:f")
    joined = query("SELECT i.kind, s.score FROM items i JOIN scores s ON i.id = s.id", "items", "scores")

    assert told(columns(function, joined)) == {"kind": ["/in.kind IDENTITY"], "score": None}
