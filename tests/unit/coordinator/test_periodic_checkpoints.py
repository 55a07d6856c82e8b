"""When periodic checkpoints start, and what a changed policy does.

Docstrings name the Flink test that a test mirrors.
"""

from __future__ import annotations

from tests.unit.coordinator.driver import Driver, aborted, of, started, wishes

from streamjob.checkpointing_policy import LiveCheckpointingPolicy
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.failures import AbortReason


def test_a_periodic_checkpoint_starts_one_interval_after_all_chains_run() -> None:
    """CheckpointCoordinatorTriggeringTest.testPeriodicTriggering"""
    driver = Driver(LiveCheckpointingPolicy(interval=10), chains=("a", "b"), running=False)
    driver.now = 3
    assert wishes(driver.all_chains(m.ChainStatus.RUNNING)) == [13]

    assert started(driver.at(12.9)) == []
    assert started(driver.at(13)) == [1]


def test_periodic_checkpoints_follow_each_other_at_the_interval() -> None:
    """CheckpointCoordinatorTriggeringTest.testPeriodicTriggering"""
    driver = Driver(LiveCheckpointingPolicy(interval=10))
    starts = []
    for second in range(1, 36):
        for checkpoint in started(driver.at(second)):
            starts.append((second, checkpoint))
            driver.completed(checkpoint)

    assert starts == [(10, 1), (20, 2), (30, 3)]


def test_a_requested_checkpoint_does_not_put_the_next_periodic_one_off() -> None:
    """CheckpointRequestDeciderTest.testSavepointTiming"""
    driver = Driver(LiveCheckpointingPolicy(interval=10))
    driver.now = 6
    driver.trigger("t")
    driver.completed(1)

    assert started(driver.at(10)) == [2]


def test_no_chain_running_means_no_periodic_checkpoint_and_no_wish_to_wake() -> None:
    """DefaultCheckpointPlanCalculatorTest.testPlanCalculationWhenOneTaskNotRunning"""
    driver = Driver(LiveCheckpointingPolicy(interval=10), running=False)

    assert driver.at(1000) == []
    assert driver.counts() == (0, 0, 0)


def test_one_checkpoint_is_in_flight_and_an_overdue_one_starts_right_behind_it() -> None:
    """CheckpointCoordinatorTest.testMaxConcurrentAttempts1"""
    driver = Driver(LiveCheckpointingPolicy(interval=10))
    assert started(driver.at(10)) == [1]

    assert started(driver.at(20)) == []
    assert started(driver.at(35)) == []
    assert started(driver.completed(1)) == [2]
    assert started(driver.at(44)) == []


def test_the_minimum_pause_counts_from_the_last_completion() -> None:
    """CheckpointCoordinatorTest.testMinCheckpointPause"""
    driver = Driver(LiveCheckpointingPolicy(interval=10, min_pause=8))
    driver.at(10)
    driver.now = 17
    assert wishes(driver.completed(1)) == [None, 25]

    assert started(driver.at(24.9)) == []
    assert started(driver.at(25)) == [2]


def test_the_minimum_pause_does_not_hold_back_what_was_asked_for() -> None:
    """CheckpointCoordinatorTest.testMinDelayBetweenSavepoints, CheckpointRequestDeciderTest.testSavepointTiming"""
    driver = Driver(LiveCheckpointingPolicy(interval=10, min_pause=100))
    driver.at(10)
    driver.completed(1)

    assert started(driver.savepoint("s")) == [2]
    driver.completed(2)
    assert started(driver.trigger("c")) == [3]


def test_the_minimum_pause_does_not_follow_an_aborted_checkpoint() -> None:
    """CheckpointRequestDeciderTest.testCheckpointTiming"""
    driver = Driver(LiveCheckpointingPolicy(interval=10, min_pause=100))
    driver.at(10)
    driver.now = 12
    driver.decline(1)

    assert started(driver.at(20)) == [2]


