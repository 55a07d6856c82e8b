"""Stopping, with and without savepoint, and draining.

Docstrings name the Flink test that a test mirrors.
"""

from __future__ import annotations

import pytest
from tests.unit.coordinator.driver import Driver, aborted, of, outcome, resolved, started

from streamjob.checkpointing_policy import LiveCheckpointingPolicy
from streamjob.ids import ChainUid
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.failures import AbortReason
from streamjob.protocol.coordination.triggers import SnapshotKind, TriggerState


def test_a_stop_takes_a_last_checkpoint_and_ends_the_job_once_it_is_committed() -> None:
    """StopWithSavepointTerminationHandlerImplTest.testHappyPath, for a checkpoint"""
    driver = Driver(LiveCheckpointingPolicy(interval=10))
    (start,) = of(m.StartCheckpoint, driver.stop("stop"))
    assert (start.properties.kind, start.properties.stopping) == (SnapshotKind.CHECKPOINT, True)
    driver.acknowledge(1)
    assert resolved(driver.stored(1)) == {}

    actions = driver.committed(1)
    assert outcome(actions, "stop").checkpoint == 1
    assert actions[-1] == m.EndJob(end=m.JobEnd.STOPPED)
    assert driver.at(100) == []


def test_a_stop_with_savepoint_ends_the_job_behind_exactly_that_savepoint() -> None:
    """StopWithSavepointTerminationHandlerImplTest.testHappyPath"""
    driver = Driver()
    (start,) = of(m.StartCheckpoint, driver.stop("stop", savepoint=True))
    assert (start.properties.kind, start.properties.stopping) == (SnapshotKind.SAVEPOINT, True)

    actions = driver.completed(1)
    assert outcome(actions, "stop").uri == "uri-1"
    assert actions[-1] == m.EndJob(end=m.JobEnd.STOPPED)


def test_a_stop_refuses_and_aborts_what_is_periodic_or_waiting() -> None:
    """No Flink test by this name: stopCheckpointScheduler aborts pending and queued requests."""
    driver = Driver(LiveCheckpointingPolicy(interval=10))
    driver.at(10)
    driver.savepoint("waits")

    actions = driver.stop("stop")
    assert aborted(actions) == [(1, AbortReason.JOB_STOPPING)]
    assert resolved(actions) == {"waits": TriggerState.FAILED}
    assert started(actions) == [2]
    assert resolved(driver.savepoint("late")) == {"late": TriggerState.FAILED}
    assert of(m.FailJob, actions) == []


@pytest.mark.parametrize("savepoint", [False, True])
def test_the_checkpoint_that_gives_way_to_a_stop_is_no_failed_one(savepoint: bool) -> None:
    """In Flink it is: cancelling and stopping count what they abort."""
    driver = Driver(LiveCheckpointingPolicy(interval=10))
    driver.at(10)
    driver.stop("stop", savepoint=savepoint)
    assert driver.counts() == (1, 0, 0)

    driver.acknowledge(1)
    driver.completed(2)

    overview = driver.statistics.overview()
    assert (driver.counts(), overview.counts.total) == ((0, 1, 0), 1)
    assert ([each.id for each in overview.history], overview.latest.failed) == ([2], None)


def test_a_stop_waits_for_a_savepoint_that_is_under_way() -> None:
    """CheckpointCoordinatorTest.testConcurrentSavepoints, with one in flight"""
    driver = Driver()
    driver.savepoint("s")
    assert started(driver.stop("stop", savepoint=True)) == []

    actions = driver.completed(1)
    assert resolved(actions) == {"s": TriggerState.COMPLETED}
    assert started(actions) == [2]


def test_a_failed_stopping_savepoint_fails_the_operation_and_the_job_goes_on() -> None:
    """No Flink test: there the job restarts (jobFailsIfInFlightSynchronousSavepointIsDiscarded)"""
    driver = Driver(LiveCheckpointingPolicy(interval=10, tolerable_failed_checkpoints=0))
    driver.stop("stop", savepoint=True)
    stopping = [driver.coordinator.stopping]

    actions = driver.decline(1)
    stopping.append(driver.coordinator.stopping)
    assert resolved(actions) == {"stop": TriggerState.FAILED}
    assert of(m.FailJob, actions) == []
    assert of(m.EndJob, actions) == []
    assert stopping == [True, False]
    assert started(driver.at(10)) == [2]


