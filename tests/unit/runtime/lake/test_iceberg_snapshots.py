"""An Iceberg table is read as the files of its snapshots: each row once and in order, or an error says why."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _FastAppendFiles, _OverwriteFiles
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)
from tests.unit.runtime.lake.reading import in_steps, read, rows_by_id

from streamjob.errors import ExitCode
from streamjob_runtime.chain.sources.lake.changes import (
    BEFORE,
    Position,
    RowsChanged,
    SnapshotsGone,
    TableChange,
    TableMadeAgain,
    UnusableStart,
)
from streamjob_runtime.chain.sources.lake.iceberg_columns import spark_columns
from streamjob_runtime.chain.sources.lake.iceberg_snapshots import IcebergSnapshots
from streamjob_runtime.sinks.errors import UnusableTable
from streamjob_runtime.sinks.iceberg.catalogs import CatalogUnreachable

NAME = "lake.orders"
SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "text", StringType(), required=False))


def options(place: Path, **more: str) -> dict[str, str]:
    return {
        "table": NAME,
        "catalog.type": "sql",
        "catalog.uri": f"sqlite:///{place}/catalog.db",
        "catalog.warehouse": f"file://{place}",
        **more,
    }


def opened(place: Path, **more: str) -> IcebergSnapshots:
    return IcebergSnapshots("source orders", options(place, **more))


def catalog_of(place: Path) -> Catalog:
    properties = {name.removeprefix("catalog."): text for name, text in options(place).items() if name != "table"}
    return load_catalog("default", **properties)


def made(place: Path, **properties: str) -> Table:
    catalog = catalog_of(place)
    catalog.create_namespace_if_not_exists("lake")
    return catalog.create_table(NAME, SCHEMA, properties=properties)


def rows(table: Table, *ids: int) -> pa.Table:
    """Return rows with values for all columns of a table but those that are not a number or a text."""
    columns: dict[str, Any] = {}
    for field in table.schema().fields:
        columns[field.name] = [number if isinstance(field.field_type, LongType) else str(number) for number in ids]
    return pa.table(columns, schema=table.schema().as_arrow())


def compact(table: Table) -> None:
    """Write all rows of a table into one new file, as a snapshot that replaces files."""

    class Replace(_OverwriteFiles):
        def _summary(self, snapshot_properties: Mapping[str, str] = {}) -> Summary:
            summary = super()._summary(dict(snapshot_properties))
            return Summary(Operation.REPLACE, **summary.additional_properties)

    old = [task.file for task in table.scan().plan_files()]
    with table.transaction() as transaction:
        files = _dataframe_to_data_files(transaction.table_metadata, table.scan().to_arrow(), table.io)
        with Replace(operation=Operation.OVERWRITE, transaction=transaction, io=table.io) as update:
            for file in old:
                update.delete_data_file(file)
            for file in files:
                update.append_data_file(file)


def expire(table: Table, *numbers: int) -> None:
    """Expire snapshots as Iceberg's library for Java does; pyiceberg's forgets the parents of those that stay."""
    file = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(file.read_text())
    for entries in ("snapshots", "snapshot-log"):
        metadata[entries] = [each for each in metadata[entries] if each["snapshot-id"] not in numbers]
    file.write_text(json.dumps(metadata))
    table.refresh()


def history(table: Table) -> list[int]:
    return [snapshot.snapshot_id for snapshot in sorted(table.snapshots(), key=lambda each: each.sequence_number or 0)]


def ids(*changes: TableChange) -> list[int]:
    files = [file for change in changes for file in change.files]
    return [row["id"] for row in rows_by_id(files, spark_columns(SCHEMA, "table"))]


def kinds(changes: list[TableChange]) -> list[str]:
    return [change.kind for change in changes]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Return a table of two appends."""
    table = made(tmp_path)
    table.append(rows(table, 1, 2))
    table.append(rows(table, 3))
    return table


