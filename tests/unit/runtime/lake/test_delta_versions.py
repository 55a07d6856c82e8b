"""A Delta table is read as the files of its versions: each row once and in order, or an error says why."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.runtime.lake.reading import Row, in_steps, read, rows_by_name

from streamjob.errors import ExitCode
from streamjob_runtime.chain.sources.lake.changes import (
    BEFORE,
    LakeFile,
    Position,
    RowsChanged,
    SnapshotsGone,
    TableChange,
    TableMadeAgain,
    UnusableStart,
)
from streamjob_runtime.chain.sources.lake.delta_versions import DeltaVersions
from streamjob_runtime.sinks.delta.storage import DeltaUnreachable
from streamjob_runtime.sinks.errors import UnusableTable


def opened(place: Path, **more: str) -> DeltaVersions:
    return DeltaVersions("source orders", {"path": str(place), **more})


def append(place: Path, *ids: int, **more: Any) -> None:
    rows = pa.table({"id": pa.array(ids, pa.int64()), "text": pa.array([str(number) for number in ids])})
    write_deltalake(str(place), rows, mode=more.pop("mode", "append"), **more)


def log_of(place: Path, version: int) -> Path:
    return place / "_delta_log" / f"{version:020d}.json"


def commit(place: Path, *actions: dict[str, Any]) -> None:
    """Write the next version by hand."""
    log_of(place, DeltaTable(place).version() + 1).write_text("\n".join(json.dumps(action) for action in actions))


def expire(place: Path, version: int) -> None:
    """Make a checkpoint, and remove the versions of the log before one."""
    DeltaTable(place).create_checkpoint()
    forget(place, version)


def forget(place: Path, version: int) -> None:
    for number in range(version):
        log_of(place, number).unlink(missing_ok=True)


def ids(*changes: TableChange) -> list[int]:
    columns = json.dumps({"fields": [{"name": "id"}]})
    return [row["id"] for row in rows_by_name((file for change in changes for file in change.files), columns)]


def seen(changes: list[TableChange]) -> list[tuple[str, list[int]]]:
    return [(change.kind, sorted(ids(change))) for change in changes]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a table of two appends below a directory whose name has to be encoded in a URL."""
    place = tmp_path / "a table é"
    append(place, 1, 2)
    append(place, 3)
    return place


def test_the_table_as_it_is_comes_first_and_then_each_append(place: Path) -> None:
    source = opened(place)

    first = read(source, None)
    append(place, 4)
    append(place, 5)
    later = read(source, first[-1].position)

    assert seen(first) == [("table", [1, 2, 3])]
    assert seen(later) == [("append", [4]), ("append", [5])]
    assert read(source, later[-1].position) == []


def test_a_file_has_its_size_its_rows_and_the_time_of_its_writing(place: Path) -> None:
    changes = [*read(opened(place), None), *read(opened(place, startingSnapshot="0"), None)]

    for file in (file for change in changes for file in change.files):
        info = Path(file.key.removeprefix("file://")).stat()
        assert (file.size, file.values) == (info.st_size, {})
        assert abs(file.modified_ms - info.st_mtime * 1000) < 5000


@pytest.mark.parametrize(
    ("start", "expected"), [("newest", []), ("oldest", [1, 2, 3]), ("current", [1, 2, 3]), ("0", [1, 2, 3]), ("1", [3])]
)
def test_a_source_begins_where_it_is_told(place: Path, start: str, expected: list[int]) -> None:
    source = opened(place, startingSnapshot=start)

    first = read(source, None)
    append(place, 4)

    assert sorted(ids(*first)) == expected
    assert ids(*read(source, first[-1].position)) == [4]


def test_a_source_begins_with_the_first_version_of_a_time_or_later(place: Path) -> None:
    times = [datetime(2026, 7, 1, hour, tzinfo=UTC) for hour in (1, 2)]
    for version, time in enumerate(times):
        os.utime(log_of(place, version), (time.timestamp(), time.timestamp()))

    assert ids(*read(opened(place, startingSnapshot=times[0].isoformat()), None)) == [1, 2, 3]
    assert ids(*read(opened(place, startingSnapshot=times[1].isoformat()), None)) == [3]
    assert ids(*read(opened(place, startingSnapshot=(times[1] + timedelta(1)).isoformat()), None)) == []


