"""Parts that tasks have written are staged: large ones by the tasks, small ones together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from streamjob.store.base import StoreUnavailable
from streamjob_runtime.sinks.kafka.staging import joined, put_part


@dataclass
class Part:
    name: str | None = None
    content: bytes | None = None


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


def test_small_neighbours_become_one_object_and_all_keep_the_order_of_the_tasks() -> None:
    parts = [Part(content=b"a"), Part(content=b"b"), Part("1/x"), Part("1/y"), Part(content=b"c")]

    assert list(joined(parts)) == [b"ab", "1/x", "1/y", b"c"]
    assert list(joined([])) == []


def test_a_large_part_is_staged_by_its_task_and_its_file_deleted(tmp_path: Path) -> None:
    file, puts = tmp_path / "part", Puts()
    file.write_bytes(b"rows")

    done = put_part({"file": str(file), "content": None, "records": 3, "refusal": None}, puts)

    assert done == {"name": "1/1", "content": None, "records": 3, "refusal": None}
    assert puts.contents == [b"rows"]
    assert not file.exists()


def test_a_part_that_the_store_refuses_fails_its_task_and_leaves_no_file(tmp_path: Path) -> None:
    file = tmp_path / "part"
    file.write_bytes(b"rows")

    with pytest.raises(StoreUnavailable):
        put_part({"file": str(file), "content": None, "records": 3, "refusal": None}, Puts(fails=True))
    assert not file.exists()


@pytest.mark.parametrize(("content", "refusal"), [(b"rows", None), (None, "a row has no topic")])
def test_a_small_part_and_a_refusal_are_handed_on(content: bytes | None, refusal: str | None) -> None:
    part = {"file": None, "content": content, "records": 1, "refusal": refusal}

    assert put_part(part, Puts()) == {"name": None, "content": content, "records": 1, "refusal": refusal}
