"""The journal of a Delta sink that publishes each batch: the table's own log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from tests.integration.sinks import by_hand
from tests.integration.sinks.by_hand import commit

from streamjob.ids import BatchId, CheckpointId, Epoch
from streamjob.journal import JournalRecord, published_marker
from streamjob.sink import Measured, PublishesBatches
from streamjob_runtime.sinks.delta.journal import JournalCut
from streamjob_runtime.sinks.delta.sink import DeltaSink
from streamjob_runtime.sinks.errors import OthersPublish

pytestmark = [pytest.mark.spark, pytest.mark.slow]

UPSERT = {"mode": "upsert", "key": "id"}


def opened(
    path: Path, epoch: int = 1, options: Mapping[str, str] | None = None, *, publishes: bool = True
) -> DeltaSink:
    sink = DeltaSink("report", publishes_batches=publishes)
    return by_hand.opened(sink, {"path": str(path), **(options or {})}, epoch)


def publish(sink: DeltaSink, rows: DataFrame, batch: int, *, always: bool = False) -> JournalRecord | None:
    sink.check_schema(rows.schema)
    return sink.publish(rows, record_of(batch), always=always)


def record_of(batch: int) -> Callable[[Measured], JournalRecord]:
    return lambda found: JournalRecord(epoch=Epoch(1), batch=BatchId(batch), plans={}, rows=found.rows, hash=found.hash)


def covered(sink: DeltaSink, checkpoint: int, *batches: int) -> None:
    sink.commit(CheckpointId(checkpoint), [published_marker(BatchId(each)) for each in batches])


def batches(sink: DeltaSink) -> list[int]:
    """Return the batches in the journal of a process that takes it."""
    sink.take_journal()
    return sorted(each.batch for each in sink.journal())


def clean_up(path: Path, most: int = -1) -> None:
    """Remove versions from the log, which a checkpoint has: all but the last, or so many."""
    DeltaTable(str(path)).create_checkpoint()
    for file in sorted((path / "_delta_log").glob("*.json"))[:most]:
        file.unlink()


def ids(path: Path) -> list[int]:
    return sorted(DeltaTable(str(path)).to_pyarrow_table().column("id").to_pylist())


@pytest.mark.parametrize("options", [{}, UPSERT], ids=["append", "upsert"])
def test_rows_and_their_record_are_there_at_once_until_a_checkpoint_covers_them(
    spark: SparkSession, tmp_path: Path, options: Mapping[str, str]
) -> None:
    path = tmp_path / "t"
    sink = opened(path, 1, options)
    assert isinstance(sink, PublishesBatches)
    assert sink.journal_id() is None
    made = [publish(sink, spark.range(3 * n, 3 * n + 3), n) for n in range(4)]
    assert publish(sink, spark.range(0), 4) is None
    assert publish(sink, spark.range(0), 5, always=True) is not None

    assert ids(path) == list(range(12))
    assert sink.journal_id() == sink.target_id()
    second = opened(path, 2, options)
    second.take_journal()
    found = {each.batch: each for each in second.journal()}
    assert {n: found[BatchId(n)] for n in range(4)} == dict(enumerate(made))
    assert [second.measure(spark.range(3 * n, 3 * n + 3)) for n in range(4)] == [
        Measured(found[BatchId(n)].rows, found[BatchId(n)].hash) for n in range(4)
    ]
    covered(second, 7, 1, 2)
    assert (batches(second), second.journal_id()) == ([3, 5], sink.target_id())
    assert opened(path, 3, options).newest_published() == 7
    covered(second, 8, 3, 5)
    assert batches(second) == []
    publish(second, spark.range(12, 13), 6)
    assert batches(opened(path, 3, options)) == [6]
    assert ids(path) == list(range(13))


def test_what_is_staged_beside_published_batches_is_committed_with_their_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    sink = opened(path)
    publish(sink, spark.range(3), 0)
    staged = sink.stage(spark.range(3, 5), BatchId(1))
    committables = [published_marker(BatchId(0)), staged.committable]

    for epoch in (1, 2):
        opened(path, epoch).commit(CheckpointId(1), committables)

    assert ids(path) == list(range(5))
    assert batches(opened(path, 3)) == []


def test_a_process_behind_which_another_one_publishes_neither_publishes_nor_forgets(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    first = opened(path)
    publish(first, spark.range(1), 8)
    second = opened(path, 2)
    assert batches(second) == [8]
    assert second.drop_journal() == 1
    publish(second, spark.range(1, 2), 8)

    with pytest.raises(OthersPublish):
        publish(first, spark.range(2, 3), 9)
    with pytest.raises(OthersPublish):
        covered(first, 5, 8)
    assert batches(second) == [8]
    assert ids(path) == [0, 1]


def test_a_sink_that_never_published_a_batch_has_no_journal_and_makes_no_version(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    by_checkpoint = opened(path, publishes=False)
    by_checkpoint.check_schema(spark.range(1).schema)
    commit(by_checkpoint, 1, by_checkpoint.stage(spark.range(1), BatchId(0)))
    again = opened(path, 2, publishes=False)
    assert again.journal_id() is None
    assert DeltaTable(str(path)).version() == 1

    publishing = opened(path, 3)
    assert (batches(publishing), publishing.journal_id()) == ([], again.target_id())
    publish(publishing, spark.range(1, 2), 1)
    back = opened(path, 4, publishes=False)
    assert (batches(back), back.journal_id()) == ([1], again.target_id())


def test_records_are_found_behind_many_versions_of_others(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = opened(path)
    publish(sink, spark.range(1), 0)
    for number in range(1, 120):
        write_deltalake(str(path), spark.range(number, number + 1).toPandas(), mode="append")
    publish(sink, spark.range(120, 121), 1)

    assert batches(opened(path, 2)) == [0, 1]


def test_a_log_without_the_versions_that_may_have_records_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = opened(path)
    for number in range(4):
        publish(sink, spark.range(1), number)
    clean_up(path, most=3)

    with pytest.raises(JournalCut, match="the table's log begins with version 3"):
        opened(path, 2).journal()

    covered(sink, 1, 0, 1, 2)
    assert batches(opened(path, 2)) == [3]


def test_a_log_that_was_cleaned_up_is_no_error_if_no_record_counts_or_none_is_to(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    sink = opened(path)
    publish(sink, spark.range(1), 0)
    covered(sink, 1, 0)
    clean_up(path)
    assert batches(opened(path, 2)) == []

    third = opened(path, 3)
    third.take_journal()
    publish(third, spark.range(1), 1)
    clean_up(path)
    fourth = opened(path, 4)
    fourth.take_journal()
    with pytest.raises(JournalCut):
        fourth.journal()
    assert fourth.drop_journal() == 1
    assert batches(fourth) == []


def test_a_process_that_slept_while_another_one_made_the_table_leaves_its_records(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    slow, quick = opened(path), opened(path, 2)
    publish(quick, spark.range(1), 0)
    slow.check_schema(spark.range(1).schema)

    assert batches(opened(path, 3)) == [0]


def test_a_process_behind_another_one_does_not_empty_its_journal(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    publish(opened(path), spark.range(1), 0)
    slow, quick = opened(path, 2), opened(path, 3)
    slow.take_journal()
    assert batches(quick) == [0]

    with pytest.raises(OthersPublish):
        slow.drop_journal()
    assert batches(quick) == [0]


VALUES = [
    "cast(null AS string)", "double('NaN')", "-0.0D", "float('-Infinity')", "X'00FF'", "date'0001-01-01'",
    "timestamp'1883-11-18 12:03:57.123456'", "timestamp_ntz'2026-03-29 02:30:00.5'", "-9223372036854775808L - 0",
    "cast('99999999999999999999999999999999999999' AS decimal(38,0))", "array(1, null)", "map('a', map(1, null))",
    "named_struct('a.b', map('x', 1), 'c', array())", "''", "'☃'", "map(X'FF', 1)", "array(array(1), array(2, 3))",
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_each_value_has_the_hash_of_its_batch_when_it_runs_again(
    spark: SparkSession, tmp_path: Path, value: str
) -> None:
    rows = spark.sql(f"SELECT {value} AS `a.b` UNION ALL SELECT null")
    sink = opened(tmp_path / "t")
    record = sink.measure(rows)
    assert record.rows == 2
    assert sink.measure(rows.repartition(3)) == record
    assert sink.measure(rows.limit(1)) != record


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("null, 5", "5, null"),
        ("array(array(1, 2), array(3))", "array(array(1), array(2, 3))"),
        ("array(1, null)", "array(1)"),
        ("map(1, 2)", "map(2, 1)"),
        ("'a', 'b'", "'ab', ''"),
    ],
)
def test_other_rows_have_another_hash(spark: SparkSession, tmp_path: Path, one: str, other: str) -> None:
    sink = opened(tmp_path / "t")
    assert sink.measure(spark.sql(f"SELECT {one}")) != sink.measure(spark.sql(f"SELECT {other}"))