def test_the_oldest_version_that_is_left_comes_with_all_its_files(place: Path) -> None:
    DeltaTable(place).create_checkpoint()
    append(place, 4)
    forget(place, 2)

    assert seen(read(opened(place, startingSnapshot="oldest"), None)) == [("table", [1, 2, 3]), ("append", [4])]


def test_a_start_whose_versions_have_expired_is_refused(place: Path) -> None:
    expire(place, 1)

    with pytest.raises(UnusableStart, match="no version 0 in its log: versions 1 to 1"):
        read(opened(place, startingSnapshot="0"), None)
    with pytest.raises(UnusableStart, match="no version 5 in its log"):
        read(opened(place, startingSnapshot="5"), None)
    with pytest.raises(UnusableStart, match="has lost versions since 2000-01-01"):
        read(opened(place, startingSnapshot="2000-01-01T00:00:00Z"), None)


def test_a_compaction_gives_nothing_and_moves_the_position(place: Path) -> None:
    source = opened(place)
    (first,) = read(source, None)
    DeltaTable(place).optimize.compact()

    (change,) = read(source, first.position)

    assert (change.kind, change.files, change.position.number) == ("nothing", (), 2)


def test_a_version_that_deletes_rows_is_an_error_that_names_it(place: Path) -> None:
    source = opened(place)
    (first,) = read(source, None)
    append(place, 4)
    DeltaTable(place).delete("id = 1")

    found = source.changes(first.position)

    assert ids(next(found)) == [4]
    with pytest.raises(RowsChanged, match=r"version 3 is no append: its operation is DELETE(?s:.*)addedFiles"):
        next(found)


def test_only_the_added_files_of_a_change_are_read_if_the_source_says_so(place: Path) -> None:
    source = opened(place, onChange="addedFiles")
    (first,) = read(source, None)
    DeltaTable(place).delete("id = 1")
    append(place, 4, mode="overwrite")

    assert seen(read(source, first.position)) == [("change", [2]), ("change", [4])]


def test_versions_that_expired_unread_are_an_error_with_the_way_out(place: Path) -> None:
    source = opened(place)
    (first,) = read(source, None)
    append(place, 4)
    append(place, 5)
    expire(place, 3)

    for each in (source, opened(place)):
        with pytest.raises(SnapshotsGone, match=r"version 2 is not in its log any more: the(?s:.*)oldest") as it:
            read(each, first.position)
        assert it.value.exit_code is ExitCode.CANNOT_RESTORE


def test_the_rest_of_a_version_that_expired_is_an_error(place: Path) -> None:
    (first,) = read(opened(place), None)
    append(place, 4)
    append(place, 5)
    expire(place, 4)

    with pytest.raises(SnapshotsGone, match="version 1 is not in its log any more"):
        read(opened(place), first.after(1))


def test_a_position_whose_own_version_expired_is_enough_if_all_later_ones_are_left(place: Path) -> None:
    (first,) = read(opened(place), None)
    newest = log_of(place, 1).read_text()
    expire(place, 2)
    source = opened(place)
    nothing = read(source, first.position)
    log_of(place, 1).write_text(newest)  # deltalake does not append without it
    append(place, 4)
    forget(place, 2)

    assert nothing == []
    assert ids(*read(source, first.position)) == [4]


def test_a_table_that_was_made_again_or_is_gone_is_an_error(place: Path) -> None:
    source = opened(place)
    (first,) = read(source, None)
    append(place, 4)
    (later,) = read(source, first.position)
    place.rename(place.with_name("old"))

    with pytest.raises(TableMadeAgain, match="is gone"):
        read(source, first.position)
    with pytest.raises(UnusableTable, match="does not exist"):
        read(source, None)
    for number in range(4):
        append(place, number)
    for each, position in ((source, later.position), (source, first.position), (opened(place), later.position)):
        with pytest.raises(TableMadeAgain, match=f"table {first.position.table} was read"):
            read(each, position)


