"""A task's rows become files, or a message to the driver."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from streamjob_runtime.sinks.errors import RowsRefused
from streamjob_runtime.sinks.iceberg.datafiles import StagedFile, describe, restore
from streamjob_runtime.sinks.iceberg.writing import DataFiles, Target, target_below, write_rows
from streamjob_runtime.sinks.rows.task_files import write_task

COLUMNS = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "note", StringType()))
NULLABLE = pa.schema([("id", pa.int64()), ("note", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    catalog = SqlCatalog("unit", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("db")
    note = PartitionField(2, 1000, IdentityTransform(), "note")
    yield catalog.create_table("db.t", COLUMNS, partition_spec=PartitionSpec(note))
    catalog.engine.dispose()


@pytest.fixture
def target(table: Table, tmp_path: Path) -> Target:
    return target_below("sink report", table.metadata, {}, f"file://{tmp_path}/staged")


def batch(*numbers: int) -> pa.RecordBatch:
    rows = {"id": list(numbers), "note": [f"note {number % 2}" for number in numbers]}
    return pa.RecordBatch.from_pydict(rows, schema=NULLABLE)


def staged(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "staged").rglob("*.parquet"))


def test_few_rows_go_to_the_driver(target: Target, tmp_path: Path) -> None:
    (result,) = write_task(iter([batch(1), batch(), batch(2, 3)]), DataFiles(target), few=1 << 20)

    (row,) = result.to_pylist()
    assert row["file"] is None
    assert pa.ipc.open_stream(row["rows"]).read_all().column("id").to_pylist() == [1, 2, 3]
    assert staged(tmp_path) == []


def test_no_rows_are_no_message(target: Target) -> None:
    assert list(write_task(iter([batch()]), DataFiles(target), few=1 << 20)) == []


def test_many_rows_are_files_and_no_more_is_held_than_one_file_takes(target: Target, tmp_path: Path) -> None:
    written: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(6):
            written.append(len(staged(tmp_path)))
            yield batch(2 * number, 2 * number + 1)

    size = batch(0, 1).nbytes
    results = list(write_task(batches(), DataFiles(target), few=0, many=2 * size))

    files = [StagedFile.model_validate_json(row["file"]) for result in results for row in result.to_pylist()]
    assert written == [0, 0, 2, 2, 4, 4]
    assert [file.rows for file in files] == [2] * 6
    assert sorted(file.path.removeprefix("file://") for file in files) == [str(file) for file in staged(tmp_path)]


def test_a_task_that_fails_removes_its_files(target: Target, tmp_path: Path) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield batch(1, 2)
        assert len(staged(tmp_path)) == 2
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(write_task(failing(), DataFiles(target), few=0, many=1))

    assert staged(tmp_path) == []


def test_a_description_of_a_file_loses_nothing_that_a_manifest_says(table: Table, target: Target) -> None:
    spec, schema = table.spec(), table.schema()
    for staged_file in write_rows(pa.Table.from_batches([batch(7, 8, 9)]), target):
        file = restore(StagedFile.model_validate_json(staged_file.model_dump_json()), spec, schema)

        assert describe(file, spec, schema, staged_file.sha256 or "") == staged_file
        assert file.partition[0] in ("note 0", "note 1")
        assert file.lower_bounds.keys() == file.upper_bounds.keys() == {1, 2}
        assert file.value_counts == {1: staged_file.rows, 2: staged_file.rows}


def test_a_description_has_the_hash_of_what_was_written(target: Target) -> None:
    for file in write_rows(pa.Table.from_batches([batch(7, 8, 9)]), target):
        assert file.sha256 == sha256(Path(file.path.removeprefix("file://")).read_bytes()).hexdigest()


def test_null_in_a_required_column_is_refused(target: Target, tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array([1, None], pa.int64())})
    with pytest.raises(
        RowsRefused, match=r"sink report: the column 'id' is required, and has NULL, in the row \{id: NULL\}"
    ):
        DataFiles(target).write(rows)

    assert staged(tmp_path) == []
