"""A local file that was read goes into the archive or is deleted, and nothing there is lost for it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjob_runtime.discovery.after_reading import DirectoryRemover, FileStays
from streamjob_runtime.discovery.directory_lister import DirectoryLister
from streamjob_runtime.discovery.objects import Found
from streamjob_runtime.discovery.patterns import SourceFiles


class Place:
    """A source's directory, and its archive."""

    def __init__(self, directory: Path, path: str = "in", *, deletes: bool = False) -> None:
        self.source, self.archive = directory / "in", directory / "done"
        self.source.mkdir()
        self.lister = DirectoryLister(SourceFiles(f"{directory}/{path}", {"recursiveFileLookup": "true"}))
        self.remove = DirectoryRemover(self.lister, f"{self.source}/", None if deletes else self.archive)

    def write(self, name: str, text: str) -> Found:
        file = self.source / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        (found,) = (each for each in self.lister.page("").objects if each.key == str(file))
        return found

    def archived(self) -> dict[str, str]:
        files = (each for each in self.archive.rglob("*") if each.is_file())
        return {str(each.relative_to(self.archive)): each.read_text() for each in files}

    def unread(self) -> list[str]:
        return [each.read_text() for each in self.source.rglob("*") if each.is_file()]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_file_keeps_its_path_and_its_time(place: Place) -> None:
    found = place.write("day=1/a b.json", "a")

    place.remove(found)

    assert place.archived() == {"day=1/a b.json": "a"}
    assert str((place.archive / "day=1/a b.json").stat().st_mtime_ns) == found.version
    assert place.unread() == []


def test_a_file_that_the_path_itself_names_keeps_its_name(tmp_path: Path) -> None:
    place = Place(tmp_path, "in/a.json")
    found = place.write("a.json", "a")

    DirectoryRemover(place.lister, f"{place.source}/a.json/", place.archive)(found)

    assert place.archived() == {"a.json": "a"}


def test_a_file_is_deleted(tmp_path: Path) -> None:
    place = Place(tmp_path, deletes=True)
    found = place.write("a.json", "a")
    place.write("b.json", "b")

    place.remove(found)

    assert place.unread() == ["b"]


@pytest.mark.parametrize("deletes", [False, True])
def test_a_file_that_was_replaced_after_reading_stays(tmp_path: Path, deletes: bool) -> None:
    place = Place(tmp_path, deletes=deletes)
    found = place.write("a.json", "a")
    place.write("a.json", "another")

    place.remove(found)

    assert place.unread() == ["another"]
    assert place.archived() == {}


def test_a_file_that_is_gone_is_passed_over(place: Place) -> None:
    found = place.write("a.json", "a")
    place.remove(found)

    place.remove(found)

    assert place.archived() == {"a.json": "a"}


def test_another_file_in_the_archive_is_not_replaced(place: Place) -> None:
    place.remove(place.write("x/a.json", "first"))
    second = place.write("x/a.json", "second")

    place.remove(second)

    assert place.archived() == {"x/a.json": "first", f"x/{second.version}-a.json": "second"}


def test_a_file_stays_where_the_archive_has_both_names(place: Place) -> None:
    place.remove(place.write("a.json", "first"))
    second = place.write("a.json", "second")
    (place.archive / f"{second.version}-a.json").write_text("taken")

    with pytest.raises(FileStays, match=r"cannot archive .*/a\.json: .*exists as well"):
        place.remove(second)

    assert place.unread() == ["second"]


def test_a_refused_renaming_leaves_no_trace(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    found = place.write("a.json", "a")
    monkeypatch.setattr(Path, "rename", refuse)

    with pytest.raises(FileStays, match="Invalid cross-device link"):
        place.remove(found)

    assert place.archived() == {}
    assert place.unread() == ["a"]


def test_a_directory_that_refuses_is_said(tmp_path: Path) -> None:
    place = Place(tmp_path)
    found = place.write("a.json", "a")
    place.archive.write_text("a file, not a directory")

    with pytest.raises(FileStays) as caught:
        place.remove(found)

    assert caught.value.what.startswith(f"cannot archive {found.key}: ")
    assert str(place.archive) in caught.value.fix


class Killed(BaseException):
    """The process ends."""


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "x/a"]), st.integers(0, 3)), max_size=12))
def test_each_content_is_in_one_place_however_often_the_process_is_killed(steps: list[tuple[str, int]]) -> None:
    """Files come again under the same names; a process ends before one of its steps."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        place = Place(Path(name))
        left = -1

        def killable(step: str) -> None:
            real = getattr(Path, step)

            def call(*args: object, **kwargs: object) -> object:
                nonlocal left
                left -= 1
                if left == 0:
                    raise Killed
                return real(*args, **kwargs)

            patch.setattr(Path, step, call)

        for each in ("mkdir", "touch", "rename"):
            killable(each)
        for number, (file, step) in enumerate(steps):
            left = -1
            found = place.write(file, f"content {number}")
            os.utime(found.key, ns=(number, number))
            (found,) = (each for each in place.lister.page("").objects if each.key == found.key)
            left = step
            for _ in range(2):
                with contextlib.suppress(Killed):
                    place.remove(found)
                left = -1
        kept = Counter(each for each in [*place.archived().values(), *place.unread()] if each)
        assert kept == Counter(f"content {number}" for number in range(len(steps)))
        assert place.unread() == []
