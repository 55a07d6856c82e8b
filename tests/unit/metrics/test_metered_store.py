"""The store that counts."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from streamjob.ids import Key
from streamjob.store.base import ObjectInfo, ObjectMissing, Store, StoreUnavailable
from streamjob_runtime.monitoring.metered_store import VERBS, MeteredStore, VerbCount

KEY = Key("shared/aa/1-x")


class Shelf:
    """A store in memory, whose next call may fail."""

    uri = "memory:///"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.failing: Exception | None = None
        self.closed = False

    def get(self, key: Key) -> bytes:
        self._fail()
        if key not in self.objects:
            raise ObjectMissing(f"{key} is missing")
        return self.objects[key]

    def get_range(self, key: Key, offset: int, length: int) -> bytes:
        return self.get(key)[offset : offset + length]

    def download(self, key: Key, target: Path) -> None:
        target.write_bytes(self.get(key))

    def put(self, key: Key, content: bytes | Path) -> None:
        self._fail()
        self.objects[key] = content if isinstance(content, bytes) else content.read_bytes()

    def put_if_absent(self, key: Key, content: bytes) -> bool:
        self._fail()
        return self.objects.setdefault(key, content) is content

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        self._fail()
        for key, content in sorted(self.objects.items()):
            if key.startswith(prefix) and key > start_after:
                yield ObjectInfo(Key(key), len(content))

    def delete(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self.objects.pop(key, None)

    def close(self) -> None:
        self.closed = True

    def _fail(self) -> None:
        if self.failing is not None:
            raise self.failing


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def metered(shelf: Shelf) -> MeteredStore:
    return MeteredStore(shelf)


def _counted(metered: MeteredStore) -> dict[str, tuple[int, int, int]]:
    return {
        verb: (count.requests, count.failures, count.bytes)
        for verb, count in metered.counts().items()
        if count.requests or count.bytes
    }


def test_it_is_a_store(metered: MeteredStore) -> None:
    store: Store = metered

    assert store.uri == "memory:///"


def test_every_verb_is_counted_with_its_bytes(metered: MeteredStore, shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    metered.put(KEY, b"123")
    metered.put(Key("b"), tmp_path / "file")
    assert metered.get(KEY) == b"123"
    assert metered.get_range(Key("b"), 1, 2) == b"23"
    metered.download(Key("b"), tmp_path / "copy")
    assert metered.put_if_absent(Key("c"), b"1234")
    assert not metered.put_if_absent(Key("c"), b"other")
    assert [found.key for found in metered.list("")] == ["b", "c", KEY]
    metered.delete([Key("b"), Key("c")])
    metered.close()

    assert _counted(metered) == {
        "put": (2, 0, 8),
        "get": (1, 0, 3),
        "get_range": (1, 0, 2),
        "download": (1, 0, 5),
        "put_if_absent": (2, 0, 4),
        "list": (1, 0, 0),
        "delete": (1, 0, 0),
    }
    assert set(_counted(metered)) == set(VERBS)
    assert sorted(shelf.objects) == [KEY]
    assert shelf.closed


def test_a_missing_object_is_an_answer_and_no_failure(metered: MeteredStore) -> None:
    with pytest.raises(ObjectMissing):
        metered.get(KEY)

    assert _counted(metered) == {"get": (1, 0, 0)}


def test_failures_are_counted_and_passed_on(metered: MeteredStore, shelf: Shelf) -> None:
    shelf.failing = StoreUnavailable("503 Slow Down")

    with pytest.raises(StoreUnavailable):
        metered.put(KEY, b"123")
    with pytest.raises(StoreUnavailable):
        list(metered.list(""))

    assert _counted(metered) == {"put": (1, 1, 0), "list": (1, 1, 0)}


def test_a_listing_that_is_not_read_to_its_end_is_one_request(metered: MeteredStore, shelf: Shelf) -> None:
    shelf.objects = {"a": b"", "b": b""}

    next(metered.list(""))

    assert _counted(metered) == {"list": (1, 0, 0)}


def test_the_time_in_the_store_is_counted(shelf: Shelf) -> None:
    times = iter([10.0, 12.5])

    metered = MeteredStore(shelf, clock=lambda: next(times))
    metered.put(KEY, b"")

    assert metered.counts()["put"] == VerbCount(requests=1, failures=0, bytes=0, seconds=2.5)


def test_nothing_is_lost_when_threads_race(metered: MeteredStore) -> None:
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        for _ in range(200):
            metered.put(KEY, b"x")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert _counted(metered) == {"put": (1600, 0, 1600)}
