"""From acknowledgements to a completed and committed checkpoint.

Docstrings name the Flink test that a test mirrors.
"""

from __future__ import annotations

import pytest
from tests.unit.coordinator.driver import Driver, aborted, of, started

from streamjob.ids import ChainUid, CheckpointId
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.failures import AbortReason


def test_a_checkpoint_is_completed_when_all_chains_have_acknowledged_and_committed_when_it_is_stored() -> None:
    """CheckpointCoordinatorTest.testTriggerAndConfirmSimpleCheckpoint"""
    driver = Driver(chains=("a", "b"))
    driver.trigger("t")

    assert of(m.CompleteCheckpoint, driver.acknowledge(1, "b")) == []
    (complete,) = of(m.CompleteCheckpoint, driver.acknowledge(1, "a"))
    assert set(complete.acknowledgements) == {"a", "b"}
    assert of(m.CommitOutput, driver.stored(1)) == [m.CommitOutput(id=CheckpointId(1))]
    assert driver.coordinator.pending == 1
    driver.committed(1)
    assert driver.coordinator.pending is None


def test_a_repeated_acknowledgement_is_ignored() -> None:
    """CheckpointCoordinatorTest.testMultipleConcurrentCheckpoints (duplicate acknowledgements)"""
    driver = Driver(chains=("a", "b"))
    driver.trigger("t")
    driver.acknowledge(1, "a")

    assert driver.acknowledge(1, "a") == []
    driver.acknowledge(1, "b")
    assert driver.acknowledge(1, "b") == []
    driver.stored(1)
    driver.committed(1)
    assert driver.acknowledge(1, "b") == []


def test_a_late_acknowledgement_changes_nothing_but_its_figures() -> None:
    """CheckpointCoordinatorTest.testStateCleanupForLateOrUnknownMessages"""
    driver = Driver(chains=("a", "b"))
    driver.trigger("t")
    driver.decline(1, chain="a")

    assert driver.acknowledge(1, "b") == []
    assert driver.statistics.overview().history[0].num_acknowledged_subtasks == 1


def test_an_acknowledgement_of_an_unknown_checkpoint_or_chain_changes_nothing() -> None:
    """CheckpointCoordinatorTest.testHandleMessagesForNonExistingCheckpoints"""
    driver = Driver()
    assert driver.acknowledge(7) == []
    driver.trigger("t")

    assert driver.acknowledge(1, "stranger") == []
    assert driver.coordinator.pending == 1
    (complete,) = of(m.CompleteCheckpoint, driver.acknowledge(1))
    assert set(complete.acknowledgements) == {"a"}


def test_a_decline_of_an_unknown_checkpoint_is_ignored() -> None:
    """CheckpointCoordinatorTest.testHandleMessagesForNonExistingCheckpoints"""
    driver = Driver()
    driver.trigger("t")

    assert driver.decline(7) == []
    assert driver.decline(1, chain="stranger") == []
    assert driver.coordinator.pending == 1


def test_a_decline_behind_the_last_acknowledgement_comes_too_late() -> None:
    """No Flink test: there, too, a checkpoint that is being finalised cannot be declined."""
    driver = Driver()
    driver.trigger("t")
    driver.acknowledge(1)

    assert driver.decline(1) == []
    assert of(m.CommitOutput, driver.stored(1)) != []


def test_no_checkpoint_starts_before_the_last_one_is_committed() -> None:
    """No Flink test: it notifies tasks of a completion before it triggers again, on one thread."""
    driver = Driver()
    driver.trigger("t")
    driver.trigger("next")
    driver.acknowledge(1)

    assert started(driver.stored(1)) == []
    assert started(driver.at(100)) == []
    assert started(driver.committed(1)) == [2]


def test_a_completion_reported_twice_commits_once() -> None:
    """No Flink test: its store answers by a future."""
    driver = Driver()
    driver.trigger("t")
    driver.acknowledge(1)

    assert len(of(m.CommitOutput, driver.stored(1) + driver.stored(1))) == 1
    driver.committed(1)
    assert driver.stored(1) == []
    assert driver.committed(1) == []
    assert driver.counts() == (0, 1, 0)


def test_a_failed_commit_fails_the_job_and_leaves_the_completion_standing() -> None:
    """TwoPhaseCommitSinkFunctionTest.testFailBeforeNotify"""
    driver = Driver()
    driver.trigger("t")
    driver.acknowledge(1)
    driver.stored(1)

    actions = driver.send(m.CommitFailed(now=1, id=CheckpointId(1), message="disk full"))
    assert [failed.reason for failed in of(m.FailJob, actions)] == [AbortReason.COMMIT_FAILED]
    assert aborted(actions) == []
    assert driver.counts() == (0, 1, 0)


def test_a_chain_that_the_job_does_not_have_is_a_defect_of_the_caller() -> None:
    """No Flink test."""
    driver = Driver()
    with pytest.raises(KeyError, match="no chain x"):
        driver.send(m.ChainStateChanged(now=0, chain=ChainUid("x"), status=m.ChainStatus.RUNNING))
