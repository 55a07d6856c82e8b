"""After a restart at any position that a cut may have, a source knows exactly what it had read there."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjob_runtime.discovery import entries as module
from streamjob_runtime.discovery.entries import (
    adopt,
    compact,
    entry_files,
    is_due,
    last_entry,
    load,
    read_entry,
    write_known,
)
from streamjob_runtime.discovery.known import head, record
from streamjob_runtime.discovery.objects import Classified, Found
from streamjob_runtime.spark.checkpoint_dir.errors import UnreadableCheckpointFile
from streamjob_runtime.spark.checkpoint_dir.file_entries import needed_files, newest_known


def found(number: int, version: str = "v", modified_ms: int = 1_000) -> Found:
    return Found(f"s3a://bucket/in/{number}.json", number, modified_ms, version)


def write_entry(folder: Path, number: int, files: list[Found]) -> None:
    """Write an entry as the source in Java does."""
    values = [
        {"path": f.key, "size": f.size, "modified": f.modified_ms, "version": f.version}
        | ({} if f.damage is None else {"error": f.damage})
        for f in files
    ]
    (folder / str(number)).write_text("\n".join(["v1", *(json.dumps(v, ensure_ascii=False) for v in values)]), "utf-8")


def known_files(folder: Path) -> list[int]:
    return sorted(int(name.removesuffix(".known")) for name in entry_files(folder) if name.endswith(".known"))


class Source:
    """A source's directory, and what was read in each entry."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read: list[list[Found]] = []
        self.committed = -1

    @property
    def last(self) -> int:
        return len(self.read) - 1

    def plan(self, files: list[Found]) -> None:
        self.read.append(files)
        write_entry(self.folder, self.last, files)

    @contextmanager
    def cut(self, position: int) -> Iterator[Path]:
        """Yield another directory with what a cut at a position has."""
        with tempfile.TemporaryDirectory() as name:
            for file in needed_files(entry_files(self.folder), position):
                shutil.copyfile(self.folder / file, Path(name) / file)
            yield Path(name)

    def restart(self) -> None:
        """Go on from a cut at the committed position."""
        with self.cut(self.committed) as copy:
            shutil.rmtree(self.folder)
            shutil.copytree(copy, self.folder)
        del self.read[self.committed + 1 :]

    def latest(self, position: int) -> dict[str, Found]:
        return {each.key: each for entry in self.read[: position + 1] for each in entry}


reads = st.lists(
    st.builds(found, st.integers(0, 20), st.sampled_from("vwx"), st.integers(0, 9)),
    max_size=8,
    unique_by=lambda f: f.key,
)
steps = st.lists(st.one_of(reads, st.sampled_from(["commit", "commit", "lag", "restart"])), max_size=40)


def run(source: Source, step: object, forget_before_ms: int | None) -> None:
    if isinstance(step, list):
        source.plan(step)
    elif step == "restart":
        source.restart()
    else:
        source.committed = max(source.committed, source.last - (step == "lag"))
        if forget_before_ms is None:
            compact(source.folder, source.committed)
        else:
            compact(source.folder, source.committed, forget_before_ms)


@contextmanager
def small_limits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("KEPT_ENTRIES", 3), ("MOST_ENTRIES", 4), ("MOST_FILES", 12)):
            patch.setattr(module, name, value)
        yield


@given(steps)
def test_a_cut_at_each_position_knows_exactly_what_was_read_there(sequence: list[object]) -> None:
    everything = [found(number, version) for number in range(21) for version in "vwx"]
    with tempfile.TemporaryDirectory() as name, small_limits():
        source = Source(Path(name) / "0")
        source.folder.mkdir()
        earliest = -1
        for step in sequence:
            run(source, step, None)
            # A restart brings the files of its own cut alone.
            earliest = source.committed if step == "restart" else max(earliest, source.committed - 3)
            assert newest_known(entry_files(source.folder), 1_000) < max(source.committed, 0)
            for position in range(earliest, source.last + 1):
                with source.cut(position) as copy:
                    known, recent = load(copy, position)
                versions = {key: each.version for key, each in source.latest(position).items()}
                assert known.classify(everything) == Classified(
                    new=[each for each in everything if each.key not in versions],
                    replaced=[each for each in everything if versions.get(each.key, each.version) != each.version],
                )
                last_read = source.read[position] if position >= 0 else []
                assert recent[len(recent) - len(last_read) :] == last_read


@given(steps, st.integers(0, 10))
def test_what_was_read_is_not_new_although_it_was_forgotten(sequence: list[object], forget_before_ms: int) -> None:
    with tempfile.TemporaryDirectory() as name, small_limits():
        source = Source(Path(name) / "0")
        source.folder.mkdir()
        for step in sequence:
            run(source, step, forget_before_ms)
            latest = source.latest(source.committed)
            with source.cut(source.committed) as copy:
                known, _ = load(copy, source.committed)
            result = known.classify(list(latest.values()))
            assert (result.new, result.replaced) == ([], [])
            assert all(each.modified_ms < forget_before_ms for each in latest.values() if each.key not in known)


@pytest.mark.parametrize(
    ("entries", "files", "known", "due"),
    [
        (0, 0, 0, False),
        (100, 1_000, 0, False),
        (101, 101, 0, True),
        (1, 1_001, 0, True),
        (1, 1_001, 40_000, False),
        (1, 2_001, 40_000, True),
    ],
)
def test_what_is_known_is_written_when_the_entries_behind_it_are_many(
    entries: int, files: int, known: int, due: bool
) -> None:
    assert is_due(entries, files, known) == due


