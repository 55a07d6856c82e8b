"""A directory as the place of a file sink."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamjob_runtime.sinks.errors import PlaceFull, UnusablePlace
from streamjob_runtime.sinks.files.file_systems import LocalPlace, Move


def failing(code: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def put(directory: Path, name: str, content: bytes = b"rows") -> Path:
    file = directory / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def test_a_place_is_made_where_there_is_none(tmp_path: Path) -> None:
    LocalPlace(tmp_path / "a" / "b").prepare()

    assert list((tmp_path / "a" / "b" / "_streamjob").iterdir()) == []


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    file = put(tmp_path, "output")

    with pytest.raises(UnusablePlace, match=r"output: is not a directory"):
        LocalPlace(file).prepare()
    with pytest.raises(UnusablePlace, match=r"is not a directory"):
        LocalPlace(file / "below").prepare()


def test_a_place_that_may_not_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "mkdir", failing(errno.EACCES))

    with pytest.raises(UnusablePlace, match=r"output: may not be written \(Permission denied\)"):
        LocalPlace(tmp_path / "output").prepare()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_place_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    place = LocalPlace(tmp_path)
    place.prepare()
    staged = put(tmp_path, "_streamjob/staged/1/0-a/part-00000.csv")
    monkeypatch.setattr(os, "fsync", failing(code))

    with pytest.raises(PlaceFull, match="no space is left"):
        place.write("_streamjob/published/1.json", b"{}")
    with pytest.raises(PlaceFull, match="no space is left"):
        place.secure("_streamjob/staged/1")
    assert staged.exists()
    assert not (tmp_path / "_streamjob/published/1.json").exists()


def test_a_file_is_created_once(tmp_path: Path) -> None:
    place = LocalPlace(tmp_path)

    assert place.create("_streamjob/owner.json", b"first")
    assert not place.create("_streamjob/owner.json", b"second")
    assert place.read("_streamjob/owner.json") == b"first"
    assert [file.name for file in (tmp_path / "_streamjob").iterdir()] == ["owner.json"]


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    place = LocalPlace(tmp_path)
    place.write("_streamjob/published/1.json", b"first")
    place.write("_streamjob/published/1.json", b"second")

    assert place.read("_streamjob/published/1.json") == b"second"


def test_what_is_missing_reads_as_nothing(tmp_path: Path) -> None:
    place = LocalPlace(tmp_path)

    assert place.read("none") is None
    assert not place.exists("none")
    assert place.directories("none") == ()
    assert place.secure("none") == []
    place.discard("none")


def test_only_data_files_are_listed_with_their_sizes(tmp_path: Path) -> None:
    for name in ("a/p=1/part-00000.csv", "a/part-00001.csv", "a/_SUCCESS", "a/.part-00001.csv.crc"):
        put(tmp_path, name)

    files = LocalPlace(tmp_path).secure("a")

    assert [(file.name, file.size) for file in files] == [("a/p=1/part-00000.csv", 4), ("a/part-00001.csv", 4)]


def test_publishing_moves_files_into_directories_that_it_makes(tmp_path: Path) -> None:
    place = LocalPlace(tmp_path)
    put(tmp_path, "staged/p=1/part-00000.csv")
    move = Move("staged/p=1/part-00000.csv", "p=1/part-1-0.csv")
    place.move([move])
    place.move([move])

    assert (tmp_path / "p=1/part-1-0.csv").read_bytes() == b"rows"
    assert not (tmp_path / "staged/p=1/part-00000.csv").exists()


def test_a_directory_that_a_consumer_removes_meanwhile_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "staged/part-00000.csv")
    directory = tmp_path / "p=1"
    directory.mkdir()
    rename = os.rename
    removals = iter([directory.rmdir])

    def consume_then_rename(source: Path, target: Path) -> None:
        for remove in removals:
            remove()
        rename(source, target)

    monkeypatch.setattr(os, "rename", consume_then_rename)
    LocalPlace(tmp_path).move([Move("staged/part-00000.csv", "p=1/part-1-0.csv")])

    assert (directory / "part-1-0.csv").read_bytes() == b"rows"
