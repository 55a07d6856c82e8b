"""The size of batches follows the time that they take, within the limits of the inputs."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamjob.protocol.batch_size import BatchSize, Bounds

FIRST = 100_000


def _catch_up(
    size: BatchSize[str], seconds: Callable[[int], float], batches: int, name: str = "in"
) -> list[tuple[int, float]]:
    """Run batches that always find more than they may read; return what each read, and how long it took."""
    ran = []
    for _ in range(batches):
        read = size.limits[name]
        took = seconds(read)
        size.ran(took, {name})
        ran.append((read, took))
    return ran


def _seconds(overhead: float, per_record: float) -> Callable[[int], float]:
    return lambda read: overhead + read * per_record


def test_the_first_batch_has_the_first_size() -> None:
    assert BatchSize(5.0, {"in": Bounds(FIRST, 1_000_000)}).limits == {"in": FIRST}


@given(
    overhead=st.floats(0.0, 1.5),
    rate=st.floats(200, 5e6),
    noise=st.floats(0.0, 0.1),
    seed=st.integers(0, 1000),
)
@example(overhead=1.5, rate=200.0, noise=0.0625, seed=62)
def test_batches_of_a_steady_cost_come_to_take_the_target(
    overhead: float, rate: float, noise: float, seed: int
) -> None:
    chance = random.Random(seed)
    steady = _seconds(overhead, 1 / rate)
    size = BatchSize(5.0, {"in": Bounds(FIRST)})

    ran = _catch_up(size, lambda read: steady(read) * chance.uniform(1 - noise, 1 + noise), 40)

    assert all(2.5 <= took <= 9.0 for _, took in ran[-10:])


@given(cost=st.floats(1e-7, 1e-2))
def test_each_batch_is_at_most_four_times_the_one_before(cost: float) -> None:
    ran = _catch_up(BatchSize(5.0, {"in": Bounds(FIRST)}), _seconds(0.1, cost), 20)

    for (before, _), (after, _) in pairwise(ran):
        assert before / 4.01 - 1 <= after <= before * 4.01 + 1


def test_the_warm_up_of_the_first_batch_does_not_make_the_second_one_smaller() -> None:
    size = BatchSize(5.0, {"in": Bounds(FIRST)})

    size.ran(20.0, {"in"})

    assert size.limits["in"] == FIRST


def test_a_cost_that_rises_makes_batches_smaller_within_two_batches() -> None:
    size = BatchSize(5.0, {"in": Bounds(FIRST)})
    _catch_up(size, _seconds(0.2, 1e-6), 10)

    ran = _catch_up(size, _seconds(0.2, 8e-6), 4)

    assert ran[0][1] > 20
    assert all(took <= 6.5 for _, took in ran[2:])


def test_batches_stay_large_enough_that_half_of_their_time_is_work() -> None:
    ran = _catch_up(BatchSize(0.5, {"in": Bounds(FIRST)}), _seconds(2.0, 1e-5), 60)

    assert all(3.0 <= took <= 6.0 for _, took in ran[-10:])


@given(most=st.integers(1, 10**7), least=st.integers(1, 1000), cost=st.floats(1e-8, 10.0))
def test_no_batch_exceeds_the_highest_limit_or_falls_below_the_lowest(most: int, least: int, cost: float) -> None:
    least = min(least, most)
    bounds = Bounds(max(least, min(FIRST, most)), most, least)

    ran = _catch_up(BatchSize(5.0, {"in": bounds}), _seconds(0.2, cost), 30)

    assert all(least <= read <= most for read, _ in ran)


def test_a_batch_that_read_all_there_was_keeps_the_limit() -> None:
    size = BatchSize(5.0, {"in": Bounds(FIRST)})
    _catch_up(size, _seconds(0.1, 1e-6), 10)
    limit = size.limits["in"]

    for _ in range(100):
        size.ran(0.1, set())

    assert size.limits["in"] == limit


def test_a_batch_that_read_all_there_was_and_took_too_long_lowers_the_limit() -> None:
    size = BatchSize(5.0, {"in": Bounds(FIRST)})
    size.ran(1.0, set())

    size.ran(10.0, set())

    assert size.limits["in"] == pytest.approx(FIRST / 2)


def test_inputs_grow_together_so_that_none_gets_ahead() -> None:
    size = BatchSize(5.0, {"bids": Bounds(FIRST), "auctions": Bounds(FIRST), "limited": Bounds(FIRST, 2 * FIRST)})

    for _ in range(5):
        size.ran(0.1, {"bids"})

    limits = size.limits
    assert limits["bids"] == limits["auctions"] > FIRST
    assert limits["limited"] == 2 * FIRST


def test_shortage_of_memory_halves_the_size_however_fast_batches_are() -> None:
    size = BatchSize(5.0, {"in": Bounds(FIRST)})
    size.ran(0.1, {"in"})
    before = size.limits["in"]

    size.ran(0.1, {"in"}, memory_is_short=True)

    assert size.limits["in"] == before // 2
