"""The store of `docs/how-to/write-a-store.md` passes the kit, and the document shows the code that is tested here."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamjob.ids import Key
from streamjob.store import Store
from streamjob.store.opening import open_location, open_object
from streamjob.store.probe import probe
from streamjob.stored.locations import NothingStored, find_jobs
from streamjob.testing.store_kit import StoreConformance

EXAMPLE = Path(__file__).with_name("example_store.py")
HOW_TO = Path(__file__).parents[3] / "docs" / "how-to" / "write-a-store.md"

_SPEC = importlib.util.spec_from_file_location("example_store", EXAMPLE)
assert _SPEC is not None
assert _SPEC.loader is not None
example = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(example)


class TestSqliteStore(StoreConformance):
    def make_store(self, place: Path, prefix: str) -> Store:
        place.mkdir(exist_ok=True)
        store: Store = example.SqliteStore(place / "objects.db", prefix)
        return store

    @contextmanager
    def outage(self, place: Path) -> Iterator[None]:
        database = place / "objects.db"
        hidden = database.rename(place / "hidden.db")
        database.mkdir()
        yield
        database.rmdir()
        hidden.rename(database)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a package with the example and its entry point on the import path."""
    (tmp_path / "sqlite_store.py").write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    metadata = tmp_path / "sqlite_store-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: sqlite-store\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[streamjob.stores]\nsqlite = sqlite_store:open_store\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("SQLITE_STORES", str(tmp_path))


@pytest.mark.usefixtures("installed")
def test_a_location_is_opened_by_the_package_that_registered_its_scheme(tmp_path: Path) -> None:
    store = open_location("sqlite://checkpoints/team").job("default", "flights").store()
    store.put(Key("a"), b"content")

    assert store.uri == "sqlite://checkpoints/team/default/flights/"
    other, key = open_object(f"{store.uri}a")
    assert other.get(key) == b"content"
    assert (tmp_path / "checkpoints.db").is_file()


@pytest.mark.usefixtures("installed")
def test_a_job_may_start_on_the_example() -> None:
    probe(open_location("sqlite://checkpoints/team").store(), "unique", 0)


@pytest.mark.usefixtures("installed")
def test_commands_look_for_snapshots_in_the_example() -> None:
    with pytest.raises(NothingStored, match="sqlite://checkpoints/team/ holds no log of a job"):
        find_jobs("sqlite://checkpoints/team")


def test_the_how_to_shows_the_tested_example() -> None:
    shown = re.findall(r"^```python\n(.*?)^```$", HOW_TO.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)

    assert shown[0] == EXAMPLE.read_text(encoding="utf-8").partition("\n\n")[2]
