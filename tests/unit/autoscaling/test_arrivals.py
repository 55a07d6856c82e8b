"""The arrivals: rates, noise, trend and the replay of minutes."""

from __future__ import annotations

from random import Random

import pytest

from streamjob.autoscaling.arrivals import MINUTES_KEPT, Arrivals, highest_mean, worst_lag


def arrivals(*minutes: float) -> Arrivals:
    made = Arrivals()
    for number, rate in enumerate(minutes):
        for part in range(6):
            made = made.add(60.0 * number + 10 * (part + 1), 10 * rate, 10)
    return made


def test_a_rate_is_the_mean_of_the_last_seconds() -> None:
    made = arrivals(100, 200)

    assert made.rate(60) == pytest.approx(200)
    assert made.rate(120) == pytest.approx(150)
    assert Arrivals().rate(60) == 0


def test_minutes_and_samples_are_bounded() -> None:
    made = arrivals(*range(300))

    assert len(made.minutes) == MINUTES_KEPT
    assert made.minutes[-1] == pytest.approx(299)
    assert len(made.recent) <= 31


def test_noise_is_that_of_minutes_and_not_that_of_a_step() -> None:
    random = Random(1)
    noisy = arrivals(*(1000 * random.lognormvariate(0, 0.3) for _ in range(30)))
    step = arrivals(*[1000.0] * 15, *[5000.0] * 15)

    assert 0.2 < noisy.noise < 0.6
    assert step.noise == pytest.approx(0.03)


def test_the_replay_of_minutes_gives_the_lag_that_a_capacity_would_have_had() -> None:
    minutes = [100.0, 200.0, 100.0, 100.0]

    assert worst_lag(minutes, 200) == 0
    # A minute of 50 unread records a second, and then 100 records arrive in a second.
    assert worst_lag(minutes, 150) == pytest.approx(15)
    assert worst_lag(minutes, 100) == pytest.approx(60)
    assert worst_lag(minutes, 0) > 60


def test_the_highest_mean_is_of_minutes_in_a_row() -> None:
    assert highest_mean([1, 5, 4, 1, 1], 2) == pytest.approx(4.5)
    assert highest_mean([3], 10) == 3
    assert highest_mean([], 10) == 0
