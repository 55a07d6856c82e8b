"""What the protocol asks of a store, on every store."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streamjob.ids import Key
from streamjob.store import InvalidKey, ObjectInfo, ObjectMissing, Store, StoreError

A, B, C = Key("a"), Key("b/x"), Key("c/y/z")


def keys(store: Store, prefix: str = "", start_after: str = "") -> list[str]:
    return [entry.key for entry in store.list(prefix, start_after)]


def test_an_object_reads_back_as_it_was_put(store: Store) -> None:
    store.put(B, b"content")

    assert store.get(B) == b"content"


def test_an_empty_object_is_an_object(store: Store, tmp_path: Path) -> None:
    store.put(A, b"")
    store.download(A, tmp_path / "copy")

    assert store.get(A) == b""
    assert store.get_range(A, 0, 0) == b""
    assert (tmp_path / "copy").read_bytes() == b""
    assert list(store.list("")) == [ObjectInfo(A, 0)]


def test_a_put_replaces_what_was_there(store: Store) -> None:
    store.put(B, b"old, and longer")
    store.put(B, b"new")

    assert store.get(B) == b"new"


def test_a_file_is_put_with_its_content(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"from a file")
    store.put(B, file)
    file.write_bytes(b"changed since")

    assert store.get(B) == b"from a file"


def test_a_file_larger_than_a_part_is_put_whole(store: Store, tmp_path: Path) -> None:
    content = os.urandom((11 << 20) + 17)
    (tmp_path / "large").write_bytes(content)
    store.put(C, tmp_path / "large")
    store.download(C, tmp_path / "back")

    assert (tmp_path / "back").read_bytes() == content
    assert store.get_range(C, (5 << 20) - 3, 7) == content[(5 << 20) - 3 : (5 << 20) + 4]
    assert [entry.size for entry in store.list("c/")] == [len(content)]


def test_putting_a_file_that_is_gone_says_so_and_makes_no_object(store: Store, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        store.put(A, tmp_path / "gone")

    assert keys(store) == []


def test_a_missing_object_is_reported_by_every_verb_that_reads(store: Store, tmp_path: Path) -> None:
    store.put(C, b"other")
    for absent in (A, Key("c"), Key("c/y"), Key("c/y/z/deeper")):
        with pytest.raises(ObjectMissing):
            store.get(absent)
        with pytest.raises(ObjectMissing):
            store.get_range(absent, 0, 1)
        with pytest.raises(ObjectMissing):
            store.get_range(absent, 0, 0)
        with pytest.raises(ObjectMissing):
            store.download(absent, tmp_path / "target")

    assert not (tmp_path / "target").exists()
    assert keys(store) == [C]


def test_a_store_that_holds_nothing_lists_nothing(store: Store) -> None:
    assert keys(store) == []
    assert keys(store, "log/") == []
    with pytest.raises(ObjectMissing):
        store.get(A)
    store.delete([A, B])


@pytest.mark.parametrize(
    ("offset", "length", "expected"),
    [(0, 4, b"0123"), (3, 4, b"3456"), (9, 1, b"9"), (0, 10, b"0123456789"), (4, 0, b"")],
)
def test_a_range_is_read_exactly(store: Store, offset: int, length: int, expected: bytes) -> None:
    store.put(A, b"0123456789")

    assert store.get_range(A, offset, length) == expected


@pytest.mark.parametrize(("offset", "length"), [(0, 11), (9, 2), (10, 1), (50, 5)])
def test_a_range_behind_the_end_is_an_error_and_not_a_short_answer(store: Store, offset: int, length: int) -> None:
    store.put(A, b"0123456789")

    with pytest.raises(StoreError, match="ends before"):
        store.get_range(A, offset, length)


def test_a_download_replaces_the_target_and_leaves_nothing_else(store: Store, tmp_path: Path) -> None:
    target = tmp_path / "folder" / "target"
    target.parent.mkdir()
    target.write_bytes(b"old, and longer")
    store.put(B, b"new")
    store.download(B, target)

    assert target.read_bytes() == b"new"
    assert list(target.parent.iterdir()) == [target]


def test_put_if_absent_creates_what_is_not_there(store: Store) -> None:
    assert store.put_if_absent(B, b"mine") is True
    assert store.get(B) == b"mine"


def test_put_if_absent_leaves_what_is_there(store: Store) -> None:
    store.put_if_absent(B, b"first")

    assert store.put_if_absent(B, b"second") is False
    assert store.put_if_absent(B, b"first") is False
    assert store.get(B) == b"first"


def test_put_if_absent_respects_an_object_that_was_put(store: Store) -> None:
    store.put(B, b"")

    assert store.put_if_absent(B, b"mine") is False
    assert store.get(B) == b""


def test_put_if_absent_creates_again_after_a_deletion(store: Store) -> None:
    store.put_if_absent(B, b"first")
    store.delete([B])

    assert store.put_if_absent(B, b"second") is True
    assert store.get(B) == b"second"


def test_of_racing_creators_one_wins_and_its_content_stays(store: Store) -> None:
    threads, rounds = 16, 64
    barrier = threading.Barrier(threads)
    winners: list[list[int]] = [[] for _ in range(rounds)]

    def race(number: int) -> None:
        for this in range(rounds):
            barrier.wait(60)
            if store.put_if_absent(Key(f"log/{this:03d}"), f"{number}".encode()):
                winners[this].append(number)

    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(race, number) for number in range(threads)]:
            future.result()

    assert [len(won) for won in winners] == [1] * rounds
    assert [store.get(Key(f"log/{this:03d}")) for this in range(rounds)] == [f"{won[0]}".encode() for won in winners]


def test_a_listing_is_in_key_order_whatever_the_directories(store: Store) -> None:
    wanted = ["a-b", "a.b", "a/b", "a/b-c", "a/b/c", "a0", "ab", "b/0", "B", "ä/x", "z"]
    wanted.remove("a/b")
    for key in wanted:
        store.put(Key(key), key.encode())

    assert keys(store) == sorted(wanted, key=str.encode)
    assert [entry.size for entry in store.list("")] == [len(key.encode()) for key in sorted(wanted, key=str.encode)]


@pytest.mark.parametrize("prefix", ["", "l", "log", "log/", "log/0", "log/00", "log/1", "logs", "nothing", "log/x/"])
def test_a_listing_holds_what_begins_with_the_prefix(store: Store, prefix: str) -> None:
    everything = ["k", "log/00", "log/01", "log/10", "log/x/y", "logs/1", "m"]
    for key in everything:
        store.put(Key(key), b"")

    assert keys(store, prefix) == [key for key in everything if key.startswith(prefix)]


@pytest.mark.parametrize("start_after", ["", "a", "log", "log/", "log/01", "log/015", "log/x", "log/x/y", "logs", "z"])
@pytest.mark.parametrize("prefix", ["", "log/"])
def test_a_listing_starts_behind_the_key_that_is_named(store: Store, prefix: str, start_after: str) -> None:
    everything = ["k", "log/00", "log/01", "log/10", "log/x/y", "logs/1", "m"]
    for key in everything:
        store.put(Key(key), b"")

    expected = [key for key in everything if key.startswith(prefix) and key > start_after]

    assert keys(store, prefix, start_after) == expected


def test_a_listing_of_more_than_one_page_is_whole(store: Store) -> None:
    wanted = [f"shared/{number % 7}/{number:05d}" for number in range(1100)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put(Key(key), b""), wanted))

    assert keys(store) == sorted(wanted)
    assert keys(store, "shared/", sorted(wanted)[50]) == sorted(wanted)[51:]

    store.delete(Key(key) for key in wanted)

    assert keys(store) == []


def test_a_listing_knows_an_object_as_soon_as_it_was_put(store: Store) -> None:
    for number in range(20):
        store.put_if_absent(Key(f"log/{number:020d}.json"), b"{}")

        assert keys(store, "log/")[-1] == f"log/{number:020d}.json"


def test_deletion_takes_what_is_named_and_nothing_else(store: Store) -> None:
    for key in (A, B, C, Key("b/x1"), Key("b2")):
        store.put(key, b"")
    store.delete([B, C])

    assert keys(store) == ["a", "b/x1", "b2"]


def test_deleting_what_is_not_there_is_no_error(store: Store) -> None:
    store.put(A, b"")
    store.delete([B, A, C, Key("a/b")])
    store.delete([A])
    store.delete([])

    assert keys(store) == []


def test_an_object_can_be_put_again_after_its_deletion(store: Store) -> None:
    store.put(C, b"first")
    store.delete([C])
    store.put(C, b"second")

    assert store.get(C) == b"second"


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/a",
        "a/",
        "a//b",
        "..",
        "../a",
        "a/../b",
        "./a",
        "a/.",
        ".tmp/a",
        "a\nb",
        "a\\b",
        "a\0b",
        "k" * 300,
        "a/b" * 400,
    ],
)
def test_a_key_that_could_leave_the_root_or_mean_two_things_is_refused(store: Store, key: str, tmp_path: Path) -> None:
    attempts: list[Callable[[], object]] = [
        lambda: store.get(Key(key)),
        lambda: store.get_range(Key(key), 0, 1),
        lambda: store.download(Key(key), tmp_path / "target"),
        lambda: store.put(Key(key), b""),
        lambda: store.put_if_absent(Key(key), b""),
        lambda: store.delete([Key(key)]),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidKey):
            attempt()


@pytest.mark.parametrize("key", ["a b", "ü/ß", "a+b", "a%20b", "a&b=c", "q?x#y", "a'b\"c", "~a", ".hidden", "a.tmp"])
def test_unusual_characters_in_keys_survive(store: Store, key: str) -> None:
    store.put(Key(key), key.encode())

    assert store.get(Key(key)) == key.encode()
    assert set(keys(store)) == {key}

    store.delete([Key(key)])

    assert keys(store) == []


def test_many_threads_may_use_one_store(store: Store) -> None:
    def work(number: int) -> bytes:
        key = Key(f"shared/{number % 4}/{uuid.uuid4().hex}")
        store.put(key, b"x" * number)
        content = store.get(key)
        store.delete([key])
        return content

    with ThreadPoolExecutor(16) as pool:
        assert [len(content) for content in pool.map(work, range(200))] == list(range(200))

    assert keys(store) == []
