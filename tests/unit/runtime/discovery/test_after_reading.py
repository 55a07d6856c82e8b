"""Objects that a source has read are removed once they may go, however often it is killed or S3 refuses."""

from __future__ import annotations

import logging
import shutil
import tempfile
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.runtime.discovery.test_entries import found, small_limits, write_entry

from streamjob.errors import StreamJobError
from streamjob_runtime.discovery import after_reading
from streamjob_runtime.discovery.after_reading import AfterReading, forget_lists
from streamjob_runtime.discovery.entries import compact, entry_files
from streamjob_runtime.discovery.objects import Found
from streamjob_runtime.spark.checkpoint_dir.sources import _kept


class World:
    """A bucket, the source's folder, and the process that reads."""

    def __init__(self, folder: Path, age: float = 0.0) -> None:
        self.folder = folder
        self.folder.mkdir()
        self.age = age
        self.now = 1000.0
        self.entries: list[list[Found]] = []
        self.committed = self.covered = -1
        self.floor = -1
        self.bucket: dict[str, str] = {}
        self.read_at: dict[str, float] = {}
        self.removed: list[Found] = []
        self.refused: set[str] = set()
        self.begin()

    def begin(self) -> None:
        self.after = AfterReading(
            who="Source 'in'", folder=self.folder, remove=self.remove, age=self.age, clock=lambda: self.now
        )

    def remove(self, each: Found) -> None:
        if each.key in self.refused:
            raise StreamJobError(f"cannot delete {each.key}", "allow it")
        if self.bucket.get(each.key) == each.version:
            assert each in chain(*self.entries[: self.covered + 1]), "a retained checkpoint has not read it"
            assert self.now >= self.read_at[each.key] + self.age - 1
            self.removed.append(each)
            del self.bucket[each.key]

    def read(self, *files: Found) -> None:
        self.entries.append(list(files))
        write_entry(self.folder, len(self.entries) - 1, list(files))
        for each in files:
            self.bucket[each.key] = each.version
            self.read_at[each.key] = self.now

    def commit(self) -> None:
        self.committed = len(self.entries) - 1
        compact(self.folder, self.committed, before=self.after.list_until)

    def cover(self, entry: int) -> None:
        self.covered = entry
        self.floor = max(self.floor, entry)
        self.after.covered(entry)
        self.after.run_once()

    def restart(self, position: int) -> None:
        """Go on from a cut, in a directory of its own; what it has not read is read again."""
        kept = _kept(entry_files(self.folder), f'{{"files":{position}}}') if position >= 0 else []
        copy = self.folder.with_name(f"{self.folder.name}x")
        copy.mkdir()
        for name in kept:
            shutil.copyfile(self.folder / name, copy / name)
        shutil.rmtree(self.folder)
        copy.rename(self.folder)
        unread = list(chain(*self.entries[position + 1 :]))
        del self.entries[position + 1 :]
        self.committed = position
        self.covered = -1
        self.begin()
        assert all(self.bucket.get(each.key) == each.version for each in unread), "an unread object is lost"
        if unread:
            self.read(*unread)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "0")


def test_what_is_covered_goes_and_the_rest_stays(world: World) -> None:
    world.read(found(1))
    world.read(found(2))

    world.cover(0)

    assert world.removed == [found(1)]
    assert list(world.bucket) == [found(2).key]


def test_a_damaged_file_stays(world: World) -> None:
    damaged = replace(found(1), damage="cut")
    world.read(damaged, found(2))
    world.read(found(3))

    world.cover(1)

    assert world.removed == [found(2), found(3)]
    assert list(world.bucket) == [damaged.key]


def test_each_object_is_tried_once_while_it_runs(world: World) -> None:
    world.read(found(1))
    world.cover(0)
    world.bucket[found(1).key] = found(1).version

    world.cover(0)

    assert world.removed == [found(1)]


