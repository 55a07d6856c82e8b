"""Locations whose scheme belongs to the store of another package."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamjob.errors import InvalidInput
from streamjob.store import LocalStore
from streamjob.store.opening import References, open_location
from streamjob.testing.memory_store import MemoryStore

MODULE = """
from streamjob.testing.memory_store import MemoryStore

opened = []

def open_store(uri, environment):
    opened.append((uri, dict(environment)))
    return MemoryStore(uri)
"""


class Packages:
    """Packages on the import path."""

    def __init__(self, directory: Path, module: str) -> None:
        self.directory = directory
        self.module = module
        (directory / f"{module}.py").write_text(MODULE)

    def install(self, package: str, *, function: str = "open_store") -> None:
        """Install a package that serves the scheme `mem`."""
        metadata = self.directory / f"{package}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[streamjob.stores]\nmem = {self.module}:{function}\n")

    def opened(self) -> list[tuple[str, dict[str, str]]]:
        """Return the URIs that stores were opened with, and the settings."""
        return list(__import__(self.module).opened)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Packages:
    monkeypatch.syspath_prepend(tmp_path)
    # Another module for each test: Python imports one only once.
    return Packages(tmp_path, f"mem_store_{abs(hash(request.node.nodeid))}")


@pytest.mark.parametrize(
    ("location", "uri"),
    [
        ("mem://place", "mem://place/"),
        ("mem://place/", "mem://place/"),
        ("mem://place/some/prefix//", "mem://place/some/prefix/"),
    ],
)
def test_a_location_has_one_absolute_form(packages: Packages, location: str, uri: str) -> None:
    packages.install("one")

    assert open_location(location).uri == uri


def test_the_function_of_the_package_receives_the_root_and_the_settings(packages: Packages) -> None:
    packages.install("one")
    store = open_location("mem://place/p").job("team", "flights").store({"KEY": "value"})

    assert isinstance(store, MemoryStore)
    assert packages.opened() == [("mem://place/p/team/flights/", {"KEY": "value"})]


def test_one_store_serves_all_references_into_a_place(packages: Packages, tmp_path: Path) -> None:
    packages.install("one")
    references = References(LocalStore(tmp_path))
    first, key = references.find("mem://place/a/b/1")
    second, _ = references.find("mem://place/a/c/2")

    assert first is second
    assert (first.uri, key) == ("mem://place/", "a/b/1")
    references.close()


@pytest.mark.parametrize(
    ("location", "message"),
    [("mem://", "names no place"), ("mem:///a", "names no place"), ("mem://place/a//b", "not a valid key")],
)
def test_a_location_that_cannot_be_used_says_why(packages: Packages, location: str, message: str) -> None:
    packages.install("one")
    with pytest.raises(InvalidInput, match=message) as caught:
        open_location(location)

    assert caught.value.fix


def test_an_unknown_scheme_says_that_a_package_may_be_missing() -> None:
    with pytest.raises(InvalidInput, match="unknown kind") as caught:
        open_location("mem://place")

    assert "install a package that has a store for mem://" in caught.value.fix


def test_two_packages_for_one_scheme_are_refused(packages: Packages) -> None:
    packages.install("one")
    packages.install("two", function="another")
    with pytest.raises(InvalidInput, match="several installed packages have a store for mem://"):
        open_location("mem://place")


def test_a_package_that_cannot_be_loaded_names_its_entry_point(packages: Packages) -> None:
    packages.install("one", function="gone")
    with pytest.raises(InvalidInput, match=rf"cannot be loaded from {packages.module}:gone"):
        open_location("mem://place").store()
