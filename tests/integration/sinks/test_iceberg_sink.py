"""The Iceberg sink on real servers: values, partitions, other writers, lost answers, and tables that changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)
from pyspark.sql import DataFrame, SparkSession
from tests.integration.sinks import by_hand
from tests.integration.sinks.by_hand import commit, staged_in
from tests.integration.sinks.damage import flip_a_bit
from tests.integration.sinks.lakes import Lake

from streamjob.ids import BatchId, CheckpointId
from streamjob_runtime.lakes.iceberg_catalogs import CatalogUnreachable
from streamjob_runtime.sinks.errors import (
    CommitContended,
    StagedRowsGone,
    UnreadableCommittable,
    UnreadableRecord,
    UnusableTable,
)
from streamjob_runtime.sinks.iceberg.sink import IcebergSink

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

TABLE = "db.report"
ROW = (1, "a")


def opened(options: Mapping[str, str], epoch: int = 1, job: str = "job") -> IcebergSink:
    return by_hand.opened(IcebergSink("report", wait=lambda seconds: None), options, epoch, job)


def numbered(spark: SparkSession, *rows: tuple[int, str | None]) -> DataFrame:
    return spark.createDataFrame(list(rows), "id bigint, note string").coalesce(1)


@pytest.fixture
def table(lake: Lake) -> Lake:
    lake.make(TABLE)
    return lake


VALUES: list[tuple[str, Any, Any]] = [
    ("'naïve☃'", StringType(), "naïve☃"),
    ("cast(7 AS tinyint)", LongType(), 7),
    ("-9223372036854775808", LongType(), -(2**63)),
    ("cast(0.1 AS float)", DoubleType(), pytest.approx(0.1)),
    ("double('-Infinity')", DoubleType(), float("-inf")),
    ("cast('0.01' AS decimal(4,2))", DecimalType(20, 10), Decimal("0.0100000000")),
    ("date'0001-01-01'", DateType(), date(1, 1, 1)),
    (
        "timestamp'1883-11-18 12:03:57.123456+00:00'",
        TimestamptzType(),
        datetime(1883, 11, 18, 12, 3, 57, 123456, tzinfo=UTC),
    ),
    ("timestamp_ntz'2026-03-29 02:30:00.5'", TimestampType(), datetime(2026, 3, 29, 2, 30, 0, 500000)),
    ("X'00FF0A'", BinaryType(), b"\x00\xff\n"),
    ("X'00FF'", FixedType(2), b"\x00\xff"),
    (
        "'A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11'",
        UUIDType(),
        UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ),
    ("array('a', null)", ListType(100, StringType(), element_required=False), ["a", None]),
    (
        "map('x', timestamp'2026-01-01 00:00:00+00:00')",
        MapType(101, StringType(), 102, TimestamptzType(), value_required=False),
        [("x", datetime(2026, 1, 1, tzinfo=UTC))],
    ),
    (
        "named_struct('a', 1, 'b', array(named_struct('c', 1.5D)))",
        StructType(
            NestedField(103, "a", LongType(), required=False),
            NestedField(
                104,
                "b",
                ListType(105, StructType(NestedField(106, "c", DoubleType(), required=False)), element_required=False),
                required=False,
            ),
        ),
        {"a": 1, "b": [{"c": 1.5}]},
    ),
    ("null", StringType(), None),
]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_every_value_arrives_as_it_is(spark: SparkSession, lake: Lake, zone: str) -> None:
    columns = [NestedField(n + 1, f"c{n}", kind, required=False) for n, (_, kind, _) in enumerate(VALUES)]
    lake.make(TABLE, Schema(*columns, NestedField(99, "not_given", LongType(), required=False)))
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        sink = opened(lake.options(TABLE))
        given = ", ".join(f"{value} AS c{n}" for n, (value, _, _) in enumerate(VALUES))
        nulls = ", ".join(f"if(false, {value}, null) AS c{n}" for n, (value, _, _) in enumerate(VALUES))
        commit(sink, 1, staged_in(sink, spark.sql(f"SELECT {given}")), staged_in(sink, spark.sql(f"SELECT {nulls}"), 1))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    rows = sorted(lake.rows(TABLE), key=lambda row: row[0] is None)
    assert list(rows[0]) == [*(expected for _, _, expected in VALUES), None]
    assert rows[1] == (None,) * (len(VALUES) + 1)


AT = "timestamp'1969-12-31 22:30:00+00:00'"
PARTITIONS: list[tuple[Any, Transform[Any, Any], str, Any]] = [
    (LongType(), IdentityTransform(), "5", 5),
    (LongType(), IdentityTransform(), "cast(null AS bigint)", None),
    (LongType(), BucketTransform(16), "34L", 3),  # as the specification says in its appendix B
    (StringType(), BucketTransform(100), "'iceberg'", 1210000089 % 100),
    (LongType(), TruncateTransform(10), "-1L", -10),
    (StringType(), TruncateTransform(3), "'iceberg'", "ice"),
    (StringType(), IdentityTransform(), "'a/b =c'", "a/b =c"),
    (DateType(), MonthTransform(), "date'1969-12-31'", -1),
    (DateType(), IdentityTransform(), "date'1970-01-02'", date(1970, 1, 2)),
    (TimestamptzType(), YearTransform(), AT, -1),
    (TimestamptzType(), MonthTransform(), AT, -1),
    (TimestamptzType(), DayTransform(), AT, date(1969, 12, 31)),
    (TimestamptzType(), HourTransform(), AT, -2),
    (TimestampType(), DayTransform(), "timestamp_ntz'2026-03-29 02:30:00'", date(2026, 3, 29)),
    (DecimalType(10, 2), IdentityTransform(), "cast('-1.50' AS decimal(10,2))", Decimal("-1.50")),
]


def test_files_are_in_the_partitions_that_the_table_says(spark: SparkSession, lake: Lake) -> None:
    for number, (kind, transform, value, expected) in enumerate(PARTITIONS):
        name = f"db.t{number}"
        schema = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "c", kind, required=False))
        lake.make(name, schema, PartitionSpec(PartitionField(2, 1000, transform, "part")))
        sink = opened(lake.options(name))
        commit(sink, 1, staged_in(sink, spark.sql(f"SELECT 1L AS id, {value} AS c")))

        (file,) = lake.load(name).inspect.files().to_pylist()
        assert file["partition"]["part"] == expected, (kind, transform)
        assert len(lake.rows(name)) == 1


def test_a_batch_is_split_among_the_partitions_that_its_rows_belong_to(spark: SparkSession, lake: Lake) -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "note", StringType()))
    lake.make(TABLE, schema, PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "note")))
    sink = opened(lake.options(TABLE))
    rows = spark.range(9, numPartitions=3).selectExpr("id", "if(id % 3 = 2, null, string(id % 3)) AS note")
    commit(sink, 1, staged_in(sink, rows))

    files = lake.load(TABLE).inspect.files().to_pylist()
    assert {file["partition"]["note"]: file["record_count"] for file in files} == {"0": 3, "1": 3, None: 3}
    assert len(files) == 3
    found = lake.load(TABLE).scan("note = '1'").to_arrow().to_pydict()["id"]
    assert sorted(found) == [1, 4, 7]


@pytest.mark.core
def test_a_checkpoint_is_one_snapshot_that_says_whose_it_is_and_a_small_batch_one_file(
    spark: SparkSession, table: Lake
) -> None:
    sink = opened(table.options(TABLE), epoch=3)
    rows = spark.range(40, numPartitions=8).selectExpr("id", "'x' AS note")
    commit(sink, 7, staged_in(sink, rows), staged_in(sink, numbered(spark, (50, "y")), 1))

    loaded = table.load(TABLE)
    (snapshot,) = loaded.metadata.snapshots
    assert snapshot.summary is not None
    said = snapshot.summary.additional_properties
    assert {name: said[f"streamjob.{name}"] for name in ("namespace", "job", "sink", "epoch", "checkpoint")} == {
        "namespace": "default",
        "job": "job",
        "sink": "report",
        "epoch": "3",
        "checkpoint": "7",
    }
    assert len(table.files(TABLE)) == 2
    (first, _) = sorted(loaded.inspect.files().to_pylist(), key=lambda file: -file["record_count"])
    assert (first["record_count"], first["readable_metrics"]["id"]["upper_bound"]) == (40, 39)
    assert first["sort_order_id"] is None


def test_a_batch_of_many_rows_over_many_tasks_is_complete(spark: SparkSession, table: Lake) -> None:
    rows = spark.range(600_000, numPartitions=3).selectExpr("id", "repeat('x', 20) AS note")
    sink = opened(table.options(TABLE))
    staged = staged_in(sink, rows)
    commit(sink, 1, staged)

    assert (staged.rows, table.counted(TABLE), len(table.files(TABLE))) == (600_000, 600_000, 3)


def test_null_in_a_required_column_fails_the_batch_and_leaves_nothing_for_the_next_epoch(
    spark: SparkSession, table: Lake
) -> None:
    sink = opened(table.options(TABLE))
    with pytest.raises(Exception, match="the column 'id' is required, and has NULL, in the row"):
        sink.stage(spark.sql("SELECT cast(null AS bigint) AS id, 'a' AS note"), BatchId(0))
    opened(table.options(TABLE), epoch=2).abort()

    assert table.files(TABLE) == []


def interposed(monkeypatch: pytest.MonkeyPatch, *acts: Callable[[Callable[[], Any]], Any]) -> list[int]:
    """Let the first commits to the catalog go as the acts say; return a list with an entry for each commit."""
    original, calls = SqlCatalog.commit_table, list[int]()

    def commit_table(self: SqlCatalog, *arguments: Any) -> Any:
        calls.append(len(calls))
        if len(calls) <= len(acts):
            return acts[len(calls) - 1](lambda: original(self, *arguments))
        return original(self, *arguments)

    monkeypatch.setattr(SqlCatalog, "commit_table", commit_table)
    return calls


def answer_lost(go: Callable[[], Any]) -> Any:
    go()
    raise CommitStateUnknownException("502")


def never_arrived(go: Callable[[], Any]) -> Any:
    raise ConnectionResetError("reset")


@pytest.mark.core
@pytest.mark.parametrize("act", [answer_lost, never_arrived])
def test_a_commit_of_unknown_outcome_happens_once(
    spark: SparkSession, table: Lake, monkeypatch: pytest.MonkeyPatch, act: Callable[[Callable[[], Any]], Any]
) -> None:
    sink = opened(table.options(TABLE))
    staged = staged_in(sink, numbered(spark, ROW))
    calls = interposed(monkeypatch, act)
    commit(sink, 1, staged)

    assert table.rows(TABLE) == [ROW]
    assert len(calls) == (1 if act is answer_lost else 2)


def test_a_commit_that_was_on_its_way_when_the_job_died_is_not_repeated_when_it_arrives_late(
    spark: SparkSession, table: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = opened(table.options(TABLE))
    staged = staged_in(former, numbered(spark, ROW))
    late: list[Callable[[], Any]] = []

    def held_up(go: Callable[[], Any]) -> Any:
        late.append(go)
        raise ConnectionResetError("reset")

    interposed(monkeypatch, held_up, lambda go: (late[0](), go()))
    commit(former, 1, staged)

    assert table.rows(TABLE) == [ROW]
    assert table.stray(TABLE) == []


@pytest.mark.core
def test_other_writers_may_commit_in_between(spark: SparkSession, table: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, other = opened(table.options(TABLE)), opened(table.options(TABLE), job="other")
    theirs = [staged_in(other, numbered(spark, (10 + n, "b")), n) for n in range(2)]

    def raced(number: int) -> Callable[[Callable[[], Any]], Any]:
        def act(go: Callable[[], Any]) -> Any:
            commit(other, number + 1, theirs[number])
            return go()

        return act

    staged = staged_in(sink, numbered(spark, ROW))
    # A commit of theirs is counted, too.
    interposed(monkeypatch, raced(0), lambda go: go(), raced(1))
    commit(sink, 1, staged)

    assert sorted(table.rows(TABLE)) == [ROW, (10, "b"), (11, "b")]
    assert table.stray(TABLE) == []


def test_a_table_that_others_change_all_the_time_is_an_error_that_says_so(
    spark: SparkSession, table: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened(table.options(TABLE))
    staged = staged_in(sink, numbered(spark, ROW))

    def refused(*_: Any) -> Any:
        raise CommitFailedException("changed")

    with monkeypatch.context() as patch:
        patch.setattr(SqlCatalog, "commit_table", refused)
        with pytest.raises(CommitContended, match=r"others changed table db\.report each time"):
            commit(sink, 1, staged)
    commit(opened(table.options(TABLE), epoch=2), 1, staged)

    assert table.rows(TABLE) == [ROW]


def test_what_was_published_is_known_when_its_snapshot_has_expired(spark: SparkSession, table: Lake) -> None:
    sink, other = opened(table.options(TABLE)), opened(table.options(TABLE), job="other")
    staged = staged_in(sink, numbered(spark, ROW))
    commit(sink, 1, staged)
    with table.catalog() as catalog:
        catalog.load_table(TABLE).delete()
    commit(other, 1, staged_in(other, numbered(spark, (2, "b"))))
    with table.catalog() as catalog:
        loaded = catalog.load_table(TABLE)
        loaded.maintenance.expire_snapshots().older_than(datetime.now(UTC).replace(tzinfo=None)).commit()
    assert len(table.load(TABLE).metadata.snapshots) == 1

    again = opened(table.options(TABLE), epoch=2)
    commit(again, 1, staged)
    again.abort()

    assert table.rows(TABLE) == [(2, "b")]


def test_a_checkpoint_from_before_many_others_is_still_known(spark: SparkSession, table: Lake) -> None:
    sink = opened(table.options(TABLE))
    staged = [staged_in(sink, numbered(spark, (n, "a")), n) for n in range(4)]
    for number, each in enumerate(staged):
        commit(sink, number + 1, each)
    restored = opened(table.options(TABLE), epoch=2)
    commit(restored, 1, staged[0])
    restored.abort()

    assert sorted(table.rows(TABLE)) == [(n, "a") for n in range(4)]


def test_a_job_that_begins_anew_under_its_name_publishes_its_first_checkpoint_again(
    spark: SparkSession, table: Lake
) -> None:
    for _ in range(2):
        sink = opened(table.options(TABLE))
        sink.abort()
        commit(sink, 1, staged_in(sink, numbered(spark, ROW)))

    assert table.rows(TABLE) == [ROW, ROW]


def test_the_committable_of_another_job_is_refused(spark: SparkSession, table: Lake) -> None:
    staged = staged_in(opened(table.options(TABLE)), numbered(spark, ROW))
    with pytest.raises(UnreadableCommittable, match="is not this sink's"):
        commit(opened(table.options(TABLE), job="other"), 1, staged)


def test_two_sinks_of_one_table_do_not_know_each_others_files(spark: SparkSession, table: Lake) -> None:
    first, second = opened(table.options(TABLE)), opened(table.options(TABLE), job="other")
    staged = staged_in(first, numbered(spark, ROW))
    commit(second, 1, staged_in(second, numbered(spark, (2, "b"))))
    opened(table.options(TABLE), epoch=2, job="other").abort()
    commit(first, 1, staged)

    assert sorted(table.rows(TABLE)) == [ROW, (2, "b")]


def test_a_table_that_was_made_anew_has_another_id(table: Lake) -> None:
    before = opened(table.options(TABLE)).target_id()
    assert opened(table.options(TABLE), epoch=2).target_id() == before
    with table.catalog() as catalog:
        catalog.drop_table(TABLE)
    table.make(TABLE)

    assert opened(table.options(TABLE), epoch=3).target_id() not in (None, before)


def test_a_table_that_was_made_anew_is_an_error_that_names_the_checkpoint(spark: SparkSession, table: Lake) -> None:
    sink = opened(table.options(TABLE))
    staged = staged_in(sink, numbered(spark, ROW))
    with table.catalog() as catalog:
        catalog.drop_table(TABLE)
    table.make(TABLE)
    with pytest.raises(StagedRowsGone, match=r"table db\.report is another one .* rows of checkpoint 4 are due"):
        commit(opened(table.options(TABLE), epoch=2), 4, staged)


def test_data_files_that_are_gone_are_an_error_and_not_added(spark: SparkSession, table: Lake) -> None:
    staged = staged_in(opened(table.options(TABLE)), numbered(spark, ROW))
    later = opened(table.options(TABLE), epoch=2)
    later.abort()
    with pytest.raises(StagedRowsGone, match=r"rows of checkpoint 1 are neither part of table db\.report nor in"):
        commit(later, 1, staged)
    assert table.rows(TABLE) == []


def test_a_change_with_a_changed_bit_is_an_error_and_not_merged(spark: SparkSession, table: Lake) -> None:
    sink = opened(table.options(TABLE, mode="upsert", key="id"))
    staged = staged_in(sink, numbered(spark, ROW))
    (file,) = table.stray(TABLE)
    flip_a_bit(Path(file.removeprefix("file://")))
    with pytest.raises(StagedRowsGone, match=r"nor in .*/changes-.*\.parquet, whose SHA-256 is"):
        commit(sink, 1, staged)
    assert table.rows(TABLE) == []


def test_files_that_an_older_version_staged_without_a_hash_are_added(spark: SparkSession, table: Lake) -> None:
    sink = opened(table.options(TABLE))
    committable = json.loads(json.dumps(staged_in(sink, numbered(spark, ROW)).committable))
    for file in committable["files"]:
        del file["sha256"]
    sink.commit(CheckpointId(1), [committable])
    assert table.rows(TABLE) == [ROW]


def test_a_damaged_record_of_commits_is_an_error_that_names_it(spark: SparkSession, table: Lake) -> None:
    sink = opened(table.options(TABLE))
    commit(sink, 1, staged_in(sink, numbered(spark, ROW)))
    with table.catalog() as catalog, catalog.load_table(TABLE).transaction() as change:
        change.set_properties(
            {name: "{" for name in catalog.load_table(TABLE).properties if name.startswith("streamjob")}
        )
    with pytest.raises(
        UnreadableRecord, match=r"table db\.report: the property streamjob\.published\..* cannot be read"
    ):
        opened(table.options(TABLE), epoch=2)


def test_files_keep_their_partitions_when_the_table_gets_others(spark: SparkSession, lake: Lake) -> None:
    lake.make(TABLE, spec=PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "bucket")))
    sink = opened(lake.options(TABLE))
    before = staged_in(sink, numbered(spark, ROW))
    with lake.catalog() as catalog, catalog.load_table(TABLE).update_spec() as update:
        update.remove_field("bucket").add_field("note", IdentityTransform(), "note_part")
    with lake.catalog() as catalog, catalog.load_table(TABLE).update_schema() as change:
        change.add_column("more", LongType())
    later = opened(lake.options(TABLE), epoch=2)
    commit(later, 1, before)
    commit(later, 2, staged_in(later, numbered(spark, (2, "b"))))

    assert sorted(lake.rows(TABLE)) == [(1, "a", None), (2, "b", None)]
    assert [len(lake.load(TABLE).scan(f"id = {n}").to_arrow()) for n in (1, 2)] == [1, 1]
    assert lake.load(TABLE).spec().fields[0].name == "note_part"


def test_without_the_property_nothing_that_is_part_of_the_table_is_removed(spark: SparkSession, table: Lake) -> None:
    sink = opened(table.options(TABLE))
    commit(sink, 1, staged_in(sink, numbered(spark, ROW)))
    staged_in(sink, numbered(spark, (2, "never")), 1)
    with table.catalog() as catalog:
        loaded = catalog.load_table(TABLE)
        own = [name for name in loaded.properties if name.startswith("streamjob.")]
        with loaded.transaction() as transaction:
            transaction.remove_properties(*own)
    opened(table.options(TABLE), epoch=2).abort()

    assert table.rows(TABLE) == [ROW]
    assert table.stray(TABLE) == []


def test_a_table_is_made_on_request_for_the_rows_that_come(spark: SparkSession, lake: Lake) -> None:
    options = lake.options("new.space.report", createTable="true")
    rows = spark.sql(
        "SELECT 1 AS id, timestamp'2026-01-01 00:00:00+00:00' AS at, array(named_struct('a', 1.5BD)) AS deep"
    )
    sink = opened(options)
    sink.abort()
    commit(sink, 1, staged_in(sink, rows))
    again = opened(options, epoch=2)
    commit(again, 2, staged_in(again, rows))

    expected = (1, datetime(2026, 1, 1, tzinfo=UTC), [{"a": Decimal("1.5")}])
    assert lake.rows("new.space.report") == [expected, expected]


def test_rows_that_do_not_fit_are_refused_before_the_first(spark: SparkSession, table: Lake) -> None:
    with pytest.raises(UnusableTable) as raised:
        opened(table.options(TABLE)).check_schema(spark.sql("SELECT 1.5D AS id, 'x' AS not").schema)

    assert "column 'id' of type long, which does not hold DOUBLE as it is" in raised.value.what
    assert "has no column 'not'" in raised.value.what
    assert "did you mean 'note'?" in raised.value.fix


@pytest.mark.core
def test_in_a_bucket_files_are_staged_added_and_removed(spark: SparkSession, bucket_lake: Lake) -> None:
    bucket_lake.make(TABLE)
    sink = opened(bucket_lake.options(TABLE))
    commit(sink, 1, staged_in(sink, numbered(spark, ROW)))
    due = staged_in(sink, spark.range(200_000, numPartitions=2).selectExpr("id + 2 AS id", "'y' AS note"), 1)
    staged_in(sink, numbered(spark, (-1, "never")), 2)
    assert len(bucket_lake.stray(TABLE)) == 3
    later = opened(bucket_lake.options(TABLE), epoch=2)
    commit(later, 2, due)
    later.abort()

    assert bucket_lake.counted(TABLE) == len(bucket_lake.rows(TABLE)) == 200_001
    assert bucket_lake.stray(TABLE) == []
    assert len(bucket_lake.files(TABLE)) == 3


def test_the_password_is_in_nothing_that_is_stored_or_shown(
    spark: SparkSession, bucket_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket_lake.make(TABLE)
    password = bucket_lake.database.server.password
    sink = opened(bucket_lake.options(TABLE))
    staged = staged_in(sink, numbered(spark, ROW))

    def failing(*_: Any) -> Any:
        raise RuntimeError(f"could not reach postgresql://writer:{password}@host, key testtest")

    with monkeypatch.context() as patch:
        patch.setattr(SqlCatalog, "commit_table", failing)
        with pytest.raises(CatalogUnreachable) as raised:
            commit(sink, 1, staged)
    commit(sink, 1, staged)
    loaded = bucket_lake.load(TABLE)

    shown = f"{raised.value} {staged.committable} {sink.__dict__['_options']!r} {loaded.metadata.model_dump_json()}"
    assert password not in shown
    assert "testtest" not in shown