def test_the_table_as_it_is_comes_first_and_then_each_append(tmp_path: Path, table: Table) -> None:
    source = opened(tmp_path)

    first = read(source, None)
    table.append(rows(table, 4))
    table.append(rows(table, 5))
    later = read(source, first[-1].position)

    assert (kinds(first), ids(*first)) == (["table"], [1, 2, 3])
    assert (kinds(later), [ids(each) for each in later]) == (["append", "append"], [[4], [5]])
    assert read(source, later[-1].position) == []


def test_a_file_has_its_size_its_rows_and_the_time_of_its_snapshot(tmp_path: Path, table: Table) -> None:
    (change,) = read(opened(tmp_path), None)

    for file, snapshot in zip(change.files, table.snapshots(), strict=True):
        assert Path(file.key.removeprefix("file://")).stat().st_size == file.size
        assert (file.modified_ms, file.values) == (snapshot.timestamp_ms, {})


@pytest.mark.parametrize(
    ("start", "expected"),
    [("newest", []), ("oldest", [1, 2, 3]), ("current", [1, 2, 3]), ("first id", [1, 2, 3]), ("last id", [3])],
)
def test_a_source_begins_where_it_is_told(tmp_path: Path, table: Table, start: str, expected: list[int]) -> None:
    numbers = history(table)
    start = {"first id": str(numbers[0]), "last id": str(numbers[1])}.get(start, start)
    source = opened(tmp_path, startingSnapshot=start)

    first = read(source, None)
    table.append(rows(table, 4))

    assert ids(*first) == expected
    assert ids(*read(source, first[-1].position)) == [4]


def test_a_source_begins_with_the_first_snapshot_of_a_time_or_later(tmp_path: Path, table: Table) -> None:
    times = [datetime.fromtimestamp(each.timestamp_ms / 1000, UTC) for each in table.snapshots()]

    assert ids(*read(opened(tmp_path, startingSnapshot=times[0].isoformat()), None)) == [1, 2, 3]
    assert ids(*read(opened(tmp_path, startingSnapshot=times[1].isoformat()), None)) == [3]
    assert ids(*read(opened(tmp_path, startingSnapshot=(times[1] + timedelta(1)).isoformat()), None)) == []


def test_the_oldest_snapshot_that_is_left_comes_with_all_its_files(tmp_path: Path, table: Table) -> None:
    table.append(rows(table, 4))
    expire(table, history(table)[0])

    changes = read(opened(tmp_path, startingSnapshot="oldest"), None)

    assert [(each.kind, ids(each)) for each in changes] == [("table", [1, 2, 3]), ("append", [4])]


def test_a_start_whose_snapshots_have_expired_is_refused(tmp_path: Path, table: Table) -> None:
    first = history(table)[0]
    expire(table, first)

    with pytest.raises(UnusableStart, match=f"no snapshot {first}"):
        read(opened(tmp_path, startingSnapshot=str(first)), None)
    with pytest.raises(UnusableStart, match="has lost snapshots since 2000-01-01"):
        read(opened(tmp_path, startingSnapshot="2000-01-01T00:00:00Z"), None)


@pytest.mark.parametrize("start", ["current", "newest", "oldest", "2000-01-01T00:00:00Z"])
def test_an_empty_table_is_read_from_its_first_snapshot_on(tmp_path: Path, start: str) -> None:
    table = made(tmp_path)
    source = opened(tmp_path, startingSnapshot=start)

    first = read(source, None)
    table.append(rows(table, 1))

    assert [(each.kind, each.position.number, each.files) for each in first] == [("nothing", BEFORE, ())]
    assert ids(*read(source, first[0].position)) == [1]


def test_a_merge_of_manifests_gives_no_file_twice(tmp_path: Path) -> None:
    table = made(tmp_path, **{"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"})
    source = opened(tmp_path)
    (first,) = read(source, None)

    for number in range(5):
        table.append(rows(table, number))

    assert [ids(each) for each in read(source, first.position)] == [[0], [1], [2], [3], [4]]
    assert len(table.inspect.manifests()) < 5


