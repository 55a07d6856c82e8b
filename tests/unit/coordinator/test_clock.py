"""The virtual clock."""

from __future__ import annotations

import pytest
from tests.virtual_clock import VirtualClock


def test_calls_are_made_in_the_order_of_their_times_and_at_their_times() -> None:
    clock = VirtualClock(100)
    made: list[tuple[str, float]] = []
    clock.call_at(103, lambda: made.append(("late", clock.now())))
    clock.call_at(101, lambda: made.append(("early", clock.now())))
    clock.call_at(101, lambda: made.append(("second", clock.now())))
    clock.call_at(110, lambda: made.append(("never", clock.now())))
    clock.advance(5)

    assert made == [("early", 101), ("second", 101), ("late", 103)]
    assert (clock.now(), clock.next_call) == (105, 110)


def test_a_call_made_on_the_way_may_ask_for_another_one() -> None:
    clock = VirtualClock()
    made: list[float] = []

    def again() -> None:
        made.append(clock.now())
        clock.call_at(clock.now() + 2, again)

    clock.call_at(2, again)
    clock.advance(7)

    assert made == [2, 4, 6]


def test_a_call_that_was_taken_back_is_not_made() -> None:
    clock = VirtualClock()
    made: list[str] = []
    cancel = clock.call_at(1, lambda: made.append("no"))
    cancel()
    cancel()
    clock.advance(2)

    assert made == []
    assert clock.next_call is None


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="cannot go back"):
        VirtualClock().advance(-1)
