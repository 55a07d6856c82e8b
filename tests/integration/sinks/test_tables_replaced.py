"""Sinks that replace a table: with each checkpoint it has the rows of the last batch, and no others.

Every version that a reader can see is such a batch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform
from pyspark.sql import DataFrame, SparkSession
from tests.integration.sinks import by_hand
from tests.integration.sinks import test_delta_sink_conformance as of_delta
from tests.integration.sinks import test_iceberg_sink_conformance as of_iceberg
from tests.integration.sinks import test_postgresql_sink_conformance as of_postgresql
from tests.integration.sinks.by_hand import commit, staged_in
from tests.integration.sinks.databases import Database
from tests.integration.sinks.lakes import NOTES, Lake

from streamjob.sink import Sink, Staged
from streamjob_runtime.sinks.delta.sink import DeltaSink
from streamjob_runtime.sinks.errors import UnusableTable
from streamjob_runtime.sinks.iceberg.sink import IcebergSink
from streamjob_runtime.sinks.postgresql.sink import PostgresqlSink

pytestmark = [pytest.mark.spark, pytest.mark.server]

Rows = list[tuple[int, str | None]]
Replacing = DeltaSink | IcebergSink | PostgresqlSink


@dataclass
class Replaced:
    """A table that a sink replaces.

    Args:
        make: makes the sink, opened in an epoch.
        read: returns the rows of the table, sorted.
        versions: returns those of each version that was committed, as far as the table keeps them.
        insert: adds a row as another writer.
        left: returns what is staged or garbage.
    """

    make: Callable[[int], Replacing]
    read: Callable[[], Rows]
    versions: Callable[[], list[Rows]]
    insert: Callable[[int, str], object]
    left: Callable[[], Sequence[object]]


def sorted_rows(found: pa.Table) -> Rows:
    return sorted((row["id"], row["note"]) for row in found.to_pylist())


def _delta(database: Database, lake: Lake, path: Path) -> Replaced:
    options = {"path": str(path), "mode": "replace"}

    def versions() -> list[DeltaTable]:
        return [DeltaTable(path, version=number) for number in range(1, DeltaTable(path).version() + 1)]

    def left() -> list[Path]:
        added = [pa.table(table.get_add_actions()).column("path").to_pylist() for table in versions()]
        return sorted(set(of_delta.stray(path)) - {path / each for paths in added for each in paths})

    return Replaced(
        lambda epoch: by_hand.opened(DeltaSink("report", wait=lambda seconds: None), options, epoch),
        lambda: sorted_rows(DeltaTable(path).to_pyarrow_table()),
        lambda: [sorted_rows(table.to_pyarrow_table()) for table in versions()],
        lambda key, note: write_deltalake(path, pa.table({"id": [key], "note": [note]}), mode="append"),
        left,
    )


def _iceberg(database: Database, lake: Lake, path: Path) -> Replaced:
    lake.make("db.report", NOTES, PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "by_note")))
    options = lake.options("db.report", mode="replace")

    def versions() -> list[Rows]:
        table = lake.load("db.report")
        snapshots = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
        return [sorted_rows(table.scan(snapshot_id=each).to_arrow()) for each in snapshots]

    def insert(key: int, note: str) -> None:
        with lake.catalog() as catalog:
            table = catalog.load_table("db.report")
            schema = table.schema().as_arrow()
            table.append(pa.Table.from_pylist([{"id": key, "note": note}], schema=schema))

    return Replaced(
        lambda epoch: by_hand.opened(IcebergSink("report", wait=lambda seconds: None), options, epoch),
        lambda: sorted_rows(lake.load("db.report").scan().to_arrow()),
        versions,
        insert,
        lambda: lake.stray("db.report"),
    )


def _postgresql(database: Database, lake: Lake, path: Path) -> Replaced:
    database.execute("CREATE TABLE report (id bigint PRIMARY KEY, note text)")
    options = database.options("report", mode="replace")
    return Replaced(
        lambda epoch: by_hand.opened(PostgresqlSink("report"), options, epoch),
        lambda: database.execute("SELECT id, note FROM report ORDER BY id"),
        list,
        lambda key, note: database.execute("INSERT INTO report VALUES (%s, %s)", key, note),
        database.staging_tables,
    )


@pytest.fixture(params=[_delta, _iceberg, _postgresql])
def replaced(request: pytest.FixtureRequest, database: Database, lake: Lake, tmp_path: Path) -> Replaced:
    made = request.param(database, lake, tmp_path / "t")
    assert isinstance(made, Replaced)
    return made


def frame(spark: SparkSession, rows: Rows) -> DataFrame:
    return spark.createDataFrame(rows, "id long, note string").repartition(2)


def staged(spark: SparkSession, sink: Replacing, *results: Rows) -> list[Staged]:
    return [staged_in(sink, frame(spark, rows), number) for number, rows in enumerate(results)]


def test_a_checkpoint_puts_its_last_batch_in_the_place_of_what_was_there(
    spark: SparkSession, replaced: Replaced
) -> None:
    chance, wholes = random.Random(40), list[Rows]()
    sink = replaced.make(1)
    for checkpoint in range(1, 5):
        results: list[Rows] = [[(key, str(chance.random())) for key in range(chance.randrange(1, 9))] for _ in range(3)]
        commit(sink, checkpoint, *staged(spark, sink, *results))
        wholes.append(results[-1])
        assert replaced.read() == results[-1]
        assert replaced.left() == []

    assert replaced.versions() in ([], wholes)


def test_a_whole_result_without_rows_empties_the_table_and_no_result_leaves_it(
    spark: SparkSession, replaced: Replaced
) -> None:
    sink = replaced.make(1)
    commit(sink, 1, *staged(spark, sink, [], [(1, "a")]))
    commit(sink, 2)
    assert replaced.read() == [(1, "a")]
    commit(sink, 3, *staged(spark, sink, [(2, "b")], []))

    assert replaced.read() == replaced.left() == []


def test_rows_of_others_do_not_outlive_a_checkpoint(spark: SparkSession, replaced: Replaced) -> None:
    sink = replaced.make(1)
    commit(sink, 1, *staged(spark, sink, [(1, "a")]))
    replaced.insert(7, "other")
    assert replaced.read() == [(1, "a"), (7, "other")]
    commit(sink, 2, *staged(spark, sink, [(1, "b"), (2, None)]))

    assert replaced.read() == [(1, "b"), (2, None)]


def test_a_checkpoint_that_is_committed_again_does_not_bring_its_rows_back(
    spark: SparkSession, replaced: Replaced
) -> None:
    former = replaced.make(1)
    first = staged(spark, former, [(9, "z")], [(1, "a")])
    commit(former, 1, *first)
    commit(former, 1, *first)
    later = replaced.make(2)
    commit(later, 1, *first)
    later.abort()
    commit(later, 2, *staged(spark, later, [(2, "b")]))
    for sink in (former, later):
        commit(sink, 1, *first)

    assert replaced.read() == [(2, "b")]
    assert replaced.left() == []


def test_rows_of_other_tables_keep_those_that_they_refer_to(spark: SparkSession, database: Database) -> None:
    database.execute("CREATE TABLE report (id bigint PRIMARY KEY, note text)")
    database.execute("CREATE TABLE other (report bigint REFERENCES report)")
    options = database.options("report", mode="replace")
    sink = by_hand.opened(PostgresqlSink("report"), options)
    commit(sink, 1, *staged(spark, sink, [(1, "a"), (2, "b")]))
    database.execute("INSERT INTO other VALUES (2)")
    batches = staged(spark, sink, [(2, "c"), (3, "d")])
    commit(sink, 2, *batches)
    assert database.execute("SELECT id, note, report FROM report LEFT JOIN other ON id = report ORDER BY id") == [
        (2, "c", 2),
        (3, "d", None),
    ]

    late = staged(spark, sink, [(2, "e")])
    database.execute("ALTER TABLE other ADD FOREIGN KEY (report) REFERENCES report ON DELETE CASCADE")
    with pytest.raises(UnusableTable, match="deleted and inserted again, since each"):
        commit(sink, 3, *late)
    with pytest.raises(UnusableTable, match=r"reach rows of other tables by \w+ of other"):
        by_hand.opened(PostgresqlSink("report"), options, 2)
    assert database.execute("SELECT note FROM report ORDER BY id") == [("c",), ("d",)]


def test_a_reader_with_an_older_view_of_the_database_finds_the_older_rows(
    spark: SparkSession, database: Database
) -> None:
    replaced = _postgresql(database, None, Path())  # type: ignore[arg-type]
    sink = replaced.make(1)
    commit(sink, 1, *staged(spark, sink, [(1, "a")]))
    with database.server.connect(database.name) as reader:
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1 FROM pg_class LIMIT 1")
        commit(sink, 2, *staged(spark, sink, [(2, "b")]))
        assert reader.execute("SELECT id FROM report").fetchall() == [(1,)]

    assert replaced.read() == [(2, "b")]


def test_a_role_needs_the_right_to_delete(database: Database) -> None:
    database.execute("CREATE TABLE report (id bigint, note text)")
    database.execute("REVOKE DELETE ON report FROM CURRENT_USER")
    with pytest.raises(UnusableTable, match="does not give the role the right to DELETE"):
        by_hand.opened(PostgresqlSink("report"), database.options("report", mode="replace"))


class _Whole:
    """Lets the batches of the kit be whole results: each has the rows of those before, too."""

    def _stage(self, sink: Sink, batch: int, numbers: Sequence[int]) -> Staged:
        return super()._stage(sink, batch, range(max(numbers, default=-1) + 1))  # type: ignore[misc,no-any-return]


@pytest.mark.slow
class TestReplacedDelta(_Whole, of_delta.TestDeltaSink):
    def options(self, place: Path) -> Mapping[str, str]:
        return {"path": str(place), "mode": "replace"}


@pytest.mark.slow
class TestReplacedIceberg(_Whole, of_iceberg.TestIcebergSink):
    def options(self, place: Path) -> Mapping[str, str]:
        return self.lake.options("db.report", mode="replace")


@pytest.mark.slow
class TestReplacedInPostgresql(_Whole, of_postgresql.TestInsert):
    def options(self, place: Path) -> Mapping[str, str]:
        return self.database.options("report", mode="replace")
