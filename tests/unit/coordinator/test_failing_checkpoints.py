"""Checkpoints that fail, and when the job fails with them; which failures count.

Docstrings name the Flink test that a test mirrors.
"""

from __future__ import annotations

import pytest
from tests.unit.coordinator.driver import Driver, aborted, of, outcome, resolved, started, wishes

from streamjob.checkpointing_policy import LiveCheckpointingPolicy
from streamjob.ids import CheckpointId
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.failures import AbortReason, FailureCounter
from streamjob.protocol.coordination.triggers import TriggerState


def test_a_declined_checkpoint_is_aborted_and_the_next_request_starts() -> None:
    """CheckpointCoordinatorTest.testTriggerAndDeclineSyncCheckpointFailureSimple"""
    driver = Driver()
    driver.trigger("t")
    driver.trigger("next")

    actions = driver.decline(1)
    assert aborted(actions) == [(1, AbortReason.DECLINED)]
    assert resolved(actions) == {"t": TriggerState.FAILED}
    assert started(actions) == [2]


def test_a_checkpoint_expires_at_its_timeout() -> None:
    """CheckpointCoordinatorTest.testCheckpointTimeoutIsolated"""
    driver = Driver(LiveCheckpointingPolicy(interval=None, timeout=30), chains=("a", "b"))
    assert wishes(driver.trigger("t")) == [30]
    driver.acknowledge(1, "a")

    assert aborted(driver.at(29.9)) == []
    actions = driver.at(30)
    assert aborted(actions) == [(1, AbortReason.EXPIRED)]
    assert "no acknowledgement from b" in str(outcome(actions, "t").failure)


def test_an_acknowledgement_that_arrives_behind_the_timeout_is_late_even_if_no_tick_came() -> None:
    """CheckpointCoordinatorTest.testStateCleanupForLateOrUnknownMessages"""
    driver = Driver(LiveCheckpointingPolicy(interval=None, timeout=30))
    driver.trigger("t")
    driver.now = 31

    actions = driver.acknowledge(1)
    assert aborted(actions) == [(1, AbortReason.EXPIRED)]
    assert of(m.CompleteCheckpoint, actions) == []


def test_a_checkpoint_that_is_being_stored_does_not_expire() -> None:
    """No Flink test: PendingCheckpoint.finalizeCheckpoint cancels the timeout."""
    driver = Driver(LiveCheckpointingPolicy(interval=None, timeout=30))
    driver.trigger("t")
    driver.acknowledge(1)

    assert aborted(driver.at(1000)) == []
    assert of(m.CommitOutput, driver.stored(1)) != []


@pytest.mark.parametrize(
    "reason",
    [AbortReason.DECLINED, AbortReason.UPLOAD_FAILED],
    ids=["declined", "upload failed"],
)
def test_the_job_fails_when_more_checkpoints_in_a_row_fail_than_are_tolerable(reason: AbortReason) -> None:
    """CheckpointFailureManagerTest.testContinuousFailure, testIOExceptionCheckpointExceedsTolerableFailureNumber"""
    driver = Driver(LiveCheckpointingPolicy(interval=None, tolerable_failed_checkpoints=2))
    for checkpoint in (1, 2):
        driver.trigger(f"t{checkpoint}")
        assert of(m.FailJob, driver.decline(checkpoint, reason)) == []
    driver.trigger("t3")

    (failed,) = of(m.FailJob, driver.decline(3, reason))
    assert failed.reason is AbortReason.TOO_MANY_FAILURES
    assert failed.message.endswith(f": 3 in a row, 2 are tolerable; the last, checkpoint 3: {reason}: chain a")
    assert driver.coordinator.ended
    assert driver.coordinator.last_id == 3


def test_expired_checkpoints_count_as_failures() -> None:
    """CheckpointCoordinatorTest.testExpiredCheckpointExceedsTolerableFailureNumber"""
    driver = Driver(LiveCheckpointingPolicy(interval=None, timeout=1, tolerable_failed_checkpoints=0))
    driver.trigger("t")

    assert of(m.FailJob, driver.at(1)) != []