def test_who_joined_a_stop_whose_savepoint_fails_gets_a_plain_stop() -> None:
    """No Flink test: SIGTERM must end the job, whatever becomes of a savepoint."""
    driver = Driver()
    driver.stop("first", savepoint=True)
    driver.stop("sigterm")

    actions = driver.decline(1)
    assert resolved(actions) == {"first": TriggerState.FAILED}
    (last,) = of(m.StartCheckpoint, actions)
    assert (last.properties.kind, last.properties.stopping) == (SnapshotKind.CHECKPOINT, True)
    actions = driver.completed(2)
    assert resolved(actions) == {"sigterm": TriggerState.COMPLETED}
    assert [end.end for end in of(m.EndJob, actions)] == [m.JobEnd.STOPPED]


def test_a_stop_without_savepoint_stops_also_if_its_last_checkpoint_fails() -> None:
    """No Flink test: its cancel takes no checkpoint."""
    driver = Driver()
    driver.stop("stop")

    actions = driver.decline(1)
    assert outcome(actions, "stop").state is TriggerState.COMPLETED
    assert outcome(actions, "stop").checkpoint is None
    assert "declined" in str(outcome(actions, "stop").failure)
    assert [end.end for end in of(m.EndJob, actions)] == [m.JobEnd.STOPPED]
    assert of(m.FailJob, actions) == []


def test_a_stop_with_savepoint_is_refused_while_a_chain_is_starting_and_the_job_goes_on() -> None:
    """StopWithSavepointTerminationHandlerImplTest.testSavepointCreationFailureWithoutExecutionTermination"""
    driver = Driver(LiveCheckpointingPolicy(interval=10), running=False)

    assert resolved(driver.stop("stop", savepoint=True)) == {"stop": TriggerState.FAILED}
    driver.all_chains(m.ChainStatus.RUNNING)
    assert started(driver.at(10)) == [1]


def test_a_stop_without_savepoint_while_a_chain_is_starting_ends_the_job_at_once() -> None:
    """No Flink test: its cancel takes no checkpoint."""
    driver = Driver(running=False)

    actions = driver.stop("stop")
    assert started(actions) == []
    assert [end.end for end in of(m.EndJob, actions)] == [m.JobEnd.STOPPED]


def test_a_drain_flushes_the_chains_before_the_savepoint_and_nothing_else_starts() -> None:
    """SavepointITCase.testStopWithSavepointWithDrainCallsFinishBeforeSnapshotState"""
    driver = Driver(LiveCheckpointingPolicy(interval=10), chains=("a", "b"))
    actions = driver.stop("stop", savepoint=True, drain=True)
    assert of(m.DrainSources, actions) == [m.DrainSources()]
    assert started(actions) == []
    waited = driver.coordinator.draining
    assert started(driver.at(50)) == []
    assert started(driver.send(m.ChainStateChanged(now=51, chain=ChainUid("a"), status=m.ChainStatus.DRAINED))) == []

    (start,) = of(
        m.StartCheckpoint,
        driver.send(m.ChainStateChanged(now=52, chain=ChainUid("b"), status=m.ChainStatus.DRAINED)),
    )
    assert (start.properties.drained, start.properties.kind) == (True, SnapshotKind.SAVEPOINT)
    assert (waited, driver.coordinator.draining) == (True, False)
    assert driver.completed(1)[-1] == m.EndJob(end=m.JobEnd.STOPPED)


@pytest.mark.parametrize("savepoint", [True, False])
def test_a_failed_drain_restarts_the_job_even_without_savepoint(savepoint: bool) -> None:
    """SavepointITCase.testStopWithSavepointWithDrainGlobalFailoverIfSavepointAborted"""
    driver = Driver()
    driver.stop("stop", savepoint=savepoint, drain=True)
    driver.all_chains(m.ChainStatus.DRAINED)

    actions = driver.decline(1)
    assert resolved(actions) == {"stop": TriggerState.FAILED}
    assert of(m.FailJob, actions) != []


def test_a_chain_that_fails_behind_a_stored_stopping_savepoint_fails_the_operation() -> None:
    """StopWithSavepointTerminationHandlerImplTest.testFailedTerminationHandling"""
    driver = Driver()
    driver.stop("stop", savepoint=True)
    driver.acknowledge(1)
    driver.stored(1)

    actions = driver.fail_chain()
    assert resolved(actions) == {"stop": TriggerState.FAILED}
    assert of(m.FailJob, actions) != []
    assert driver.counts() == (0, 1, 0)


def test_a_second_stop_joins_if_it_asks_for_no_more_and_is_refused_otherwise() -> None:
    """No Flink test: a second stop-with-savepoint fails there with CHECKPOINT_COORDINATOR_SUSPEND."""
    driver = Driver()
    driver.stop("first", savepoint=True)

    assert driver.stop("joins") == []
    assert resolved(driver.stop("more", savepoint=True)) == {"more": TriggerState.FAILED}
    assert driver.stop("first", savepoint=True) == []
    assert resolved(driver.completed(1)) == {"first": TriggerState.COMPLETED, "joins": TriggerState.COMPLETED}
