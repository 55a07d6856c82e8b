"""The runtime asks for another epoch: this one ends behind a checkpoint, and no work is lost."""

from __future__ import annotations

from tests.unit.coordinator.driver import Driver, Said, aborted, of, outcome, resolved, started

from streamjob.checkpointing_policy import LiveCheckpointingPolicy
from streamjob.ids import ChainUid, CheckpointId
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.failures import AbortReason
from streamjob.protocol.coordination.triggers import SnapshotKind, TriggerState


def restart(driver: Driver) -> list[Said]:
    return driver.send(m.RestartRequested(now=driver.now, message="state moves"))


def test_a_restart_takes_a_checkpoint_that_nothing_follows_and_ends_the_epoch_once_it_is_committed() -> None:
    driver = Driver(LiveCheckpointingPolicy(interval=10))
    (start,) = of(m.StartCheckpoint, restart(driver))
    assert (start.properties.kind, start.properties.stopping) == (SnapshotKind.CHECKPOINT, True)

    actions = driver.completed(1)
    assert actions[-1] == m.RestartJob(message="state moves")
    assert driver.at(100) == []


def test_a_restart_waits_until_all_chains_run() -> None:
    driver = Driver(running=False)
    assert started(restart(driver)) == []

    assert started(driver.all_chains(m.ChainStatus.RUNNING)) == [1]


def test_a_restart_waits_for_a_checkpoint_that_is_under_way() -> None:
    driver = Driver(LiveCheckpointingPolicy(interval=10))
    assert started(driver.at(10)) == [1]
    assert started(restart(driver)) == []

    assert started(driver.completed(1)) == [2]
    assert of(m.RestartJob, driver.completed(2)) != []


def test_a_requested_savepoint_is_taken_before_the_restart() -> None:
    driver = Driver(LiveCheckpointingPolicy(interval=10))
    driver.at(10)
    driver.savepoint("s")
    restart(driver)
    driver.completed(1)

    assert outcome(driver.completed(2), "s").checkpoint == 2
    assert of(m.RestartJob, driver.completed(3)) != []


def test_the_job_runs_on_if_the_checkpoint_of_a_restart_fails_and_restarts_behind_another() -> None:
    driver = Driver(LiveCheckpointingPolicy(interval=10, tolerable_failed_checkpoints=1))
    restart(driver)

    actions = driver.send(m.ChainDeclined(now=driver.now, id=CheckpointId(1), chain=ChainUid("a")))
    assert aborted(actions) == [(1, AbortReason.DECLINED)]
    assert of(m.FailJob, actions) == []
    assert not driver.coordinator.ended
    assert started(driver.at(9)) == []
    assert started(driver.at(10)) == [2]
    assert driver.completed(2)[-1] == m.RestartJob(message="state moves")


def test_a_restart_whose_checkpoint_has_failed_is_tried_again_without_periodic_checkpoints() -> None:
    driver = Driver(LiveCheckpointingPolicy(interval=None, tolerable_failed_checkpoints=1))
    restart(driver)
    actions = driver.send(m.ChainDeclined(now=driver.now, id=CheckpointId(1), chain=ChainUid("a")))

    (wake,) = of(m.WakeAt, actions)
    assert wake.time is not None
    assert started(driver.at(wake.time)) == [2]


def test_a_stop_that_fails_gives_way_to_the_restart_that_was_asked_for_before() -> None:
    driver = Driver(LiveCheckpointingPolicy(interval=10, tolerable_failed_checkpoints=1))
    restart(driver)
    driver.stop("stop", savepoint=True)
    driver.send(m.ChainDeclined(now=driver.now, id=CheckpointId(2), chain=ChainUid("a")))

    assert started(driver.at(10)) == [3]
    assert driver.completed(3)[-1] == m.RestartJob(message="state moves")


def test_a_stop_comes_before_a_restart() -> None:
    driver = Driver(LiveCheckpointingPolicy(interval=10))
    restart(driver)

    actions = driver.stop("stop", savepoint=True)
    assert aborted(actions) == [(1, AbortReason.JOB_STOPPING)]
    assert started(actions) == [2]
    assert driver.completed(2)[-1] == m.EndJob(end=m.JobEnd.STOPPED)


def test_a_plain_stop_ends_the_job_behind_the_checkpoint_of_a_restart_that_is_stored_already() -> None:
    driver = Driver()
    restart(driver)
    driver.acknowledge(1)
    driver.stop("stop")
    driver.stored(1)

    actions = driver.committed(1)
    assert outcome(actions, "stop").checkpoint == 1
    assert actions[-1] == m.EndJob(end=m.JobEnd.STOPPED)


def test_a_savepoint_cannot_be_taken_any_more_once_the_checkpoint_of_a_restart_is_stored() -> None:
    driver = Driver()
    restart(driver)
    driver.acknowledge(1)

    assert resolved(driver.stop("stop", savepoint=True)) == {"stop": TriggerState.FAILED}
    driver.stored(1)
    assert of(m.RestartJob, driver.committed(1)) != []


def test_a_job_that_finishes_or_stops_is_not_restarted() -> None:
    finishing = Driver()
    finishing.all_chains(m.ChainStatus.FINISHED)
    restart(finishing)
    assert finishing.completed(1)[-1] == m.EndJob(end=m.JobEnd.FINISHED)

    stopping = Driver()
    stopping.stop("stop")
    restart(stopping)
    assert stopping.completed(1)[-1] == m.EndJob(end=m.JobEnd.STOPPED)
