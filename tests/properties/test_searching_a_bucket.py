"""A search finds each object of a bucket once, the usual ones at the next check, and asks S3 seldom."""

from __future__ import annotations

import itertools
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjob_runtime.discovery.known import Known
from streamjob_runtime.discovery.objects import Classified, Found, Page
from streamjob_runtime.discovery.search import Search

EVERY = 100.0
"""Seconds in which a sweep lists everything."""
BETWEEN = 10.0
"""Seconds between two checks."""


@dataclass
class World:
    """A bucket, a source that checks it, and a clock."""

    page_size: int = 10
    objects: dict[str, Found] = field(default_factory=dict)
    known: Known = field(default_factory=Known)
    found: list[Found] = field(default_factory=list)
    now: float = 1000.0
    requests: int = 0
    day: int = 10
    written: int = 0

    def __post_init__(self) -> None:
        self.search = Search((), 0, EVERY, self.page_size)

    def page(self, after: str) -> Page:
        self.requests += 1
        keys = sorted(key for key in self.objects if key > after)
        listed = keys[: self.page_size]
        objects = [self.objects[key] for key in listed if "/_" not in key]
        return Page(objects, listed[-1] if len(keys) > self.page_size else None)

    def put(self, *keys: str) -> None:
        for key in keys:
            self.written += 1
            self.now += 0.01
            self.objects[key] = Found(key, 1, int(self.now * 1000), str(self.written))

    def put_next(self, number: int) -> list[str]:
        """Put objects under ascending names into the newest directory."""
        keys = [f"in/day={self.day}/{self.written + each:06}" for each in range(number)]
        self.put(*keys)
        return keys

    def check(self, pages: int | None = None, budget: int = 1000) -> list[str]:
        """Check as the source does, or end the check after some pages; return what was found."""
        self.now += BETWEEN
        found: list[Found] = []
        for checked in islice(self.search.check(self, self.known, self.now, budget), pages):
            for each in (*checked.new, *checked.replaced):
                found.append(each)
                self.known.add(each)
        self.found += found
        return [each.key for each in found]

    def restart(self) -> None:
        self.search = Search(self.found[-3 * self.page_size :], len(self.known), EVERY, self.page_size)


def visible(world: World) -> set[Found]:
    return {each for each in world.objects.values() if "/_" not in each.key}


DOES = st.one_of(
    st.tuples(st.just("next"), st.integers(1, 30)),
    st.tuples(st.just("day"), st.integers(1, 30)),
    st.tuples(st.just("random"), st.integers(1, 30)),
    st.tuples(st.just("late"), st.integers(1, 5)),
    st.tuples(st.just("hidden"), st.integers(1, 30)),
    st.tuples(st.just("replace"), st.integers(1, 5)),
    st.tuples(st.just("delete"), st.integers(1, 30)),
    st.tuples(st.just("check"), st.integers(1, 5)),
    st.tuples(st.just("end early"), st.integers(1, 5)),
    st.tuples(st.just("poor check"), st.integers(1, 5)),
    st.tuples(st.just("restart"), st.just(1)),
)


def do(world: World, what: str, number: int, chance: random.Random) -> None:
    some = chance.sample(sorted(world.objects), min(number, len(world.objects)))
    if what == "next":
        world.put_next(number)
    elif what == "day":
        world.day += 1
        world.put_next(number)
    elif what == "random":
        world.put(*(f"in/{chance.choice('ABC')}/{chance.getrandbits(64):x}" for _ in range(number)))
    elif what == "late":
        world.put(*(f"in/day={chance.randint(10, world.day)}/{chance.randint(0, 10**6):06}" for _ in range(number)))
    elif what == "hidden":
        world.put(*(f"in/day={world.day}/_{chance.getrandbits(64):x}" for _ in range(number)))
    elif what == "replace":
        world.put(*some)
    elif what == "delete":
        for key in some:
            del world.objects[key]
    elif what == "check":
        for _ in range(number):
            world.check()
    elif what == "end early":
        world.check(pages=number)
    elif what == "poor check":
        world.check(budget=number)
    else:
        world.restart()


