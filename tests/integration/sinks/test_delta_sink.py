"""The Delta sink, on a local directory and in a real S3 server."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from tests.servers.s3 import S3Server

from streamjob.errors import StreamJobError
from streamjob.ids import BatchId, Epoch, OperatorUid
from streamjob.job.options import UnusableOptions
from streamjob.sink import SinkContext, Staged
from streamjob_runtime.sinks.delta import DeltaSink, DeltaUnreachable
from streamjob_runtime.sinks.errors import UnusableTable

pytestmark = [pytest.mark.spark, pytest.mark.server]


def opened(options: Mapping[str, str], *partition_by: str) -> DeltaSink:
    sink = DeltaSink("report", partition_by)
    sink.open(SinkContext("job", "default", OperatorUid("report"), Epoch(1), options))
    return sink


def written(sink: DeltaSink, *batches: DataFrame) -> list[Staged]:
    for batch in batches:
        sink.check_schema(batch.schema)
    return [sink.stage(batch, BatchId(number)) for number, batch in enumerate(batches)]


def rows(path: Path | str, **storage: str) -> list[dict[str, Any]]:
    found = DeltaTable(str(path), storage_options=storage).to_pyarrow_table()
    return sorted(found.to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_every_value_arrives_as_it_is(spark: SparkSession, tmp_path: Path, zone: str) -> None:
    at = datetime(2026, 7, 1, 12, 30, 0, 500000, tzinfo=UTC)
    values: Mapping[str, tuple[str, Any]] = {
        "id": ("1L", 1),
        "small": ("cast(7 AS tinyint)", 7),
        "text": ("'naïve☃'", "naïve☃"),
        "price": ("cast('0.01' AS decimal(10,2))", Decimal("0.01")),
        "day": ("date'2026-07-01'", date(2026, 7, 1)),
        "at": ("timestamp'2026-07-01 12:30:00.5+00:00'", at),
        "clock": ("timestamp_ntz'2026-03-29 02:30:00'", datetime(2026, 3, 29, 2, 30)),
        "raw": ("X'00FF'", b"\x00\xff"),
        "deep": ("array(named_struct('a', timestamp'2026-07-01 12:30:00.5+00:00'))", [{"a": at}]),
        "named": ("map('x', 1.5D)", [("x", 1.5)]),
    }
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        written(
            opened({"path": str(tmp_path / "t")}),
            spark.sql("SELECT " + ", ".join(f"{value} AS {name}" for name, (value, _) in values.items())),
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    assert rows(tmp_path / "t") == [{name: expected for name, (_, expected) in values.items()}]


def test_batches_are_appended_and_a_small_one_is_one_version(spark: SparkSession, tmp_path: Path) -> None:
    first = spark.range(40, numPartitions=8)
    second = spark.range(40, 50, numPartitions=2).selectExpr("cast(id AS int) AS id")
    staged = written(opened({"path": str(tmp_path / "t")}), first, second)

    assert staged == [Staged(None, 40), Staged(None, 10)]
    assert [row["id"] for row in rows(tmp_path / "t")] == list(range(50))
    assert DeltaTable(str(tmp_path / "t")).version() == 2


def test_many_rows_over_many_tasks_are_complete_in_the_partitions_of_a_table_that_the_sink_makes(
    spark: SparkSession, tmp_path: Path
) -> None:
    many = spark.range(400_000, numPartitions=3).selectExpr("id", "id % 3 AS part", "repeat('x', 20) AS note")
    written(opened({"path": str(tmp_path / "t")}, "part"), many)
    table = DeltaTable(str(tmp_path / "t"))

    assert table.metadata().partition_columns == ["part"]
    assert len(table.to_pyarrow_table(columns=["id"]).column("id").unique()) == table.count() == 400_000


def test_rows_that_do_not_fit_are_refused_before_the_first(spark: SparkSession, tmp_path: Path) -> None:
    written(opened({"path": str(tmp_path / "t")}), spark.sql("SELECT 1 AS id, 'a' AS note"))
    with pytest.raises(UnusableTable) as raised:
        opened({"path": str(tmp_path / "t")}).check_schema(spark.sql("SELECT 1L AS id, 'x' AS not").schema)

    assert "has column 'id' of type integer, which does not hold BIGINT as it is" in raised.value.what
    assert "has no column 'not'" in raised.value.what
    assert "did you mean 'note'?" in raised.value.fix


REFUSED: Mapping[str, tuple[Mapping[str, str], type[StreamJobError], str]] = {
    "no path": ({}, UnusableOptions, "sink report: lacks the option 'path'"),
    "an unknown option": ({"path": "/t", "mergeSchema": "true"}, UnusableOptions, "has no option 'mergeSchema'"),
    "no server": (
        {
            "path": "s3://bucket/t",
            "storage.AWS_ENDPOINT_URL": "http://127.0.0.1:1",
            "storage.AWS_ALLOW_HTTP": "true",
            "storage.AWS_ACCESS_KEY_ID": "key",
            "storage.AWS_SECRET_ACCESS_KEY": "hunter-secret-2",
            "storage.AWS_REGION": "us-east-1",
            "storage.max_retries": "0",
        },
        DeltaUnreachable,
        "the table cannot be read",
    ),
}


@pytest.mark.parametrize(("options", "error", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_work_is_refused_at_the_start(
    options: Mapping[str, str], error: type[StreamJobError], message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        opened(options)
    assert raised.value.fix
    assert "hunter-secret-2" not in str(raised.value)


def test_a_table_in_a_bucket_is_made_and_appended_to(spark: SparkSession, s3_server: S3Server, tmp_path: Path) -> None:
    storage = {
        "AWS_ENDPOINT_URL": s3_server.endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": s3_server.access_key,
        "AWS_SECRET_ACCESS_KEY": s3_server.secret_key,
        "AWS_REGION": s3_server.region,
    }
    path = f"s3://{s3_server.bucket}/delta/{tmp_path.name}"
    options = {"path": path, **{f"storage.{name}": value for name, value in storage.items()}}
    for first in (0, 5):
        written(opened(options), spark.range(first, first + 5, numPartitions=2))

    assert [row["id"] for row in rows(path, **storage)] == list(range(10))
