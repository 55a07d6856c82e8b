"""How far a source is behind in time."""

from __future__ import annotations

import pytest

from streamjob_runtime.monitoring.arrivals import Arrivals


def topic(*ends: tuple[float, int]) -> Arrivals:
    arrivals = Arrivals()
    for at, end in ends:
        arrivals.note(at, end)
    return arrivals


def test_nothing_is_known_before_the_first_report() -> None:
    assert Arrivals().lag(0, 100) is None


def test_a_position_at_the_end_is_not_behind() -> None:
    assert topic((0, 100)).lag(100, 50) == 0


def test_a_position_is_as_old_as_the_record_behind_it() -> None:
    arrivals = topic((0, 0), (10, 100), (20, 300))

    assert arrivals.lag(50, 20) == pytest.approx(15)
    assert arrivals.lag(200, 20) == pytest.approx(5)
    assert arrivals.lag(200, 30) == pytest.approx(15)


def test_an_age_before_the_first_report_is_estimated_from_the_rate_since() -> None:
    assert topic((0, 1000), (10, 1100)).lag(500, 10) == pytest.approx(60)


def test_an_age_is_unknown_while_only_one_end_is_known_or_nothing_arrives() -> None:
    assert topic((0, 1000)).lag(500, 10) is None
    assert topic((0, 1000), (10, 1000)).lag(500, 10) is None


def test_a_topic_that_was_created_again_starts_from_the_beginning() -> None:
    assert topic((0, 1000), (10, 2000), (20, 100), (30, 200)).lag(150, 30) == pytest.approx(5)


def test_two_reports_of_the_same_moment_count_once() -> None:
    assert topic((0, 0), (10, 100), (10, 100)).lag(50, 10) == pytest.approx(5)


def test_the_memory_is_an_hour() -> None:
    arrivals = topic(*((float(at), at) for at in range(10_000)))

    assert len(arrivals._ends) == 720
    assert arrivals.lag(9_000, 9_999) == pytest.approx(999)
