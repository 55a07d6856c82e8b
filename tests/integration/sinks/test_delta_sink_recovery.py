"""What the Delta sink tells about commits: the newest one, damage to rows that are due, and these rows as a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from tests.integration.sinks.by_hand import commit
from tests.integration.sinks.damage import flip_a_bit
from tests.integration.sinks.test_delta_sink import opened, staged
from tests.integration.sinks.test_delta_sink_conformance import stray

from streamjob.errors import StreamJobError
from streamjob.ids import CheckpointId, Epoch, OperatorUid
from streamjob.sink import KnowsPublished, Rescues, SinkContext, Staged, StagedRowsGone, Verifies
from streamjob_runtime.sinks.delta.sink import DeltaSink
from streamjob_runtime.sinks.errors import UnusableTable

pytestmark = pytest.mark.spark


def problems(options: Mapping[str, str], checkpoint: int, *batches: Staged) -> list[StreamJobError]:
    sink = DeltaSink("report")
    assert isinstance(sink, Verifies)
    context = SinkContext("job", "default", OperatorUid("report"), Epoch(0), options)
    return list(sink.verify(context, CheckpointId(checkpoint), [batch.committable for batch in batches]))


def rescued(sink: DeltaSink, file: Path, batches: Sequence[Staged]) -> list[object]:
    assert isinstance(sink, Rescues)
    count = sink.rescue(CheckpointId(9), [batch.committable for batch in batches], file)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert count == len(lines)
    return lines


@pytest.mark.parametrize("upsert", [{}, {"mode": "upsert", "key": "id"}])
def test_the_checkpoint_that_was_committed_last_is_known_as_long_as_the_table_is_there(
    spark: SparkSession, tmp_path: Path, upsert: Mapping[str, str]
) -> None:
    path = tmp_path / "t"
    options = {"path": str(path), **upsert}
    sink = opened(options)
    assert isinstance(sink, KnowsPublished)
    assert sink.newest_published() is None
    batches = staged(sink, spark.range(3), spark.range(3, 5))
    assert opened(options).newest_published() is None
    commit(sink, 50, batches[0])
    assert opened(options, epoch=2).newest_published() == 50
    # Another location of the same job has begun at 1 again, with an older version: the newest record counts.
    commit(sink, 4, batches[1])
    # Neither the history nor the files of the log are needed.
    DeltaTable(str(path)).create_checkpoint()
    for number in range(3):
        (path / "_delta_log" / f"{number:020}.json").unlink()

    assert opened(options, epoch=2).newest_published() == 4


@pytest.mark.parametrize("upsert", [{}, {"mode": "upsert", "key": "id"}])
def test_damage_to_rows_that_are_due_is_found_without_opening_the_sink(
    spark: SparkSession, tmp_path: Path, upsert: Mapping[str, str]
) -> None:
    options = {"path": str(tmp_path / "t"), **upsert}
    assert problems(options, 1) == []
    sink = opened(options)
    first, second = staged(sink, spark.range(3), spark.range(3, 5))
    commit(sink, 1, first)
    before = sorted(tmp_path.rglob("*"))
    assert problems(options, 1, first) == problems(options, 2, second) == []
    assert sorted(tmp_path.rglob("*")) == before

    (file,) = stray(tmp_path / "t")
    flip_a_bit(file)
    (damaged,) = problems(options, 2, second)
    assert isinstance(damaged, StagedRowsGone)
    assert "rows of checkpoint 2 are neither part of the table nor in streamjob/" in damaged.what
    assert "whose SHA-256 is" in damaged.what
    file.unlink()
    (gone,) = problems(options, 2, second)
    assert isinstance(gone, StagedRowsGone)
    assert "SHA-256" not in gone.what


def test_files_that_a_commit_removes_meanwhile_are_not_missing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"path": str(tmp_path / "t"), "mode": "upsert", "key": "id"}
    sink = opened(options)
    batches = staged(sink, spark.range(3))
    real = DeltaSink._check_presence

    def after_a_commit(self: DeltaSink, *args: object) -> None:
        monkeypatch.setattr(DeltaSink, "_check_presence", real)
        commit(sink, 1, *batches)
        real(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(DeltaSink, "_check_presence", after_a_commit)
    assert problems(options, 1, *batches) == []
    assert stray(tmp_path / "t") == []


def test_rows_that_a_changed_table_does_not_take_go_to_a_file_with_every_value(
    spark: SparkSession, tmp_path: Path
) -> None:
    options = {"path": str(tmp_path / "t")}
    parts = ("number", "price", "flag", "ratio", "day", "note")
    sink = opened(options, *parts)
    whole = spark.sql(
        "SELECT 1L AS id, double('NaN') AS x, map('a', 1.5D) AS named, X'00FF' AS raw, "
        "timestamp'2026-07-01 12:30:00.500001+00:00' AS at, array(null, 'ü') AS texts, 7 AS number, "
        "cast('12345678901234567.01' AS decimal(38,2)) AS price, true AS flag, double('-Infinity') AS ratio, "
        "date'0001-01-01' AS day, 'a b' AS note"
    )
    empty = spark.createDataFrame([], whole.schema).unionByName(spark.sql("SELECT 2L AS id"), allowMissingColumns=True)
    committed, *due = staged(sink, whole.limit(1), whole, empty)
    commit(sink, 1, committed)
    rows = [
        {
            "id": 1,
            "x": "NaN",
            "named": {"a": 1.5},
            "raw": "AP8=",
            "at": "2026-07-01T12:30:00.500001Z",
            "texts": [None, "ü"],
            "number": 7,
            "price": "12345678901234567.01",
            "flag": True,
            "ratio": "-Infinity",
            "day": "0001-01-01",
            "note": "a b",
        },
        {"id": 2, **dict.fromkeys(whole.columns[1:])},
    ]
    other = whole.withColumn("id", whole.note).toArrow()
    write_deltalake(tmp_path / "t", other, mode="overwrite", schema_mode="overwrite")
    later = opened(options, epoch=2)
    with pytest.raises(UnusableTable, match="has changed since rows of checkpoint 9 were staged"):
        commit(later, 9, *due)
    assert rescued(later, tmp_path / "rows", [committed, *due]) == rows
    for file in stray(tmp_path / "t"):
        flip_a_bit(file)
    with pytest.raises(StagedRowsGone):
        rescued(later, tmp_path / "damaged", due)


def test_changes_go_to_the_file_in_their_order_and_say_which_are_deletions(spark: SparkSession, tmp_path: Path) -> None:
    options = {"path": str(tmp_path / "t"), "mode": "upsert", "key": "id"}
    changes = [("insert", 1, "a"), ("delete", 1, "a"), ("insert", 1, "b")]
    frame = spark.createDataFrame(changes, "_change_type string, id bigint, note string").coalesce(1)
    batches = staged(opened(options), frame)

    assert rescued(opened(options, epoch=2), tmp_path / "rows", batches) == [
        {"id": 1, "note": note, "_streamjob_deleted": kind == "delete"} for kind, _, note in changes
    ]