@settings(max_examples=200)
@given(st.integers(3, 10), st.lists(DOES, max_size=40), st.integers(0, 2**32))
def test_whatever_happens_each_version_is_found_once_in_the_time_of_two_sweeps(
    page_size: int, happens: list[tuple[str, int]], seed: int
) -> None:
    world, chance = World(page_size), random.Random(seed)
    for what, number in happens:
        do(world, what, number, chance)
    for _ in range(int(2 * EVERY / BETWEEN) + 2):
        world.check()

    assert visible(world) <= set(world.found)
    assert not visible(world) or max(Counter(world.found).values()) == 1
    world.requests = 0
    assert world.check() == []


@settings(max_examples=100)
@given(st.integers(4, 10), st.lists(st.tuples(st.booleans(), st.integers(1, 30), st.booleans()), max_size=20))
def test_what_comes_into_the_newest_directory_or_a_new_greatest_one_is_found_at_the_next_check(
    page_size: int, days: list[tuple[bool, int, bool]]
) -> None:
    world = World(page_size)
    world.put_next(50)
    world.check()
    for is_new_day, number, restarts in days:
        world.day += is_new_day
        put = world.put_next(number)
        if restarts:
            world.restart()
        assert set(put) <= set(world.check())


@given(st.integers(4, 10), st.lists(st.integers(1, 30), max_size=10))
def test_where_names_are_random_all_of_the_newest_directory_is_read(page_size: int, numbers: list[int]) -> None:
    world, chance = World(page_size), random.Random(1)
    world.put(*(f"in/{chance.getrandbits(64):x}" for _ in range(200)))
    world.check()
    for number in numbers:
        put = [f"in/{chance.getrandbits(64):x}" for _ in range(number)]
        world.put(*put)
        assert set(put) <= set(world.check())


def steady(days: int = 30, of_a_day: int = 20) -> World:
    world = World()
    for _ in range(days):
        world.day += 1
        world.put_next(of_a_day)
    world.check()
    return world


@pytest.mark.parametrize("key", ["in/day=11/x", "in/day=25/000000", "in/day=40/9", "in/a", "in/z=1/a", "a/b", "z"])
def test_an_object_that_comes_anywhere_is_found_in_the_time_of_a_sweep(key: str) -> None:
    world = steady()
    world.check()
    world.put(key)

    assert [key] in [world.check() for _ in range(int(EVERY / BETWEEN) + 1)]


def test_a_replaced_object_is_found_in_the_time_of_a_sweep() -> None:
    world = steady()
    world.check()
    key = min(world.objects)
    world.put(key)

    assert [found for _ in range(int(EVERY / BETWEEN) + 1) if (found := world.check())] == [[key]]


def test_a_small_listing_is_read_as_a_whole_at_each_check() -> None:
    world = steady(2, 9)
    for key in ("in/0", "in/day=10/x", "z"):
        world.put(key)
        world.requests = 0
        assert world.check() == [key]
        assert world.requests <= 3


def test_many_objects_in_directories_that_are_not_read_on_are_found_as_fast_as_the_budget_allows() -> None:
    world = steady(50, 20)
    world.put(*(f"in/day={day}/x{number}" for day in range(11, 41) for number in range(10)))
    checks = 0
    while not visible(world) <= set(world.found):
        world.check(budget=50)
        checks += 1

    assert checks <= 5


def test_the_next_check_goes_on_where_one_ran_out_of_requests() -> None:
    world = steady()
    put = world.put_next(100)
    found = [world.check(budget=4) for _ in range(10)]

    assert len(found[0]) < 100
    assert sorted(itertools.chain(*found)) == sorted(put)


