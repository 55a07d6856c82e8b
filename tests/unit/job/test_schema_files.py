"""The columns of a source or table may be in a file next to the job's, in Spark's forms or as a schema of Avro."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import types as t

from streamjob.errors import InvalidJob
from streamjob.job.loading.load import load_job

NESTED = t.StructType(
    [
        t.StructField("id", t.LongType(), nullable=False),
        t.StructField("a `b", t.DecimalType(10, 2)),
        t.StructField("at", t.TimestampNTZType()),
        t.StructField("tags", t.MapType(t.StringType(), t.ArrayType(t.IntegerType()))),
        t.StructField("of", t.StructType([t.StructField("x y", t.ShortType()), t.StructField("z", t.BinaryType())])),
    ]
)
AVRO = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "on", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "raw", "type": [{"type": "fixed", "name": "f", "size": 4}, "null"]},
        {"name": "kinds", "type": {"type": "array", "items": {"type": "enum", "name": "e", "symbols": ["a"]}}},
        {"name": "of", "type": {"type": "map", "values": {"type": "record", "name": "s", "fields": [
            {"name": "x", "type": {"type": "string", "logicalType": "uuid"}}]}}},
    ],
}  # fmt: skip


OF_SPARK = (
    "`id` long, `a ``b` decimal(10,2), `at` timestamp_ntz, `tags` map<string, array<integer>>, "
    "`of` struct<`x y`: short, `z`: binary>"
)
OF_AVRO = (
    "`id` long, `at` timestamp, `on` date, `price` decimal(10, 2), `raw` binary, `kinds` array<string>, "
    "`of` map<string, struct<`x`: string>>"
)


def load(directory: Path, text: str | None, **fields: Any) -> str | None:
    """Return the schema of a source whose file has a text."""
    if text is not None:
        (directory / "columns").write_text(text)
    source = {"name": "a", "format": "json", "options": {"path": "/in"}, "schemaFile": "columns", **fields}
    tables = [{"name": "b", "format": "csv", "options": {"path": "/b"}, "schemaFile": "columns"}]
    operators = [{"name": "o", "inputs": ["a"], "sql": "SELECT 1 AS x FROM a CROSS JOIN b"}]
    sinks = [{"name": "out", "input": "o", "format": "noop"}]
    described = {"name": "j", "sources": [source], "tables": tables, "operators": operators, "sinks": sinks}
    (directory / "job.yaml").write_text(json.dumps(described))
    job = load_job(directory / "job.yaml").spec
    assert job.sources[0].schema_ddl == job.tables[0].schema_ddl
    return job.sources[0].schema_ddl


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("id BIGINT,\n  name STRING\n", "id BIGINT,\n  name STRING"),
        (
            NESTED.json(),
            OF_SPARK,
        ),
        (
            json.dumps(AVRO),
            OF_AVRO,
        ),
    ],
)
def test_columns_are_read_from_a_file_in_each_form(tmp_path: Path, text: str, schema: str) -> None:
    assert load(tmp_path, text) == schema


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (None, "schemaFile: columns: there is no such file"),
        ("{", "schemaFile: columns: is no schema of columns"),
        ('{"type": "array"}', "schemaFile: columns: is no schema of columns"),
        ('{"fields": [{"name": "x", "type": ["int", "string"]}]}', "schemaFile: columns: is no schema of columns"),
        ('{"fields": [{"name": "x", "type": "shop.Order"}]}', "its schema"),
        ("id BIG", "its schema"),
    ],
)
def test_a_file_without_columns_is_refused(tmp_path: Path, text: str | None, what: str) -> None:
    with pytest.raises(InvalidJob, match=f"source 'a': {what}"):
        load(tmp_path, text)


def test_a_schema_beside_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidJob, match="source 'a': has schema and schemaFile"):
        load(tmp_path, "id INT", schema="id INT")
