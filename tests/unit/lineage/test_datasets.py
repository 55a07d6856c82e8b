"""The names of datasets, by OpenLineage's conventions."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.lineage.jobs import ENVIRONMENT, SECRET

from streamjob.job.model.spec import SinkSpec, SourceSpec, TableSpec
from streamjob_runtime.lineage.datasets import datasets_of

KAFKA = "kafka.bootstrap.servers"


def named(kind: str, options: dict[str, str], *, sink: bool = False) -> list[tuple[str, str]]:
    """Return the names of what a source reads, or a sink writes."""
    part = (
        SinkSpec.model_validate({"name": "out", "input": "rows", "format": kind, "options": options})
        if sink
        else SourceSpec.model_validate({"name": "in", "format": kind, "options": options})
    )
    return [(each.namespace, each.name) for each in datasets_of(part, "shop.orders", Path("/jobs"), ENVIRONMENT)]


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("kafka", {KAFKA: "a:1,b:2", "subscribe": "x, y"}, [("kafka://a:1", "x"), ("kafka://a:1", "y")]),
        ("kafka", {KAFKA: "SSL://a", "subscribePattern": "x.*"}, [("kafka://a:9092", "x.*")]),
        ("kafka", {KAFKA: "a:1", "assign": '{"x": [0, 1]}'}, [("kafka://a:1", "x")]),
        ("json", {"path": "in"}, [("file", "/jobs/in")]),
        ("csv", {"PATH": "file:///data/in/"}, [("file", "/data/in")]),
        ("parquet", {"path": "s3a://bucket/a/b/"}, [("s3://bucket", "a/b")]),
        ("parquet", {"path": "s3://bucket"}, [("s3://bucket", "/")]),
        ("orc", {"path": "hdfs://name:8020/a"}, [("hdfs://name:8020", "a")]),
        (
            "delta",
            {"path": "abfss://box@store.dfs.net/a"},
            [("abfss://box@store.dfs.net", "a")],
        ),
        ("rate", {"rowsPerSecond": "1"}, [("inmemory://", "shop.orders.in")]),
        ("my.source:Reader", {"anything": "x"}, [("inmemory://", "shop.orders.in")]),
    ],
)
def test_a_source_is_named_by_where_its_data_is(
    kind: str, options: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    assert named(kind, options) == expected


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("kafka", {KAFKA: "a:1", "topic": "x"}, ("kafka://a:1", "x")),
        ("postgresql", {"url": "postgresql://h/d", "table": "t"}, ("postgres://h:5432", "d.public.t")),
        ("postgresql", {"url": "postgres://h:1,i:2/d?x=y", "table": "s.t"}, ("postgres://h:1", "d.s.t")),
        ("jdbc", {"url": "jdbc:mysql://h/d?user=a", "dbtable": "t"}, ("mysql://h:3306", "d.t")),
        ("jdbc", {"url": "jdbc:postgresql://h:1/d", "dbtable": '"s"."t"'}, ("postgres://h:1", "d.s.t")),
        ("jdbc", {"url": "jdbc:sqlserver://h;databaseName=d;user=a", "dbtable": "t"}, ("mssql://h:1433", "d.dbo.t")),
        ("iceberg", {"table": "n.t", "catalog.uri": "https://c:8181/x/"}, ("https://c:8181/x", "n.t")),
        ("iceberg", {"table": "n.t", "catalog.uri": "thrift://h:9083"}, ("hive://h:9083", "n.t")),
        ("iceberg", {"table": "n.t", "catalog.type": "glue"}, ("iceberg://glue", "n.t")),
        ("console", {}, ("inmemory://", "shop.orders.out")),
    ],
)
def test_a_sink_is_named_by_where_its_data_is(kind: str, options: dict[str, str], expected: tuple[str, str]) -> None:
    assert named(kind, options, sink=True) == [expected]


def test_a_query_of_a_database_reads_its_tables() -> None:
    query = "WITH a AS (SELECT * FROM s.x) SELECT * FROM a JOIN y ON a.k = y.k"

    found = named("jdbc", {"url": "jdbc:postgresql://h:1/d", "query": query})

    assert set(found) == {("postgres://h:1", "d.s.x"), ("postgres://h:1", "d.public.y")}


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("postgresql", {"url": "postgresql://app:${env:DB_PASSWORD}@h/d?password=${env:DB_PASSWORD}", "table": "t"}),
        ("jdbc", {"url": "jdbc:postgresql://h/d?user=a&password=${env:DB_PASSWORD}", "dbtable": "t"}),
        ("jdbc", {"url": "jdbc:sqlserver://h;password=${env:DB_PASSWORD};database=d", "dbtable": "t"}),
        ("jdbc", {"url": "jdbc:oracle:thin:app/${env:DB_PASSWORD}@//h:1521/d", "dbtable": "t"}),
        ("jdbc", {"url": "jdbc:oracle:thin:app/${env:DB_PASSWORD}@h:1521:d", "dbtable": "t"}),
        ("iceberg", {"table": "t", "catalog.uri": "postgresql://app:${env:DB_PASSWORD}@h/d"}),
        ("parquet", {"path": "s3a://key:${env:DB_PASSWORD}@bucket/a"}),
    ],
)
def test_no_name_contains_a_login(kind: str, options: dict[str, str]) -> None:
    ((namespace, name),) = named(kind, options, sink=True)

    assert SECRET not in namespace + name


def test_a_table_without_an_address_is_named_by_the_job() -> None:
    table = TableSpec.model_validate({"name": "names", "format": "my.table"})

    (found,) = datasets_of(table, "shop.orders", Path("/jobs"), ENVIRONMENT)

    assert (found.namespace, found.name) == ("inmemory://", "shop.orders.names")


def test_a_variable_that_is_not_set_stays_a_reference() -> None:
    assert named("kafka", {KAFKA: "${env:NONE}:1", "subscribe": "x"}) == [("kafka://${env:NONE}:1", "x")]
