"""Of a directory with a file for each checkpoint the newest files stay."""

from __future__ import annotations

import os
from pathlib import Path

from streamjob_runtime.sinks.files.file_systems import LocalPlace
from streamjob_runtime.sinks.files.newest_files import NewestFiles


def names(directory: Path) -> list[str]:
    return sorted(file.name for file in (directory / "lists").iterdir())


def age(directory: Path) -> None:
    """Let an hour pass."""
    for file in (directory / "lists").iterdir():
        os.utime(file, ns=(0, file.stat().st_mtime_ns - 3_600_000_000_000))


def test_the_oldest_go_and_the_newest_stay(tmp_path: Path) -> None:
    kept = NewestFiles(LocalPlace(tmp_path), "lists", 3)
    for number in range(8, 13):
        kept.write(f"{number}.json", b"{}")

    assert names(tmp_path) == ["10.json", "11.json", "12.json"]
    assert kept.read("12.json") == b"{}"
    assert kept.read("9.json") is None


def test_the_files_of_former_processes_count_by_their_age_and_not_by_their_names(tmp_path: Path) -> None:
    for number in (101, 100):
        NewestFiles(LocalPlace(tmp_path), "lists", 3).write(f"{number}.json", b"{}")
        age(tmp_path)

    here = NewestFiles(LocalPlace(tmp_path), "lists", 3)
    here.write("1.json", b"{}")
    here.write("2.json", b"{}")

    assert names(tmp_path) == ["1.json", "100.json", "2.json"]


def test_a_file_that_is_written_again_is_the_newest_and_counts_once(tmp_path: Path) -> None:
    kept = NewestFiles(LocalPlace(tmp_path), "lists", 2)
    for name in ("a", "b", "a", "a"):
        kept.write(name, b"{}")
    assert names(tmp_path) == ["a", "b"]

    kept.write("c", b"{}")

    assert names(tmp_path) == ["a", "c"]


def test_a_file_that_a_reader_has_deleted_is_not_missed(tmp_path: Path) -> None:
    kept = NewestFiles(LocalPlace(tmp_path), "lists", 2)
    for name in ("a", "b"):
        kept.write(name, b"{}")
    (tmp_path / "lists" / "a").unlink()
    for name in ("c", "d"):
        kept.write(name, b"{}")

    assert names(tmp_path) == ["c", "d"]