def test_a_tick_that_comes_too_early_is_wished_for_again() -> None:
    """No Flink test: its timers do not come early."""
    driver = Driver(LiveCheckpointingPolicy(interval=10))

    assert driver.at(9.999) == [m.WakeAt(time=10)]


def test_nothing_is_wished_for_without_interval_and_without_checkpoint() -> None:
    """No Flink test: a job without interval has no timer there."""
    driver = Driver(LiveCheckpointingPolicy(interval=None))

    assert driver.at(10_000) == []


def test_a_changed_interval_counts_from_the_last_periodic_start() -> None:
    """No Flink test: its interval is fixed while a job runs."""
    driver = Driver(LiveCheckpointingPolicy(interval=10))
    driver.at(10)
    driver.now = 11
    driver.completed(1)

    driver.now = 12
    assert wishes(driver.send(m.PolicyChanged(now=12, policy=LiveCheckpointingPolicy(interval=4)))) == [14]
    assert started(driver.at(14)) == [2]


def test_a_shorter_interval_that_is_over_already_starts_a_checkpoint_at_once() -> None:
    """No Flink test, see above."""
    driver = Driver(LiveCheckpointingPolicy(interval=100))

    assert started(driver.at(50)) == []
    assert started(driver.send(m.PolicyChanged(now=50, policy=LiveCheckpointingPolicy(interval=10)))) == [1]


def test_a_changed_timeout_applies_to_the_checkpoint_under_way() -> None:
    """No Flink test, see above."""
    driver = Driver(LiveCheckpointingPolicy(interval=None, timeout=30))
    driver.trigger("t")

    changed = LiveCheckpointingPolicy(interval=None, timeout=60)
    assert wishes(driver.send(m.PolicyChanged(now=29, policy=changed))) == [60]
    assert aborted(driver.at(59)) == []
    assert aborted(driver.at(60)) == [(1, AbortReason.EXPIRED)]


def test_a_changed_mode_applies_to_the_next_checkpoint() -> None:
    """No Flink test, see above."""
    driver = Driver()
    driver.send(m.PolicyChanged(now=0, policy=LiveCheckpointingPolicy(interval=None, aligned_checkpoint_timeout=3)))
    (start,) = of(m.StartCheckpoint, driver.trigger("t"))

    assert (start.properties.unaligned, start.properties.aligned_timeout) == (False, 3)


def test_changed_tolerable_failures_are_compared_at_the_next_failure() -> None:
    """No Flink test, see above."""
    driver = Driver(LiveCheckpointingPolicy(interval=None, tolerable_failed_checkpoints=5))
    for checkpoint in (1, 2):
        driver.trigger(f"t{checkpoint}")
        driver.decline(checkpoint)

    assert (
        driver.send(
            m.PolicyChanged(now=0, policy=LiveCheckpointingPolicy(interval=None, tolerable_failed_checkpoints=2))
        )
        == []
    )
    driver.trigger("t3")
    assert of(m.FailJob, driver.decline(3)) != []


def test_a_periodic_interval_switched_off_takes_the_wish_to_wake_back() -> None:
    """CheckpointCoordinatorTriggeringTest.testStopPeriodicScheduler"""
    driver = Driver(LiveCheckpointingPolicy(interval=10))

    assert driver.send(m.PolicyChanged(now=1, policy=LiveCheckpointingPolicy(interval=None))) == [m.WakeAt(time=None)]
    assert started(driver.at(100)) == []


def test_held_checkpoints_wait_and_an_overdue_one_starts_as_soon_as_they_are_wanted_again() -> None:
    """No Flink test: a barrier of Flink's makes no batch."""
    driver = Driver(LiveCheckpointingPolicy(interval=10))

    assert driver.send(m.PeriodicHeld(now=1, held=True)) == [m.WakeAt(time=None)]
    assert started(driver.at(100)) == []
    assert started(driver.trigger("t")) == [1]
    driver.completed(1)
    assert started(driver.send(m.PeriodicHeld(now=101, held=False))) == [2]
