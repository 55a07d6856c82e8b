"""A rehearsal lets sinks load what their first batch needs, and leaves no trace at their targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType
from pyspark.sql.types import LongType, StringType, StructField, StructType
from tests.integration.sinks.buckets import Bucket, environment_of_tasks
from tests.integration.sinks.databases import Database
from tests.integration.sinks.lakes import Lake

from streamjob.ids import Epoch, OperatorUid
from streamjob.job.model.spec import SinkSpec
from streamjob.sink import Sink, SinkContext
from streamjob.store.local import LocalStore
from streamjob.store.staging import StoreStaging
from streamjob_runtime.sinks.bucket.sink import BucketSink
from streamjob_runtime.sinks.errors import PlaceTaken, UnusableTable
from streamjob_runtime.sinks.factory import SinkSurroundings, make_sink
from streamjob_runtime.sinks.files.file_systems import LocalPlace
from streamjob_runtime.sinks.files.sink import FileSink
from streamjob_runtime.sinks.rehearsing import rehearse_sink
from streamjob_runtime.spark.gateway import frame_without_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server]


@dataclass(frozen=True)
class Target:
    """A target of a sink: the sink's format and options, and everything that is there."""

    format: str
    options: Mapping[str, str]
    content: Callable[[], object]
    delivery: str = "exactly-once"


def listed(directory: Path) -> list[tuple[str, int]]:
    return sorted((str(each), each.stat().st_mtime_ns) for each in directory.rglob("*"))


@pytest.fixture
def files(tmp_path: Path) -> Target:
    place = tmp_path / "files"
    return Target("parquet", {"path": str(place)}, lambda: listed(place))


@pytest.fixture
def objects(bucket: Bucket) -> Target:
    return Target("parquet", {"path": bucket.path}, lambda: (list(bucket.objects.list("")), bucket.pending()))


@pytest.fixture
def database_table(database: Database) -> Target:
    database.execute("CREATE TABLE report (id bigint PRIMARY KEY, note text)")

    def content() -> object:
        schemas = database.execute("SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_%'")
        return sorted(schemas), database.staging_tables(), database.execute("SELECT * FROM report")

    return Target("postgresql", database.options("report"), content)


@pytest.fixture
def lake_table(lake: Lake) -> Target:
    lake.make("db.report")
    return Target(
        "iceberg", lake.options("db.report"), lambda: (lake.load("db.report").metadata, lake.files("db.report"))
    )


@pytest.fixture
def delta_table(tmp_path: Path) -> Target:
    path = tmp_path / "delta"
    fields = [Field("id", PrimitiveType("long")), Field("note", PrimitiveType("string"))]
    DeltaTable.create(str(path), Schema(fields))
    return Target("delta", {"path": str(path)}, lambda: listed(path), delivery="at-least-once")


TARGETS = ("files", "objects", "database_table", "lake_table", "delta_table")


def rehearse(spark: SparkSession, target: Target, directory: Path) -> None:
    epoch, store = Epoch(0), LocalStore(directory / "store")
    surroundings = SinkSurroundings(
        "copy",
        "default",
        epoch,
        directory,
        staging=lambda sink: StoreStaging(store, sink, epoch, directory / "staging" / sink),
        spark=lambda: spark,
    )
    described = {"format": target.format, "options": dict(target.options), "delivery": target.delivery}
    sink, context = make_sink(SinkSpec.model_validate({"name": "report", "input": "notes", **described}), surroundings)
    schema = StructType([StructField("id", LongType(), nullable=False), StructField("note", StringType())])
    rehearse_sink(sink, context, frame_without_rows(spark, schema))


@pytest.mark.parametrize("name", TARGETS)
def test_a_rehearsal_leaves_its_target_as_it_is(
    spark: SparkSession, tmp_path: Path, name: str, request: pytest.FixtureRequest
) -> None:
    target: Target = request.getfixturevalue(name)
    before = target.content()

    rehearse(spark, target, tmp_path)

    assert target.content() == before


def claimed(sink: Sink, options: Mapping[str, str]) -> None:
    sink.open(SinkContext("another", "default", OperatorUid("report"), Epoch(1), options))


def test_a_rehearsal_reports_that_files_would_be_anothers(spark: SparkSession, tmp_path: Path, files: Target) -> None:
    claimed(FileSink("parquet", LocalPlace(Path(files.options["path"]))), {})

    with pytest.raises(PlaceTaken):
        rehearse(spark, files, tmp_path)


def test_a_rehearsal_reports_that_objects_would_be_anothers(
    spark: SparkSession, tmp_path: Path, bucket: Bucket, objects: Target
) -> None:
    claimed(BucketSink("report", "parquet", bucket.path), {})

    with environment_of_tasks(spark, bucket.server.environment), pytest.raises(PlaceTaken):
        rehearse(spark, objects, tmp_path)


@pytest.mark.parametrize(("name", "other"), [("database_table", "other"), ("lake_table", "db.other")])
def test_a_rehearsal_reports_that_a_table_is_missing(
    spark: SparkSession, tmp_path: Path, name: str, other: str, request: pytest.FixtureRequest
) -> None:
    target: Target = request.getfixturevalue(name)
    missing = Target(target.format, {**target.options, "table": other}, target.content)

    with pytest.raises(UnusableTable):
        rehearse(spark, missing, tmp_path)