def test_an_older_copy_of_the_table_is_an_error(place: Path) -> None:
    (first,) = read(opened(place), None)
    log_of(place, 1).unlink()

    with pytest.raises(SnapshotsGone, match="ends with version 0, and 1 was read"):
        read(opened(place), first.position)


def test_a_log_that_cannot_be_read_is_no_end_of_the_table(place: Path) -> None:
    source = opened(place)
    (first,) = read(source, None)
    log_of(place, 2).write_text("{")

    with pytest.raises(DeltaUnreachable, match="source orders: the table cannot be read: DeltaError"):
        read(source, first.position)


FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture
def fed(tmp_path: Path) -> Path:
    """Return a table with a change data feed."""
    place = tmp_path / "a table é"
    append(place, 1, 2, configuration=FEED)
    append(place, 3)
    return place


def by_changes(place: Path, **more: str) -> DeltaVersions:
    return opened(place, onChange="changeRows", **more)


def changed_rows(files: Iterable[LakeFile], columns: str) -> list[Row]:
    """Return the changes of files, as `changes_of` returns them for Spark."""
    rows = []
    for file in files:
        read, deletions = file.values["_streamjob_rows"], ("delete", "update_preimage")
        for row in rows_by_name([file], columns):
            assert row.pop("_streamjob_rows") == read
            if read in ("insert", "delete"):
                assert row["_change_type"] is None
                row["_change_type"] = read
            elif (row["_change_type"] in deletions) != (read == "before"):
                continue
            rows.append({name: None if value is None else str(value) for name, value in row.items()})
    return rows


def of_deltalake(place: Path, version: int) -> list[Row]:
    """Return the changes from a version on as deltalake reads them."""
    rows = pa.table(DeltaTable(place).load_cdf(version).read_all()).to_pylist()
    times = {"_commit_timestamp": lambda time: time.isoformat(timespec="milliseconds") + "+00:00"}
    return [{n: None if v is None else times.get(n, str)(v) for n, v in row.items()} for row in rows]


def test_changed_rows_are_those_of_the_feed(fed: Path) -> None:
    source = by_changes(fed)
    (first,) = read(source, None)
    DeltaTable(fed).delete("id = 1")
    DeltaTable(fed).update(predicate="id = 2", updates={"text": "'new'"})
    append(fed, 4, mode="overwrite")

    found = read(source, first.position)

    columns = source.columns().struct
    assert [row["_change_type"] for row in changed_rows(first.files, columns)] == ["insert"] * 3
    assert {row["_commit_version"] for row in changed_rows(first.files, columns)} == {"1"}
    rows = changed_rows((file for change in found for file in change.files), columns)
    assert [(row["id"], row["_change_type"], row["_commit_version"]) for row in rows[:3]] == [
        ("1", "delete", "2"),
        ("2", "update_preimage", "3"),
        ("2", "update_postimage", "3"),
    ]
    assert counted(rows) == counted(of_deltalake(fed, 2))


def test_a_batch_has_either_what_a_version_takes_away_or_what_it_brings(fed: Path) -> None:
    source = by_changes(fed)
    (first,) = read(source, None)
    DeltaTable(fed).update(predicate="id = 2", updates={"text": "'new'"})
    append(fed, 4, mode="overwrite")

    groups = [file.group for change in read(source, first.position) for file in change.files]

    assert list(dict.fromkeys(groups)) == ["2 before", "2 after", "3 delete", "3 insert"]


def test_a_table_without_a_feed_is_refused_before_anything_is_read(place: Path) -> None:
    for ask in (lambda: by_changes(place).columns(), lambda: read(by_changes(place), None)):
        with pytest.raises(UnusableTable, match=r"no change data feed(?s:.*)ALTER TABLE") as it:
            ask()
        assert it.value.exit_code is ExitCode.INVALID_INPUT