def test_a_compaction_gives_nothing_and_moves_the_position(tmp_path: Path, table: Table) -> None:
    source = opened(tmp_path)
    (first,) = read(source, None)
    compact(table)

    (change,) = read(source, first.position)

    assert (change.kind, change.files, change.position.number) == ("nothing", (), history(table)[-1])
    assert sorted(ids(*read(source, None))) == [1, 2, 3]


def test_a_snapshot_that_deletes_rows_is_an_error_that_names_it(tmp_path: Path, table: Table) -> None:
    source = opened(tmp_path)
    (first,) = read(source, None)
    table.append(rows(table, 4))
    table.delete("id = 1")
    number = history(table)[-1]

    found = source.changes(first.position)

    assert ids(next(found)) == [4]
    with pytest.raises(RowsChanged, match=rf"lake.orders: snapshot {number} .*overwrite(?s:.*)addedFiles"):
        next(found)


def test_only_the_added_files_of_a_change_are_read_if_the_source_says_so(tmp_path: Path, table: Table) -> None:
    source = opened(tmp_path, onChange="addedFiles")
    (first,) = read(source, None)
    table.delete("id = 1")
    table.delete("id = 3")
    table.append(rows(table, 4))

    changes = read(source, first.position)

    assert [(each.kind, ids(each)) for each in changes] == [("change", [2]), ("change", []), ("append", [4])]


def test_a_position_whose_own_snapshot_expired_is_enough_if_all_later_ones_are_left(
    tmp_path: Path, table: Table
) -> None:
    source = opened(tmp_path)
    (first,) = read(source, None)
    table.append(rows(table, 4))
    expire(table, *history(table)[:2])

    assert ids(*read(source, first.position)) == [4]


def test_snapshots_that_pyiceberg_has_expired_are_missed_also_before_the_first_one(
    tmp_path: Path, table: Table
) -> None:
    table.append(rows(table, 4))
    table.maintenance.expire_snapshots().by_ids(history(table)[:1]).commit()
    nothing_read = Position(str(table.metadata.table_uuid), BEFORE)

    with pytest.raises(SnapshotsGone, match="snapshots from the first on have expired"):
        read(opened(tmp_path), nothing_read)
    with pytest.raises(UnusableStart, match="has lost snapshots"):
        read(opened(tmp_path, startingSnapshot="2000-01-01T00:00:00Z"), None)


def test_snapshots_that_expired_unread_are_an_error_with_the_way_out(tmp_path: Path, table: Table) -> None:
    source = opened(tmp_path)
    (first,) = read(source, None)
    table.append(rows(table, 4))
    table.append(rows(table, 5))
    expire(table, *history(table)[:3])

    with pytest.raises(
        SnapshotsGone, match=rf"lake.orders: snapshots after {first.position.number}(?s:.*)oldest"
    ) as it:
        read(source, first.position)
    assert it.value.exit_code is ExitCode.CANNOT_RESTORE


def test_a_table_that_was_rolled_back_behind_the_position_is_an_error(tmp_path: Path, table: Table) -> None:
    source = opened(tmp_path)
    (first,) = read(source, None)
    table.manage_snapshots().rollback_to_snapshot(history(table)[0]).commit()

    with pytest.raises(SnapshotsGone, match="rolled back"):
        read(source, first.position)


def test_a_table_that_was_made_again_or_is_gone_is_an_error(tmp_path: Path, table: Table) -> None:
    source = opened(tmp_path)
    (first,) = read(source, None)
    catalog_of(tmp_path).drop_table(NAME)

    with pytest.raises(TableMadeAgain, match="is gone"):
        read(source, first.position)
    with pytest.raises(UnusableTable, match="does not exist"):
        read(source, None)

    made(tmp_path)
    with pytest.raises(TableMadeAgain, match=f"table {first.position.table} was read"):
        read(source, first.position)