def test_a_newer_file_of_known_objects_begins_with_the_older_one(tmp_path: Path) -> None:
    for number in range(8):
        write_entry(tmp_path, number, [found(number), found(number + 100)])
        if number % 2:
            write_known(tmp_path, number)

    contents = [(tmp_path / f"{number}.known").read_bytes() for number in known_files(tmp_path)]

    assert known_files(tmp_path) == [1, 3, 5, 7]
    assert all(newer.startswith(older) for older, newer in pairwise(contents))
    assert contents[0] == head() + b"".join(map(record, (found(0), found(100), found(1), found(101))))


@pytest.mark.parametrize(("forget_before_ms", "records"), [(1, 100), (26, 100), (27, 74)])
def test_a_file_of_known_objects_begins_anew_when_more_than_a_quarter_is_forgotten(
    tmp_path: Path, forget_before_ms: int, records: int
) -> None:
    write_entry(tmp_path, 0, [found(number, modified_ms=number) for number in range(1, 101)])

    write_known(tmp_path, 0, forget_before_ms)

    assert (tmp_path / "0.known").stat().st_size == 32 * (1 + records)


def test_objects_that_are_replaced_all_the_time_do_not_make_the_file_grow_all_the_time(tmp_path: Path) -> None:
    for number in range(50):
        write_entry(tmp_path, number, [found(each, f"v{number}") for each in range(10)])
        write_known(tmp_path, number)

    assert (tmp_path / "49.known").stat().st_size <= 32 * (1 + 20)
    assert load(tmp_path, 49)[0].classify([found(each, "v49") for each in range(10)]) == Classified()


def test_entries_and_files_of_known_objects_do_not_pile_up(tmp_path: Path) -> None:
    for number in range(450):
        write_entry(tmp_path, number, [found(number)])
        compact(tmp_path, number)
        names = entry_files(tmp_path)
        assert len(names) <= 100 + 2 * 102
        assert set(map(str, range(number - 100, number + 1))) & set(map(str, range(number + 1))) <= set(names)

    assert len(load(tmp_path, 449)[0]) == 450


def test_an_object_with_any_name_is_read(tmp_path: Path) -> None:
    files = [Found('s3a://b/\u2028 ü\x85\r\n".json', 1, 2, ""), found(1)]
    write_entry(tmp_path, 0, files)

    assert read_entry(tmp_path, 0) == files


def test_an_entry_says_what_is_wrong_with_a_file_that_was_left_out(tmp_path: Path) -> None:
    write_entry(tmp_path, 0, [replace(found(1), damage="cut"), found(2)])

    assert [each.damage for each in read_entry(tmp_path, 0)] == ["cut", None]


def test_a_source_that_has_read_nothing_knows_nothing(tmp_path: Path) -> None:
    known, recent = load(tmp_path / "missing", -1)

    assert (len(known), recent) == (0, [])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("1", None),
        ("1", b""),
        ("1", b"v2\n"),
        ("1", b"v1\n{broken"),
        ("1", b"v1\n[]"),
        ("1", b'v1\n{"path":"a","size":1,"modified":2}'),
        ("1", b'v1\n{"path":"a","size":null,"modified":2,"version":""}'),
        ("0.known", b""),
        ("0.known", head()[:-1]),
        ("0.known", b"v1\n" + bytes(61)),
    ],
)
def test_a_file_that_is_missing_or_broken_is_named(tmp_path: Path, name: str, content: bytes | None) -> None:
    for number in range(3):
        write_entry(tmp_path, number, [found(number)])
    write_known(tmp_path, 0)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)

    with pytest.raises(UnreadableCheckpointFile, match=f"entry {name}" if content is None else f"/{name} "):
        load(tmp_path, 2)
    with pytest.raises(UnreadableCheckpointFile, match=f"/{name} "):
        write_known(tmp_path, 2)
    assert known_files(tmp_path) == [0]


def test_a_source_goes_on_behind_the_log_of_sparks_own_stream(tmp_path: Path) -> None:
    """Each version of what Spark has read counts as read; what it has only listed is found again."""

    def line(number: int) -> str:
        return json.dumps({"path": f"s3a://b/in/a%20{number}.json", "timestamp": number, "batchId": number})

    (tmp_path / "9.compact").write_text("\n".join(("v1", *map(line, range(10)))))
    (tmp_path / "10").write_text(f"v1\n{line(10)}")
    (tmp_path / "11").write_text(f"v1\n{line(11)}")
    found = [Found(f"s3a://b/in/a {number}.json", 5, 0, "version") for number in range(12)]

    known = adopt(tmp_path, 10)

    classified = known.classify(found)
    assert (classified.new, classified.replaced) == ([found[11]], [])
    assert known.forget(1) == 0
    assert known.classify(found[:11]).new == []
    assert not (tmp_path / "11").exists()
    (tmp_path / "11").write_text(
        "v1\n" + json.dumps({"path": found[11].key, "size": 5, "modified": 0, "version": "version"})
    )
    assert last_entry(tmp_path) == 11
    again, recent = load(tmp_path, 11)
    assert (again.classify(found).new, again.classify(found).replaced, recent) == ([], [], [found[11]])
