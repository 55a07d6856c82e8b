"""A bounded source of files reads those that existed at its first start, and says which of them are gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from streamjob.job.model.spec import SourceSpec
from streamjob_runtime.chain.sources.bounded_files import BoundedEnd, BoundedFilesGone
from streamjob_runtime.chain.sources.discovered_files import DiscoveredFiles

NO_SPARK = cast(Any, None)


def files(path: Path | str) -> DiscoveredFiles:
    options = {"path": str(path)}
    source = SourceSpec.model_validate({"name": "orders", "format": "text", "options": options, "bounded": True})
    return DiscoveredFiles(NO_SPARK, source, options)


def touch(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).touch()


def test_an_end_holds_the_files_that_are_there(tmp_path: Path) -> None:
    touch(tmp_path, "a*.txt", "day=1/b.txt", "other/c.txt", "_hidden")

    for path in (tmp_path, f"file:{tmp_path}", f"{tmp_path.parent}/{tmp_path.name[:-1]}?/"):
        assert files(path).end().paths == {f"{tmp_path}/a*.txt", f"{tmp_path}/day=1/b.txt"}


def test_a_single_file_may_be_the_path_itself(tmp_path: Path) -> None:
    touch(tmp_path, "a.txt", "b.txt")

    assert files(tmp_path / "a.txt").end().paths == {f"{tmp_path}/a.txt"}


def test_an_empty_directory_is_an_end_without_files(tmp_path: Path) -> None:
    assert files(tmp_path).end().paths == frozenset()


def test_an_end_survives_the_manifest() -> None:
    end = BoundedEnd("/in", ("a.json", "b.json"))

    assert BoundedEnd.from_json(end.to_json()) == end


def test_missing_files_are_named(tmp_path: Path) -> None:
    touch(tmp_path, "a")
    end = BoundedEnd(str(tmp_path), ("a", "b"))

    with pytest.raises(BoundedFilesGone, match="'orders': 1 of the 2 files that it is to read are gone") as gone:
        files(tmp_path).check_end(end, frozenset())

    assert f"{tmp_path}/b" in gone.value.what
    assert gone.value.exit_code == 3


def test_files_that_were_read_already_may_be_gone(tmp_path: Path) -> None:
    files(tmp_path).check_end(BoundedEnd(str(tmp_path), ("a",)), frozenset({f"{tmp_path}/a"}))
