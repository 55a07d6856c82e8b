"""The search of a table goes on where the last entry ends, and says what it cannot read."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from streamjob.errors import ExitCode, StreamJobError
from streamjob.job.connectors.file_source import FileSourceFields
from streamjob_runtime.chain.sources.discovered_files import SourceMoved
from streamjob_runtime.chain.sources.lake.changes import (
    BEFORE,
    LakeFile,
    Position,
    RowsChanged,
    SnapshotsGone,
    TableChange,
    TableColumns,
)
from streamjob_runtime.chain.sources.lake.table_search import TableSearch, table_refused_in
from streamjob_runtime.discovery.discoverer import Discoverer
from streamjob_runtime.discovery.objects import Found

WITHIN = 20.0
COLUMNS = TableColumns("{}")


class Table:
    """A table of snapshots with two files each; `fails` are raised, one by each question."""

    def __init__(self, snapshots: int, *fails: StreamJobError) -> None:
        self.snapshots = snapshots
        self.fails = list(fails)
        self.now = COLUMNS

    def columns(self) -> TableColumns:
        return self.now

    def changes(self, position: Position | None) -> Iterator[TableChange]:
        if self.fails:
            raise self.fails.pop(0)
        begin = position or Position("t", BEFORE)
        if begin.read is not None:
            yield change_of(begin.number).rest(begin.read)
        for number in range(begin.number + 1, self.snapshots):
            yield change_of(number)


def change_of(number: int) -> TableChange:
    files = tuple(LakeFile.at(f"s3://b/{number}-{each}", 1, 0, {"p": None}) for each in "ab")
    return TableChange(Position("t", number), "append", files)


class Inbox:
    """What was offered, in order."""

    def __init__(self) -> None:
        self.offered: list[str] = []
        self.failure = ""

    def offer(self, lines: str) -> None:
        self.offered += lines.split("\n")

    def size(self) -> int:
        return 0

    def fail(self, message: str) -> None:
        self.failure = message

    def report(self, more: Mapping[str, str]) -> None: ...

    def committed(self) -> int:
        return -1

    def paths(self) -> list[str]:
        return [json.loads(line)["path"].removeprefix("s3a://b/") for line in self.offered]


class Judge:
    """Takes each file."""

    def line(self, found: Found) -> str:
        assert isinstance(found, LakeFile)
        return found.line()

    def placed(self, found: Found) -> None: ...

    def replaced(self, found: Found) -> None: ...


def searched(table: Table, folder: Path, until: Callable[[Inbox], object], begin: Position | None = None) -> Inbox:
    """Search until a condition holds; return what was offered."""
    inbox = Inbox()
    search = Discoverer(
        who="Source 'rows'",
        inbox=inbox,
        judge=Judge(),
        given=FileSourceFields(check_interval=0.01, order="name", forget_after=1.0),
        folder=folder,
        clock=time.time,
        search=lambda recent, known: TableSearch(table, COLUMNS, begin, recent),
    )
    search.start()
    deadline = time.monotonic() + WITHIN
    while not until(inbox):
        assert time.monotonic() < deadline, (inbox.offered, inbox.failure)
        threading.Event().wait(0.005)
    search.stop()
    return inbox


def test_a_search_goes_on_behind_each_file_that_an_entry_can_end_with(tmp_path: Path) -> None:
    whole = searched(Table(3), tmp_path, lambda inbox: len(inbox.offered) == 6)
    for count in range(1, 6):
        folder = tmp_path / str(count)
        folder.mkdir()
        (folder / "0").write_text("\n".join(["v1", *whole.offered[:count]]))

        rest = searched(Table(3), folder, lambda inbox: len(inbox.offered) == 6 - count)  # noqa: B023

        assert rest.paths() == whole.paths()[count:]


def test_a_source_that_has_read_nothing_begins_at_its_position(tmp_path: Path) -> None:
    found = searched(Table(3), tmp_path, lambda inbox: inbox.offered, begin=Position("t", 1))

    assert found.paths() == ["2-a", "2-b"]


def test_a_table_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    found = searched(Table(1, StreamJobError("no answer")), tmp_path, lambda inbox: inbox.offered)

    assert (found.paths(), found.failure) == (["0-a", "0-b"], "")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SnapshotsGone("table t", "they are gone"), ExitCode.CANNOT_RESTORE),
        (RowsChanged("table t", "version 1", "DELETE"), ExitCode.FAILED),
    ],
)
def test_what_a_table_refuses_ends_the_query_with_its_exit_code(
    tmp_path: Path, error: StreamJobError, code: ExitCode
) -> None:
    found = searched(Table(1, error), tmp_path, lambda inbox: inbox.failure)

    refused = table_refused_in(f"before {found.failure} behind")
    assert refused is not None
    assert (refused.what, refused.fix, refused.exit_code) == (error.what, error.fix, code)


def test_files_of_other_columns_than_those_planned_are_not_offered(tmp_path: Path) -> None:
    table = Table(1)
    table.now = TableColumns("other")

    found = searched(table, tmp_path, lambda inbox: inbox.failure)

    assert found.offered == []
    assert table_refused_in(found.failure) is None
    assert "other columns" in found.failure


def test_a_path_keeps_each_character_and_its_columns() -> None:
    file = LakeFile.at("/a b/%41/ü.parquet", 5, 7, {"p": 'x"\n', "o": None})

    line = file.before(Position("t", 1)).line()

    assert json.loads(line) == {
        "path": "file:///a b/%41/ü.parquet",
        "size": 5,
        "modified": 7,
        "version": '{"table": "t", "snapshot": 1}',
        "directory": "lake:/o=__HIVE_DEFAULT_PARTITION__/p=x%22%0A/",
    }
    assert json.loads(replace(file, group="1 insert").line())["group"] == "1 insert"


def test_a_source_that_has_read_other_files_is_refused_by_the_name_of_one() -> None:
    with pytest.raises(SourceMoved, match="s3a://b/x among them"):
        TableSearch(Table(1), COLUMNS, None, [Found("s3a://b/x", 1, 1, "etag")])
