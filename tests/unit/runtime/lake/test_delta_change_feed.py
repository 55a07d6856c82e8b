"""The changes that a Delta table with a change data feed gives, beside those that deltalake reads."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.runtime.lake.delta_tables import Told, append, commit, counted, opened, seen
from tests.unit.runtime.lake.reading import Row, in_steps, read, rows_by_name

from streamjob.errors import ExitCode
from streamjob_runtime.chain.sources.lake.changes import BEFORE, LakeFile, Position, SnapshotsGone
from streamjob_runtime.chain.sources.lake.delta_versions import DeltaVersions
from streamjob_runtime.sinks.errors import UnusableTable

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
