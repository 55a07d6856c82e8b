"""A source of files lists just its files, in the order of their keys, from any place on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjob_runtime.discovery.directory_lister import DirectoryLister, UnreadableDirectory
from streamjob_runtime.discovery.objects import Found
from streamjob_runtime.discovery.patterns import SourceFiles, UnreadableKey

NAMES = [
    "a", "a.json", "a-1/x", "a/x", "a/b/x", "d=1/x", "d=1/e=2/x", "d=1/sub/x", "d=1/_temporary/x", ".hidden/x", "_h",
    "ä", "a:b", "z", "[x]", "x{1,2}", "day=2/é", "in-1/x", "in-1/d=3/x", "in-2/x", "in-2/sub/x", "\U0001f600", "\uffff",
]  # fmt: skip


def listed(path: str, after: str = "", **options: str) -> list[Found]:
    return list(pages(DirectoryLister(SourceFiles(path, options)), after))


def pages(lister: DirectoryLister, after: str) -> Iterator[Found]:
    end: str | None = after
    while end is not None:
        page = lister.page(end)
        yield from page.objects
        end = page.end


def relative(directory: Path, found: list[Found]) -> list[str]:
    return [each.key.removeprefix(f"{directory}/") for each in found]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("in")
    for name in NAMES:
        # Of a file and a directory of one name, here is the file only.
        if not any(other.startswith(f"{name}/") for other in NAMES):
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(name)
    return directory


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("", {}),
        ("/", {"recursiveFileLookup": "true"}),
        ("/*", {}),
        ("/in-*", {}),
        ("/in-{1,2}/", {"recursiveFileLookup": "true"}),
        ("/{in-1/d=3,a}", {}),
        ("/a/*/x", {}),
        ("", {"pathGlobFilter": "x"}),
        ("/a.json", {}),
        ("/nothing", {}),
    ],
)
def test_just_the_files_of_the_source_are_listed_and_no_directory_that_has_none(
    directory: Path, path: str, options: dict[str, str]
) -> None:
    of = SourceFiles(f"{directory}{path}", options)
    every = [Path(place) / name for place, _, names in os.walk(directory) for name in names]
    expected = {str(file) for file in every if of.is_of_source(str(file)[1:], 1)}
    entered: list[str] = []

    def scan(place: str) -> Iterator[os.DirEntry[str]]:
        entered.append(place)
        return os.scandir(place)

    found = list(pages(DirectoryLister(of, scan), ""))

    assert {each.key for each in found} == expected
    assert [each.key for each in found] == sorted((each.key for each in found), key=str.encode)
    if options.get("recursiveFileLookup") is None and path == "":
        assert not [each for each in entered if each.endswith(("/sub/_temporary/", "/.hidden/", "/a-1/", "/in-1/"))]


@given(after=st.sampled_from([*NAMES, "", "a/", "d=1/e=2/", "~", "d=1/e"]), size=st.integers(1, 4))
def test_a_listing_goes_on_behind_any_key(directory: Path, after: str, size: int) -> None:
    whole = listed(str(directory), recursiveFileLookup="true")
    of = SourceFiles(str(directory), {"recursiveFileLookup": "true"})
    lister = DirectoryLister(of, page_size=size)

    found = list(pages(lister, f"{directory}/{after}"))

    assert found == [each for each in whole if each.key.encode() > f"{directory}/{after}".encode()]


def test_a_file_that_was_replaced_or_has_vanished_is_seen(tmp_path: Path) -> None:
    for name in ("same", "other", "gone"):
        (tmp_path / name).write_text(name)
    lister = DirectoryLister(SourceFiles(str(tmp_path), {}))
    gone, other, same = listed(str(tmp_path))

    assert lister.changed([gone, other, same]) is None
    (tmp_path / "gone").unlink()
    os.utime(tmp_path / "other", ns=(0, other.modified_ms * 1_000_000 + 1))
    assert lister.changed([same]) is None
    assert lister.changed([same, other]) == other
    assert lister.changed([gone]) == gone


def test_a_directory_that_was_removed_has_no_files_and_one_that_is_closed_is_an_error(tmp_path: Path) -> None:
    assert listed(str(tmp_path / "none")) == []

    def closed(place: str) -> Iterator[os.DirEntry[str]]:
        raise PermissionError(13, "Permission denied", place)

    with pytest.raises(UnreadableDirectory, match=f"{tmp_path}/ cannot be read: Permission denied"):
        DirectoryLister(SourceFiles(str(tmp_path), {}), closed).page("")


def test_what_is_no_file_is_left_out_and_a_name_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert listed(str(tmp_path)) == []

    (Path(os.fsdecode(bytes(tmp_path) + b"/\xff"))).touch()
    with pytest.raises(UnreadableKey, match="the name is not in UTF-8"):
        listed(str(tmp_path))


def test_a_link_to_itself_and_one_file_as_the_path_stop_no_listing(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / ".latest").symlink_to(tmp_path / ".latest")
    assert relative(tmp_path, listed(str(tmp_path))) == ["a"]

    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(UnreadableDirectory, match=f"{tmp_path}/loop cannot be read: Too many levels"):
        listed(str(tmp_path))
    assert listed(f"{tmp_path}/a/_spark_metadata/[0-9]*") == []
