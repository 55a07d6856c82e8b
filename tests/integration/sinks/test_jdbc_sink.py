"""Any database at least once, by its JDBC driver: here PostgreSQL by its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.integration.sinks.by_hand import opened
from tests.integration.sinks.databases import Database, add_driver

from streamjob.errors import StreamJobError
from streamjob.ids import BatchId
from streamjob.sink import Staged
from streamjob_runtime.sinks.at_least_once.jdbc import JdbcSink
from streamjob_runtime.sinks.errors import DatabaseRefuses, DatabaseUnreachable, UnusableTable
from streamjob_runtime.spark.jdbc import NoDriver

pytestmark = [pytest.mark.spark, pytest.mark.server]


@pytest.fixture(scope="module")
def driver(spark: SparkSession, postgresql_driver: Path) -> None:
    """Let Spark have the driver, in the one class loader that all tests of this process use.

    Java refuses the driver's classes to each other when two loaders have defined some of them.
    """
    add_driver(spark, postgresql_driver)


def options_of(database: Database, **changes: str) -> Mapping[str, str]:
    server = database.server
    options = {
        "url": f"jdbc:{server.url(database.name)}",
        "user": server.role,
        "password": server.password,
        "dbtable": "report",
    }
    return {**options, **changes}


@pytest.mark.usefixtures("driver")
def test_a_batch_is_in_the_table_once_it_is_staged(spark: SparkSession, database: Database) -> None:
    database.execute("CREATE TABLE report (id bigint, note text, added timestamptz DEFAULT now())")
    batch = spark.sql("SELECT 1L AS id, 'it''s' AS note UNION SELECT 2L, NULL")
    sink = opened(JdbcSink("report"), options_of(database))

    sink.check_schema(batch.schema)
    staged = sink.stage(batch, BatchId(0))

    assert staged == Staged(None)
    assert sorted(database.execute("SELECT id, note FROM report")) == [(1, "it's"), (2, None)]


@pytest.mark.usefixtures("driver")
def test_a_table_that_is_missing_is_made(spark: SparkSession, database: Database) -> None:
    sink, batch = opened(JdbcSink("report"), options_of(database)), spark.range(3)

    sink.check_schema(batch.schema)
    sink.stage(batch, BatchId(0))

    assert sorted(database.execute("SELECT id FROM report")) == [(0,), (1,), (2,)]


@pytest.mark.usefixtures("driver")
def test_a_column_that_the_table_lacks_is_said_before_anything_starts(spark: SparkSession, database: Database) -> None:
    database.execute("CREATE TABLE report (id bigint, note text)")
    sink = opened(JdbcSink("report"), options_of(database))

    with pytest.raises(UnusableTable) as raised:
        sink.check_schema(spark.sql("SELECT 1L AS ID, 'a' AS notes").schema)

    assert raised.value.what == "sink report: table report has no column 'notes'"
    assert raised.value.fix == "did you mean 'note'?"


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize(
    ("changes", "kind", "told"),
    [
        ({"password": "another-word-17"}, DatabaseRefuses, "password authentication failed"),
        ({"url": "jdbc:postgresql://127.0.0.1:1/nowhere"}, DatabaseUnreachable, "Connection to 127.0.0.1:1 refused"),
    ],
)
def test_a_database_that_refuses_or_does_not_answer_is_told_without_secrets(
    spark: SparkSession, database: Database, changes: Mapping[str, str], kind: type[StreamJobError], told: str
) -> None:
    sink = opened(JdbcSink("report"), options_of(database, **changes))

    with pytest.raises(kind) as raised:
        sink.check_schema(spark.range(1).schema)

    assert told in raised.value.what
    assert "another-word-17" not in str(raised.value)


def test_an_address_that_no_driver_understands_is_told_with_what_to_bring(
    spark: SparkSession, database: Database
) -> None:
    sink = opened(JdbcSink("report"), options_of(database, url="jdbc:cuneiform://tablet/7?password=clay"))

    with pytest.raises(NoDriver) as raised:
        sink.check_schema(spark.range(1).schema)

    assert raised.value.what == "sink report: there is no JDBC driver for jdbc:cuneiform:…"
    assert "spark.jars.packages" in raised.value.fix


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize("kind", ["map<string,int>", "interval day to second", "variant", "struct<a:int>"])
def test_a_type_that_jdbc_does_not_write_is_said_before_anything_starts(
    spark: SparkSession, database: Database, kind: str
) -> None:
    sink = opened(JdbcSink("report"), options_of(database))

    with pytest.raises(UnusableTable, match=r"is given the column 'odd' of type .*, which JDBC does not write here"):
        sink.check_schema(spark.sql(f"SELECT 1 AS id, CAST(NULL AS {kind}) AS odd").schema)