def test_a_checkpoint_that_could_not_be_stored_counts_as_a_failure() -> None:
    """CheckpointCoordinatorFailureTest.testFailingCompletedCheckpointStoreAdd"""
    driver = Driver(LiveCheckpointingPolicy(interval=None, tolerable_failed_checkpoints=0))
    driver.trigger("t")
    driver.acknowledge(1)

    actions = driver.not_stored(1)
    assert aborted(actions) == [(1, AbortReason.COMPLETION_FAILED)]
    assert of(m.AbortCheckpoint, actions)[0].keep_files is False
    assert of(m.FailJob, actions) != []


def test_a_success_ends_the_row_of_failures() -> None:
    """CheckpointFailureManagerTest.testBreakContinuousFailure"""
    driver = Driver(LiveCheckpointingPolicy(interval=None, tolerable_failed_checkpoints=1))
    for checkpoint in (1, 3, 5):
        driver.trigger(f"bad{checkpoint}")
        assert of(m.FailJob, driver.decline(checkpoint)) == []
        driver.trigger(f"good{checkpoint}")
        driver.completed(checkpoint + 1)


def test_one_checkpoint_counts_once_however_many_chains_decline() -> None:
    """CheckpointFailureManagerTest.testIgnoreOneCheckpointRepeatedlyCountMultiTimes"""
    driver = Driver(LiveCheckpointingPolicy(interval=None, tolerable_failed_checkpoints=1), chains=("a", "b"))
    driver.trigger("t")

    assert of(m.FailJob, driver.decline(1, chain="a") + driver.decline(1, chain="b")) == []
    driver.trigger("u")
    assert of(m.FailJob, driver.decline(2, chain="a")) != []


def test_failed_savepoints_never_fail_the_job() -> None:
    """No Flink test: CheckpointFailureManager skips savepoints."""
    driver = Driver(LiveCheckpointingPolicy(interval=None, tolerable_failed_checkpoints=0))
    for checkpoint in range(1, 4):
        driver.savepoint(f"s{checkpoint}")
        assert of(m.FailJob, driver.decline(checkpoint)) == []


def test_the_job_restarts_and_keeps_the_files_if_the_store_cannot_tell_whether_it_wrote() -> None:
    """CheckpointCoordinatorFailureTest.testCleanupOmissionForPossibleInconsistentStateException"""
    driver = Driver(LiveCheckpointingPolicy(interval=None, tolerable_failed_checkpoints=10))
    driver.trigger("t")
    driver.trigger("waits")
    driver.acknowledge(1)

    actions = driver.not_stored(1, m.CompletionFailure.UNKNOWN)
    (abort,) = of(m.AbortCheckpoint, actions)
    assert abort.keep_files
    assert [failed.reason for failed in of(m.FailJob, actions)] == [AbortReason.OUTCOME_UNKNOWN]
    assert resolved(actions) == {"t": TriggerState.FAILED, "waits": TriggerState.FAILED}
    assert started(actions) == []


def test_a_superseded_coordinator_stops_for_good() -> None:
    """No Flink test: it has one coordinator by leader election."""
    driver = Driver(LiveCheckpointingPolicy(interval=10))
    driver.trigger("t")
    driver.acknowledge(1)

    actions = driver.not_stored(1, m.CompletionFailure.SUPERSEDED)
    assert [end.end for end in of(m.EndJob, actions)] == [m.JobEnd.SUPERSEDED]
    assert of(m.FailJob, actions) == []
    assert all(abort.keep_files for abort in of(m.AbortCheckpoint, actions))
    assert driver.at(1000) == []
    assert driver.acknowledge(1) == []
    assert resolved(driver.savepoint("late")) == {"late": TriggerState.FAILED}


def test_ownership_lost_outside_a_completion_stops_for_good_and_keeps_the_files() -> None:
    """No Flink test, see above."""
    driver = Driver()
    driver.trigger("t")

    actions = driver.send(m.OwnershipLost(now=1, message="record 7 is another owner's"))
    assert [abort.keep_files for abort in of(m.AbortCheckpoint, actions)] == [True]
    assert actions[-1] == m.EndJob(end=m.JobEnd.SUPERSEDED, message="record 7 is another owner's")