def test_versions_in_which_the_feed_was_off_are_refused(place: Path) -> None:
    DeltaTable(place).alter.set_table_properties(FEED)
    append(place, 4)

    with pytest.raises(UnusableTable, match="version 0 has no change data feed"):
        read(by_changes(place, startingSnapshot="0"), None)
    assert seen(read(by_changes(place, startingSnapshot="2"), None))[-1] == ("append", [4])


@pytest.mark.parametrize("folder", ["_change_data", "."])
def test_files_that_were_vacuumed_are_an_error_with_the_way_out(fed: Path, folder: str) -> None:
    source = by_changes(fed)
    (first,) = read(source, None)
    before = set(fed.glob("*.parquet"))
    if folder == ".":
        append(fed, 4, mode="overwrite")
    else:
        DeltaTable(fed).delete("id = 1")
    for file in before if folder == "." else (fed / folder).glob("*.parquet"):
        file.unlink()

    with pytest.raises(SnapshotsGone, match=r"changes of version 2 are gone, as VACUUM deletes them") as it:
        read(source, first.position)
    assert it.value.exit_code is ExitCode.CANNOT_RESTORE


def test_a_table_with_a_column_of_the_feed_is_refused(fed: Path) -> None:
    metadata = DeltaTable(fed).metadata()
    fields = json.loads(DeltaTable(fed).schema().to_json())["fields"]
    more = {"name": "_commit_version", "type": "long", "nullable": True, "metadata": {}}
    schema = json.dumps({"type": "struct", "fields": [*fields, more]})
    empty: Any = {"format": {"provider": "parquet", "options": {}}, "partitionColumns": [], "configuration": FEED}
    commit(fed, {"metaData": {"id": str(metadata.id), "schemaString": schema, **empty}})

    with pytest.raises(UnusableTable, match="has a column _commit_version"):
        by_changes(fed).columns()


