"""Columns that a change leaves out: an upserting sink keeps what is stored, and nobody else reads the placeholder."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, LongType, NestedField, StringType
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType
from tests.integration.sinks.by_hand import opened
from tests.integration.sinks.databases import Database
from tests.integration.sinks.lakes import Lake

from streamjob.ids import BatchId, CheckpointId, OperatorUid
from streamjob.job.connectors.changes import UNAVAILABLE
from streamjob.sink import Sink
from streamjob_runtime.chain.emissions.outputs import ChainOutput
from streamjob_runtime.chain.sources.changes import with_available
from streamjob_runtime.sinks.at_least_once.memory import MemorySink
from streamjob_runtime.sinks.delta.sink import DeltaSink
from streamjob_runtime.sinks.errors import RowsRefused
from streamjob_runtime.sinks.iceberg.sink import IcebergSink
from streamjob_runtime.sinks.postgresql.sink import PostgresqlSink
from streamjob_runtime.sinks.rows.unavailable import MARK, Mark, available, is_unavailable, marked_type, marks_of

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

UPSERT = {"mode": "upsert", "key": "id"}
BYTES = UNAVAILABLE.encode()
Change = tuple[str, int, str | None, bytes | None]
Table = dict[int, tuple[str | None, bytes | None]]


def mark(column: str, *, as_null: bool = False) -> Mark:
    return Mark("src", column, UNAVAILABLE, as_null)


def marked(frame: DataFrame, *columns: str, as_null: bool = False) -> DataFrame:
    metadata = {name: {MARK: mark(name, as_null=as_null).to_json()} for name in columns}
    return frame.select(*(f.col(f"`{name}`").alias(name, metadata=metadata.get(name, {})) for name in frame.columns))


def changes(spark: SparkSession, rows: Sequence[Change]) -> DataFrame:
    frame = spark.createDataFrame(list(rows), "_change_type string, id bigint, doc string, raw binary")
    return marked(frame.coalesce(1), "doc", "raw")


def applied(table: Table, rows: Sequence[Change]) -> Table:
    """Return the table after all changes, one after the other."""
    table = dict(table)
    for kind, key, doc, raw in rows:
        if kind == "delete":
            table.pop(key, None)
        else:
            table[key] = (table[key][0] if doc == UNAVAILABLE else doc, table[key][1] if raw == BYTES else raw)
    return table


def random_changes(chance: random.Random, table: Table, count: int) -> list[Change]:
    """Return changes that a database can make, with columns left out of updates."""
    rows: list[Change] = []
    for number in range(count):
        key, there = chance.randrange(6), applied(table, rows)
        doc, raw = chance.choice([f"doc {number}", None]), f"raw {number}".encode()
        if key not in there:
            rows.append(("insert", key, doc, raw))
        elif chance.random() < 0.2:
            rows.append(("delete", key, None, None))
        else:
            kept = chance.choice([(UNAVAILABLE, BYTES), (UNAVAILABLE, raw), (doc, BYTES), (doc, raw)])
            rows.append(("update_postimage", key, *kept))
    return rows


def write(sink: Sink, checkpoint: int, *batches: DataFrame) -> None:
    staged = [sink.stage(batch, BatchId(number)).committable for number, batch in enumerate(batches)]
    sink.commit(CheckpointId(checkpoint), json.loads(json.dumps(staged)))


Into = Callable[[Database, Lake, Path], tuple[Sink, Callable[[], Table]]]


def into_postgresql(database: Database, lake: Lake, path: Path) -> tuple[Sink, Callable[[], Table]]:
    database.execute("CREATE TABLE report (id bigint PRIMARY KEY, raw bytea NOT NULL, doc text)")
    read = "SELECT id, doc, raw FROM report"
    return (
        opened(PostgresqlSink("report"), database.options("report", **UPSERT)),
        lambda: {key: (doc, None if raw is None else bytes(raw)) for key, doc, raw in database.execute(read)},
    )


def into_iceberg(database: Database, lake: Lake, path: Path) -> tuple[Sink, Callable[[], Table]]:
    columns = [(1, "id", LongType(), False), (2, "raw", BinaryType(), True), (3, "doc", StringType(), False)]
    lake.make("db.report", Schema(*(NestedField(n, name, kind, required=on) for n, name, kind, on in columns)))
    return (
        opened(IcebergSink("report"), lake.options("db.report", **UPSERT)),
        lambda: {key: (doc, raw) for key, raw, doc in lake.rows("db.report")},
    )


def into_delta(database: Database, lake: Lake, path: Path) -> tuple[Sink, Callable[[], Table]]:
    fields = [pa.field("id", pa.int64()), pa.field("raw", pa.binary(), nullable=False), pa.field("doc", pa.string())]
    DeltaTable.create(path, DeltaSchema.from_arrow(pa.schema(fields)))
    return (
        opened(DeltaSink("report"), {"path": str(path), **UPSERT}),
        lambda: {row["id"]: (row["doc"], row["raw"]) for row in DeltaTable(path).to_pyarrow_table().to_pylist()},
    )


@pytest.mark.parametrize("into", [into_postgresql, into_iceberg, into_delta])
def test_a_table_is_what_all_changes_make_of_it_whatever_they_leave_out(
    spark: SparkSession, database: Database, lake: Lake, tmp_path: Path, into: Into
) -> None:
    sink, read = into(database, lake, tmp_path / "t")
    chance, table = random.Random(3), Table()
    for checkpoint in range(1, 5):
        rows = random_changes(chance, table, 24)
        write(sink, checkpoint, changes(spark, rows[:7]), changes(spark, rows[7:15]), changes(spark, rows[15:]))
        table = applied(table, rows)
        assert read() == table

    absent: list[Change] = [("update_postimage", 77, UNAVAILABLE, b"x")]
    deleted: list[Change] = [("delete", 1, None, None), ("insert", 1, "x", BYTES)]
    for rows in (absent, deleted):
        with pytest.raises(RowsRefused, match=r"leaves out '(doc|raw)' of the row id = (77|1),.* no such row to keep"):
            write(sink, 9, changes(spark, rows))
    assert read() == table
    # NULL in a required column is one only if the change has the column.
    with pytest.raises(Exception, match=r"'raw' is required|row contains \(90, null"):
        write(sink, 9, changes(spark, [("insert", 90, "x", None)]))


NESTED = "id bigint, `a.b` array<string>, m map<string,string>, n int"


@pytest.mark.parametrize("into", ["iceberg", "delta"])
def test_lists_and_maps_that_a_change_leaves_out_stay_as_they_are_stored(
    spark: SparkSession, lake: Lake, tmp_path: Path, into: str
) -> None:
    path, nothing = tmp_path / "t", {UNAVAILABLE: UNAVAILABLE}
    iceberg, delta = lake.options("db.report", **UPSERT, createTable="true"), {"path": str(path), **UPSERT}
    sink = opened(IcebergSink("report"), iceberg) if into == "iceberg" else opened(DeltaSink("report"), delta)

    def of(*rows: tuple[int, list[str] | None, dict[str, str] | None, int]) -> DataFrame:
        return marked(spark.createDataFrame(list(rows), NESTED).coalesce(1), "a.b", "m")

    assert isinstance(sink, IcebergSink | DeltaSink)
    sink.check_schema(of((1, None, None, 1)).schema)
    write(sink, 1, of((1, ["a", "b"], {"k": "v"}, 1), (2, None, {}, 2), (3, [], None, 3)))
    write(
        sink, 2, of((1, [UNAVAILABLE], nothing, 4), (2, [UNAVAILABLE], {"new": "x"}, 5), (3, [UNAVAILABLE], nothing, 6))
    )
    write(sink, 3, of((1, ["c"], nothing, 7)), of((1, [UNAVAILABLE], nothing, 8)))

    found = lake.load("db.report").scan().to_arrow() if into == "iceberg" else DeltaTable(path).to_pyarrow_table()
    rows = {row["id"]: row for row in found.to_pylist(maps_as_pydicts="strict")}
    assert {key: (row["a.b"], row["m"], row["n"]) for key, row in rows.items()} == {
        1: (["c"], {"k": "v"}, 8),
        2: (None, {"new": "x"}, 5),
        3: ([], None, 6),
    }
    if into == "delta":
        assert MARK not in DeltaTable(path).schema().to_json()


def test_rows_that_exchange_unique_values_keep_what_they_leave_out(spark: SparkSession, database: Database) -> None:
    database.execute("CREATE TABLE report (id bigint PRIMARY KEY, email text UNIQUE, doc text NOT NULL)")
    database.execute("INSERT INTO report VALUES (1, 'a', 'one'), (2, 'b', 'two')")
    rows = [(1, "b", UNAVAILABLE), (2, "a", "new"), (3, "c", "three")]
    frame = marked(spark.createDataFrame(rows, "id bigint, email string, doc string").coalesce(1), "email", "doc")
    write(opened(PostgresqlSink("report"), database.options("report", **UPSERT)), 1, frame)

    found = database.execute("SELECT * FROM report ORDER BY id")
    assert found == [(1, "b", "one"), (2, "a", "new"), (3, "c", "three")]


def test_a_key_that_is_left_out_and_a_sink_that_appends_are_refused_by_name(
    spark: SparkSession, database: Database
) -> None:
    database.execute("CREATE TABLE report (id text PRIMARY KEY, doc text)")
    frame = marked(spark.createDataFrame([(UNAVAILABLE, "x")], "id string, doc string"), "id", "doc")
    upserting = opened(PostgresqlSink("report"), database.options("report", **UPSERT))
    with pytest.raises(PySparkException, match=r"leaves out the column 'id'.* part of the key"):
        upserting.stage(frame, BatchId(0))

    appending = opened(PostgresqlSink("report"), database.options("report"))
    for sink in (appending, MemorySink("report")):
        output = ChainOutput({OperatorUid("report"): sink})
        with pytest.raises(PySparkException, match=r"source src: a change leaves out .* sink 'report' cannot leave it"):
            output.write(frame, BatchId(0))


FORMS = {
    "string": [f"'{UNAVAILABLE}'", f"'{base64.b64encode(BYTES).decode()}'", f"'{BYTES.hex()}'"],
    "binary": [f"X'{BYTES.hex()}'"],
    "array<string>": [f"array('{UNAVAILABLE}')", f"array('{base64.b64encode(BYTES).decode()}')"],
    "array<binary>": [f"array(X'{BYTES.hex()}')"],
    "map<string,string>": [f"map('{UNAVAILABLE}', '{UNAVAILABLE}')"],
}
OTHERS = {
    "string": ["''", f"'{UNAVAILABLE}x'", "NULL"],
    "binary": ["X''", "NULL"],
    "array<string>": ["array()", f"array('{UNAVAILABLE}', 'x')", "array(NULL)", "NULL"],
    "array<binary>": ["array()", "NULL"],
    "map<string,string>": ["map()", "map('a', 'b')", "NULL"],
}


def test_the_placeholder_is_known_in_each_form_that_debezium_gives_it(spark: SparkSession) -> None:
    for expected, forms in ((True, FORMS), (False, OTHERS)):
        for kind, values in forms.items():
            frame = spark.sql(" UNION ALL ".join(f"SELECT CAST({value} AS {kind}) AS c" for value in values))
            test = is_unavailable(f.col("c"), frame.schema["c"].dataType, UNAVAILABLE)
            assert [row[0] for row in frame.select(test).collect()] == [expected] * len(values), kind


KEPT = {
    "selected": "SELECT id, doc, other FROM src",
    "renamed": "SELECT id, doc AS text, other FROM src WHERE id > 0",
    "of a struct": "SELECT id, value.doc, value.doc AS again FROM src",
    "whole struct": "SELECT id, value FROM src",
    "nested query": "SELECT d FROM (SELECT id, doc AS d FROM src) WHERE id > 0 ORDER BY id",
    "common table": "WITH a AS (SELECT id, doc FROM src) SELECT doc FROM a WHERE id > 0",
    "union": "SELECT doc FROM src UNION ALL SELECT doc FROM src",
    "joined": "SELECT /*+ BROADCAST(o) */ s.doc FROM src s JOIN other o ON s.id = o.id",
    "generated": "SELECT doc, e FROM src LATERAL VIEW explode(array(1, 2)) AS e",
}
COMPUTED = {
    "function": "SELECT id, upper(doc) AS doc FROM src",
    "both": "SELECT doc, length(doc) AS n FROM src",
    "filter": "SELECT id FROM src WHERE doc LIKE '%a%'",
    "cast": "SELECT CAST(doc AS BINARY) AS doc FROM src",
    "field": "SELECT length(value.doc) AS n FROM src",
    "struct": "SELECT to_json(value) AS text FROM src",
    "renamed before": "SELECT concat(d, 'x') AS x FROM (SELECT doc AS d FROM src)",
    "common table": "WITH a AS (SELECT id, doc AS d FROM src) SELECT upper(d) AS d FROM a",
    "group": "SELECT doc, count(*) AS n FROM src GROUP BY doc",
    "distinct": "SELECT DISTINCT doc FROM src",
    "join": "SELECT /*+ MERGE(s, o) */ o.id FROM src s JOIN other o ON s.doc = o.name",
    "subquery": "SELECT id FROM src WHERE doc IN (SELECT name FROM other)",
    "window": "SELECT max(doc) OVER (PARTITION BY id) AS m FROM src",
    "union with others": "SELECT doc FROM src UNION ALL SELECT name FROM other",
    "made struct": "SELECT named_struct('a', doc) AS s FROM src",
}


def rows(spark: SparkSession, *, as_null: bool = False) -> DataFrame:
    row = f"'{UNAVAILABLE}' AS doc, 'o' AS other"
    frame = spark.sql(f"SELECT 1L AS id, {row}, named_struct('doc', '{UNAVAILABLE}', 'n', 2) AS value")
    frame = marked(frame, "doc", as_null=as_null)
    kind = frame.schema["value"].dataType
    assert isinstance(kind, StructType)
    of_struct = marked_type(kind, lambda column: mark(f"value.{column}", as_null=as_null))
    return frame.withColumn("value", f.col("value").cast(of_struct))


def asked(spark: SparkSession, query: str, source: DataFrame) -> DataFrame:
    spark.createDataFrame([(1, "o")], "id bigint, name string").createOrReplaceTempView("other")

    def compute(inputs: Mapping[str, DataFrame]) -> DataFrame:
        inputs["src"].createOrReplaceTempView("src")
        return spark.sql(query)

    return with_available("Operator 'x'", {"src": source}, compute)[0]


@pytest.mark.parametrize("name", KEPT)
def test_a_column_that_is_only_selected_keeps_its_mark(spark: SparkSession, name: str) -> None:
    result = asked(spark, KEPT[name], rows(spark))

    assert {each.column for each in marks_of(result.schema)} <= {"doc", "value.doc"}
    assert marks_of(result.schema)
    assert UNAVAILABLE in json.dumps([row.asDict(recursive=True) for row in result.collect()])
    with pytest.raises(PySparkException, match="leaves out the column"):
        available(result, "sink y cannot").collect()


@pytest.mark.parametrize("name", COMPUTED)
def test_a_column_that_is_computed_with_fails_the_batch_by_name_or_is_null(spark: SparkSession, name: str) -> None:
    with pytest.raises(
        PySparkException, match=r"leaves out the column '(value\.)?doc'.* operator 'x' computes with it"
    ):
        asked(spark, COMPUTED[name], rows(spark)).collect()

    nulls = asked(spark, COMPUTED[name], rows(spark, as_null=True))
    assert UNAVAILABLE not in json.dumps([row.asDict(recursive=True) for row in nulls.collect()], default=str)


def test_functions_that_see_whole_rows_compute_with_all_columns(spark: SparkSession) -> None:
    def same(batches: Any) -> Any:
        yield from batches

    source = rows(spark).select("id", "doc")
    result, _ = with_available(
        "Operator 'x'", {"src": source}, lambda given: given["src"].mapInPandas(same, "id bigint, doc string")
    )
    with pytest.raises(PySparkException, match="leaves out the column 'doc'"):
        result.collect()