def test_a_failed_chain_aborts_what_is_under_way_and_waiting_and_fails_the_job() -> None:
    """No Flink test by this name: a failing task aborts pending and queued checkpoints by stopCheckpointScheduler."""
    driver = Driver()
    driver.trigger("t")
    driver.savepoint("waits")

    actions = driver.fail_chain()
    assert aborted(actions) == [(1, AbortReason.CHAIN_FAILED)]
    assert resolved(actions) == {"t": TriggerState.FAILED, "waits": TriggerState.FAILED}
    assert actions[-1] == m.FailJob(reason=AbortReason.CHAIN_FAILED, message="a chain failed: chain a: boom")
    assert driver.counts() == (0, 0, 1)


def test_a_savepoint_that_is_stored_although_a_chain_failed_meanwhile_names_its_place_but_is_no_success() -> None:
    """StopWithSavepointTerminationHandlerImplTest.testFailedTerminationHandling: it names the savepoint, too"""
    driver = Driver()
    driver.savepoint("s")
    driver.acknowledge(1)
    assert resolved(driver.fail_chain()) == {}

    actions = driver.stored(1)
    assert outcome(actions, "s").state is TriggerState.FAILED
    assert "savepoint 1 is stored at uri-1" in str(outcome(actions, "s").failure)
    assert of(m.CommitOutput, actions) == []
    assert driver.counts() == (0, 1, 0)


def test_a_savepoint_whose_output_cannot_be_committed_names_its_place_but_is_no_success() -> None:
    """No Flink test, see above."""
    driver = Driver()
    driver.savepoint("s")
    driver.acknowledge(1)
    driver.stored(1)

    actions = driver.send(m.CommitFailed(now=1, id=CheckpointId(1), message="disk full"))
    assert outcome(actions, "s").state is TriggerState.FAILED
    assert outcome(actions, "s").uri == "uri-1"
    assert len(of(m.FailJob, actions)) == 1


def test_a_completion_whose_outcome_never_comes_is_resolved_when_the_epoch_ends() -> None:
    """No Flink test, see above."""
    driver = Driver()
    driver.savepoint("s")
    driver.acknowledge(1)
    driver.fail_chain()

    actions = driver.send(m.EpochEnded(now=9))
    assert resolved(actions) == {"s": TriggerState.FAILED}
    assert driver.counts() == (0, 0, 1)


def test_an_epoch_that_the_runtime_ends_leaves_nothing_open() -> None:
    """CheckpointCoordinatorTriggeringTest.testStopPeriodicScheduler"""
    driver = Driver()
    driver.trigger("t")
    driver.trigger("waits")

    actions = driver.send(m.EpochEnded(now=1))
    assert aborted(actions) == [(1, AbortReason.EPOCH_ENDED)]
    assert resolved(actions) == {"t": TriggerState.FAILED, "waits": TriggerState.FAILED}
    assert of(m.FailJob, actions) == []
    assert driver.at(100) == []


def test_a_failure_at_or_below_the_last_success_is_ignored() -> None:
    """CheckpointFailureManagerTest.testIgnoresPastCheckpoints"""
    counter = FailureCounter()
    counter.succeeded(CheckpointId(5))
    counter.failed(CheckpointId(4), AbortReason.EXPIRED)
    counter.failed(CheckpointId(5), AbortReason.EXPIRED)
    assert counter.count == 0

    counter.failed(CheckpointId(6), AbortReason.EXPIRED)
    counter.succeeded(CheckpointId(3))
    assert counter.count == 1


def test_one_id_counts_once() -> None:
    """CheckpointFailureManagerTest.testIgnoreOneCheckpointRepeatedlyCountMultiTimes"""
    counter = FailureCounter()
    counter.failed(CheckpointId(1), AbortReason.DECLINED)
    counter.failed(CheckpointId(1), AbortReason.EXPIRED)

    assert counter.count == 1


def test_only_reasons_that_tell_of_the_jobs_health_count() -> None:
    """CheckpointFailureManagerTest.testTotalCountValue"""
    counter = FailureCounter()
    for number, reason in enumerate(AbortReason):
        counter.failed(CheckpointId(number), reason)

    assert {reason for reason in AbortReason if reason.counts} == {
        AbortReason.DECLINED,
        AbortReason.UPLOAD_FAILED,
        AbortReason.EXPIRED,
        AbortReason.COMPLETION_FAILED,
    }
    assert counter.count == 4
