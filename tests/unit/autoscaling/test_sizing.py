"""The memory of a driver follows what it uses, within its bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamjob.autoscaling.sizing import Bounds, MemoryUse, Peaks, Sizes, less_memory, more_memory

MIB = 1024**2
HOURS = 3600.0
BOUNDS = Bounds(least=256 * MIB, most=4096 * MIB)
GIVEN = Sizes(heap=1024 * MIB, besides=512 * MIB)


def use(time: float, live: int, outside: int = 200) -> MemoryUse:
    """Return the use of memory, in MiB, of a driver with the usual sizes."""
    container = GIVEN.heap + GIVEN.besides
    return MemoryUse(time, GIVEN.heap, live * MIB, outside * MIB, container)


def seen(*uses: MemoryUse) -> Peaks:
    peaks = Peaks(uses[0].time)
    for each in uses:
        peaks = peaks.observe(each)
    return peaks


def test_a_heap_that_stays_nearly_full_gets_half_as_much_again_after_a_minute() -> None:
    short = [use(time, 900) for time in (0.0, 30.0, 70.0)]

    assert more_memory(BOUNDS, seen(*short[:2]), short[1], GIVEN) is None
    assert more_memory(BOUNDS, seen(*short), short[-1], GIVEN) == Sizes(1536 * MIB, 512 * MIB)


def test_a_heap_that_is_full_for_a_moment_stays_as_it_is() -> None:
    uses = [use(0.0, 900), use(30.0, 300), use(70.0, 900)]

    assert more_memory(BOUNDS, seen(*uses), uses[-1], GIVEN) is None


def test_a_container_that_state_nearly_fills_gets_more_besides_the_heap() -> None:
    full = [use(time, 300, outside=480) for time in (0.0, 70.0)]

    assert more_memory(BOUNDS, seen(*full), full[-1], GIVEN) == Sizes(1024 * MIB, 768 * MIB)


def test_the_most_heap_bounds_what_is_given() -> None:
    short = [use(time, 1000, outside=500) for time in (0.0, 70.0)]
    bounds = Bounds(least=None, most=1200 * MIB)

    assert more_memory(bounds, seen(*short), short[-1], GIVEN) == Sizes(1200 * MIB, 600 * MIB)
    assert more_memory(Bounds(None, GIVEN.heap), seen(*short), short[-1], GIVEN) is None
    assert more_memory(Bounds(None, None), seen(*short), short[-1], GIVEN) is None


def test_a_heap_that_was_never_half_full_for_hours_gets_less_at_the_next_restart() -> None:
    peaks = seen(use(0.0, 300), use(3 * HOURS, 310), use(7 * HOURS, 200))

    assert less_memory(BOUNDS, peaks, GIVEN) == Sizes(576 * MIB, GIVEN.besides)


def test_nothing_is_given_back_before_hours_have_passed_nor_below_the_least() -> None:
    early = seen(use(0.0, 100), use(5 * HOURS, 100))
    late = seen(use(0.0, 100), use(7 * HOURS, 100))

    assert less_memory(BOUNDS, early, GIVEN) is None
    assert less_memory(BOUNDS, late, GIVEN) == Sizes(256 * MIB, GIVEN.besides)
    assert less_memory(Bounds(None, 4096 * MIB), late, GIVEN) is None


def test_a_peak_counts_for_two_windows() -> None:
    first, second = (use(0.0, 700), use(7 * HOURS, 100)), (use(14 * HOURS, 100), use(21 * HOURS, 100))

    assert less_memory(BOUNDS, seen(*first), GIVEN) is None
    assert less_memory(BOUNDS, seen(*first, *second), GIVEN) is not None


@given(
    st.lists(st.tuples(st.integers(1, 20_000), st.integers(0, 1024), st.integers(0, 700)), min_size=1, max_size=12),
    st.integers(64, 1024),
    st.integers(1024, 8192),
)
def test_sizes_stay_within_their_bounds(steps: list[tuple[int, int, int]], least: int, most: int) -> None:
    low, high = least * MIB, most * MIB
    bounds, time, peaks = Bounds(low, high), 0.0, Peaks(0.0)
    for seconds, live, outside in steps:
        time += seconds
        now = use(time, live, outside)
        peaks = peaks.observe(now)
        more, less = more_memory(bounds, peaks, now, GIVEN), less_memory(bounds, peaks, GIVEN)
        if more is not None:
            assert GIVEN.heap <= more.heap <= high
            assert GIVEN.besides <= more.besides <= GIVEN.besides * high // GIVEN.heap
        if less is not None:
            assert low <= less.heap < GIVEN.heap
            assert less.besides == GIVEN.besides
        assert more is None or less is None
