"""The figures of a running job: rows in flight, lag, backpressure and busy time."""

from __future__ import annotations

import pytest
from tests.unit.runtime.fake_runtime import NOW
from tests.unit.runtime.three_chains import CLEAN, FLIGHTS, SLOW, JobOfThreeChains, world

from streamjob.ids import BatchId, OperatorUid
from streamjob.protocol.emissions.channels import END_OF_TIME_MS
from streamjob.protocol.emissions.cuts import Batch
from streamjob.sink import Staged

__all__ = ["world"]


def test_what_is_in_flight_is_told_by_channel(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    world.write(CLEAN, records=30, length=250)
    world.write(CLEAN, records=10, length=500)

    channel = world.channel(CLEAN, SLOW)

    assert (channel.records, channel.bytes, channel.fill) == (40, 750, 0.75)
    assert world.channel(FLIGHTS, CLEAN).records == 0
    assert world.chain(CLEAN).batch == 1


def test_the_lag_of_a_channel_is_between_the_watermarks_of_its_two_chains(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    world.chains[CLEAN].watermarks = {OperatorUid("flights"): 90_000}
    world.control.observe()
    assert world.channel(CLEAN, SLOW).lag_ms is None
    world.chains[SLOW].watermarks = {OperatorUid("clean"): 30_000}
    world.control.observe()

    assert world.channel(CLEAN, SLOW).lag_ms == 60_000


def test_the_end_of_input_lags_behind_nothing(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    world.chains[CLEAN].watermarks = {OperatorUid("flights"): END_OF_TIME_MS}
    world.chains[SLOW].watermarks = {OperatorUid("clean"): 30_000}
    world.control.observe()

    assert world.channel(CLEAN, SLOW).lag_ms is None
    assert world.chain(CLEAN).inputs[0].lag_ms is None
    assert world.chain(SLOW).inputs[0].lag_ms == round(NOW * 1000) - 30_000


def test_only_what_comes_from_sources_counts_as_read_by_the_job(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    world.chains[FLIGHTS].query.add(100)
    world.chains[CLEAN].query.add(100, from_chains=100)
    world.chains[SLOW].query.add(110, from_chains=80)
    world.chains[FLIGHTS].rows, world.chains[CLEAN].rows, world.chains[SLOW].rows = 100, 80, 70
    world.control.observe()

    job = world.control.job()

    assert [chain.records_in for chain in job.chains] == [100, 100, 110]
    assert (job.records_in, job.records_out) == (130, 70)


def test_records_that_a_sink_cannot_count_are_unknown_for_the_job(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    world.chains[SLOW].rows = None
    world.control.observe()

    assert (world.control.job().records_out, world.chain(SLOW).records_out) == (None, None)


def test_the_work_in_a_channel_is_estimated_from_its_readers_rate(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    world.write(CLEAN, records=40, length=1)
    world.control.observe()
    assert world.channel(CLEAN, SLOW).work_seconds is None
    world.clock.now += 2
    world.chains[SLOW].query.add(20, from_chains=20)
    world.control.observe()

    assert world.chain(SLOW).records_in_per_second == 10
    assert world.channel(CLEAN, SLOW).work_seconds == 4


def test_backpressure_is_the_share_of_time_that_a_chain_waited(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    world.control.observe()
    world.clock.now += 4
    world.blocked = {CLEAN: 3.0}
    world.control.observe()

    assert (world.chain(CLEAN).backpressured, world.chain(CLEAN).backpressured_seconds) == (0.75, 3.0)
    assert world.chain(SLOW).backpressured == 0


def test_a_chain_is_busy_for_the_time_of_its_batches_without_its_waiting(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    world.control.observe()
    world.clock.now += 1
    world.chains[CLEAN].query.add(100)
    world.chains[CLEAN].query.add(100)
    world.blocked = {CLEAN: 0.1}
    world.control.observe()

    assert world.chain(CLEAN).busy == pytest.approx(0.4)
    assert world.chain(SLOW).busy == 0


def test_a_batch_that_runs_counts_before_spark_reports_it(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    emission = world.runner.epoch.emission
    world.control.observe()
    emission.begin(CLEAN, BatchId(0))
    world.control.observe()
    world.clock.now += 4
    world.control.observe()
    assert world.chain(CLEAN).busy == 1.0

    emission.emit(CLEAN, Batch(batch=BatchId(0)))
    world.chains[CLEAN].query.add(100)
    world.clock.now += 4
    world.control.observe()

    assert world.chain(CLEAN).busy == pytest.approx(0.5)


def test_the_time_of_a_sink_with_one_output_includes_the_computation(world: JobOfThreeChains) -> None:
    world.begin_epoch()
    world.control.observe()
    meter = world.runner.job.sink_meters.of(OperatorUid("report"))
    meter.stage(lambda: Staged(None, 5))
    for chain in (CLEAN, SLOW):
        world.chains[chain].query.add(100)
    world.control.observe()

    times, of_clean = world.chain(SLOW).batch_times, world.chain(CLEAN).batch_times

    assert times is not None
    assert of_clean is not None
    assert (times.batches, times.seconds, list(times.sinks), times.sinks_compute) == (1, 0.25, ["report"], True)
    assert (of_clean.sinks, of_clean.sinks_compute) == ({}, False)
    assert world.chain(FLIGHTS).batch_times is None
