"""The contract of `streamjob.store.Store` as tests. Subclass `StoreConformance`, and return your store.

    class TestMyStore(StoreConformance):
        def make_store(self, place, prefix):
            return MyStore(place, prefix)

`docs/how-to/write-a-store.md` has a complete example. Needs pytest.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from streamjob.ids import Key
from streamjob.store import InvalidKey, ObjectInfo, ObjectMissing, Store, StoreError, StoreUnavailable

A, B, C = Key("a"), Key("b/x"), Key("c/y/z")


class StoreConformance:
    """Tests that every store must pass. A subclass overrides `make_store`, and `outage` if it can."""

    place: Path
    """A directory of the running test, for stores that keep their objects in files."""

    def make_store(self, place: Path, prefix: str) -> Store:
        """Return a new store for the objects below a prefix.

        Args:
            place: the test's directory. Stores for different places share no object.
            prefix: empty, or a path with a slash at its end. Stores for one place and different prefixes show the
                same objects under different keys.
        """
        raise NotImplementedError

    def outage(self, place: Path) -> AbstractContextManager[object]:
        """Return a context in which the stores of a place get no answer from the server, the disk or the database."""
        pytest.skip("the kit's subclass does not say how the store fails")

    @pytest.fixture(autouse=True)
    def _use_place(self, tmp_path: Path) -> None:
        self.place = tmp_path / "place"

    @pytest.fixture(name="store")
    def store_fixture(self, _use_place: None) -> Iterator[Store]:
        """Yield the store under test."""
        store = self.make_store(self.place, "")
        yield store
        store.close()

    def test_an_object_reads_back_as_it_was_put(self, store: Store) -> None:
        store.put(B, b"content")

        assert store.get(B) == b"content"

    def test_an_empty_object_is_an_object(self, store: Store, tmp_path: Path) -> None:
        store.put(A, b"")
        store.download(A, tmp_path / "copy")

        assert store.get(A) == b""
        assert store.get_range(A, 0, 0) == b""
        assert (tmp_path / "copy").read_bytes() == b""
        assert list(store.list("")) == [ObjectInfo(A, 0)]

    def test_a_put_replaces_what_was_there(self, store: Store) -> None:
        store.put(B, b"old, and longer")
        store.put(B, b"new")

        assert store.get(B) == b"new"

    def test_a_file_is_put_with_its_content(self, store: Store, tmp_path: Path) -> None:
        file = tmp_path / "file"
        file.write_bytes(b"from a file")
        store.put(B, file)
        file.write_bytes(b"changed since")

        assert store.get(B) == b"from a file"

    def test_a_file_larger_than_a_part_is_put_whole(self, store: Store, tmp_path: Path) -> None:
        content = os.urandom((11 << 20) + 17)
        (tmp_path / "large").write_bytes(content)
        store.put(C, tmp_path / "large")
        store.download(C, tmp_path / "back")

        assert (tmp_path / "back").read_bytes() == content
        assert store.get_range(C, (5 << 20) - 3, 7) == content[(5 << 20) - 3 : (5 << 20) + 4]
        assert [entry.size for entry in store.list("c/")] == [len(content)]

    def test_putting_a_file_that_is_gone_says_so_and_makes_no_object(self, store: Store, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            store.put(A, tmp_path / "gone")

        assert _keys(store) == []

    def test_a_missing_object_is_reported_by_every_verb_that_reads(self, store: Store, tmp_path: Path) -> None:
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
        assert _keys(store) == [C]

    def test_a_store_that_holds_nothing_lists_nothing(self, store: Store) -> None:
        assert _keys(store) == []
        assert _keys(store, "log/") == []
        with pytest.raises(ObjectMissing):
            store.get(A)
        store.delete([A, B])

    @pytest.mark.parametrize(
        ("offset", "length", "expected"),
        [(0, 4, b"0123"), (3, 4, b"3456"), (9, 1, b"9"), (0, 10, b"0123456789"), (4, 0, b"")],
    )
    def test_a_range_is_read_exactly(self, store: Store, offset: int, length: int, expected: bytes) -> None:
        store.put(A, b"0123456789")

        assert store.get_range(A, offset, length) == expected

    @pytest.mark.parametrize(("offset", "length"), [(0, 11), (9, 2), (10, 1), (50, 5)])
    def test_a_range_past_the_end_is_an_error_and_not_a_short_answer(
        self, store: Store, offset: int, length: int
    ) -> None:
        store.put(A, b"0123456789")

        with pytest.raises(StoreError, match="ends before"):
            store.get_range(A, offset, length)

    def test_a_download_replaces_the_target_and_leaves_nothing_else(self, store: Store, tmp_path: Path) -> None:
        target = tmp_path / "folder" / "target"
        target.parent.mkdir()
        target.write_bytes(b"old, and longer")
        store.put(B, b"new")
        store.download(B, target)

        assert target.read_bytes() == b"new"
        assert list(target.parent.iterdir()) == [target]

    def test_put_if_absent_creates_what_is_not_there(self, store: Store) -> None:
        assert store.put_if_absent(B, b"mine") is True
        assert store.get(B) == b"mine"

    def test_put_if_absent_leaves_what_is_there(self, store: Store) -> None:
        store.put_if_absent(B, b"first")

        assert store.put_if_absent(B, b"second") is False
        assert store.put_if_absent(B, b"first") is False
        assert store.get(B) == b"first"

    def test_put_if_absent_respects_an_object_that_was_put(self, store: Store) -> None:
        store.put(B, b"")

        assert store.put_if_absent(B, b"mine") is False
        assert store.get(B) == b""

    def test_put_if_absent_creates_again_after_a_deletion(self, store: Store) -> None:
        store.put_if_absent(B, b"first")
        store.delete([B])

        assert store.put_if_absent(B, b"second") is True
        assert store.get(B) == b"second"

    def test_of_racing_creators_one_wins_and_its_content_stays(self, store: Store) -> None:
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
        assert [store.get(Key(f"log/{this:03d}")) for this in range(rounds)] == [
            f"{won[0]}".encode() for won in winners
        ]

    def test_a_listing_is_in_key_order_whatever_the_directories(self, store: Store) -> None:
        wanted = ["a-b", "a.b", "a/b", "a/b-c", "a/b/c", "a0", "ab", "b/0", "B", "ä/x", "z"]
        wanted.remove("a/b")
        for key in wanted:
            store.put(Key(key), key.encode())

        assert _keys(store) == sorted(wanted, key=str.encode)
        assert [entry.size for entry in store.list("")] == [len(key.encode()) for key in sorted(wanted, key=str.encode)]

    @pytest.mark.parametrize(
        "prefix", ["", "l", "log", "log/", "log/0", "log/00", "log/1", "logs", "nothing", "log/x/"]
    )
    def test_a_listing_holds_what_begins_with_the_prefix(self, store: Store, prefix: str) -> None:
        everything = ["k", "log/00", "log/01", "log/10", "log/x/y", "logs/1", "m"]
        for key in everything:
            store.put(Key(key), b"")

        assert _keys(store, prefix) == [key for key in everything if key.startswith(prefix)]

    @pytest.mark.parametrize(
        "start_after", ["", "a", "log", "log/", "log/01", "log/015", "log/x", "log/x/y", "logs", "z"]
    )
    @pytest.mark.parametrize("prefix", ["", "log/"])
    def test_a_listing_starts_after_the_key_that_is_named(self, store: Store, prefix: str, start_after: str) -> None:
        everything = ["k", "log/00", "log/01", "log/10", "log/x/y", "logs/1", "m"]
        for key in everything:
            store.put(Key(key), b"")

        expected = [key for key in everything if key.startswith(prefix) and key > start_after]

        assert _keys(store, prefix, start_after) == expected

    def test_a_listing_of_more_than_one_page_is_whole(self, store: Store) -> None:
        wanted = [f"shared/{number % 7}/{number:05d}" for number in range(1100)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda key: store.put(Key(key), b""), wanted))

        assert _keys(store) == sorted(wanted)
        assert _keys(store, "shared/", sorted(wanted)[50]) == sorted(wanted)[51:]

        store.delete(Key(key) for key in wanted)

        assert _keys(store) == []

    def test_a_listing_knows_an_object_as_soon_as_it_was_put(self, store: Store) -> None:
        for number in range(20):
            store.put_if_absent(Key(f"log/{number:020d}.json"), b"{}")

            assert _keys(store, "log/")[-1] == f"log/{number:020d}.json"

    def test_deletion_takes_what_is_named_and_nothing_else(self, store: Store) -> None:
        for key in (A, B, C, Key("b/x1"), Key("b2")):
            store.put(key, b"")
        store.delete([B, C])

        assert _keys(store) == ["a", "b/x1", "b2"]

    def test_deleting_what_is_not_there_is_no_error(self, store: Store) -> None:
        store.put(A, b"")
        store.delete([B, A, C, Key("a/b")])
        store.delete([A])
        store.delete([])

        assert _keys(store) == []

    def test_an_object_can_be_put_again_after_its_deletion(self, store: Store) -> None:
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
    def test_a_key_that_could_leave_the_root_or_mean_two_things_is_refused(
        self, store: Store, key: str, tmp_path: Path
    ) -> None:
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

    @pytest.mark.parametrize(
        "key", ["a b", "ü/ß", "a+b", "a%20b", "a&b=c", "q?x#y", "a'b\"c", "~a", ".hidden", "a.tmp"]
    )
    def test_unusual_characters_in_keys_survive(self, store: Store, key: str) -> None:
        store.put(Key(key), key.encode())

        assert store.get(Key(key)) == key.encode()
        assert set(_keys(store)) == {key}

        store.delete([Key(key)])

        assert _keys(store) == []

    def test_many_threads_may_use_one_store(self, store: Store) -> None:
        def work(number: int) -> bytes:
            key = Key(f"shared/{number % 4}/{uuid.uuid4().hex}")
            store.put(key, b"x" * number)
            content = store.get(key)
            store.delete([key])
            return content

        # A server on a file system removes an empty folder, at times while another request writes into it.
        kept = {f"shared/{number}/kept" for number in range(4)}
        for each in kept:
            store.put(Key(each), b"")
        with ThreadPoolExecutor(16) as pool:
            assert [len(content) for content in pool.map(work, range(200))] == list(range(200))

        assert set(_keys(store)) == kept

    def test_the_root_is_a_uri_that_ends_with_a_slash(self, store: Store) -> None:
        scheme, _, rest = store.uri.partition("://")

        assert scheme
        assert rest.endswith("/")

    def test_another_store_at_the_same_root_sees_the_objects_at_once(self, store: Store) -> None:
        store.put(B, b"content")
        other = self.make_store(self.place, "")

        assert other.uri == store.uri
        assert other.get(B) == b"content"
        assert other.put_if_absent(B, b"mine") is False
        other.delete([B])
        other.close()
        assert _keys(store) == []

    def test_a_store_below_another_holds_the_objects_with_its_prefix(self, store: Store) -> None:
        below = self.make_store(self.place, "team/job/")
        for key in (A, Key("team/a"), Key("team/job2/a")):
            store.put(key, b"other")
        below.put(B, b"content")

        assert below.uri == f"{store.uri}team/job/"
        assert _keys(below) == [B]
        assert store.get(Key("team/job/b/x")) == b"content"
        below.delete([A, B])
        below.close()
        assert _keys(store) == [A, "team/a", "team/job2/a"]

    def test_no_answer_is_reported_as_such_and_never_as_a_missing_object(self, store: Store, tmp_path: Path) -> None:
        store.put(B, b"content")
        attempts: list[Callable[[], object]] = [
            lambda: store.get(B),
            lambda: store.get_range(B, 0, 1),
            lambda: store.download(B, tmp_path / "target"),
            lambda: store.put(A, b""),
            lambda: store.put_if_absent(B, b""),
            lambda: list(store.list("")),
            lambda: store.delete([B]),
        ]
        with self.outage(self.place):
            for attempt in attempts:
                with pytest.raises(StoreUnavailable):
                    attempt()

        assert store.get(B) == b"content"
        assert not (tmp_path / "target").exists()


def _keys(store: Store, prefix: str = "", start_after: str = "") -> list[str]:
    return [entry.key for entry in store.list(prefix, start_after)]