ADD = {"path": "x.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}


def test_files_with_deletion_vectors_are_refused(place: Path) -> None:
    source = opened(place)
    (first,) = read(source, None)
    vector = {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
    commit(place, {"add": {**ADD, "deletionVector": vector}})

    with pytest.raises(UnusableTable, match="version 2 has files with deletion vectors"):
        read(source, first.position)


def test_mapped_columns_are_refused(place: Path) -> None:
    metadata = next(
        json.loads(line)["metaData"] for line in log_of(place, 0).read_text().splitlines() if "metaData" in line
    )
    schema = json.loads(metadata["schemaString"])
    for number, field in enumerate(schema["fields"], 1):
        field["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": field["name"]}
    metadata["schemaString"] = json.dumps(schema)
    metadata["configuration"] = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    source = opened(place)
    (first,) = read(source, None)
    commit(place, {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, {"metaData": metadata})

    for position in (first.position, None):
        with pytest.raises(UnusableTable, match=r"maps its columns to other names(?s:.*)null"):
            read(source, position)


def test_features_that_are_not_known_are_refused(place: Path) -> None:
    source = opened(place)
    (first,) = read(source, None)
    features = {"readerFeatures": ["variantType"], "writerFeatures": ["variantType"]}
    commit(place, {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}})

    with pytest.raises(UnusableTable, match="variantType"):
        read(source, first.position)


def test_values_of_partitions_are_the_same_texts_for_the_whole_table_and_for_its_appends(tmp_path: Path) -> None:
    columns = {
        "p": pa.array(["a b/%ü"]),
        "none": pa.array([None], pa.string()),
        "at": pa.array([datetime(2026, 1, 1, 0, 0, 0, 500001, UTC)], pa.timestamp("us", "UTC")),
        "clock": pa.array([datetime(2026, 1, 1, 0, 0, 0, 500001)], pa.timestamp("us")),
        "day": pa.array([date(2026, 1, 1)]),
        "price": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
        "yes": pa.array([True]),
        "small": pa.array([-3], pa.int8()),
    }
    rows = pa.table({"id": pa.array([1], pa.int64()), **columns})
    write_deltalake(str(tmp_path / "t"), rows, partition_by=list(columns))

    (whole,) = read(opened(tmp_path / "t"), None)
    changes = [whole, read(opened(tmp_path / "t", startingSnapshot="0"), None)[-1]]

    assert [ids(change) for change in changes] == [[1], [1]]
    for change in changes:
        assert change.files[0].values == {
            "p": "a b/%ü",
            "none": None,
            "at": "2026-01-01 00:00:00.500001Z",
            "clock": "2026-01-01 00:00:00.500001",
            "day": "2026-01-01",
            "price": "1.50",
            "yes": "true",
            "small": "-3",
        }


def test_columns_are_those_behind_the_last_change(place: Path) -> None:
    source = opened(place)
    (first,) = read(source, None)
    rows = pa.table({"id": pa.array([4], pa.int64()), "new": pa.array([0.5])})
    write_deltalake(str(place), rows, mode="append", schema_mode="merge")

    assert ids(*read(source, first.position)) == [4]
    kinds = {field["name"]: field["type"] for field in json.loads(source.columns().struct)["fields"]}
    assert kinds == {"id": "long", "text": "string", "new": "double"}


class Told:
    """A table, and what each of its versions has added, by what the table says before and after it."""

    def __init__(self, place: Path, **given: Any) -> None:
        """Make the table; `given` goes to deltalake."""
        self.place = place
        self.kinds = given.pop("kinds", ("a b", None, "%2F"))
        self.versions: list[tuple[int, list[str]]] = [(0, [])]
        self._next = 0
        self._write(0, partition_by=["p"], **given)

    def step(self, name: str) -> None:
        before = self.files()
        table = DeltaTable(self.place)
        steps: dict[str, Callable[[], object]] = {
            "append": lambda: self._write(4),
            "delete": lambda: table.delete(f"id = {max(0, self._next - 2)}"),
            "update": lambda: table.update(predicate=f"id >= {self._next - 3}", updates={"text": "'changed'"}),
            "overwrite": lambda: self._write(2, mode="overwrite"),
            "merge": lambda: self._merge(table),
            "empty": lambda: table.delete(),
            "compact": table.optimize.compact,
            "add": lambda: self._write(2, more=True),
            "expire": lambda: expire(self.place, (table.version() + 1) // 2),
        }
        steps[name]()
        for version in range(len(self.versions), DeltaTable(self.place).version() + 1):
            self.versions.append((version, [] if name == "compact" else sorted(self.files() - before)))

    def files(self) -> set[str]:
        return {uri.rpartition("/")[2] for uri in DeltaTable(self.place).file_uris()}

    def content(self) -> Counter[str]:
        return counted(DeltaTable(self.place).to_pyarrow_table().to_pylist())

    def _merge(self, table: DeltaTable) -> None:
        """Change some rows, also their partition, delete one, and insert one."""
        self._next += 1
        numbers = range(max(0, self._next - 4), self._next)
        given = {"id": pa.array(numbers, pa.int64()), "text": ["merged"] * len(numbers), "p": ["moved"] * len(numbers)}
        merger = table.merge(pa.table(given), "t.id = s.id", source_alias="s", target_alias="t")
        merger = merger.when_matched_delete(f"t.id = {numbers[0]}").when_matched_update_all()
        merger.when_not_matched_insert({name: f"s.{name}" for name in given}).execute()

    def _write(self, count: int, *, more: bool = False, **further: Any) -> None:
        self._next += count
        ids = range(self._next - count, self._next)
        columns = {
            "id": pa.array(ids, pa.int64()),
            "text": pa.array([str(number) for number in ids], pa.string()),
            "p": pa.array([self.kinds[number % 3] for number in ids], pa.string()),
        }
        if more:
            columns[f"more{self._next}"] = pa.array([str(number) for number in ids], pa.string())
        usual = {"mode": "append", "schema_mode": "merge"}
        write_deltalake(str(self.place), pa.table(columns), **{**usual, **further})


def counted(rows: list[Row]) -> Counter[str]:
    """Count rows; a column that is null counts as one that is not there."""
    return Counter(repr(sorted((k, v) for k, v in row.items() if v is not None)) for row in rows)


STEPS = st.lists(
    st.sampled_from(["append", "append", "delete", "update", "overwrite", "compact", "add", "expire", "read"]),
    min_size=4,
    max_size=14,
)


@settings(max_examples=20, deadline=None)
@given(STEPS, st.integers(1, 2), st.integers(0, 4))
def test_each_version_is_read_once_and_in_order_by_readers_that_are_killed_anywhere_or_its_loss_is_an_error(
    steps: list[str], group: int, survived: int
) -> None:
    """A reader takes groups of files, and is killed after `survived` of them; the last one is not."""
    with tempfile.TemporaryDirectory() as directory:
        told = Told(Path(directory) / "t")
        told.step("append")
        on_change = {"onChange": "addedFiles"}
        position = Position(str(DeltaTable(told.place).metadata().id), BEFORE)
        kept = opened(told.place, **on_change)
        got: list[tuple[int, str]] = []
        for step in [*steps, "read to the end"]:
            if not step.startswith("read"):
                told.step(step)
                continue
            source = kept if survived % 2 else opened(told.place, **on_change)
            first = position.number if position.read is not None else position.number + 1
            lost = first < len(told.versions) and not log_of(told.place, first).exists()
            try:
                for count, (behind, files) in enumerate(in_steps(read(source, position), group)):
                    if step == "read" and count == survived:
                        break
                    rows_by_name(files, source.columns().struct)
                    got += [(behind.number, file.key.rpartition("/")[2]) for file in files]
                    position = behind
            except SnapshotsGone:
                assert lost
                return
            assert not lost
        assert position.number == len(told.versions) - 1
        due = [(version, path) for version, paths in told.versions for path in paths]
        assert sorted(got) == sorted(due)
        assert [version for version, _ in got] == [version for version, _ in due]
        (whole,) = read(opened(told.place), None)
        assert counted(rows_by_name(whole.files, opened(told.place).columns().struct)) == told.content()


CHANGES = st.lists(
    st.sampled_from(["append", "delete", "update", "merge", "overwrite", "empty", "compact", "add", "read"]),
    min_size=4,
    max_size=12,
)


@settings(max_examples=20, deadline=None)
@given(CHANGES, st.integers(1, 2), st.integers(0, 4))
def test_changed_rows_are_those_of_the_feed_for_readers_that_are_killed_anywhere(
    steps: list[str], group: int, survived: int
) -> None:
    """The rows of each group of files are those that deltalake reads, and what is taken away comes first."""
    with tempfile.TemporaryDirectory() as directory:
        # deltalake itself cannot read changes of partitions whose names are quoted in paths.
        told = Told(Path(directory) / "t", configuration=FEED, kinds=("a", None, "b"))
        told.step("append")
        position = Position(str(DeltaTable(told.place).metadata().id), BEFORE)
        kept = by_changes(told.place)
        got: list[Row] = []
        for step in [*steps, "read to the end"]:
            if not step.startswith("read"):
                told.step(step)
                continue
            source = kept if survived % 2 else by_changes(told.place)
            for count, (behind, files) in enumerate(in_steps(read(source, position), group)):
                if step == "read" and count == survived:
                    break
                got += changed_rows(files, source.columns().struct)
                position = behind
        assert counted(got) == counted(of_deltalake(told.place, 0))
        applied: Counter[str] = Counter()
        for row in got:
            deleted = row["_change_type"] in ("delete", "update_preimage")
            (one,) = counted([{name: value for name, value in row.items() if not name.startswith("_")}])
            applied[one] += -1 if deleted else 1
            assert applied[one] >= 0
        rows = DeltaTable(told.place).to_pyarrow_table().to_pylist()
        assert +applied == counted([{n: None if v is None else str(v) for n, v in row.items()} for row in rows])
