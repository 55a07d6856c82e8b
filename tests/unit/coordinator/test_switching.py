"""When a checkpoint goes on unaligned. Docstrings name the Flink test that a test mirrors."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.driver import Driver, Said, aborted, of, started, wishes

from streamjob.checkpointing_policy import LiveCheckpointingPolicy
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.failures import AbortReason

POLICY = LiveCheckpointingPolicy(interval=None, timeout=60, aligned_checkpoint_timeout=3)


def switched(actions: list[Said]) -> list[int]:
    return [action.id for action in of(m.SwitchToUnaligned, actions)]


def test_a_checkpoint_that_takes_too_long_goes_on_unaligned_once() -> None:
    """AlternatingCheckpointsTest.testActiveTimeoutAlignmentOnFirstBarrier"""
    driver = Driver(POLICY, chains=("a", "b"))
    driver.now = 10
    assert wishes(driver.trigger("t1")) == [13]
    driver.acknowledge(1, "a")

    assert switched(driver.at(12.9)) == []
    assert switched(driver.at(13)) == [1]
    assert switched(driver.at(14)) == []
    assert started(driver.acknowledge(1, "b")) == []
    assert driver.counts() == (1, 0, 0)


def test_the_switch_is_not_later_for_chains_that_acknowledge_late() -> None:
    """AlternatingCheckpointsTest.testTimeoutAlignmentOnFirstBarrier: the timeout counts from the global trigger"""
    driver = Driver(POLICY, chains=("a", "b"))
    driver.trigger("t1")
    driver.now = 5

    assert switched(driver.acknowledge(1, "a")) == [1]


def test_after_the_switch_the_coordinator_wakes_at_the_expiry() -> None:
    """CheckpointCoordinatorTest.testCheckpointTimeoutIsolated"""
    driver = Driver(POLICY)
    driver.trigger("t1")

    assert wishes(driver.at(3)) == [60]
    assert aborted(driver.at(60)) == [(1, AbortReason.EXPIRED)]


def test_an_expired_checkpoint_does_not_switch() -> None:
    """AlternatingCheckpointsTest.testNoActiveTimeoutAlignmentAfterAbort"""
    driver = Driver(POLICY)
    driver.trigger("t1")

    actions = driver.at(70)
    assert (switched(actions), aborted(actions)) == ([], [(1, AbortReason.EXPIRED)])


def test_a_checkpoint_that_all_have_acknowledged_does_not_switch() -> None:
    """AlternatingCheckpointsTest.testNoActiveTimeoutAlignmentAfterLastBarrier"""
    driver = Driver(POLICY)
    driver.trigger("t1")
    driver.now = 3

    assert switched(driver.acknowledge(1)) == []
    assert switched(driver.at(4)) == []


def test_each_checkpoint_has_a_timeout_of_its_own() -> None:
    """AlternatingCheckpointsTest.testAllChannelsUnblockedAfterAlignmentTimeout"""
    driver = Driver(LiveCheckpointingPolicy(interval=10, timeout=60, aligned_checkpoint_timeout=3))
    assert started(driver.at(10)) == [1]
    assert switched(driver.at(13)) == [1]
    driver.completed(1)
    assert started(driver.at(20)) == [2]

    assert switched(driver.at(22)) == []
    assert switched(driver.at(23)) == [2]


def test_no_timeout_means_no_switch() -> None:
    """AlignedCheckpointsTest: alignment may take as long as it does"""
    driver = Driver(LiveCheckpointingPolicy(interval=None, timeout=60))

    assert wishes(driver.trigger("t1")) == [60]
    assert switched(driver.at(59)) == []


def test_a_timeout_of_zero_is_an_unaligned_checkpoint_from_the_start() -> None:
    """CheckpointOptionsTest.testForceAlignmentCompatibility; CK/CheckpointOptions.java"""
    driver = Driver(LiveCheckpointingPolicy(interval=None, aligned_checkpoint_timeout=0))
    (start,) = of(m.StartCheckpoint, driver.trigger("t1"))

    assert (start.properties.unaligned, start.properties.aligned_timeout) == (True, None)
    assert switched(driver.at(1)) == []


def test_a_changed_timeout_applies_from_the_next_checkpoint_on() -> None:
    """No Flink test: its configuration does not change."""
    driver = Driver(POLICY)
    driver.trigger("t1")
    driver.send(m.PolicyChanged(now=1, policy=LiveCheckpointingPolicy(interval=None)))

    assert switched(driver.at(3)) == [1]


@pytest.mark.parametrize("policy", [POLICY, LiveCheckpointingPolicy(interval=None, aligned_checkpoint_timeout=0)])
def test_savepoints_never_switch(policy: LiveCheckpointingPolicy) -> None:
    """AlternatingCheckpointsTest.testSavepointHandling; SubtaskCheckpointCoordinatorTest
    testSavepointNotResultingInPriorityEvents"""
    driver = Driver(policy)
    (start,) = of(m.StartCheckpoint, driver.savepoint("s1"))
    assert not start.properties.unaligned
    assert switched(driver.at(3)) == []
    driver.completed(1)

    (start,) = of(m.StartCheckpoint, driver.stop("x1", savepoint=True))
    assert not start.properties.unaligned
    assert switched(driver.at(7)) == []


def test_a_stop_without_savepoint_may_switch() -> None:
    """No Flink test: its stop takes a savepoint."""
    driver = Driver(POLICY)
    driver.stop("x1")

    assert switched(driver.at(3)) == [1]


@pytest.mark.parametrize("policy", [POLICY, LiveCheckpointingPolicy(interval=None, aligned_checkpoint_timeout=0)])
def test_the_final_checkpoint_never_switches(policy: LiveCheckpointingPolicy) -> None:
    """StreamTaskFinalCheckpointsTest: there is nothing in flight"""
    driver = Driver(policy)
    (start,) = of(m.StartCheckpoint, driver.all_chains(m.ChainStatus.FINISHED))

    assert not start.properties.unaligned
    assert switched(driver.at(3)) == []