class Large:
    """A million objects that are known, and a few that are not."""

    def __init__(self, keys: Iterable[str]) -> None:
        self.keys = sorted(keys)
        self.new: set[str] = set()
        self.requests = 0

    def found(self, key: str) -> Found:
        return Found(key, 1, int(key.rpartition("/")[2]) * 1000, "1")

    def page(self, after: str) -> Page:
        self.requests += 1
        start = bisect_right(self.keys, after)
        keys = self.keys[start : start + 1000]
        return Page([self.found(key) for key in keys], keys[-1] if start + 1000 < len(self.keys) else None)

    def classify(self, objects: Sequence[Found]) -> Classified:
        return Classified([each for each in objects if each.key in self.new])

    def put(self, *keys: str) -> None:
        self.keys = sorted([*self.keys, *keys])
        self.new = set(keys)

    def check(self, search: Search, now: float) -> set[str]:
        found = {each.key for checked in search.check(self, cast("Known", self), now) for each in checked.new}
        self.new -= found
        return found


@pytest.fixture(scope="module")
def by_days() -> Sequence[str]:
    return [f"in/day={number // 1000:04}/{number:07}" for number in range(1_000_000)]


def restarted(large: Large) -> Search:
    return Search([large.found(key) for key in large.keys[-10_000:]], len(large.keys), 86_400.0)


def settled(large: Large) -> Search:
    """Return a search that has listed everything since its restart."""
    search = restarted(large)
    for second in range(len(large.keys) // 90_000 + 3):
        large.check(search, second / 1000)
    return search


@pytest.mark.slow
def test_ten_new_objects_among_a_million_in_a_thousand_directories_take_fifteen_requests(
    by_days: Sequence[str],
) -> None:
    large = Large(by_days)
    search = settled(large)
    in_newest = [f"in/day={999 - number % 7:04}/{2_000_000 + number:07}" for number in range(9)]
    large.put("in/day=1000/3000000", *in_newest)
    large.requests = 0

    assert len(large.check(search, 60)) == 10
    assert large.requests <= 15


@pytest.mark.slow
@pytest.mark.parametrize("is_flat", [False, True])
def test_an_idle_source_of_a_million_objects_takes_two_requests_a_minute(by_days: Sequence[str], is_flat: bool) -> None:
    large = Large(f"in/{number:07}" for number in range(1_000_000)) if is_flat else Large(by_days)
    search = settled(large)
    large.requests = 0
    minutes = 24 * 60
    for minute in range(minutes):
        large.check(search, 60 * minute)

    assert 990 + minutes <= large.requests <= 2 * minutes


def test_ascending_names_take_one_request_a_check(by_days: Sequence[str]) -> None:
    large = Large(f"in/{number:07}" for number in range(10_000))
    search = settled(large)
    large.requests = 0
    for number in range(100):
        key = f"in/{10_000 + number:07}"
        large.put(key)
        assert large.check(search, number) == {key}

    assert large.requests <= 102


def test_all_is_listed_within_the_time_of_a_sweep_by_pages_that_are_spread(by_days: Sequence[str]) -> None:
    large = Large(f"in/{number:07}" for number in range(100_000))
    search = settled(large)
    hours = []
    for hour in range(25):
        large.requests = 0
        large.check(search, hour * 3600)
        hours.append(large.requests)

    assert sum(hours) >= 95 + 25
    assert max(hours) <= 8


def test_after_a_restart_the_first_check_takes_few_requests_and_the_second_finds_what_came_late() -> None:
    large = Large(f"in/{number:07}" for number in range(90_000) if number != 80_000)
    search = restarted(large)
    large.put("in/0080000", "in/0090000")
    large.requests = 0

    assert large.check(search, 0) == {"in/0090000"}
    assert large.requests <= 15
    assert large.check(search, 5) == {"in/0080000"}


def test_all_is_listed_soon_after_a_restart_also_where_few_objects_are_the_sources() -> None:
    large = Large(f"in/{number:07}" for number in range(250_000) if number != 240_000)
    large.put("in/0240000")
    search = Search([large.found(key) for key in large.keys[:400]], 400)

    assert any("in/0240000" in large.check(search, 60 * minute) for minute in range(4))


def test_a_found_object_is_as_the_bucket_has_it() -> None:
    world = World()
    world.put("in/a")
    world.objects["in/a"] = replace(world.objects["in/a"], size=7)
    world.check()

    assert world.found == [world.objects["in/a"]]
