"""Sources give changes with their kinds, and operators that would count changes again are refused before the start."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests import jobs
from tests.integration.runtime.avro_records import long, text
from tests.integration.runtime.avro_records import record as avro_record
from tests.integration.runtime.embedded import Life, finish, life_in, running
from tests.integration.runtime.graphs import job, output, rows_of
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.stories import NEVER
from tests.integration.sinks.databases import Database
from tests.jobs import sql
from tests.servers.kafka import KafkaServer

from streamjob.errors import InvalidInput
from streamjob_runtime.chain.sources.changes import ChangesMiscounted
from streamjob_runtime.job.bad_input_errors import RecordNotDecoded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

VALUE = {"format": "json", "schema": "id BIGINT, name STRING"}
AT = 1_767_268_800_000
SHOWN = "value.id AS id, value.name AS name, _change_type, _commit_timestamp"


def source(server: KafkaServer, topic: str, **fields: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"bounded": True, "changes": "debezium", "value": VALUE}
    return jobs.topic("customers", server.bootstrap, topic, {"maxOffsetsPerTrigger": 4}, **usual | fields)


def change(operation: str, before: int | None, after: int | None, name: str = "n", **more: Any) -> str:
    rows = [None if key is None else {"id": key, "name": name} for key in (before, after)]
    envelope = {"before": rows[0], "after": rows[1], "op": operation, "ts_ms": AT + 5, "source": {"ts_ms": AT}}
    return json.dumps({**envelope, **more})


def life_of(directory: Path, read: dict[str, Any], select: str, **more: Any) -> Life:
    rows = sql("rows", ["customers"], select, **more)
    spec = job(directory, [read], [rows], ["rows"], checkpointing={"interval": "1h"})
    return life_in(directory, spec, restarts=NEVER)


@pytest.mark.core
@pytest.mark.parametrize("wrapped", [False, True], ids=["bare", "with schemas"])
def test_envelopes_of_debezium_become_changes_of_rows(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path, wrapped: bool
) -> None:
    found: list[str | None] = [
        change("r", None, 1),
        change("c", None, 2),
        change("u", 1, 1, "new"),
        change("u", None, 2, "new"),
        change("d", 1, None),
        None,
        change("m", None, None),
    ]
    if wrapped:
        schema = {"type": "struct", "fields": []}
        found = [each and json.dumps({"schema": schema, "payload": json.loads(each)}) for each in found]
    kafka_server.produce(topic, [("k", value) for value in found], partition=0)

    finish(spark, life_of(tmp_path, source(kafka_server, topic), f"SELECT {SHOWN}, offset FROM customers"))

    at = "2026-01-01T12:00:00"
    rows = sorted(rows_of(output(tmp_path, "rows")), key=lambda row: (row[4], row[2] != "update_preimage"))
    assert [(*row[:3], row[4]) for row in rows] == [
        (1, "n", "insert", 0),
        (2, "n", "insert", 1),
        (1, "new", "update_preimage", 2),
        (1, "new", "update_postimage", 2),
        (2, "new", "update_postimage", 3),
        (1, "n", "delete", 4),
    ]
    assert {str(row[3])[:19] for row in rows} == {at}


def in_avro(row: dict[str, Any] | None) -> bytes:
    """Return a row, or none, as a union of Avro."""
    if row is None:
        return long(0)
    raw, tags = base64.b64decode(row["raw"]), row["tags"]
    array = long(len(tags)) + b"".join(map(text, tags)) + long(0)
    return long(1) + long(row["id"]) + text(row["name"]) + text(row["doc"]) + long(len(raw)) + raw + array


ROW = avro_record("Row", id="long", name="string", doc="string", raw="bytes", tags={"type": "array", "items": "string"})
ENVELOPE = avro_record(
    "Envelope",
    before=["null", json.loads(ROW)],
    after=["null", "Row"],
    op="string",
    ts_ms="long",
    source=json.loads(avro_record("Source", ts_ms="long")),
)


@pytest.mark.core
@pytest.mark.parametrize("changes", ["debezium", "debezium in avro", "upsert"])
def test_columns_that_a_change_leaves_out_stay_as_they_are_stored(
    spark: SparkSession,
    kafka_server: KafkaServer,
    topic: str,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: str,
) -> None:
    """From Kafka through two chains to a table, whose rows keep long documents that the database did not send."""

    def record(before: dict[str, Any] | None, after: dict[str, Any] | None) -> str | bytes | None:
        if changes == "upsert":
            return None if after is None else json.dumps(after)
        operation = "d" if after is None else "u"
        if changes == "debezium in avro":
            return in_avro(before) + in_avro(after) + text(operation) + long(AT) + long(AT)
        return json.dumps({"before": before, "after": after, "op": operation, "ts_ms": AT, "source": {"ts_ms": AT}})

    left_out = "bm90IHNlbnQ="  # "not sent" as Debezium writes bytes into JSON
    whole = {"id": 1, "name": "old", "doc": "long", "raw": "AAE=", "tags": ["a"]}
    again = {"id": 1, "name": "new", "doc": "not sent", "raw": left_out, "tags": ["not sent"]}
    seen = {} if changes == "upsert" else {"doc": "from before"}
    records = [
        record(None, whole),
        record(None, again),
        record(None, {**whole, "id": 2}),
        record(None, None) if changes == "upsert" else record({**whole, "id": 3}, None),
        record({**whole, **seen}, {**again, "name": "newest"}),
    ]
    kafka_server.produce(topic, [("k", each) for each in records], partition=0)
    read = source(kafka_server, topic, changes=changes.split()[0], unavailableValue="not sent")
    read["value"] = {"format": "json", "schema": "id BIGINT, name STRING, doc STRING, raw BINARY, tags ARRAY<STRING>"}
    if changes == "debezium in avro":
        read["value"] = {"format": "avro", "schema": ENVELOPE}
    read["columns"] = ["coalesce(value.id, 3) AS id", "value.name", "value.doc AS text", "value.*", "_change_type"]
    read["columns"][3:4] = ["value.raw", "value.tags"]
    monkeypatch.setenv("COPY_PASSWORD", database.server.password)
    database.execute("CREATE TABLE copy (id bigint PRIMARY KEY, name text, text text NOT NULL, raw bytea, tags jsonb)")
    database.execute("INSERT INTO copy VALUES (3, 'gone', '')")
    own = sql("own", ["customers"], "SELECT * FROM customers")
    rows = sql("rows", "own", "SELECT * FROM own WHERE id > 0", chain=False)
    spec = job(tmp_path, [read], [own, rows], ["rows"], checkpointing={"interval": "1h"})
    options = {**database.options("copy"), "password": "${env:COPY_PASSWORD}", "mode": "upsert", "key": "id"}
    spec["sinks"] = [jobs.sink("rows", "postgresql", options=options)]
    finish(spark, life_in(tmp_path, spec, restarts=NEVER))

    found = database.execute("SELECT id, name, text, raw, tags FROM copy ORDER BY id")
    kept = "long" if changes == "upsert" else "from before"
    assert [(*row[:3], bytes(row[3]), row[4]) for row in found] == [
        (1, "newest", kept, b"\x00\x01", ["a"]),
        (2, "old", "long", b"\x00\x01", ["a"]),
    ]


def test_records_of_an_upsert_topic_replace_and_delete_rows(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    kafka_server.produce(topic, [('{"id": 1}', '{"name": "a"}'), ('{"id": 1}', None)], partition=0)
    values = {"key": {"format": "json", "schema": "id BIGINT"}, "value": {"format": "json", "schema": "name STRING"}}
    read = source(kafka_server, topic, changes="upsert", **values)
    read["columns"] = ["key.id AS id", "value.name AS name", "_change_type"]

    finish(spark, life_of(tmp_path, read, "SELECT * FROM customers"))

    assert set(rows_of(output(tmp_path, "rows"))) == {(1, None, "delete"), (1, "a", "update_postimage")}


def test_a_record_that_is_not_a_change_fails_the_job_or_goes_to_dead_letters(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    bad = [change("t", None, None), change("c", 1, None), '{"id": 1}', "no json"]
    kafka_server.produce(topic, [("k", change("c", None, 1)), *(("k", each) for each in bad)], partition=0)
    with (
        pytest.raises(
            RecordNotDecoded,
            match=r"at offset 1 is not a change of Debezium in json .*: it describes no change of a row",
        ) as ended,
        running(
            spark, life_of(tmp_path / "fail", source(kafka_server, topic), f"SELECT {SHOWN} FROM customers")
        ) as one,
    ):
        one.wait()
    assert "skip=" in ended.value.fix

    read = source(kafka_server, topic, onError="deadLetter", columns=["value.id AS id", "_change_type"])
    letters = sql(
        "letters", ["customers_dead_letters"], "SELECT CAST(value AS STRING) AS value FROM customers_dead_letters"
    )
    rows = sql("rows", ["customers"], "SELECT * FROM customers")
    spec = job(tmp_path, [read], [rows, letters], ["rows", "letters"], checkpointing={"interval": "1h"})
    finish(spark, life_in(tmp_path, spec, restarts=NEVER))

    assert list(rows_of(output(tmp_path, "rows"))) == [(1, "insert")]
    assert sorted(value for (value,) in rows_of(output(tmp_path, "letters"))) == sorted(bad)


REFUSED = {
    "count": ("SELECT count(*) AS n FROM customers", "update", "aggregates changes: .* count a row again"),
    "distinct": ("SELECT DISTINCT * FROM customers", "update", "removes duplicates of changes"),
    "join": (
        "SELECT a.value, a._change_type FROM customers a JOIN customers b ON a.value.id = b.value.id",
        "append",
        "joins changes with another stream",
    ),
    "nested": ("SELECT id FROM (SELECT value.id AS id, _change_type FROM customers)", "append", "drops the column"),
    "forgotten": ("SELECT value.id AS id FROM customers WHERE value.id > 0", "append", "drops the column _change_type"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_query_that_would_count_changes_again_is_refused_by_name(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    query, mode, why = REFUSED[name]
    read = source_of_files(tmp_path)
    with (
        pytest.raises(ChangesMiscounted, match=f"Operator 'rows' {why}"),
        running(spark, into_memory(life_of(tmp_path, read, query, outputMode=mode))) as one,
    ):
        one.wait()


ALLOWED = {
    "signed": "SELECT count_if(_change_type = 'insert') - count_if(_change_type = 'delete') AS n FROM customers",
    "projected": "SELECT sum(n) AS n FROM (SELECT IF(_change_type = 'delete', -1, 1) AS n FROM customers)",
    "by kind": "SELECT _change_type AS kind, count(*) AS n FROM customers GROUP BY _change_type",
}


@pytest.mark.parametrize("name", ALLOWED)
def test_a_query_that_reads_the_kinds_may_count_them(spark: SparkSession, tmp_path: Path, name: str) -> None:
    finish(spark, into_memory(life_of(tmp_path, source_of_files(tmp_path), ALLOWED[name], outputMode="complete")))


def into_memory(life: Life) -> Life:
    """Return the life with a sink that takes any output mode."""
    spec = json.loads(life.file.read_text())
    spec["sinks"] = [{"name": "out", "input": "rows", "format": "memory"}]
    write_job(life.file.parent, spec)
    return life


def source_of_files(directory: Path) -> dict[str, Any]:
    (directory / "changes").mkdir(parents=True)
    row = {"value": {"id": 1}, "_change_type": "insert"}
    (directory / "changes" / "0.json").write_text(json.dumps(row))
    columns = "value STRUCT<id: BIGINT>, _change_type STRING"
    options = {"path": str(directory / "changes")}
    return {"name": "customers", "format": "json", "schema": columns, "bounded": True, "options": options}


def test_columns_of_a_source_that_forget_the_kinds_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    read = {**source_of_files(tmp_path), "columns": ["value.id AS id"]}
    with (
        pytest.raises(InvalidInput, match="Source 'customers' drops the column _change_type"),
        running(spark, life_of(tmp_path, read, "SELECT * FROM customers")) as one,
    ):
        one.wait()
