"""The PostgreSQL sink on a real server: values, what is refused at the start, and servers and processes that fail."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType
from tests.integration.sinks import by_hand
from tests.integration.sinks.by_hand import commit, staged_in
from tests.integration.sinks.databases import Database

from streamjob.ids import BatchId, CheckpointId, Epoch
from streamjob.journal import JournalRecord, published_marker
from streamjob.sink import Measured, Staged
from streamjob_runtime.sinks.errors import (
    DatabaseUnreachable,
    OthersPublish,
    RowsRefused,
    StagedRowsGone,
    UnusableTable,
)
from streamjob_runtime.sinks.postgresql.sink import PostgresqlSink

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

UPSERT = {"mode": "upsert", "key": "id"}


def opened(options: Mapping[str, str], epoch: int = 1) -> PostgresqlSink:
    return by_hand.opened(PostgresqlSink("report"), options, epoch)


def publishing(database: Database, epoch: int = 1) -> PostgresqlSink:
    return by_hand.opened(PostgresqlSink("report", publishes_batches=True), database.options("report"), epoch)


def taken(sink: PostgresqlSink) -> list[JournalRecord]:
    sink.take_journal()
    return list(sink.journal())


def record_of(batch: int) -> Callable[[Measured], JournalRecord]:
    return lambda found: JournalRecord(epoch=Epoch(1), batch=BatchId(batch), plans={}, rows=found.rows, hash=found.hash)


def written(sink: PostgresqlSink, rows: DataFrame) -> None:
    commit(sink, 1, staged_in(sink, rows))


def numbered(spark: SparkSession, *rows: tuple[int, str | None]) -> DataFrame:
    return spark.createDataFrame(list(rows), "id bigint, note string").coalesce(1)


@pytest.fixture
def table(database: Database) -> Database:
    database.execute("CREATE TABLE report (id bigint PRIMARY KEY, note text)")
    return database


VALUES = [
    ("string", "text", "'plain'", "'plain'"),
    ("string", "text", "''", "''"),
    ("string", "text", "'a,b;\"c\"\td'", "'a,b;\"c\"' || chr(9) || 'd'"),
    ("string", "text", r"'back\\slash \\.\n\\.\r\n\\N'", r"E'back\\slash \\.\n\\.\r\n\\N'"),
    ("string", "varchar(6)", "'naïve☃'", "'naïve☃'"),
    ("string", "uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid"),
    ("string", "jsonb", "'{\"a\": [1, null]}'", "'{\"a\": [1, null]}'::jsonb"),
    ("bigint", "bigint", "-9223372036854775808", "-9223372036854775808"),
    ("int", "double precision", "7", "7"),
    ("double", "double precision", "double('NaN')", "'NaN'"),
    ("double", "double precision", "double('-Infinity')", "'-Infinity'"),
    ("double", "double precision", "1.0E-300D", "1e-300"),
    ("float", "real", "float(0.1)", "0.1::real"),
    ("decimal(20,10)", "numeric(20,10)", "0.0000000001", "0.0000000001"),
    ("decimal(38,0)", "numeric", "99999999999999999999999999999999999999", "99999999999999999999999999999999999999"),
    ("boolean", "boolean", "true", "true"),
    ("date", "date", "date'0001-01-01'", "'0001-01-01'"),
    ("timestamp", "timestamptz", "timestamp'1883-11-18 12:03:57.123456+00:00'", "'1883-11-18 12:03:57.123456+00'"),
    ("timestamp", "timestamptz(0)", "timestamp'2026-07-01 00:00:00+02:00'", "'2026-06-30 22:00:00+00'"),
    ("timestamp_ntz", "timestamp", "timestamp_ntz'2026-03-29 02:30:00.5'", "'2026-03-29 02:30:00.5'"),
    ("binary", "bytea", "X'00FF0A5C22'", r"'\x00ff0a5c22'"),
    ("array<string>", "jsonb", "array('a\"', null)", '\'["a\\"", null]\''),
    ("struct<a:int,b:string>", "json", "named_struct('a', 1, 'b', cast(null as string))", '\'{"a":1,"b":null}\''),
    ("map<string,double>", "jsonb", "map('x', 0.5D)", "'{\"x\": 0.5}'"),
]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_every_value_arrives_as_it_is(spark: SparkSession, database: Database, zone: str) -> None:
    columns = ", ".join(f"c{number} {sql}" for number, (_, sql, _, _) in enumerate(VALUES))
    database.execute(f"CREATE TABLE report ({columns})")
    expected = ", ".join(f"CAST({value} AS {sql})::text" for _, sql, _, value in VALUES)
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        values = ", ".join(f"cast({value} AS {kind}) AS c{number}" for number, (kind, _, value, _) in enumerate(VALUES))
        nulls = ", ".join(f"cast(null AS {kind}) AS c{number}" for number, (kind, _, _, _) in enumerate(VALUES))
        written(opened(database.options("report")), spark.sql(f"SELECT {values} UNION ALL SELECT {nulls}"))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    names = ", ".join(f"c{number}::text" for number in range(len(VALUES)))
    found = database.execute(f"SELECT {names} FROM report ORDER BY c0 NULLS LAST")
    assert found[0] == database.execute(f"SELECT {expected}")[0]
    assert found[1] == (None,) * len(VALUES)


SETTINGS = (
    "timezone = 'Asia/Tokyo'",
    "DateStyle = 'German'",
    "extra_float_digits = 0",
    "bytea_output = 'escape'",
)


def test_values_have_the_same_hash_in_a_session_with_other_settings(spark: SparkSession, database: Database) -> None:
    # As JSON, the last value is legal in the table, and not in jsonb.
    values = [*VALUES, ("string", "json", r"""'{"a": "\\u0000"}'""", "")]
    database.execute(f"CREATE TABLE report ({', '.join(f'c{n} {sql}' for n, (_, sql, _, _) in enumerate(values))})")
    cast = ", ".join(f"cast({value} AS {kind}) AS c{number}" for number, (kind, _, value, _) in enumerate(values))
    rows = spark.sql(f"SELECT {cast} UNION ALL SELECT {', '.join(['null'] * len(values))}")
    first = publishing(database)
    first.check_schema(rows.schema)
    taken(first)
    made = first.publish(rows, record_of(3))
    assert made is not None
    try:
        for each in SETTINGS:
            database.execute(f"ALTER ROLE CURRENT_USER SET {each}")
        assert publishing(database, 2).measure(rows) == Measured(2, made.hash)
    finally:
        database.execute("ALTER ROLE CURRENT_USER RESET ALL")
    assert database.execute("SELECT count(*) FROM report") == [(2,)]


def test_a_commit_of_a_process_that_may_not_publish_any_more_leaves_the_journal_alone(
    spark: SparkSession, table: Database
) -> None:
    first = publishing(table)
    taken(first)
    first.publish(numbered(spark, (1, "a")), record_of(8))
    second = publishing(table, 2)
    assert [each.batch for each in taken(second)] == [8]
    second.drop_journal()
    second.publish(numbered(spark, (2, "b")), record_of(8))

    with pytest.raises(OthersPublish):
        first.drop_journal()
    with pytest.raises(OthersPublish):
        first.commit(CheckpointId(5), [published_marker(BatchId(8))])
    assert [each.batch for each in taken(second)] == [8]
    second.commit(CheckpointId(5), [published_marker(BatchId(8))])
    assert taken(second) == []


def test_columns_go_by_name_and_others_have_their_default(spark: SparkSession, database: Database) -> None:
    database.execute('CREATE TABLE report (made serial, "Odd ""name" text, id bigint, stamp text DEFAULT \'x\')')
    rows = spark.sql("SELECT 7L AS id, 'a' AS `Odd \"name`")
    written(opened(database.options("report")), rows)

    assert database.execute("SELECT * FROM report") == [(1, "a", 7, "x")]


NAMES = [
    "100%",
    "%s",
    "%",
    "a.b",
    'say "x"',
    "it's",
    "back`tick",
    "two words",
    " ",
    "Größe",
    "select",
    "Id",
    "back\\slash",
]


def test_tables_and_columns_have_any_name(spark: SparkSession, database: Database) -> None:
    def in_sql(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    columns = ", ".join(f"{in_sql(name)} text UNIQUE" for name in NAMES)
    database.execute(f'CREATE SCHEMA "50%"; CREATE TABLE "50%"."%s" ("%(key)s" bigint PRIMARY KEY, {columns})')
    given = {**database.options("50%.%s"), "stagingSchema": "%b"}
    kinds = {"_change_type": StringType(), "%(key)s": LongType(), **dict.fromkeys(NAMES, StringType())}
    fields = StructType([StructField(name, kind) for name, kind in kinds.items()])

    def change(kind: str, key: int, letter: str) -> tuple[str | int, ...]:
        return (kind, key, *(f"{letter} {name}" for name in NAMES))

    def changed(*rows: tuple[str | int, ...]) -> DataFrame:
        return spark.createDataFrame(list(rows), fields)

    written(opened(given), changed(change("", 1, "a"), change("", 2, "b")).drop("_change_type"))
    upserting = opened({**given, "mode": "upsert", "key": "%(key)s"}, epoch=2)
    written(upserting, changed(change("delete", 2, "b"), change("insert", 3, "c")))
    commit(upserting, 2, upserting.stage(changed(change("insert", 1, "c"), change("insert", 3, "a")), BatchId(1)))

    found = database.execute('SELECT * FROM "50%"."%s" ORDER BY 1')
    assert found == [change("", 1, "c")[1:], change("", 3, "a")[1:]]


@pytest.mark.core
def test_the_last_row_of_a_key_counts(spark: SparkSession, table: Database) -> None:
    sink = opened(table.options("report", **UPSERT))
    first = sink.stage(numbered(spark, (1, "a"), (2, "a"), (1, "b")), BatchId(0))
    second = sink.stage(numbered(spark, (2, "c"), (3, "c")), BatchId(1))
    commit(sink, 1, first, second)
    commit(sink, 2, sink.stage(numbered(spark, (3, None)), BatchId(2)))

    assert table.execute("SELECT * FROM report ORDER BY id") == [(1, "b"), (2, "c"), (3, None)]


@pytest.mark.core
def test_what_was_committed_is_on_record(spark: SparkSession, table: Database) -> None:
    sink = opened(table.options("report"), epoch=4)
    staged = [sink.stage(numbered(spark, (number, None), (number + 1, None)), BatchId(number)) for number in (0, 2)]
    commit(sink, 7, *staged)
    commit(sink, 8)

    query = "SELECT namespace, job, sink, epoch, checkpoint, cardinality(batches), rows FROM streamjob.commits"
    assert table.execute(query) == [("default", "job", "report", 4, 7, 2, 4)]


def test_a_server_that_crashes_between_staging_and_commit_has_kept_the_rows(
    spark: SparkSession, fragile_database: Database
) -> None:
    database, server = fragile_database, fragile_database.server
    database.execute("CREATE TABLE report (id bigint, note text)")
    sink = opened(database.options("report"))
    staged = sink.stage(numbered(spark, (1, "a"), (2, "b")), BatchId(0))
    server.kill()
    with pytest.raises(DatabaseUnreachable, match="start the server"):
        commit(sink, 1, staged)
    server.start()

    commit(opened(database.options("report"), epoch=2), 1, staged)
    assert database.execute("SELECT * FROM report ORDER BY id") == [(1, "a"), (2, "b")]


@pytest.mark.core
def test_a_commit_whose_answer_is_lost_is_found_on_record(
    spark: SparkSession, table: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened(table.options("report"))
    staged = sink.stage(numbered(spark, (1, "a")), BatchId(0))
    real = psycopg.Connection.commit

    def commit_and_lose_the_answer(connection: psycopg.Connection[Any]) -> None:
        real(connection)
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Connection, "commit", commit_and_lose_the_answer)
        with pytest.raises(DatabaseUnreachable):
            commit(sink, 1, staged)

    commit(opened(table.options("report"), epoch=2), 1, staged)
    assert table.execute("SELECT * FROM report") == [(1, "a")]


def test_a_table_that_was_made_again_has_another_id_as_far_as_the_role_may_read_it(table: Database) -> None:
    options = table.options("report")
    before = opened(options).target_id()
    assert before is not None
    assert opened(options, epoch=2).target_id() == before
    table.execute("ALTER TABLE report ADD COLUMN more int")
    table.execute("TRUNCATE report")
    assert opened(options, epoch=3).target_id() == before

    table.execute("DROP TABLE report")
    table.execute("CREATE TABLE report (id bigint PRIMARY KEY, note text)")
    assert opened(options, epoch=4).target_id() not in (None, before)
    table.server.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC", database=table.name)
    assert opened(options, epoch=5).target_id() is None


def test_a_superseded_process_that_hangs_in_its_commit_does_not_hold_up_its_successor(
    spark: SparkSession, table: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened(table.options("report"))
    staged = sink.stage(numbered(spark, (1, "a")), BatchId(0))
    real = psycopg.Connection.commit
    hung: list[PostgresqlSink] = []

    def be_superseded_first(connection: psycopg.Connection[Any]) -> None:
        if not hung:
            # Everything of the transaction is done, and all its locks are held.
            hung.append(sink)
            successor = opened(table.options("report"), epoch=2)
            commit(successor, 1, staged)
            successor.abort()
        real(connection)

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Connection, "commit", be_superseded_first)
        with pytest.raises(DatabaseUnreachable):
            commit(sink, 1, staged)

    assert table.execute("SELECT * FROM report") == [(1, "a")]
    assert table.server.open_transactions(table.name) == []
    assert table.staging_tables() == []


def test_rows_that_are_gone_are_not_passed_over(spark: SparkSession, table: Database) -> None:
    sink = opened(table.options("report"))
    staged = sink.stage(numbered(spark, (1, "a")), BatchId(0))
    table.execute(f"DROP TABLE streamjob.{table.staging_tables()[0]}")

    with pytest.raises(StagedRowsGone, match="rows of checkpoint 3 are neither committed nor staged"):
        commit(sink, 3, staged)


def test_rows_that_are_rescued_are_in_a_file_and_not_in_the_table(
    spark: SparkSession, table: Database, tmp_path: Path
) -> None:
    sink = opened(table.options("report"))
    staged = sink.stage(numbered(spark, (1, "a"), (2, None)), BatchId(0))

    assert sink.rescue(CheckpointId(1), [staged.committable], tmp_path / "rows") == 2
    rows = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert rows == [{"id": 1, "note": "a"}, {"id": 2, "note": None}]
    assert sink.newest_published() is None
    commit(sink, 7, staged)
    assert sink.newest_published() == 7
    assert sink.rescue(CheckpointId(7), [staged.committable], tmp_path / "again") == 0


def test_a_row_that_a_check_refuses_fails_its_batch_and_names_the_column(
    spark: SparkSession, database: Database
) -> None:
    database.execute("CREATE TABLE report (id bigint CHECK (id < 10), note varchar(3))")
    sink = opened(database.options("report"))

    with pytest.raises(RowsRefused, match="violates check constraint"):
        sink.stage(numbered(spark, (1, "a"), (10, "b")), BatchId(0))
    with pytest.raises(RowsRefused, match=r"value too long for type character varying\(3\); column note"):
        sink.stage(numbered(spark, (1, "long")), BatchId(1))
    assert database.server.open_transactions(database.name) == []


def test_a_key_that_is_there_fails_the_commit_and_nothing_of_the_checkpoint_is_visible(
    spark: SparkSession, table: Database
) -> None:
    table.execute("INSERT INTO report VALUES (2, 'there')")
    sink = opened(table.options("report"))
    staged = sink.stage(numbered(spark, (1, "a"), (2, "b")), BatchId(0))
    with pytest.raises(RowsRefused, match=r"duplicate key.*Key \(id\)=\(2\) already exists"):
        commit(sink, 1, staged)
    assert table.execute("SELECT * FROM report") == [(2, "there")]

    table.execute("DELETE FROM report")
    commit(opened(table.options("report"), epoch=2), 1, staged)
    assert table.execute("SELECT * FROM report ORDER BY id") == [(1, "a"), (2, "b")]


def test_a_batch_of_many_rows_over_many_tasks_is_complete(spark: SparkSession, table: Database) -> None:
    rows = spark.range(300_000, numPartitions=5).selectExpr("id", "repeat('x', 20) AS note")
    sink = opened(table.options("report"))
    staged = sink.stage(rows, BatchId(0))
    commit(sink, 1, staged)

    assert staged.rows == 300_000
    assert table.execute("SELECT count(*), count(DISTINCT id), sum(length(note)) FROM report") == [
        (300_000, 300_000, 6_000_000)
    ]


def test_empty_batches_make_no_tables(spark: SparkSession, table: Database) -> None:
    sink = opened(table.options("report"))
    for number in range(5):
        assert sink.stage(numbered(spark), BatchId(number)) == Staged(None, 0)
    assert len(table.staging_tables()) == 1
    sink.close()

    assert table.staging_tables() == []


def test_the_password_is_in_nothing_that_is_stored_or_shown(spark: SparkSession, table: Database) -> None:
    sink = opened(table.options("report"))
    staged = sink.stage(numbered(spark, (1, "a")), BatchId(0))
    sessions = table.server.execute("SELECT string_agg(application_name || query, '') FROM pg_stat_activity")

    assert table.server.password not in f"{staged.committable} {sessions} {sink.__dict__['_options']!r}"


def test_rows_that_do_not_fit_are_refused_before_the_first(spark: SparkSession, table: Database) -> None:
    sink = opened(table.options("report"))
    with pytest.raises(UnusableTable) as raised:
        sink.check_schema(spark.sql("SELECT 1.5D AS id, 'x' AS not").schema)

    assert "column 'id' of type bigint, which does not hold DOUBLE as it is" in raised.value.what
    assert "has no column 'not'" in raised.value.what
    assert "did you mean 'note'?" in raised.value.fix


@pytest.mark.parametrize(
    ("index", "fits"),
    [
        ("CREATE UNIQUE INDEX ON report (day, id)", True),
        ("CREATE UNIQUE INDEX ON report (id, day) INCLUDE (note)", True),
        ("CREATE INDEX ON report (id, day)", False),
        ("CREATE UNIQUE INDEX ON report (id)", False),
        ("CREATE UNIQUE INDEX ON report (id, day) WHERE note IS NULL", False),
        ("CREATE UNIQUE INDEX ON report (id, abs(day))", False),
        ("ALTER TABLE report ADD UNIQUE (id, day) DEFERRABLE", False),
    ],
)
def test_a_key_needs_a_unique_index_of_exactly_its_columns(
    spark: SparkSession, database: Database, index: str, fits: bool
) -> None:
    database.execute("CREATE TABLE report (id bigint NOT NULL, day int NOT NULL, note text)")
    database.execute(index)
    sink = opened(database.options("report", mode="upsert", key="id, day"))
    rows = spark.sql("SELECT 1L AS id, 2 AS day, 'a' AS note")
    if fits:
        written(sink, rows)
    else:
        with pytest.raises(UnusableTable, match=r"no unique index on \(id, day\)"):
            sink.check_schema(rows.schema)


def test_partitioned_tables_and_domains_can_be_written(spark: SparkSession, database: Database) -> None:
    database.execute("CREATE DOMAIN price AS numeric(8,2) CHECK (value >= 0)")
    database.execute("CREATE TABLE report (id bigint NOT NULL, cost price) PARTITION BY RANGE (id)")
    database.execute("CREATE TABLE low PARTITION OF report FOR VALUES FROM (0) TO (10)")
    written(opened(database.options("report")), spark.sql("SELECT 3L AS id, 1.50BD AS cost"))

    assert database.execute("SELECT id, cost::text FROM low") == [(3, "1.50")]
