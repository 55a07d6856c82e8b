"""The coordinator's decisions. Docstrings name the Flink test that a test mirrors; docs/flink-parity.md has a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pytest

from streamjob.ids import BatchId, ChainUid, CheckpointId, TriggerId
from streamjob.protocol import messages as m
from streamjob.protocol.coordinator import Coordinator
from streamjob.protocol.failures import AbortReason
from streamjob.protocol.statistics import StatisticsTracker
from streamjob.protocol.triggers import CheckpointPolicy, SnapshotKind, TriggerOutcome, Triggers, TriggerState
from streamjob.snapshot.manifest import ChainState

A = TypeVar("A", bound=m.Action)


class Driver:
    """A coordinator with a clock; every method hands in one event and returns the actions."""

    def __init__(
        self,
        policy: CheckpointPolicy | None = None,
        chains: Sequence[str] = ("a",),
        highest_id: int = 0,
        running: bool = True,
        in_flight_to_index: bool = False,
        triggers: Triggers | None = None,
    ) -> None:
        self.now = 0.0
        self.statistics = StatisticsTracker()
        self.triggers = triggers or Triggers()
        self.chains = [ChainUid(chain) for chain in chains]
        self.coordinator = Coordinator(
            chains=self.chains,
            policy=policy or CheckpointPolicy(interval=None),
            highest_id=CheckpointId(highest_id),
            triggers=self.triggers,
            statistics=self.statistics,
            in_flight_to_index=in_flight_to_index,
        )
        if running:
            self.all_chains(m.ChainStatus.RUNNING)

    def send(self, event: m.Event) -> list[m.Action]:
        return self.coordinator.handle(event)

    def all_chains(self, status: m.ChainStatus) -> list[m.Action]:
        actions: list[m.Action] = []
        for chain in self.chains:
            actions += self.send(m.ChainStateChanged(now=self.now, chain=chain, status=status))
        return actions

    def at(self, now: float) -> list[m.Action]:
        self.now = now
        return self.send(m.Tick(now=now))

    def trigger(self, trigger_id: str, kind: SnapshotKind = SnapshotKind.CHECKPOINT) -> list[m.Action]:
        assert kind is not SnapshotKind.FINAL
        return self.send(m.TriggerRequested(now=self.now, trigger_id=TriggerId(trigger_id), kind=kind))

    def savepoint(self, trigger_id: str) -> list[m.Action]:
        return self.trigger(trigger_id, SnapshotKind.SAVEPOINT)

    def stop(self, trigger_id: str, *, savepoint: bool = False, drain: bool = False) -> list[m.Action]:
        trigger = TriggerId(trigger_id)
        return self.send(m.StopRequested(now=self.now, trigger_id=trigger, savepoint=savepoint, drain=drain))

    def acknowledge(self, checkpoint: int, chain: str = "a") -> list[m.Action]:
        state = ChainState(uid=ChainUid(chain), operators=(), batch=BatchId(0))
        acknowledgement = m.ChainAcknowledgement(state=state)
        return self.send(
            m.ChainAcknowledged(now=self.now, id=CheckpointId(checkpoint), acknowledgement=acknowledgement)
        )

    def decline(self, checkpoint: int, reason: AbortReason = AbortReason.DECLINED, chain: str = "a") -> list[m.Action]:
        return self.send(
            m.ChainDeclined(now=self.now, id=CheckpointId(checkpoint), chain=ChainUid(chain), reason=reason)
        )

    def stored(self, checkpoint: int) -> list[m.Action]:
        return self.send(m.CompletionSucceeded(now=self.now, id=CheckpointId(checkpoint), uri=f"uri-{checkpoint}"))

    def not_stored(
        self, checkpoint: int, failure: m.CompletionFailure = m.CompletionFailure.NOT_WRITTEN
    ) -> list[m.Action]:
        return self.send(m.CompletionFailed(now=self.now, id=CheckpointId(checkpoint), failure=failure, message="no"))

    def published(self, checkpoint: int) -> list[m.Action]:
        return self.send(m.Published(now=self.now, id=CheckpointId(checkpoint)))

    def completed(self, checkpoint: int) -> list[m.Action]:
        actions: list[m.Action] = []
        for chain in self.chains:
            actions += self.acknowledge(checkpoint, chain)
        return actions + self.stored(checkpoint) + self.published(checkpoint)

    def fail_chain(self, chain: str = "a") -> list[m.Action]:
        status = m.ChainStatus.FAILED
        return self.send(m.ChainStateChanged(now=self.now, chain=ChainUid(chain), status=status, message="boom"))

    def counts(self) -> tuple[int, int, int]:
        counts = self.statistics.overview().counts
        return counts.in_progress, counts.completed, counts.failed


def of(kind: type[A], actions: Sequence[m.Action]) -> list[A]:
    return [action for action in actions if isinstance(action, kind)]


def started(actions: Sequence[m.Action]) -> list[int]:
    return [action.id for action in of(m.StartCheckpoint, actions)]


def aborted(actions: Sequence[m.Action]) -> list[tuple[int, AbortReason]]:
    return [(action.id, action.reason) for action in of(m.AbortCheckpoint, actions)]


def resolved(actions: Sequence[m.Action]) -> dict[str, TriggerState]:
    return {action.trigger_id: action.outcome.state for action in of(m.ResolveTrigger, actions)}


def outcome(actions: Sequence[m.Action], trigger_id: str) -> TriggerOutcome:
    (found,) = [action.outcome for action in of(m.ResolveTrigger, actions) if action.trigger_id == trigger_id]
    return found


def wishes(actions: Sequence[m.Action]) -> list[float | None]:
    return [action.time for action in of(m.WakeAt, actions)]


# Periodic checkpoints


def test_a_periodic_checkpoint_starts_one_interval_after_all_chains_run() -> None:
    """CheckpointCoordinatorTriggeringTest.testPeriodicTriggering"""
    driver = Driver(CheckpointPolicy(interval=10), chains=("a", "b"), running=False)
    driver.now = 3
    assert wishes(driver.all_chains(m.ChainStatus.RUNNING)) == [13]

    assert started(driver.at(12.9)) == []
    assert started(driver.at(13)) == [1]


def test_periodic_checkpoints_follow_each_other_at_the_interval() -> None:
    """CheckpointCoordinatorTriggeringTest.testPeriodicTriggering"""
    driver = Driver(CheckpointPolicy(interval=10))
    starts = []
    for second in range(1, 36):
        for checkpoint in started(driver.at(second)):
            starts.append((second, checkpoint))
            driver.completed(checkpoint)

    assert starts == [(10, 1), (20, 2), (30, 3)]


def test_no_chain_running_means_no_periodic_checkpoint_and_no_wish_to_wake() -> None:
    """DefaultCheckpointPlanCalculatorTest.testPlanCalculationWhenOneTaskNotRunning"""
    driver = Driver(CheckpointPolicy(interval=10), running=False)

    assert driver.at(1000) == []
    assert driver.counts() == (0, 0, 0)


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


def test_one_checkpoint_is_in_flight_and_an_overdue_one_starts_right_behind_it() -> None:
    """CheckpointCoordinatorTest.testMaxConcurrentAttempts1"""
    driver = Driver(CheckpointPolicy(interval=10))
    assert started(driver.at(10)) == [1]

    assert started(driver.at(20)) == []
    assert started(driver.at(35)) == []
    assert started(driver.completed(1)) == [2]
    assert started(driver.at(44)) == []


def test_the_minimum_pause_counts_from_the_last_completion() -> None:
    """CheckpointCoordinatorTest.testMinCheckpointPause"""
    driver = Driver(CheckpointPolicy(interval=10, min_pause=8))
    driver.at(10)
    driver.now = 17
    assert wishes(driver.completed(1)) == [None, 25]

    assert started(driver.at(24.9)) == []
    assert started(driver.at(25)) == [2]


def test_the_minimum_pause_does_not_hold_back_what_was_asked_for() -> None:
    """CheckpointCoordinatorTest.testMinDelayBetweenSavepoints, CheckpointRequestDeciderTest.testSavepointTiming"""
    driver = Driver(CheckpointPolicy(interval=10, min_pause=100))
    driver.at(10)
    driver.completed(1)

    assert started(driver.savepoint("s")) == [2]
    driver.completed(2)
    assert started(driver.trigger("c")) == [3]


def test_the_minimum_pause_does_not_follow_an_aborted_checkpoint() -> None:
    """CheckpointRequestDeciderTest.testCheckpointTiming"""
    driver = Driver(CheckpointPolicy(interval=10, min_pause=100))
    driver.at(10)
    driver.now = 12
    driver.decline(1)

    assert started(driver.at(20)) == [2]


def test_a_tick_that_comes_too_early_is_wished_for_again() -> None:
    """No Flink test: its timers do not come early."""
    driver = Driver(CheckpointPolicy(interval=10))

    assert driver.at(9.999) == [m.WakeAt(time=10)]


def test_nothing_is_wished_for_without_interval_and_without_checkpoint() -> None:
    """No Flink test: a job without interval has no timer there."""
    driver = Driver(CheckpointPolicy(interval=None))

    assert driver.at(10_000) == []


# Requests


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
    driver = Driver(CheckpointPolicy(interval=10))
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
    expected = TriggerOutcome(state=TriggerState.COMPLETED, checkpoint=CheckpointId(1), uri="uri-1")
    assert again == [m.ResolveTrigger(trigger_id=TriggerId("s"), outcome=expected)]


def test_one_request_too_many_is_refused() -> None:
    """CheckpointRequestDeciderTest.testQueueSizeLimit"""
    driver = Driver(triggers=Triggers(capacity=1))
    driver.trigger("running")
    driver.trigger("waits")

    assert resolved(driver.trigger("refused")) == {"refused": TriggerState.FAILED}
    assert resolved(driver.trigger("refused")) == {"refused": TriggerState.FAILED}


def test_a_request_is_refused_when_a_chain_is_not_running_and_that_counts_for_nothing() -> None:
    """DefaultCheckpointPlanCalculatorTest.testPlanCalculationWhenOneTaskNotRunning"""
    driver = Driver(CheckpointPolicy(interval=None, tolerable_failures=0), running=False)

    actions = driver.savepoint("s") + driver.trigger("t")
    assert resolved(actions) == {"s": TriggerState.FAILED, "t": TriggerState.FAILED}
    assert "chain a is STARTING" in str(outcome(actions, "s").failure)
    assert started(actions) == []
    assert of(m.FailJob, actions) == []


def test_a_savepoint_completes_for_its_caller_when_the_log_names_it() -> None:
    """CheckpointCoordinatorTest.testTriggerAndConfirmSimpleSavepoint"""
    driver = Driver()
    driver.savepoint("s")
    assert resolved(driver.acknowledge(1)) == {}

    actions = driver.stored(1)
    assert outcome(actions, "s") == TriggerOutcome(
        state=TriggerState.COMPLETED, checkpoint=CheckpointId(1), uri="uri-1"
    )
    assert driver.statistics.overview().latest.savepoint is not None


def test_a_savepoint_is_aligned_whatever_the_mode_and_never_switches() -> None:
    """AlternatingCheckpointsTest.testSavepointHandling"""
    driver = Driver(CheckpointPolicy(interval=None, mode="unaligned", aligned_timeout=5))
    (savepoint,) = of(m.StartCheckpoint, driver.savepoint("s"))
    driver.completed(1)
    (checkpoint,) = of(m.StartCheckpoint, driver.trigger("c"))

    assert (savepoint.properties.unaligned, savepoint.properties.aligned_timeout) == (False, None)
    assert (checkpoint.properties.unaligned, checkpoint.properties.aligned_timeout) == (True, None)


# Acknowledgements


def test_a_checkpoint_is_completed_when_all_chains_have_acknowledged_and_published_when_it_is_stored() -> None:
    """CheckpointCoordinatorTest.testTriggerAndConfirmSimpleCheckpoint"""
    driver = Driver(chains=("a", "b"))
    driver.trigger("t")

    assert of(m.CompleteCheckpoint, driver.acknowledge(1, "b")) == []
    (complete,) = of(m.CompleteCheckpoint, driver.acknowledge(1, "a"))
    assert set(complete.acknowledgements) == {"a", "b"}
    assert of(m.Publish, driver.stored(1)) == [m.Publish(id=CheckpointId(1))]
    assert driver.coordinator.pending == 1
    driver.published(1)
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
    driver.published(1)
    assert driver.acknowledge(1, "b") == []


def test_a_late_acknowledgement_is_discarded_and_its_figures_are_kept() -> None:
    """CheckpointCoordinatorTest.testStateCleanupForLateOrUnknownMessages"""
    driver = Driver(chains=("a", "b"))
    driver.trigger("t")
    driver.decline(1, chain="a")

    assert driver.acknowledge(1, "b") == [m.DiscardAcknowledgement(id=CheckpointId(1), chain=ChainUid("b"))]
    assert driver.statistics.overview().history[0].num_acknowledged_subtasks == 1


def test_an_acknowledgement_of_an_unknown_checkpoint_or_chain_is_discarded() -> None:
    """CheckpointCoordinatorTest.testHandleMessagesForNonExistingCheckpoints"""
    driver = Driver()
    assert of(m.DiscardAcknowledgement, driver.acknowledge(7)) != []
    driver.trigger("t")

    assert of(m.DiscardAcknowledgement, driver.acknowledge(1, "stranger")) != []
    assert driver.coordinator.pending == 1


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
    assert of(m.Publish, driver.stored(1)) != []


# Failures


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
    driver = Driver(CheckpointPolicy(interval=None, timeout=30), chains=("a", "b"))
    assert wishes(driver.trigger("t")) == [30]
    driver.acknowledge(1, "a")

    assert aborted(driver.at(29.9)) == []
    actions = driver.at(30)
    assert aborted(actions) == [(1, AbortReason.EXPIRED)]
    assert "no acknowledgement from b" in str(outcome(actions, "t").failure)


def test_an_acknowledgement_that_arrives_behind_the_timeout_is_late_even_if_no_tick_came() -> None:
    """CheckpointCoordinatorTest.testStateCleanupForLateOrUnknownMessages"""
    driver = Driver(CheckpointPolicy(interval=None, timeout=30))
    driver.trigger("t")
    driver.now = 31

    actions = driver.acknowledge(1)
    assert aborted(actions) == [(1, AbortReason.EXPIRED)]
    assert of(m.DiscardAcknowledgement, actions) != []
    assert of(m.CompleteCheckpoint, actions) == []


def test_a_checkpoint_that_is_being_stored_does_not_expire() -> None:
    """No Flink test: PendingCheckpoint.finalizeCheckpoint cancels the timeout."""
    driver = Driver(CheckpointPolicy(interval=None, timeout=30))
    driver.trigger("t")
    driver.acknowledge(1)

    assert aborted(driver.at(1000)) == []
    assert of(m.Publish, driver.stored(1)) != []


@pytest.mark.parametrize(
    "reason",
    [AbortReason.DECLINED, AbortReason.UPLOAD_FAILED],
    ids=["declined", "upload failed"],
)
def test_the_job_fails_when_more_checkpoints_in_a_row_fail_than_are_tolerable(reason: AbortReason) -> None:
    """CheckpointFailureManagerTest.testContinuousFailure, testIOExceptionCheckpointExceedsTolerableFailureNumber"""
    driver = Driver(CheckpointPolicy(interval=None, tolerable_failures=2))
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
    driver = Driver(CheckpointPolicy(interval=None, timeout=1, tolerable_failures=0))
    driver.trigger("t")

    assert of(m.FailJob, driver.at(1)) != []


def test_a_checkpoint_that_could_not_be_stored_counts_as_a_failure() -> None:
    """CheckpointCoordinatorFailureTest.testFailingCompletedCheckpointStoreAdd"""
    driver = Driver(CheckpointPolicy(interval=None, tolerable_failures=0))
    driver.trigger("t")
    driver.acknowledge(1)

    actions = driver.not_stored(1)
    assert aborted(actions) == [(1, AbortReason.COMPLETION_FAILED)]
    assert of(m.AbortCheckpoint, actions)[0].keep_files is False
    assert of(m.FailJob, actions) != []


def test_a_success_ends_the_row_of_failures() -> None:
    """CheckpointFailureManagerTest.testBreakContinuousFailure"""
    driver = Driver(CheckpointPolicy(interval=None, tolerable_failures=1))
    for checkpoint in (1, 3, 5):
        driver.trigger(f"bad{checkpoint}")
        assert of(m.FailJob, driver.decline(checkpoint)) == []
        driver.trigger(f"good{checkpoint}")
        driver.completed(checkpoint + 1)


def test_one_checkpoint_counts_once_however_many_chains_decline() -> None:
    """CheckpointFailureManagerTest.testIgnoreOneCheckpointRepeatedlyCountMultiTimes"""
    driver = Driver(CheckpointPolicy(interval=None, tolerable_failures=1), chains=("a", "b"))
    driver.trigger("t")

    assert of(m.FailJob, driver.decline(1, chain="a") + driver.decline(1, chain="b")) == []
    driver.trigger("u")
    assert of(m.FailJob, driver.decline(2, chain="a")) != []


def test_failed_savepoints_never_fail_the_job() -> None:
    """No Flink test: CheckpointFailureManager skips savepoints."""
    driver = Driver(CheckpointPolicy(interval=None, tolerable_failures=0))
    for checkpoint in range(1, 4):
        driver.savepoint(f"s{checkpoint}")
        assert of(m.FailJob, driver.decline(checkpoint)) == []


def test_the_job_restarts_and_keeps_the_files_if_the_store_cannot_tell_whether_it_wrote() -> None:
    """CheckpointCoordinatorFailureTest.testCleanupOmissionForPossibleInconsistentStateException"""
    driver = Driver(CheckpointPolicy(interval=None, tolerable_failures=10))
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
    driver = Driver(CheckpointPolicy(interval=10))
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


def test_a_savepoint_that_is_stored_although_a_chain_failed_meanwhile_is_told_so() -> None:
    """No Flink test: the outcome of a write under way belongs to whoever asked for it."""
    driver = Driver()
    driver.savepoint("s")
    driver.acknowledge(1)
    assert resolved(driver.fail_chain()) == {}

    actions = driver.stored(1)
    assert resolved(actions) == {"s": TriggerState.COMPLETED}
    assert of(m.Publish, actions) == []
    assert driver.counts() == (0, 1, 0)


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


# Publication


def test_no_checkpoint_starts_before_the_last_one_is_published() -> None:
    """No Flink test: it notifies tasks of a completion before it triggers again, on one thread."""
    driver = Driver()
    driver.trigger("t")
    driver.trigger("next")
    driver.acknowledge(1)

    assert started(driver.stored(1)) == []
    assert started(driver.at(100)) == []
    assert started(driver.published(1)) == [2]


def test_a_completion_reported_twice_publishes_once() -> None:
    """No Flink test: its store answers by a future."""
    driver = Driver()
    driver.trigger("t")
    driver.acknowledge(1)

    assert len(of(m.Publish, driver.stored(1) + driver.stored(1))) == 1
    driver.published(1)
    assert driver.stored(1) == []
    assert driver.published(1) == []
    assert driver.counts() == (0, 1, 0)


def test_a_failed_publication_fails_the_job_and_leaves_the_completion_standing() -> None:
    """TwoPhaseCommitSinkFunctionTest.testFailBeforeNotify"""
    driver = Driver()
    driver.trigger("t")
    driver.acknowledge(1)
    driver.stored(1)

    actions = driver.send(m.PublicationFailed(now=1, id=CheckpointId(1), message="disk full"))
    assert [failed.reason for failed in of(m.FailJob, actions)] == [AbortReason.PUBLICATION_FAILED]
    assert aborted(actions) == []
    assert driver.counts() == (0, 1, 0)


def test_no_checkpoint_starts_while_restored_in_flight_entries_are_not_indexed() -> None:
    """RecoveredInputChannelTest.testCheckpointStartImpossible"""
    driver = Driver(CheckpointPolicy(interval=10), in_flight_to_index=True)
    assert started(driver.at(10)) == []
    assert started(driver.savepoint("s")) == []

    assert started(driver.send(m.InFlightIndexed(now=11))) == [1]


# Policy


def test_a_changed_interval_counts_from_the_last_periodic_start() -> None:
    """No Flink test: its interval is fixed while a job runs."""
    driver = Driver(CheckpointPolicy(interval=10))
    driver.at(10)
    driver.now = 11
    driver.completed(1)

    driver.now = 12
    assert wishes(driver.send(m.PolicyChanged(now=12, policy=CheckpointPolicy(interval=4)))) == [14]
    assert started(driver.at(14)) == [2]


def test_a_shorter_interval_that_is_over_already_starts_a_checkpoint_at_once() -> None:
    """No Flink test, see above."""
    driver = Driver(CheckpointPolicy(interval=100))

    assert started(driver.at(50)) == []
    assert started(driver.send(m.PolicyChanged(now=50, policy=CheckpointPolicy(interval=10)))) == [1]


def test_a_changed_timeout_applies_to_the_checkpoint_under_way() -> None:
    """No Flink test, see above."""
    driver = Driver(CheckpointPolicy(interval=None, timeout=30))
    driver.trigger("t")

    changed = CheckpointPolicy(interval=None, timeout=60)
    assert wishes(driver.send(m.PolicyChanged(now=29, policy=changed))) == [60]
    assert aborted(driver.at(59)) == []
    assert aborted(driver.at(60)) == [(1, AbortReason.EXPIRED)]


def test_a_changed_mode_applies_to_the_next_checkpoint() -> None:
    """No Flink test, see above."""
    driver = Driver()
    driver.send(m.PolicyChanged(now=0, policy=CheckpointPolicy(interval=None, aligned_timeout=3)))
    (start,) = of(m.StartCheckpoint, driver.trigger("t"))

    assert (start.properties.unaligned, start.properties.aligned_timeout) == (False, 3)


def test_changed_tolerable_failures_are_compared_at_the_next_failure() -> None:
    """No Flink test, see above."""
    driver = Driver(CheckpointPolicy(interval=None, tolerable_failures=5))
    for checkpoint in (1, 2):
        driver.trigger(f"t{checkpoint}")
        driver.decline(checkpoint)

    assert driver.send(m.PolicyChanged(now=0, policy=CheckpointPolicy(interval=None, tolerable_failures=2))) == []
    driver.trigger("t3")
    assert of(m.FailJob, driver.decline(3)) != []


def test_a_periodic_interval_switched_off_takes_the_wish_to_wake_back() -> None:
    """CheckpointCoordinatorTriggeringTest.testStopPeriodicScheduler"""
    driver = Driver(CheckpointPolicy(interval=10))

    assert driver.send(m.PolicyChanged(now=1, policy=CheckpointPolicy(interval=None))) == [m.WakeAt(time=None)]
    assert started(driver.at(100)) == []


# Stopping


def test_a_stop_takes_a_last_checkpoint_and_ends_the_job_once_it_is_published() -> None:
    """StopWithSavepointTerminationHandlerImplTest.testHappyPath, for a checkpoint"""
    driver = Driver(CheckpointPolicy(interval=10))
    (start,) = of(m.StartCheckpoint, driver.stop("stop"))
    assert (start.properties.kind, start.properties.stopping) == (SnapshotKind.CHECKPOINT, True)
    driver.acknowledge(1)
    assert resolved(driver.stored(1)) == {}

    actions = driver.published(1)
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
    driver = Driver(CheckpointPolicy(interval=10))
    driver.at(10)
    driver.savepoint("waits")

    actions = driver.stop("stop")
    assert aborted(actions) == [(1, AbortReason.JOB_STOPPING)]
    assert resolved(actions) == {"waits": TriggerState.FAILED}
    assert started(actions) == [2]
    assert resolved(driver.savepoint("late")) == {"late": TriggerState.FAILED}
    assert of(m.FailJob, actions) == []


def test_a_stop_waits_for_a_savepoint_that_is_under_way() -> None:
    """CheckpointCoordinatorTest.testConcurrentSavepoints, with one in flight"""
    driver = Driver()
    driver.savepoint("s")
    assert started(driver.stop("stop", savepoint=True)) == []

    actions = driver.completed(1)
    assert resolved(actions) == {"s": TriggerState.COMPLETED}
    assert started(actions) == [2]


def test_a_failed_stopping_savepoint_fails_the_operation_and_restarts_the_job() -> None:
    """CheckpointCoordinatorTest.jobFailsIfInFlightSynchronousSavepointIsDiscarded"""
    driver = Driver(CheckpointPolicy(interval=None, tolerable_failures=10))
    driver.stop("stop", savepoint=True)

    actions = driver.decline(1)
    assert resolved(actions) == {"stop": TriggerState.FAILED}
    assert len(of(m.FailJob, actions)) == 1
    assert of(m.EndJob, actions) == []


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
    driver = Driver(CheckpointPolicy(interval=10), running=False)

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
    driver = Driver(CheckpointPolicy(interval=10), chains=("a", "b"))
    actions = driver.stop("stop", savepoint=True, drain=True)
    assert of(m.DrainSources, actions) == [m.DrainSources()]
    assert started(actions) == []
    assert started(driver.at(50)) == []
    assert started(driver.send(m.ChainStateChanged(now=51, chain=ChainUid("a"), status=m.ChainStatus.DRAINED))) == []

    (start,) = of(
        m.StartCheckpoint,
        driver.send(m.ChainStateChanged(now=52, chain=ChainUid("b"), status=m.ChainStatus.DRAINED)),
    )
    assert (start.properties.drained, start.properties.kind) == (True, SnapshotKind.SAVEPOINT)
    assert driver.completed(1)[-1] == m.EndJob(end=m.JobEnd.STOPPED)


def test_a_failed_drain_restarts_the_job_even_without_savepoint() -> None:
    """SavepointITCase.testStopWithSavepointWithDrainGlobalFailoverIfSavepointAborted"""
    driver = Driver()
    driver.stop("stop", drain=True)
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


# The end of all input


def test_one_final_checkpoint_is_taken_when_all_chains_are_finished_and_ends_the_job() -> None:
    """CheckpointAfterAllTasksFinishedITCase.testImmediateCheckpointing"""
    driver = Driver(CheckpointPolicy(interval=10), chains=("a", "b"))
    assert started(driver.send(m.ChainStateChanged(now=1, chain=ChainUid("a"), status=m.ChainStatus.FINISHED))) == []

    finished = driver.send(m.ChainStateChanged(now=2, chain=ChainUid("b"), status=m.ChainStatus.FINISHED))
    (start,) = of(m.StartCheckpoint, finished)
    assert start.properties.kind is SnapshotKind.FINAL
    assert driver.completed(1)[-1] == m.EndJob(end=m.JobEnd.FINISHED)


def test_checkpoints_go_on_while_some_chains_are_finished() -> None:
    """CheckpointCoordinatorTest.testCheckpointTriggeredAfterSomeTasksFinishedIfAllowed"""
    driver = Driver(CheckpointPolicy(interval=10), chains=("a", "b"))
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
    driver = Driver(CheckpointPolicy(interval=10))
    driver.at(10)
    driver.savepoint("s")
    assert started(driver.all_chains(m.ChainStatus.FINISHED)) == []

    (savepoint,) = of(m.StartCheckpoint, driver.completed(1))
    assert savepoint.properties.kind is SnapshotKind.SAVEPOINT
    (final,) = of(m.StartCheckpoint, driver.completed(2))
    assert final.properties.kind is SnapshotKind.FINAL


def test_a_failed_final_checkpoint_counts_and_is_tried_again_after_the_interval() -> None:
    """CheckpointAfterAllTasksFinishedITCase.testFailoverAfterSomeTasksFinished, for a mere checkpoint failure"""
    driver = Driver(CheckpointPolicy(interval=10, tolerable_failures=1))
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


def test_a_request_that_arrives_as_one_failure_too_many_expires_is_answered() -> None:
    """No Flink test: requests fail there with CHECKPOINT_COORDINATOR_SHUTDOWN."""
    driver = Driver(CheckpointPolicy(interval=None, timeout=1, tolerable_failures=0))
    driver.trigger("t")
    driver.now = 1

    actions = driver.savepoint("s")
    assert of(m.FailJob, actions) != []
    assert resolved(actions) == {"t": TriggerState.FAILED, "s": TriggerState.FAILED}


def test_a_chain_that_the_job_does_not_have_is_a_defect_of_the_caller() -> None:
    """No Flink test."""
    driver = Driver()
    with pytest.raises(KeyError, match="no chain x"):
        driver.send(m.ChainStateChanged(now=0, chain=ChainUid("x"), status=m.ChainStatus.RUNNING))
