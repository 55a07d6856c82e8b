"""Requests: their order, repetitions and refusals.

Docstrings name the Flink test that a test mirrors.
"""

from __future__ import annotations

from tests.unit.coordinator.driver import Driver, Resolved, of, outcome, resolved, started

from streamjob.checkpointing_policy import LiveCheckpointingPolicy
from streamjob.ids import CheckpointId, TriggerId
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.triggers import Triggers, TriggerState, TriggerStatus


def test_ids_start_above_the_highest_id_ever_used() -> None:
    """CheckpointIDCounterTestBase.testSerialIncrementAndGet"""
    driver = Driver(highest_id=41)

    assert started(driver.trigger("t")) == [42]


def test_an_aborted_id_is_not_used_again() -> None:
    """CheckpointCoordinatorTest.testTriggerAndDeclineCheckpointComplex"""
    driver = Driver()
    driver.trigger("t")
    driver.decline(1)

    assert started(driver.trigger("u")) == [2]


def test_a_waiting_savepoint_goes_before_checkpoints_and_older_before_younger() -> None:
    """CheckpointRequestDeciderTest.testSavepointPrioritized"""
    driver = Driver()
    driver.trigger("running")
    for trigger_id in ("c1", "c2"):
        assert started(driver.trigger(trigger_id)) == []
    for trigger_id in ("s1", "s2"):
        assert started(driver.savepoint(trigger_id)) == []

    served = []
    for checkpoint in range(1, 6):
        served += list(resolved(driver.completed(checkpoint)))
    assert served == ["running", "s1", "s2", "c1", "c2"]


def test_a_requested_checkpoint_goes_before_a_periodic_one() -> None:
    """CheckpointRequestDeciderTest.testUserSubmittedPrioritized"""
    driver = Driver(LiveCheckpointingPolicy(interval=10))
    driver.at(10)
    driver.now = 20
    driver.trigger("asked")

    (start,) = of(m.StartCheckpoint, driver.completed(1))
    assert not start.properties.periodic


def test_a_request_repeated_while_it_waits_or_runs_is_the_same_request() -> None:
    """No Flink test: its REST API makes the trigger id on the caller's behalf or takes it (FLIP-259)."""
    driver = Driver()
    assert started(driver.savepoint("s")) == [1]
    driver.trigger("waits")

    assert driver.savepoint("s") == []
    assert driver.trigger("waits") == []
    assert started(driver.completed(1)) == [2]
    assert started(driver.completed(2)) == []


def test_a_request_repeated_after_its_end_gets_the_same_outcome_and_starts_nothing() -> None:
    """No Flink test, see above."""
    driver = Driver()
    driver.savepoint("s")
    driver.completed(1)

    again = driver.savepoint("s")
    expected = TriggerStatus(state=TriggerState.COMPLETED, checkpoint=CheckpointId(1), uri="uri-1")
    assert again == [Resolved(TriggerId("s"), expected)]


def test_one_request_too_many_is_refused() -> None:
    """CheckpointRequestDeciderTest.testQueueSizeLimit"""
    driver = Driver(triggers=Triggers(capacity=1))
    driver.trigger("running")
    driver.trigger("waits")

    assert resolved(driver.trigger("refused")) == {"refused": TriggerState.FAILED}
    assert resolved(driver.trigger("refused")) == {"refused": TriggerState.FAILED}


def test_a_request_is_refused_when_a_chain_is_not_running_and_that_counts_for_nothing() -> None:
    """DefaultCheckpointPlanCalculatorTest.testPlanCalculationWhenOneTaskNotRunning"""
    driver = Driver(LiveCheckpointingPolicy(interval=None, tolerable_failed_checkpoints=0), running=False)

    actions = driver.savepoint("s") + driver.trigger("t")
    assert resolved(actions) == {"s": TriggerState.FAILED, "t": TriggerState.FAILED}
    assert "chain a is STARTING" in str(outcome(actions, "s").failure)
    assert started(actions) == []
    assert of(m.FailJob, actions) == []


def test_a_savepoint_completes_for_its_caller_when_its_output_is_committed() -> None:
    """CheckpointCoordinatorTest.testTriggerAndConfirmSimpleSavepoint"""
    driver = Driver()
    driver.savepoint("s")
    assert resolved(driver.acknowledge(1)) == {}

    assert resolved(driver.stored(1)) == {}

    actions = driver.committed(1)
    assert outcome(actions, "s") == TriggerStatus(state=TriggerState.COMPLETED, checkpoint=CheckpointId(1), uri="uri-1")
    assert driver.statistics.overview().latest.savepoint is not None


def test_a_savepoint_is_aligned_whatever_the_mode_and_never_switches() -> None:
    """AlternatingCheckpointsTest.testSavepointHandling"""
    driver = Driver(LiveCheckpointingPolicy(interval=None, mode="unaligned", aligned_checkpoint_timeout=5))
    (savepoint,) = of(m.StartCheckpoint, driver.savepoint("s"))
    driver.completed(1)
    (checkpoint,) = of(m.StartCheckpoint, driver.trigger("c"))

    assert (savepoint.properties.unaligned, savepoint.properties.aligned_timeout) == (False, None)
    assert (checkpoint.properties.unaligned, checkpoint.properties.aligned_timeout) == (True, None)


def test_a_request_that_arrives_as_one_failure_too_many_expires_is_answered() -> None:
    """No Flink test: requests fail there with CHECKPOINT_COORDINATOR_SHUTDOWN."""
    driver = Driver(LiveCheckpointingPolicy(interval=None, timeout=1, tolerable_failed_checkpoints=0))
    driver.trigger("t")
    driver.now = 1

    actions = driver.savepoint("s")
    assert of(m.FailJob, actions) != []
    assert resolved(actions) == {"t": TriggerState.FAILED, "s": TriggerState.FAILED}
