"""The exponential-delay restart strategy."""

from __future__ import annotations

import pytest

from streamjob.protocol.restarts import GiveUp, RestartAt, RestartPolicy, Restarts


def middle() -> float:
    return 0.5


def delays(policy: RestartPolicy, failures: int, *, running: float = 0.0) -> list[float]:
    """Return the delays of `failures` failures, each after `running` seconds of work."""
    restarts, now, found = Restarts(policy), 0.0, []
    for _ in range(failures):
        restarts, decision = restarts.after_failure(now, middle)
        assert isinstance(decision, RestartAt)
        found.append(decision.time - now)
        now = decision.time + running
    return found


def test_delays_grow_up_to_the_longest() -> None:
    """ExponentialDelayRestartBackoffTimeStrategyTest.testBackoffMultiplier, testMaxBackoff"""
    policy = RestartPolicy(initial_delay=1, max_delay=4, multiplier=1.5, jitter=0.1)

    assert delays(policy, 6) == pytest.approx([1, 1.5, 2.25, 3.375, 4, 4])


def test_a_long_enough_quiet_run_begins_anew() -> None:
    """ExponentialDelayRestartBackoffTimeStrategyTest.testResetBackoff"""
    policy = RestartPolicy(initial_delay=1, multiplier=2, reset_after=600)

    assert delays(policy, 3, running=599.9) == pytest.approx([1, 2, 4])
    assert delays(policy, 3, running=600) == pytest.approx([1, 1, 1])


def test_the_delay_is_spread_within_the_jitter_and_the_limits() -> None:
    """ExponentialDelayRestartBackoffTimeStrategyTest.testJitter, testJitterNoHigherThanMax"""
    policy = RestartPolicy(initial_delay=10, max_delay=21, multiplier=2, jitter=0.1)
    first, decision = Restarts(policy).after_failure(0, lambda: 0.0)
    assert decision == RestartAt(10, 1)
    _, low = first.after_failure(10, lambda: 0.0)
    _, high = first.after_failure(10, lambda: 0.999999)

    assert low == RestartAt(28, 2)
    assert high == RestartAt(31, 2)


def test_jitter_does_not_add_up() -> None:
    """ExponentialDelayRestartBackoffTimeStrategyTest: jitter is not compounded"""
    restarts, _ = Restarts(RestartPolicy(initial_delay=1, multiplier=2, jitter=0.5)).after_failure(0, lambda: 0.99)

    assert restarts.delay == 1


def test_failures_before_the_restart_belong_to_it() -> None:
    """ExponentialDelayRestartBackoffTimeStrategyTest.testMergeMultipleExceptionsIntoOneAttempt"""
    restarts, first = Restarts(RestartPolicy(initial_delay=1)).after_failure(0, middle)
    again, second = restarts.after_failure(0.5, middle)

    assert second == first == RestartAt(1, 1)
    assert again == restarts


def test_the_job_fails_when_its_restarts_are_used_up() -> None:
    """ExponentialDelayRestartBackoffTimeStrategyTest.testMaxAttempts"""
    restarts = Restarts(RestartPolicy(attempts=2))
    for attempt, now in ((1, 0.0), (2, 10.0)):
        restarts, decision = restarts.after_failure(now, middle)
        assert isinstance(decision, RestartAt)
        assert decision.attempt == attempt

    assert restarts.after_failure(20, middle)[1] == GiveUp(2)


def test_a_quiet_run_gives_the_restarts_back() -> None:
    """ExponentialDelayRestartBackoffTimeStrategyTest.testResetBackoff"""
    restarts, _ = Restarts(RestartPolicy(initial_delay=1, attempts=1, reset_after=600)).after_failure(0, middle)

    assert restarts.after_failure(601, middle)[1] == RestartAt(602, 1)
    assert restarts.after_failure(600, middle)[1] == GiveUp(1)
