"""Sinks that apply changes by key: of several changes of a key the last one counts, and deletions delete."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.transforms import BucketTransform
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.integration.sinks import by_hand
from tests.integration.sinks.by_hand import commit
from tests.integration.sinks.databases import Database
from tests.integration.sinks.lakes import Lake
from tests.integration.sinks.topics import UID, Topics

from streamjob.ids import BatchId, Epoch, OperatorUid
from streamjob.job.model.spec import SinkSpec
from streamjob.sink import SinkContext
from streamjob.store.staging import StoreStaging
from streamjob_runtime.kafka.errors import TopicMissing
from streamjob_runtime.sinks.encoding import EncodingSink
from streamjob_runtime.sinks.errors import RowsRefused, UnusableTable
from streamjob_runtime.sinks.iceberg.sink import IcebergSink
from streamjob_runtime.sinks.kafka.errors import UnusableTopic
from streamjob_runtime.sinks.postgresql.sink import PostgresqlSink

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

Change = tuple[str, int, str | None]
UPSERT = {"mode": "upsert", "key": "id"}
KINDS = ("insert", "update_preimage", "update_postimage", "delete")


def changes(spark: SparkSession, *rows: Change, parts: int = 1) -> DataFrame:
    frame = spark.createDataFrame(list(rows), "_change_type string, id bigint, note string")
    return frame.coalesce(1) if parts == 1 else frame.repartition(parts, "id").sortWithinPartitions("note")


def applied(rows: Sequence[Change]) -> dict[int, str | None]:
    """Return the table after all changes, one after the other."""
    table: dict[int, str | None] = {}
    for kind, key, note in rows:
        if kind in ("delete", "update_preimage"):
            table.pop(key, None)
        else:
            table[key] = note
    return table


def random_changes(chance: random.Random, count: int) -> list[Change]:
    return [(chance.choice(KINDS), chance.randrange(8), f"{number:04}") for number in range(count)]


def opened(database: Database, epoch: int = 1, **options: str) -> PostgresqlSink:
    return by_hand.opened(PostgresqlSink("report"), database.options("report", **(options or UPSERT)), epoch)


@pytest.fixture
def table(database: Database) -> Database:
    database.execute("CREATE TABLE report (id bigint PRIMARY KEY, note text NOT NULL)")
    return database


@pytest.mark.core
def test_a_table_is_what_all_changes_in_their_order_make_of_it(spark: SparkSession, table: Database) -> None:
    chance = random.Random(5)
    sink, rows = opened(table), random_changes(chance, 120)
    sink.check_schema(changes(spark, *rows[:1]).schema)
    batches = [rows[:30], rows[30:60], rows[60:90], rows[90:]]
    staged = [
        sink.stage(changes(spark, *batch, parts=1 + number % 2), BatchId(number))
        for number, batch in enumerate(batches)
    ]
    commit(sink, 1, *staged[:3])
    assert dict(table.execute("SELECT id, note FROM report")) == applied(rows[:90])

    commit(sink, 1, *staged[:3])
    commit(sink, 2, staged[3])
    commit(opened(table, epoch=2), 2, staged[3])
    assert dict(table.execute("SELECT id, note FROM report")) == applied(rows)


def test_a_deletion_needs_nothing_but_the_key_and_a_new_row_needs_everything(
    spark: SparkSession, table: Database
) -> None:
    sink = opened(table)
    commit(sink, 1, sink.stage(changes(spark, ("insert", 1, "a"), ("insert", 2, "b")), BatchId(0)))
    commit(sink, 2, sink.stage(changes(spark, ("delete", 1, None)), BatchId(1)))
    assert table.execute("SELECT * FROM report") == [(2, "b")]

    with pytest.raises(RowsRefused, match="check constraint"):
        sink.stage(changes(spark, ("insert", 1, None)), BatchId(2))


def test_a_unique_value_may_move_to_another_row_within_a_checkpoint(spark: SparkSession, table: Database) -> None:
    table.execute("CREATE UNIQUE INDEX ON report (note)")
    sink = opened(table)
    commit(sink, 1, sink.stage(changes(spark, ("insert", 1, "a")), BatchId(0)))
    commit(sink, 2, sink.stage(changes(spark, ("delete", 1, "a"), ("insert", 2, "a")), BatchId(1)))

    assert table.execute("SELECT * FROM report") == [(2, "a")]


def test_names_of_other_systems_are_understood_and_unknown_ones_fail_the_batch(
    spark: SparkSession, table: Database
) -> None:
    sink = opened(table)
    rows: list[Change] = [("INSERT", 1, "a"), ("UPDATE_BEFORE", 1, "a"), ("UPDATE_AFTER", 2, "b")]
    commit(sink, 1, sink.stage(changes(spark, *rows), BatchId(0)))
    assert table.execute("SELECT * FROM report") == [(2, "b")]

    with pytest.raises(
        PySparkException, match="sink report: a row has the _change_type upsert, and a change is one of"
    ):
        sink.stage(changes(spark, ("upsert", 1, "a")), BatchId(1))


def test_deletions_need_the_right_to_delete(spark: SparkSession, table: Database) -> None:
    table.execute(f"REVOKE DELETE ON report FROM {table.server.role}")
    sink = opened(table)

    with pytest.raises(UnusableTable, match="does not give the role the right to DELETE"):
        sink.check_schema(changes(spark, ("insert", 1, "a")).schema)


SPEC = {
    "name": "alerts",
    "input": "rows",
    "format": "kafka",
    "key": {"format": "json"},
    "value": {"format": "json", "options": {"ignoreNullFields": "false"}},
}


def upserting(topics: Topics, epoch: int = 1, **options: Any) -> EncodingSink:
    given = topics.options(**(options or UPSERT))
    sink = EncodingSink(SinkSpec.model_validate({**SPEC, "options": given}), topics.sink(), lambda: topics.spark, {})
    staging = StoreStaging(topics.store, UID, Epoch(epoch), topics.scratch / str(epoch))
    sink.open(SinkContext(topics.job, "default", UID, Epoch(epoch), given, staging))
    return sink


def compacted(topics: Topics) -> None:
    topics.rows += "-compacted"
    topics.server.create_topic(topics.rows, 2, cleanup_policy="compact")


def newest(topics: Topics) -> dict[int, str | None]:
    """Return what a reader has who keeps the newest value of each key."""
    found = {}
    for message in topics.read():
        found[json.loads(message.key or b"")["id"]] = message.value
    values = {key: json.loads(value) for key, value in found.items() if value is not None}
    assert all(value["id"] == key for key, value in values.items())
    return {key: value["note"] for key, value in values.items()}


@pytest.mark.core
def test_a_compacted_topic_is_what_all_changes_in_their_order_make_of_it(topics: Topics, spark: SparkSession) -> None:
    compacted(topics)
    sink, rows = upserting(topics), random_changes(random.Random(6), 90)
    sink.check_schema(changes(spark, *rows[:1]).schema)
    first = [sink.stage(changes(spark, *rows[:30]), BatchId(0)), sink.stage(changes(spark, *rows[30:60]), BatchId(1))]
    commit(sink, 1, *first)
    commit(sink, 1, *first)
    assert newest(topics) == applied(rows[:60])

    commit(sink, 2, sink.stage(changes(spark, *rows[60:]), BatchId(2)))
    assert newest(topics) == applied(rows)
    assert len(topics.read()) == 90


def test_a_key_of_one_column_is_its_text_and_rows_without_one_fail_the_batch(
    topics: Topics, spark: SparkSession
) -> None:
    compacted(topics)
    spec = SinkSpec.model_validate({**SPEC, "key": None, "options": topics.options(**UPSERT)})
    sink = EncodingSink(spec, topics.sink(), lambda: spark, {})
    staging = StoreStaging(topics.store, UID, Epoch(1), topics.scratch)
    sink.open(SinkContext(topics.job, "default", UID, Epoch(1), spec.options, staging))
    commit(sink, 1, sink.stage(spark.sql("SELECT 7 AS id, 'a' AS note"), BatchId(0)))
    assert [(message.key, message.value) for message in topics.read()] == [(b"7", b'{"id":7,"note":"a"}')]

    with pytest.raises(PySparkException, match="sink alerts: a row has NULL in its key"):
        sink.stage(spark.sql("SELECT CAST(NULL AS INT) AS id, 'a' AS note"), BatchId(1))


def test_a_topic_that_loses_rows_with_their_age_is_refused(topics: Topics) -> None:
    with pytest.raises(UnusableTopic, match="is not compacted"):
        upserting(topics)
    missing = dataclasses.replace(topics, rows="no-such-topic", sinks=topics.sinks)
    with pytest.raises(TopicMissing, match="there is no topic no-such-topic"):
        upserting(missing)


LAKE = "db.report"


def merging(lake: Lake, epoch: int = 1, **options: str) -> IcebergSink:
    sink = IcebergSink("report")
    given = lake.options(LAKE, **(options or UPSERT))
    sink.open(SinkContext("job", "default", OperatorUid("report"), Epoch(epoch), given))
    return sink


@pytest.mark.core
@pytest.mark.parametrize("partitioned", [False, True])
def test_a_lake_table_is_what_all_changes_in_their_order_make_of_it(
    spark: SparkSession, lake: Lake, partitioned: bool
) -> None:
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(3), "bucket"))
    lake.make(LAKE, spec=spec if partitioned else UNPARTITIONED_PARTITION_SPEC)
    sink, rows = merging(lake), random_changes(random.Random(7), 120)
    sink.check_schema(changes(spark, *rows[:1]).schema)
    batches = [rows[:30], rows[30:60], rows[60:90], rows[90:]]
    staged = [
        sink.stage(changes(spark, *batch, parts=1 + number % 2), BatchId(number))
        for number, batch in enumerate(batches)
    ]
    commit(sink, 1, *staged[:2])
    assert sorted(lake.rows(LAKE)) == sorted(applied(rows[:60]).items())
    commit(sink, 2, staged[2])
    commit(sink, 2, staged[2])
    assert len(lake.load(LAKE).snapshots()) == 2

    # The next process commits what is left, and removes what nobody needs.
    later = merging(lake, epoch=2)
    commit(later, 2, staged[2])
    commit(later, 3, staged[3])
    sink.stage(changes(spark, ("insert", 1, "never")), BatchId(9))
    later.abort()
    assert sorted(lake.rows(LAKE)) == sorted(applied(rows).items())
    assert lake.counted(LAKE) == len(applied(rows))
    assert lake.stray(LAKE) == []


def test_a_merge_leaves_rows_of_other_keys_and_columns_of_others_alone(spark: SparkSession, lake: Lake) -> None:
    lake.make(LAKE)
    appending = merging(lake, mode="append")
    first = spark.createDataFrame([(number, "old") for number in range(100)], "id bigint, note string").coalesce(1)
    commit(appending, 1, appending.stage(first, BatchId(0)))
    sink = merging(lake, epoch=2)
    commit(sink, 2, sink.stage(changes(spark, ("update_postimage", 7, "new"), ("delete", 9, None)), BatchId(1)))

    expected = {**dict.fromkeys(range(100), "old"), 7: "new"}
    del expected[9]
    assert dict(lake.rows(LAKE)) == expected


def test_a_change_without_a_key_is_refused_before_a_checkpoint_covers_it(spark: SparkSession, lake: Lake) -> None:
    lake.make(LAKE)
    sink = merging(lake)
    keyless = spark.createDataFrame([("insert", None, "a")], "_change_type string, id bigint, note string")

    with pytest.raises(RowsRefused, match="the column 'id' is part of the key, and has NULL, in the row"):
        sink.stage(keyless, BatchId(0))
    with pytest.raises(UnusableTable, match="has no column 'ident' for the key"):
        merging(lake, mode="upsert", key="ident").check_schema(changes(spark, ("insert", 1, "a")).schema)