def test_metadata_that_cannot_be_read_is_no_end_of_the_table(tmp_path: Path, table: Table) -> None:
    source = opened(tmp_path)
    (first,) = read(source, None)
    table.append(rows(table, 4))
    Path(table.snapshots()[-1].manifest_list.removeprefix("file://")).unlink()

    with pytest.raises(CatalogUnreachable, match="source orders: snapshot"):
        read(source, first.position)


def with_file(table: Table, **described: Any) -> None:
    """Add a file as a snapshot, whatever is in it."""
    place = Path(table.location().removeprefix("file://")) / "added"
    place.write_bytes(b"")
    usual = {
        "file_format": FileFormat.PARQUET,
        "content": DataFileContent.DATA,
        "partition": Record(),
        "file_size_in_bytes": 0,
    }
    file = DataFile.from_args(file_path=str(place), record_count=1, **{**usual, **described})
    file.spec_id = table.metadata.default_spec_id
    with (
        table.transaction() as transaction,
        _FastAppendFiles(operation=Operation.APPEND, transaction=transaction, io=table.io) as update,
    ):
        for each in _dataframe_to_data_files(transaction.table_metadata, rows(table, 9), table.io):
            update.append_data_file(each)
        update.append_data_file(file)


def test_files_to_which_deletes_apply_are_refused(tmp_path: Path, table: Table) -> None:
    source = opened(tmp_path)
    (first,) = read(source, None)
    with_file(table, content=DataFileContent.POSITION_DELETES)

    with pytest.raises(UnusableTable, match="adds files and delete files"):
        read(source, first.position)
    with pytest.raises(UnusableTable, match="has delete files, which Spark would not apply"):
        read(source, None)


def test_files_that_are_not_parquet_are_refused(tmp_path: Path, table: Table) -> None:
    with_file(table, file_format=FileFormat.ORC)

    with pytest.raises(UnusableTable, match="only Parquet is read"):
        read(opened(tmp_path), None)


def test_columns_have_their_field_ids_also_inside_others() -> None:
    inner = StructType(NestedField(5, "a", IntegerType(), required=True), NestedField(6, "b", DoubleType()))
    schema = Schema(
        NestedField(1, "u", UUIDType(), required=True),
        NestedField(2, "at", TimestamptzType()),
        NestedField(3, "clock", TimestampType()),
        NestedField(4, "list", ListType(7, inner)),
        NestedField(8, "map", MapType(9, StringType(), 10, FloatType())),
    )

    def column(number: int, name: str, kind: Any) -> dict[str, Any]:
        return {"name": name, "type": kind, "nullable": True, "metadata": {"parquet.field.id": number}}

    struct = {"type": "struct", "fields": [column(5, "a", "integer"), column(6, "b", "double")]}
    assert json.loads(spark_columns(schema, "table"))["fields"] == [
        column(1, "u", "binary"),
        column(2, "at", "timestamp"),
        column(3, "clock", "timestamp_ntz"),
        column(4, "list", {"type": "array", "containsNull": True, "elementType": struct}),
        column(8, "map", {"type": "map", "valueContainsNull": True, "keyType": "string", "valueType": "float"}),
    ]


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (NestedField(1, "at", TimestampNanoType()), "column 'at' has the type timestamp_ns"),
        (NestedField(1, "s", StructType(NestedField(2, "at", TimestampNanoType()))), "column 's.at' has the type"),
        (NestedField(1, "n", LongType(), initial_default=5), "column 'n' has a default for older files"),
    ],
)
def test_a_column_that_spark_would_read_wrong_is_refused(field: NestedField, message: str) -> None:
    with pytest.raises(UnusableTable, match=message):
        spark_columns(Schema(field), "table")


