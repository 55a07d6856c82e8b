"""The running job as the control API sees it: its chains, its channels, its last checkpoint."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.runtime.fake_runtime import NOW
from tests.unit.runtime.three_chains import CLEAN, FLIGHTS, SLOW, JobOfThreeChains, world

from streamjob.client.models import ChannelView, CheckpointingChanges, JobView, ReplayingView, SnapshotKind
from streamjob.ids import BatchId, CheckpointId, Key, OperatorUid, TriggerId
from streamjob.protocol.coordination.triggers import CheckpointProperties
from streamjob.protocol.emissions.cuts import Batch
from streamjob.protocol.lifecycle import JobState
from streamjob.sink import Staged
from streamjob.store.base import StoreError
from streamjob_runtime.control.api.refusals import InvalidChange, StateConflict
from streamjob_runtime.control.running_job import RunningJob
from streamjob_runtime.monitoring.metered_store import MeteredStore

__all__ = ["world"]


def test_a_job_that_has_not_begun_has_no_chains(world: JobOfThreeChains) -> None:
    world.control.observe()

    assert (world.control.job().chains, world.control.job().channels) == ((), ())


def test_the_graph_has_the_state_partitions_in_force(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    assert world.control.job().graph["maxParallelism"] == world.runner.job.loaded.spec.max_parallelism

    world.runner.epoch.partitions = 7

    assert world.control.job().graph["maxParallelism"] == 7


def test_published_batches_that_run_again_are_counted_over_all_chains(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    assert world.control.job().replaying is None

    world.chains[FLIGHTS].replaying, world.chains[CLEAN].replaying = (2, 5), (1, 3)

    assert world.control.job().replaying == ReplayingView(done=3, batches=8)


def test_all_chains_are_shown_each_behind_those_that_it_reads(world: JobOfThreeChains) -> None:
    world.begin_epoch()

    job = world.control.job()

    assert [chain.uid for chain in job.chains] == [FLIGHTS, CLEAN, SLOW]
    assert [(source.uid, source.chain) for source in world.chain(SLOW).inputs] == [("clean", CLEAN)]
    assert [(source.uid, source.chain) for source in world.chain(FLIGHTS).inputs] == [("flights", None)]
    assert [(channel.source, channel.target) for channel in job.channels] == [(FLIGHTS, CLEAN), (CLEAN, SLOW)]


def test_a_report_holds_what_is_asked_for_as_the_job_tells_it_alone(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    world.complete(4)

    report = world.control.report(["checkpoints", "checkpointing"], [TriggerId("unknown")])

    assert JobView.model_validate(report.model_dump()) == JobView.model_validate(world.control.job().model_dump())
    assert report.checkpoints == world.control.checkpoints()
    assert report.checkpointing is not None
    assert report.checkpointing.interval == world.coordination.policy.interval
    assert report.triggers == {}
    assert world.control.job().model_dump().keys() & {"checkpoints", "checkpointing", "triggers"} == set()


def test_null_switches_periodic_checkpoints_off_and_leaves_the_rest_of_the_policy(world: JobOfThreeChains) -> None:
    before = world.coordination.policy

    in_force = world.control.patch_checkpointing(CheckpointingChanges.model_validate({"interval": None}))

    assert in_force.interval is None
    assert [event.policy for event in world.posted] == [before.model_copy(update={"interval": None})]


def test_periodic_checkpoints_are_switched_on_again(world: JobOfThreeChains) -> None:
    world.control.patch_checkpointing(CheckpointingChanges.model_validate({"interval": None}))

    in_force = world.control.patch_checkpointing(CheckpointingChanges.model_validate({"interval": "30s"}))

    assert in_force.interval == world.coordination.policy.interval == 30


def test_a_running_job_takes_unaligned_checkpoints_from_now_on(world: JobOfThreeChains) -> None:
    changes = CheckpointingChanges.model_validate({"mode": "unaligned", "alignedCheckpointTimeout": None})

    assert world.control.patch_checkpointing(changes).mode == "unaligned"
    assert [event.policy.mode for event in world.posted] == ["unaligned"]


def test_a_channel_in_json_is_from_one_chain_to_another(world: JobOfThreeChains) -> None:
    world.begin_epoch()

    shown = world.channel(CLEAN, SLOW).model_dump(mode="json")

    assert (shown["from"], shown["to"], shown["capacityBytes"]) == ("clean", "slow", 1000)
    assert ChannelView.model_validate(shown) == world.channel(CLEAN, SLOW)


def test_a_diagnosis_knows_the_restarts_of_the_process_and_the_failures_of_the_store(tmp_path: Path) -> None:
    world = JobOfThreeChains(tmp_path)
    store = MeteredStore(cast(Any, SimpleNamespace(get=_fails)), clock=world.clock)
    control = RunningJob(cast(Any, world.runner), store)
    for _ in range(3):
        with pytest.raises(StoreError):
            store.get(Key("manifest"))
    control.observe()
    world.coordination.failed("no heap")
    world.coordination.enter(JobState.RESTARTING)
    world.coordination.enter(JobState.RUNNING)
    control.observe()

    found = control.diagnosis()

    assert [each.sentence for each in found.reasons] == [
        "Restarted just now: no heap",
        "3 calls of the store failed in 5 minutes, the last one with: 503 Slow Down",
    ]


def test_a_store_that_works_again_is_forgiven(tmp_path: Path) -> None:
    world = JobOfThreeChains(tmp_path)
    store = MeteredStore(cast(Any, SimpleNamespace(get=_fails)), clock=world.clock)
    for _ in range(3):
        with pytest.raises(StoreError):
            store.get(Key("manifest"))
    world.clock.now += 301

    assert store.failures(300) == []


def _fails(_: Key) -> bytes:
    raise StoreError("503 Slow Down")


def test_what_happened_is_told_with_its_whole_error_and_its_own_time(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    world.control.record(world.control.job(), world.control.checkpoints())
    world.complete(4)
    world.coordination.failed("disk full\nand more")
    world.coordination.enter(JobState.RESTARTING)
    world.clock.now += 1
    world.control.record(world.control.job(), world.control.checkpoints())

    restart, checkpoint, running = world.control.events.view().events

    assert (running.kind, running.sentence, running.at) == (
        "state",
        "flights is RUNNING, restored from checkpoint 3",
        NOW,
    )
    assert (checkpoint.kind, checkpoint.weight, checkpoint.at, checkpoint.details["checkpoint"]) == (
        "checkpoint",
        "routine",
        NOW + 1.5,
        4,
    )
    assert (restart.kind, restart.weight, restart.sentence, restart.at) == (
        "restart",
        "bad",
        "flights is RESTARTING: disk full",
        NOW,
    )
    assert restart.details["text"] == "disk full\nand more"


def test_a_request_is_an_event_unless_it_is_refused(world: JobOfThreeChains) -> None:
    world.control.trigger_savepoint(None, TriggerId("one"))
    world.control.trigger_checkpoint(TriggerId("two"))
    world.control.patch_checkpointing(CheckpointingChanges.model_validate({"interval": None, "minPause": "2s"}))
    world.control.stop(savepoint=True, location=None, drain=True, trigger_id=TriggerId("three"))
    world.coordination.enter(JobState.STOPPING)
    with pytest.raises(StateConflict):
        world.control.trigger_savepoint(None, TriggerId("four"))

    assert [event.sentence for event in reversed(world.control.events.view().events)] == [
        "a savepoint was requested",
        "a checkpoint was requested",
        "checkpointing was changed: interval off, minPause 2s",
        "a drain with a savepoint was requested",
    ]


def test_a_job_that_catches_up_is_diagnosed_by_its_history(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    world.control.observe()
    (flights, *others) = world.control.job().chains

    def note(lag: float) -> None:
        source = flights.inputs[0].model_copy(update={"lag_seconds": lag})
        chain = flights.model_copy(update={"inputs": (source,)})
        job = world.control.job().model_copy(update={"chains": (chain, *others)})
        world.control.record(job, world.control.checkpoints())

    note(900)
    world.clock.now += 60
    note(300)

    assert world.control.history.since(NOW).points[0].lag_seconds == 300
    assert world.control.history.lag_change() == -10


def test_the_page_shows_what_was_observed_a_moment_ago_or_else_looks_itself(world: JobOfThreeChains) -> None:
    world.control.record(world.control.job(), world.control.checkpoints())
    world.coordination.enter(JobState.STOPPING)
    assert world.control.live()["job"]["state"] == "RUNNING"
    world.clock.now += 2

    assert world.control.live()["job"]["state"] == "STOPPING"


def test_rows_that_enter_and_leave_a_chain_belong_to_the_operators_at_its_ends(tmp_path: Path) -> None:
    world = JobOfThreeChains(tmp_path)
    world.begin_epoch()
    world.chains[FLIGHTS].query.add(100)
    world.chains[FLIGHTS].rows = 90
    world.control.observe()

    source, *_ = world.chain(FLIGHTS).operator_figures

    assert (source.uid, source.rows_out) == ("flights", 100)


def test_totals_go_on_in_the_next_epoch_with_what_was_not_seen_of_the_last(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    world.chains[CLEAN].query.add(100)
    world.chains[CLEAN].rows, world.blocked = 50, {CLEAN: 3.0}
    world.control.observe()
    world.chains[CLEAN].rows = 60
    world.begin_epoch()
    world.chains[CLEAN].query.add(7)
    world.chains[CLEAN].rows, world.blocked = 5, {CLEAN: 1.0}
    world.control.observe()

    chain = world.chain(CLEAN)

    assert (chain.records_in, chain.records_out, chain.last_batch_ms) == (107, 65, 250)
    assert (chain.batches, chain.batch_seconds) == (2, 0.5)


def test_time_that_was_waited_adds_up_over_epochs(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    emission = world.runner.epoch.emission
    emission.blocked_seconds = lambda chain: 3.0
    world.control.observe()
    world.begin_epoch()
    world.blocked = {CLEAN: 1.5}
    world.control.observe()

    assert world.chain(CLEAN).backpressured_seconds == 4.5


def test_a_chain_that_finished_before_the_epoch_is_shown_as_finished(world: JobOfThreeChains) -> None:
    world.begin_epoch(FLIGHTS)
    world.control.observe()

    assert [chain.finished for chain in world.control.job().chains] == [True, False, False]
    assert world.chain(FLIGHTS).inputs[0].ended


def test_an_input_has_ended_when_its_chain_has_finished_and_nothing_of_it_is_left(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    world.write(CLEAN, records=1, length=1)
    world.chains[CLEAN].ended = True
    assert not world.chain(SLOW).inputs[0].ended
    world.runner.epoch.emission.emit(SLOW, Batch(batch=BatchId(0), consumed={CLEAN: 1}))

    assert world.chain(SLOW).inputs[0].ended
    assert world.chain(CLEAN).finished
    assert not world.chain(SLOW).finished


def test_a_chain_that_finishes_comes_to_rest(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    world.chains[FLIGHTS].query.add(100)
    world.control.observe()
    world.begin_epoch(FLIGHTS)
    for _ in range(3):
        world.clock.now += 20
        world.control.observe()

    chain = world.chain(FLIGHTS)

    assert (chain.records_in, chain.records_in_per_second) == (100, 0)


def test_the_last_checkpoint_tells_how_it_was_cut(world: JobOfThreeChains) -> None:
    world.complete(4, alignment=1.2, unaligned=True)

    last = world.control.job().last_checkpoint

    assert last is not None
    assert (last.kind, last.unaligned, last.alignment_ms, last.persisted_data) == ("checkpoint", True, 1200, 500)
    assert last.tasks[SLOW].alignment_duration == 1200
    assert last.tasks[SLOW].unaligned_checkpoint
    assert not last.tasks[CLEAN].unaligned_checkpoint


def test_a_sink_is_shown_with_what_it_has_written_and_published(world: JobOfThreeChains) -> None:
    meter = world.runner.job.sink_meters.of(OperatorUid("report"))
    for committable, rows in (("a", 10), ("b", 5)):
        meter.stage(partial(Staged, committable, rows))
    meter.commit(lambda: None, CheckpointId(4), ["a"])

    (sink,) = world.control.job().sinks

    assert (sink.name, sink.format, Path(sink.target or "").name) == ("report", "parquet", "out")
    assert (sink.records, sink.records_published, sink.batches_published, sink.batches_waiting) == (15, 10, 1, 1)
    assert sink.last_published is not None
    assert (sink.last_published.id, sink.last_published.time) == (4, NOW)


def test_the_final_record_is_told_apart_once_it_is_the_last(world: JobOfThreeChains) -> None:
    world.complete(4)
    claim = SimpleNamespace(finished=False, starts_since=lambda _time: 1)
    world.coordination.claimed(cast(Any, SimpleNamespace(epoch=1, log=SimpleNamespace(claim=claim))))
    assert _kind(world) == "checkpoint"
    claim.finished = True
    world.statistics.started(CheckpointId(5), CheckpointProperties(kind=SnapshotKind.FINAL), NOW, [SLOW])
    assert _kind(world) == "checkpoint"
    world.statistics.completed(CheckpointId(5), "file:///m")

    assert _kind(world) == "final"


def _kind(world: JobOfThreeChains) -> str:
    last = world.control.job().last_checkpoint
    assert last is not None
    return last.kind.value


def test_the_place_of_a_savepoint_is_absolute(world: JobOfThreeChains) -> None:
    for nowhere in ("here", "ftp://host/place", "s3://"):
        with pytest.raises(InvalidChange, match="location"):
            world.control.trigger_savepoint(nowhere, TriggerId("one"))
    with pytest.raises(InvalidChange, match="requires savepoint: true"):
        world.control.stop(savepoint=False, location="/tmp", drain=False, trigger_id=TriggerId("two"))
    assert world.control.trigger(TriggerId("one")) is None
