"""Parts that tasks have written are staged: large ones by the tasks, small ones together."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import Row

from streamjob.ids import Epoch, OperatorUid
from streamjob.snapshot import keys
from streamjob.store.base import StoreUnavailable
from streamjob.store.staging import StoreStaging
from streamjob.testing.memory_store import MemoryStore
from streamjob_runtime.sinks.kafka.staging import joined, put_part, stage_parts_here


class Puts:
    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.contents: list[bytes] = []

    def put(self, content: bytes | Path) -> str:
        if self.fails:
            raise StoreUnavailable("down")
        assert isinstance(content, Path)
        self.contents.append(content.read_bytes())
        return f"1/{len(self.contents)}"


def small(content: bytes) -> dict[str, Any]:
    return {"name": None, "content": content}


def large(name: str) -> dict[str, Any]:
    return {"name": name, "content": None}


def test_small_neighbours_become_one_object_and_all_keep_the_order_of_the_tasks() -> None:
    parts = [small(b"a"), small(b"b"), large("1/x"), large("1/y"), small(b"c")]

    assert list(joined(parts)) == [b"ab", "1/x", "1/y", b"c"]
    assert list(joined([])) == []


def test_a_large_part_is_staged_by_its_task_and_its_file_deleted(tmp_path: Path) -> None:
    file, puts = tmp_path / "part", Puts()
    file.write_bytes(b"rows")

    done = put_part({"file": str(file), "content": None, "records": 3, "topics": "", "refusal": None}, puts)

    assert done == {"name": "1/1", "content": None, "records": 3, "topics": "", "refusal": None}
    assert puts.contents == [b"rows"]
    assert not file.exists()


def test_a_part_that_the_store_refuses_fails_its_task_and_leaves_no_file(tmp_path: Path) -> None:
    file = tmp_path / "part"
    file.write_bytes(b"rows")

    with pytest.raises(StoreUnavailable):
        put_part({"file": str(file), "content": None, "records": 3, "topics": "", "refusal": None}, Puts(fails=True))
    assert not file.exists()


class Rows:
    """A stand-in for the frame of a batch's parts, with their files in a directory."""

    def __init__(self, directory: Path, *contents: bytes, refusal: str | None = None) -> None:
        self.directory = directory
        self._parts = []
        for number, content in enumerate(contents):
            file = directory / str(number)
            file.write_bytes(content)
            self._parts.append({"file": str(file), "content": None, "records": 1, "topics": "", "refusal": refusal})

    def collect(self) -> list[Any]:
        return [Row(**part) for part in self._parts]


@pytest.mark.parametrize("fails", [False, True])
def test_where_tasks_run_in_this_process_it_stages_their_parts_and_leaves_no_file(
    tmp_path: Path, *, fails: bool
) -> None:
    store = MemoryStore()
    staging = StoreStaging(store, OperatorUid("alerts"), Epoch(1), tmp_path)
    made: list[Rows] = []

    def write(directory: Path) -> Any:
        made.append(Rows(directory, b"a", b"b"))
        if fails:
            raise OSError("the batch fails")
        return made[-1]

    if fails:
        with pytest.raises(OSError, match="the batch fails"):
            stage_parts_here(write, staging)
    else:
        staged = stage_parts_here(write, staging)
        assert staged.rows == 2
        assert [
            store.get(keys.staged_object(OperatorUid("alerts"), Epoch(1), each.partition("/")[2]))
            for each in staged.names
        ] == [b"a", b"b"]
    assert not made[0].directory.exists()


def test_a_refused_row_names_what_was_staged_beside_it(tmp_path: Path) -> None:
    staging = StoreStaging(MemoryStore(), OperatorUid("alerts"), Epoch(1), tmp_path)

    staged = stage_parts_here(lambda directory: cast("Any", Rows(directory, b"a", refusal="no topic")), staging)

    assert (staged.refusal, staged.rows, len(staged.names)) == ("no topic", 0, 1)


@pytest.mark.parametrize(("content", "refusal"), [(b"rows", None), (None, "a row has no topic")])
def test_a_small_part_and_a_refusal_are_handed_on(content: bytes | None, refusal: str | None) -> None:
    part = {"file": None, "content": content, "records": 1, "topics": "", "refusal": refusal}

    assert put_part(part, Puts()) == {"name": None, "content": content, "records": 1, "topics": "", "refusal": refusal}
