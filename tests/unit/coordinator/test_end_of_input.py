"""The final checkpoint, when all input has ended.

Docstrings name the Flink test that a test mirrors.
"""

from __future__ import annotations

from tests.unit.coordinator.driver import Driver, of, resolved, started, wishes

from streamjob.checkpointing_policy import LiveCheckpointingPolicy
from streamjob.ids import ChainUid
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.triggers import SnapshotKind, TriggerState


def test_one_final_checkpoint_is_taken_when_all_chains_are_finished_and_ends_the_job() -> None:
    """CheckpointAfterAllTasksFinishedITCase.testImmediateCheckpointing"""
    driver = Driver(LiveCheckpointingPolicy(interval=10), chains=("a", "b"))
    assert started(driver.send(m.ChainStateChanged(now=1, chain=ChainUid("a"), status=m.ChainStatus.FINISHED))) == []

    finished = driver.send(m.ChainStateChanged(now=2, chain=ChainUid("b"), status=m.ChainStatus.FINISHED))
    (start,) = of(m.StartCheckpoint, finished)
    assert start.properties.kind is SnapshotKind.FINAL
    assert driver.completed(1)[-1] == m.EndJob(end=m.JobEnd.FINISHED)


def test_checkpoints_go_on_while_some_chains_are_finished() -> None:
    """CheckpointCoordinatorTest.testCheckpointTriggeredAfterSomeTasksFinishedIfAllowed"""
    driver = Driver(LiveCheckpointingPolicy(interval=10), chains=("a", "b"))
    driver.send(m.ChainStateChanged(now=1, chain=ChainUid("a"), status=m.ChainStatus.FINISHED))

    (start,) = of(m.StartCheckpoint, driver.at(10))
    assert (start.properties.kind, start.chains) == (SnapshotKind.CHECKPOINT, ("a", "b"))


def test_a_job_whose_chains_are_finished_on_restore_takes_its_final_checkpoint_at_once() -> None:
    """PendingCheckpointTest.testReportTaskFinishedOnRestore"""
    driver = Driver(running=False)

    (start,) = of(m.StartCheckpoint, driver.all_chains(m.ChainStatus.FINISHED))
    assert start.properties.kind is SnapshotKind.FINAL


def test_the_final_checkpoint_waits_for_the_one_under_way_and_for_savepoints_asked_for() -> None:
    """StreamTaskFinalCheckpointsTest.testWaitingForPendingCheckpointsOnFinished"""
    driver = Driver(LiveCheckpointingPolicy(interval=10))
    driver.at(10)
    driver.savepoint("s")
    assert started(driver.all_chains(m.ChainStatus.FINISHED)) == []

    (savepoint,) = of(m.StartCheckpoint, driver.completed(1))
    assert savepoint.properties.kind is SnapshotKind.SAVEPOINT
    (final,) = of(m.StartCheckpoint, driver.completed(2))
    assert final.properties.kind is SnapshotKind.FINAL


def test_a_failed_final_checkpoint_counts_and_is_tried_again_after_the_interval() -> None:
    """CheckpointAfterAllTasksFinishedITCase.testFailoverAfterSomeTasksFinished, for a mere checkpoint failure"""
    driver = Driver(LiveCheckpointingPolicy(interval=10, tolerable_failed_checkpoints=1))
    driver.all_chains(m.ChainStatus.FINISHED)
    driver.now = 5
    assert wishes(driver.decline(1)) == [15]

    assert started(driver.at(15)) == [2]
    assert of(m.FailJob, driver.decline(2)) != []


def test_requests_are_refused_while_the_final_checkpoint_is_under_way() -> None:
    """No Flink test by this name: a finished job takes no savepoint there, either."""
    driver = Driver()
    driver.all_chains(m.ChainStatus.FINISHED)

    assert resolved(driver.savepoint("s")) == {"s": TriggerState.FAILED}
    assert resolved(driver.stop("more", savepoint=True)) == {"more": TriggerState.FAILED}
    assert driver.stop("joins") == []
    actions = driver.completed(1)
    assert resolved(actions) == {"joins": TriggerState.COMPLETED}
    assert actions[-1] == m.EndJob(end=m.JobEnd.FINISHED)
