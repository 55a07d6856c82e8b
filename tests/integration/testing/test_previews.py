"""Previews of operators, on a real Spark: a sample goes in, and nothing else happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.job_files import job_files
from tests.servers.kafka import KafkaServer

from streamjob.job.loading.load import LoadedJob, load_job
from streamjob_runtime.discovery.directory_lister import UnreadableDirectory
from streamjob_runtime.testing.preview import Preview, preview
from streamjob_runtime.testing.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

JOB = """
name: clicks
sources:
- name: clicks
  format: csv
  schema: user STRING, at TIMESTAMP, amount DECIMAL(9,2)
  options: {path: clicks, header: true}
  columns: ["upper(user) AS user", at, amount]
  watermark: {column: at, delay: 0s}
- {name: ticks, format: rate, options: {rowsPerSecond: 100}}
operators:
- name: totals
  inputs: [clicks]
  sql: SELECT user, window.start AS hour, sum(amount) AS total FROM clicks GROUP BY user, window(at, '1 hour')
sinks:
- {name: out, input: totals, format: parquet, options: {path: out}}
- {name: ticks_out, input: ticks, format: console}
"""


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedJob:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "clicks").mkdir()
    rows = ["user,at,amount", *(f"u{number % 2},2026-01-01T12:{number:02}:00Z,1.10" for number in range(10))]
    (tmp_path / "job" / "clicks" / "a.csv").write_text("\n".join(rows))
    (tmp_path / "job" / "job.yaml").write_text(JOB)
    return load_job(tmp_path / "job" / "job.yaml")


def shown(
    spark: SparkSession, loaded: LoadedJob, name: str, given: Mapping[str, Sequence[Any]] | None = None, **limits: Any
) -> Preview:
    directory = loaded.directory.parent / "scratch"
    directory.mkdir()
    return preview(loaded, name, Session(spark, job_files(spark)), directory, given=given, **limits)


def files_of(loaded: LoadedJob) -> set[str]:
    return {str(each.relative_to(loaded.directory)) for each in loaded.directory.rglob("*")}


@pytest.mark.core
def test_an_operator_is_shown_for_a_sample_of_its_sources_and_leaves_nothing(
    spark: SparkSession, loaded: LoadedJob
) -> None:
    before = files_of(loaded)
    found = shown(spark, loaded, "totals", sampled=4, rows=1)

    assert (found.total, found.read, found.columns) == (2, {"clicks": 4}, ("user", "hour", "total"))
    (row,) = found.rows
    assert row["hour"] == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert str(row["total"]) == "2.20"
    assert files_of(loaded) == before
    assert [
        each.name for each in (loaded.directory.parent / "scratch").iterdir() if (each / "snapshots").exists()
    ] == []


def test_given_rows_replace_the_sample(spark: SparkSession, loaded: LoadedJob) -> None:
    found = shown(spark, loaded, "totals", {"clicks": [{"user": "a", "at": "2026-01-01T00:30:00Z", "amount": 2}]})

    assert found.texts() == [["A", "2026-01-01T00:00:00Z", "2.00"]]
    assert "<td>2.00</td>" in found._repr_html_()


def test_a_source_without_an_end_is_shown_as_far_as_it_has_come(spark: SparkSession, loaded: LoadedJob) -> None:
    found = shown(spark, loaded, "ticks", sampled=3)

    assert (len(found.rows), found.columns) == (3, ("timestamp", "value"))


def test_a_source_that_cannot_be_read_is_named(spark: SparkSession, loaded: LoadedJob) -> None:
    (loaded.directory / "clicks" / "a.csv").unlink()
    (loaded.directory / "clicks").rmdir()

    with pytest.raises(UnreadableDirectory, match=r"Source 'clicks': the directory .*/clicks does not exist"):
        shown(spark, loaded, "totals")


KAFKA = """
name: orders
sources:
- name: orders
  format: kafka
  options: {kafka.bootstrap.servers: SERVER, subscribe: TOPIC, endingOffsets: latest}
  bounded: true
  value: {format: json, schema: "id INT, at TIMESTAMP"}
  onError: deadLetter
  columns: [value.id AS id, value.at AS at, offset]
  watermark: {column: at, delay: 0s}
sinks:
- {name: out, input: orders, format: parquet, options: {path: out}}
- {name: broken, input: orders_dead_letters, format: parquet, options: {path: broken}}
"""


@pytest.mark.server
def test_a_topic_is_shown_as_the_job_decodes_it_and_no_offset_is_committed(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    values = ['{"id": 1, "at": "2026-01-01T12:00:00Z"}', "no json", '{"at": "2026-01-01T12:30:00Z"}']
    kafka_server.produce(topic, [(None, each) for each in values], partition=0)
    (tmp_path / "job").mkdir()
    file = tmp_path / "job" / "job.yaml"
    file.write_text(KAFKA.replace("SERVER", kafka_server.bootstrap).replace("TOPIC", topic))
    rows = shown(spark, load_job(file), "orders")
    (tmp_path / "scratch").rename(tmp_path / "first")
    unbounded = (
        file.read_text().replace("endingOffsets: latest", "startingOffsets: latest").replace("  bounded: true\n", "")
    )
    file.write_text(unbounded)
    letters = shown(spark, load_job(file), "orders_dead_letters")

    assert rows.texts() == [["1", "2026-01-01T12:00:00Z", "0"], ["null", "2026-01-01T12:30:00Z", "2"]]
    assert [(row["value"], row["offset"]) for row in letters.rows] == [(b"no json", 1)]
    groups = [each.group_id for each in kafka_server.admin.list_consumer_groups().result().valid]
    assert [group for group in groups for of, _ in kafka_server.committed_offsets(group) if of == topic] == []
