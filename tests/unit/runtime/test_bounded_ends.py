"""Where a bounded source ends, as a pattern that matches its files and no others."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

import pytest

from streamjob.ids import OperatorUid
from streamjob_runtime.chain.sources.bounded_files import (
    AmbiguousFiles,
    BoundedEnd,
    BoundedFilesGone,
    FileReader,
    check_end,
    fix_end,
)

NO_SPARK = cast(Any, None)


class Listed(FileReader):
    """A reader that finds what a test says."""

    found: tuple[str, ...] = ()

    def files(self, spark: object, path: str) -> tuple[str, ...]:
        return self.found


def reader(*found: str) -> Listed:
    made = Listed("json", None, {})
    object.__setattr__(made, "found", found)
    return made


def test_an_end_holds_the_files_that_are_there_relative_to_their_directory() -> None:
    end = fix_end(NO_SPARK, reader("/in/a.json", "/in/day=1/b.json"), "/in/")

    assert (end.root, end.files) == ("/in", ("a.json", "day=1/b.json"))
    assert end.paths == {"/in/a.json", "/in/day=1/b.json"}
    assert end.pattern == "/in/{a.json,day=1/b.json}"


def test_files_of_a_pattern_get_their_common_directory_as_root() -> None:
    end = fix_end(NO_SPARK, reader("/in/2025/a.json", "/in/2026/a.json"), "/in/*/a.json")

    assert (end.root, end.files) == ("/in", ("2025/a.json", "2026/a.json"))


def test_a_single_file_may_be_the_path_itself() -> None:
    end = fix_end(NO_SPARK, reader("/in/a.json"), "/in/a.json")

    assert (end.root, end.files) == ("/in", ("a.json",))
    assert fnmatchcase("/in/a.json", end.pattern)
    assert not fnmatchcase("/in/b.json", end.pattern)


def test_an_empty_directory_is_an_end_that_nothing_matches() -> None:
    end = fix_end(NO_SPARK, reader(), "/in")

    assert end.paths == frozenset()
    assert "*" not in end.pattern


def test_an_end_survives_the_manifest() -> None:
    end = BoundedEnd("/in", ("a.json", "b.json"))

    assert BoundedEnd.from_json(end.to_json()) == end


@pytest.mark.parametrize("character", list("\\{}[]*?,^"))
def test_characters_with_a_meaning_in_patterns_are_matched_by_any(character: str) -> None:
    end = BoundedEnd("/in", (f"a{character}b", "c"))

    assert end.pattern == "/in/{a?b,c}"


@pytest.mark.parametrize("special", ["", "?"], ids=["looked up", "listed"])
def test_missing_files_are_named(tmp_path: Path, special: str) -> None:
    there, gone_name = f"a{special}", f"b{special}"
    (tmp_path / there).touch()
    end = BoundedEnd(str(tmp_path), (there, gone_name))

    with pytest.raises(BoundedFilesGone, match="'orders': 1 of the 2 files that it is to read are gone") as gone:
        check_end(NO_SPARK, reader(f"{tmp_path}/{there}"), end, OperatorUid("orders"))

    assert f"{tmp_path}/{gone_name}" in gone.value.what
    assert gone.value.exit_code == 3


def test_files_that_were_read_already_may_be_gone(tmp_path: Path) -> None:
    end = BoundedEnd(str(tmp_path), ("a",))

    check_end(NO_SPARK, reader(), end, OperatorUid("orders"), frozenset({f"{tmp_path}/a"}))


def test_a_later_file_that_matches_too_is_refused() -> None:
    with pytest.raises(AmbiguousFiles, match="a1b"):
        check_end(NO_SPARK, reader("/in/a?b", "/in/a1b"), BoundedEnd("/in", ("a?b",)), OperatorUid("orders"))
