"""The search of a table goes on where the last entry ends, and says what it cannot read."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from streamjob.errors import ExitCode, StreamJobError
from streamjob_runtime.discovery.lake.changes import (
    BEFORE,
    LakeFile,
    Position,
    RowsChanged,
    SnapshotsGone,
    TableChange,
    TableColumns,
)
from streamjob_runtime.discovery.lake.refusals import refusal_in
from streamjob_runtime.discovery.lake.table_search import TableSearch, lines
from streamjob_runtime.lakes.errors import TableUnreachable

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
    files = tuple(LakeFile(f"s3://b/{number}-{each}", 1, 0, 1, {"p": None}) for each in "ab")
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


def searched(table: Table, folder: Path, until: Callable[[Inbox], object], begin: Position | None = None) -> Inbox:
    """Search until a condition holds; return what was offered."""
    inbox = Inbox()
    search = TableSearch(
        who="Source 'rows'",
        table=table,
        planned=COLUMNS,
        begin=begin,
        inbox=inbox,
        folder=folder,
        clock=time.time,
        check_interval=0.01,
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
    found = searched(Table(1, TableUnreachable("no answer")), tmp_path, lambda inbox: inbox.offered)

    assert (found.paths(), found.failure) == (["0-a", "0-b"], "")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SnapshotsGone("they are gone", "start anew"), ExitCode.CANNOT_RESTORE),
        (RowsChanged("rows were deleted", "say onChange"), ExitCode.FAILED),
    ],
)
def test_what_a_table_refuses_ends_the_query_with_its_exit_code(
    tmp_path: Path, error: StreamJobError, code: ExitCode
) -> None:
    found = searched(Table(1, error), tmp_path, lambda inbox: inbox.failure)

    assert refusal_in(f"before {found.failure} behind") == (error.what, error.fix, code)


def test_files_of_other_columns_than_those_planned_are_not_offered(tmp_path: Path) -> None:
    table = Table(1)
    table.now = TableColumns("other")

    found = searched(table, tmp_path, lambda inbox: inbox.failure)

    assert found.offered == []
    assert refusal_in(found.failure) is None
    assert "other columns" in found.failure


def test_a_path_keeps_each_character_and_its_columns() -> None:
    file = LakeFile("/a b/%41/ü.parquet", 5, 7, None, {"p": 'x"\n'})

    (line,) = lines([(file, Position("t", 1))]).split("\n")

    assert json.loads(line) == {
        "path": "file:///a b/%41/ü.parquet",
        "size": 5,
        "modified": 7,
        "version": "",
        "values": {"p": 'x"\n'},
        "at": {"table": "t", "snapshot": 1},
    }
