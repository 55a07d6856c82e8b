"""A Delta table is read as the files of its versions: each row once and in order, or an error says why."""

from __future__ import annotations

import json
import os
import tempfile
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.runtime.lake.delta_tables import (
    Told,
    append,
    commit,
    counted,
    expire,
    forget,
    ids,
    log_of,
    opened,
    seen,
)
from tests.unit.runtime.lake.reading import in_steps, read, rows_by_name

from streamjob.errors import ExitCode
from streamjob_runtime.chain.sources.lake.changes import (
    BEFORE,
    Position,
    RowsChanged,
    SnapshotsGone,
    TableMadeAgain,
    UnusableStart,
)
from streamjob_runtime.sinks.delta.storage import DeltaUnreachable
from streamjob_runtime.sinks.errors import UnusableTable


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
