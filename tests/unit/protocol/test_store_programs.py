"""Programs run on stores, and the stores in memory that tests run them on."""

from __future__ import annotations

import threading
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from tests.faulty_store import Fault, FaultyStore, RandomFaults, ScriptedFaults
from tests.simulated_store import Outcome, SimulatedStore

from streamjob.ids import Key
from streamjob.store.base import ObjectInfo, ObjectMissing, Store, StoreError, StoreUnavailable
from streamjob.store.effects import (
    Delete,
    Page,
    Program,
    Put,
    PutIfAbsent,
    delete,
    drive,
    get,
    list_all,
    list_page,
    put,
    put_if_absent,
)
from streamjob.testing.memory_store import MemoryStore

A, B, C = Key("d/a"), Key("d/b"), Key("d/c")


@dataclass(frozen=True)
class Ring:
    times: int


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def test_a_program_gets_its_replies(store: MemoryStore) -> None:
    def program() -> Program[tuple[bool, bool, bytes, list[str]]]:
        yield from put(A, b"1")
        created = yield from put_if_absent(B, b"2")
        again = yield from put_if_absent(B, b"3")
        yield from put(C, b"4")
        yield from delete((C,))
        return created, again, (yield from get(B)), [info.key for info in (yield from list_all("d/"))]

    assert drive(store, program()) == (True, False, b"2", [A, B])


def test_errors_of_the_store_are_thrown_into_the_program(store: MemoryStore) -> None:
    def program() -> Program[str]:
        try:
            yield from get(A)
        except ObjectMissing as error:
            return error.what
        return "found"

    assert "d/a does not exist" in drive(store, program())


def test_a_listing_in_pages_is_complete() -> None:
    store = SimulatedStore(page_size=2)
    for number in range(5):
        store.perform(Put(Key(f"d/{number}"), b""))

    assert [info.key for info in store.run(list_all("d/", "d/0"))] == ["d/1", "d/2", "d/3", "d/4"]


def test_a_page_says_whether_more_may_follow(store: MemoryStore) -> None:
    for key in (A, B, C):
        store.put(key, b"")

    page = drive(store, list_page("d/", limit=2))
    assert (page.more, [info.key for info in page.objects]) == (True, [A, B])
    assert drive(store, list_page("d/", start_after=B, limit=2)) == Page((ObjectInfo(C, 0),), more=False)


def test_an_absolute_uri_below_the_root_is_read_from_the_store_and_others_elsewhere(
    store: MemoryStore,
) -> None:
    store.put(A, b"inside")

    other = MemoryStore("s3://other/")
    other.put(A, b"outside")

    assert drive(store, get(store.uri + A)) == b"inside"
    assert drive(store, get(other.uri + A), find=lambda uri: (other, Key(uri.removeprefix(other.uri)))) == b"outside"
    with pytest.raises(StoreError, match="is outside"):
        drive(store, get(other.uri + A))


def test_effects_that_are_not_the_stores_are_performed_by_whom_the_caller_names(store: MemoryStore) -> None:
    def program() -> Generator[Ring, object, object]:
        return (yield Ring(3))

    def perform(effect: Ring) -> str:
        return "ding" * effect.times

    assert drive(store, program(), perform=perform) == "dingdingding"
    with pytest.raises(TypeError, match="no handler for"):
        drive(store, program())


def test_the_guard_is_held_while_the_program_runs_and_free_while_the_store_works() -> None:
    lock = threading.Lock()
    seen: list[bool] = []

    class Watched(MemoryStore):
        def get(self, key: Key) -> bytes:
            seen.append(lock.locked())
            return b""

    def program() -> Program[None]:
        seen.append(lock.locked())
        yield from get(A)
        seen.append(lock.locked())

    drive(Watched(), program(), guard=lock)
    assert seen == [True, False, True]
    assert not lock.locked()


def test_memory_stores_are_stores(store: MemoryStore) -> None:
    checked: tuple[Store, Store] = (store, FaultyStore(store))
    assert {each.uri for each in checked} == {"memory:///job/"}


def test_a_memory_store_reads_ranges_and_files(store: MemoryStore, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"0123456789")
    store.put(A, source)
    store.download(A, tmp_path / "target")

    assert store.get_range(A, 2, 3) == b"234"
    assert (tmp_path / "target").read_bytes() == b"0123456789"
    with pytest.raises(StoreError):
        store.get_range(A, 8, 3)
    with pytest.raises(ObjectMissing):
        store.download(C, tmp_path / "nothing")


def test_of_racing_creators_one_wins(store: MemoryStore) -> None:
    barrier = threading.Barrier(8)
    wins: list[int] = []

    def race(number: int) -> None:
        barrier.wait(timeout=10)
        if store.put_if_absent(A, b"%d" % number):
            wins.append(number)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)

    assert store.get(A) == b"%d" % wins[0]
    assert len(wins) == 1


def test_scripted_faults_come_in_order_and_only_to_the_verbs_named(store: MemoryStore) -> None:
    faulty = FaultyStore(store, ScriptedFaults([Fault.BEFORE, None, Fault.AFTER], verbs=["put"]))
    with pytest.raises(StoreUnavailable):
        faulty.put(A, b"1")
    assert list(faulty.list("")) == []
    faulty.put(B, b"2")
    with pytest.raises(StoreUnavailable):
        faulty.put(C, b"3")
    faulty.put(A, b"4")

    assert [info.key for info in faulty.list("")] == [A, B, C]
    assert faulty.calls == {"put": 4, "list": 2}


def test_random_faults_repeat_with_their_seed(store: MemoryStore) -> None:
    first, second = (RandomFaults(Random(7), 0.3) for _ in range(2))
    faults = [first("get", "k") for _ in range(200)]

    assert faults == [second("get", "k") for _ in range(200)]
    assert {None, Fault.BEFORE, Fault.AFTER} == set(faults)


@pytest.mark.parametrize(
    ("outcome", "now", "later"),
    [(Outcome.REFUSED, False, False), (Outcome.REPLY_LOST, True, True), (Outcome.LATE, False, True)],
)
def test_a_simulated_write_ends_as_told(outcome: Outcome, now: bool, later: bool) -> None:
    store = SimulatedStore()
    with pytest.raises(StoreUnavailable):
        store.perform(PutIfAbsent(A, b"1"), outcome)
    assert (A in store.objects) is now
    while store.late:
        store.land(0)

    assert (A in store.objects) is later


def test_late_deletions_land_one_by_one() -> None:
    store = SimulatedStore()
    for key in (A, B):
        store.perform(Put(key, b""))
    with pytest.raises(StoreUnavailable):
        store.perform(Delete((A, B)), Outcome.LATE)
    store.land(1)

    assert set(store.objects) == {A}