class Told:
    """A table, and the files that each of its snapshots has added, by what the table says before and after it."""

    def __init__(self, place: Path, merges: bool) -> None:
        merge = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"} if merges else {}
        # Files have one row or two, and appends have two files or more.
        self.table = made(place, **merge, **{"write.target-file-size-bytes": "64"})
        self.snapshots: list[tuple[int, list[str]]] = []
        self._next = 0
        self._added = 0

    def step(self, name: str) -> None:
        before, old = self.files(), set(history(self.table))
        {
            "append": self._append,
            "delete": lambda: self.table.delete(f"id = {max(0, self._next - 2)}"),
            "delete all": lambda: self.table.delete("id >= 0"),
            "compact": self._compact,
            "rename": self._rename,
            "add": self._add,
            "drop": self._drop,
            "expire": self._expire,
        }[name]()
        self.table.refresh()
        new = [number for number in history(self.table) if number not in old]
        added = [] if name == "compact" else sorted(self.files() - before)
        self.snapshots += [(number, added if number == new[-1] else []) for number in new]

    def files(self) -> set[str]:
        return set(self.table.inspect.files()["file_path"].to_pylist())

    def after(self, position: Position) -> list[tuple[int, list[str]]]:
        """Return the snapshots after a position, also those that have expired."""
        numbers = [number for number, _ in self.snapshots]
        return self.snapshots[numbers.index(position.number) + 1 if position.number != BEFORE else 0 :]

    def content(self) -> list[dict[str, Any]]:
        return sorted(self.table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])

    def _append(self) -> None:
        self._next += 4
        self.table.append(rows(self.table, *range(self._next - 4, self._next)))

    def _compact(self) -> None:
        if self.files():
            compact(self.table)

    def _rename(self) -> None:
        last = self.table.schema().fields[-1].name
        if last != "id":
            with self.table.update_schema() as update:
                update.rename_column(last, f"{last}x")

    def _add(self) -> None:
        self._added += 1
        with self.table.update_schema() as update:
            update.add_column(f"more{self._added}", StringType())

    def _drop(self) -> None:
        last = self.table.schema().fields[-1].name
        if last != "id":
            with self.table.update_schema() as update:
                update.delete_column(last)

    def _expire(self) -> None:
        old = history(self.table)[:-1]
        expire(self.table, *old[: (len(old) + 1) // 2])


STEPS = st.lists(
    st.sampled_from(["append", "append", "delete", "delete all", "compact", "rename", "add", "drop", "expire", "read"]),
    min_size=4,
    max_size=14,
)


@settings(max_examples=10, deadline=None)
@given(STEPS, st.booleans(), st.integers(1, 2), st.integers(0, 4))
def test_each_snapshot_is_read_once_and_in_order_by_readers_that_are_killed_anywhere_or_its_loss_is_an_error(
    steps: list[str], merges: bool, group: int, survived: int
) -> None:
    """A reader takes groups of files, and is killed after `survived` of them; the last one is not."""
    with tempfile.TemporaryDirectory() as directory:
        told = Told(Path(directory), merges)
        position = read(opened(Path(directory)), None)[-1].position
        partly: list[str] = []
        for step in [*steps, "read to the end"]:
            if not step.startswith("read"):
                told.step(step)
                continue
            source = opened(Path(directory), onChange="addedFiles")
            due = told.after(position)
            if position.read is not None:
                number = position.number
                due = [(number, dict(told.snapshots)[number]), *due]
            kept = set(history(told.table))
            lost = any(number not in kept for number, _ in due)
            got: dict[int, list[str]] = {}
            try:
                for count, (behind, files) in enumerate(in_steps(read(source, position), group)):
                    if step == "read" and count == survived:
                        break
                    rows_by_id(files, source.columns().struct)
                    got.setdefault(behind.number, []).extend(file.key for file in files)
                    position = behind
            except SnapshotsGone:
                assert lost
                return
            assert not lost
            if partly and got:
                got[next(iter(got))][:0] = partly
            partly = got.popitem()[1] if position.read is not None and got else partly if position.read else []
            done = [(number, sorted(paths)) for number, paths in got.items()]
            assert done == due[: len(done)]
            assert step == "read" or len(done) == len(due)
        (whole,) = read(opened(Path(directory)), None)
        found = rows_by_id(whole.files, opened(Path(directory)).columns().struct)
        assert sorted(found, key=lambda row: row["id"]) == told.content()
