"""Of the output of a plain query, what its log names is found, once and in any order of compaction."""

from __future__ import annotations

import json

import pytest

from streamjob.store.base import ObjectMissing, StoreUnavailable
from streamjob.stored.sparks_output import UnknownSinkLog
from streamjob_runtime.discovery.committed_files import CommittedFiles
from streamjob_runtime.discovery.objects import Found, Page


def found(name: str) -> Found:
    return Found(f"/out/{name}", 1, 0, "1")


class Output:
    """An output directory; a page of its listing has two files."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.log: dict[str, bytes] = {}
        self.gone: set[str] = set()
        self.listings = 0
        self.lister = CommittedFiles(
            lambda: self.log, self.read, lambda uri: uri.removeprefix("file:"), self, self.find
        )

    def commit(self, entry: str, *names: str, action: str = "add") -> None:
        lines = [json.dumps({"path": f"file:/out/{each}", "action": action}) for each in names]
        self.log[entry] = "\n".join(["v1", *lines]).encode()
        self.files += [each for each in names if each not in self.files]

    def read(self, name: str) -> bytes:
        if name in self.gone:
            raise ObjectMissing(f"{name} does not exist")
        return self.log[name]

    def page(self, after: str) -> Page:
        self.listings += 1
        behind = [each for each in sorted(self.files) if f"/out/{each}" > after]
        objects = [found(each) for each in behind[:2]]
        return Page(objects, objects[-1].key if len(behind) > 2 else None)

    def find(self, key: str) -> Found | None:
        name = key.removeprefix("/out/")
        return found(name) if name in self.files else None

    def check(self) -> list[str]:
        """Return the names of a whole listing."""
        names, end = [], ""
        while True:
            page = self.lister.page(end)
            names += [each.key.removeprefix("/out/") for each in page.objects]
            if page.end is None:
                return names
            end = page.end


@pytest.fixture
def output() -> Output:
    output = Output()
    output.files += ["b-stray", "z-stray"]
    output.commit("0", "a", "c")
    output.commit("1", "d", "e")
    return output


def test_only_what_the_log_names_is_found(output: Output) -> None:
    assert output.check() == ["a", "c", "d", "e"]


def test_later_batches_are_found_without_another_listing(output: Output) -> None:
    output.check()
    listings = output.listings
    output.files.append("f-stray")
    assert output.check() == []
    output.commit("2", "b")
    output.commit("3", "0")

    assert output.check() == ["b", "0"]
    assert output.check() == []
    assert output.listings == listings


def test_a_compaction_names_what_was_found_and_what_is_new(output: Output) -> None:
    output.check()
    output.commit("2.compact", "a", "c", "d", "e", "f")
    output.log.pop("0")

    assert output.check() == ["f"]


def test_what_was_removed_since_it_was_committed_is_not_found(output: Output) -> None:
    output.files.remove("c")
    assert output.check() == ["a", "d", "e"]
    output.commit("2", "f")
    output.commit("3", "f", action="delete")

    assert output.check() == []


def test_an_entry_that_cannot_be_read_is_read_by_the_next_check(output: Output) -> None:
    output.gone.add("1")
    with pytest.raises(StoreUnavailable):
        output.check()
    output.gone.clear()
    assert output.check() == ["a", "c", "d", "e"]
    output.commit("2", "f")
    output.gone.add("2")
    with pytest.raises(StoreUnavailable):
        output.check()
    output.gone.clear()
    assert output.check() == ["f"]


def test_an_empty_log_names_nothing_yet() -> None:
    output = Output()
    output.files.append("a-stray")
    assert output.check() == []
    output.commit("0", "b")

    assert output.check() == ["b"]


def test_a_log_that_goes_ends_the_search(output: Output) -> None:
    output.check()
    output.log.clear()
    with pytest.raises(ObjectMissing, match="is gone"):
        output.check()


def test_a_log_with_a_gap_ends_the_search(output: Output) -> None:
    output.commit("3", "f")
    with pytest.raises(UnknownSinkLog):
        output.check()