def test_deletion_waits_for_its_age_also_over_restarts(tmp_path: Path) -> None:
    world = World(tmp_path / "0", age=100.0)
    world.read(found(1))
    world.cover(0)
    world.now += 99
    world.restart(0)
    world.cover(0)
    assert world.removed == []

    world.now += 2
    world.restart(0)
    world.cover(0)

    assert world.removed == [found(1)]


def test_one_object_that_cannot_go_holds_no_other_back_and_is_said_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.read(found(1), found(2))
    world.read(found(3))
    world.refused = {found(1).key}
    with caplog.at_level(logging.WARNING, "streamjob"):
        world.cover(1)
        world.cover(1)
    assert list(world.bucket) == [found(1).key]
    (said,) = caplog.messages
    assert said.startswith("Source 'in': ")
    assert found(1).key in said
    assert said.endswith("cannot delete s3a://bucket/in/1.json: allow it")

    world.refused = set()
    world.cover(1)

    assert world.bucket == {}


def test_what_is_not_removed_in_a_run_of_failures_waits(world: World) -> None:
    files = [found(number) for number in range(100)]
    world.read(*files)
    world.refused = {each.key for each in files[:50]}
    world.cover(0)
    assert len(world.bucket) > 50

    world.refused = set()
    world.cover(0)

    assert world.bucket == {}


def test_names_outlive_a_compaction_also_when_many_lists_wait(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(after_reading, "MOST_LISTS", 2)
    world.age = 1e9
    world.begin()
    with small_limits():
        for number in range(40):
            world.read(found(number))
            world.commit()
            world.cover(number)
    assert len(list(world.folder.glob("*.read"))) < 15

    world.age = 0.0
    world.restart(39)
    world.cover(39)
    world.cover(39)

    assert world.bucket == {}


def test_a_source_without_the_option_needs_no_lists(world: World) -> None:
    world.read(found(1))
    world.after.list_until(0)

    forget_lists(world.folder)

    assert entry_files(world.folder) == ["0"]


steps = st.lists(
    st.one_of(
        st.integers(0, 5).map(lambda number: ("read", number)),
        st.just(("commit", 0)),
        st.integers(0, 4).map(lambda lag: ("cover", lag)),
        st.integers(0, 4).map(lambda lag: ("restart", lag)),
        st.integers(0, 3).map(lambda each: ("refuse", each)),
        st.just(("replace", 0)),
    ),
    max_size=40,
)


@given(steps, st.sampled_from([0.0, 30.0]))
def test_each_object_is_removed_once_and_none_before_it_may_go(sequence: list[tuple[str, int]], age: float) -> None:
    with tempfile.TemporaryDirectory() as name, small_limits(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(after_reading, "MOST_LISTS", 3)
        world = World(Path(name) / "0", age)
        number = 0
        replaced: dict[str, str] = {}
        for step, given_ in sequence:
            world.now += 7
            if step == "read":
                world.read(*(found(number + each) for each in range(given_)))
                number += given_
            elif step == "commit":
                world.commit()
            elif step == "refuse":
                world.refused = {each for place, each in enumerate(world.bucket) if place % 3 < given_}
            elif step == "replace" and world.bucket:
                key = next(iter(world.bucket))
                if key in {each.key for each in chain(*world.entries[: world.floor + 1])}:
                    replaced[key] = world.bucket[key] = "another"
            elif step == "cover":
                # The oldest of the retained checkpoints, which are of this epoch.
                world.commit()
                world.cover(max(world.floor, world.committed - given_))
            elif step == "restart":
                # From any retained checkpoint.
                world.commit()
                world.restart(max(world.floor, world.committed - given_))
        world.refused = set()
        world.commit()
        world.cover(world.committed)
        world.restart(world.committed)
        for _ in range(3):
            world.now += 60
            world.cover(world.committed)
        assert world.bucket == replaced
        assert len(world.removed) == len(set(world.removed)) == number - len(replaced)
