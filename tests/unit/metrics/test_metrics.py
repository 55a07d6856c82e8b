"""The job's metrics, as Prometheus reads them."""

from __future__ import annotations

import re

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.metrics.test_metered_store import Shelf
from tests.unit.view.samples import CHAIN, NOW, START, WATERMARK_MS, a_job, checkpoints, executors, several_chains

from streamjob.client.models import CheckpointsView, JobState, JobView, PartitionView, SnapshotKind
from streamjob.ids import Key, OperatorUid
from streamjob_runtime.monitoring.metered_store import MeteredStore
from streamjob_runtime.monitoring.metrics import Metrics

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Source:
    """The views that metrics are read from."""

    def __init__(self) -> None:
        self.job: JobView = a_job()
        self.checkpoints: CheckpointsView = checkpoints("completed", "failed", "completed", "running")
        self.store = MeteredStore(Shelf())
        self.metrics = Metrics(lambda: self.job, lambda: self.checkpoints, store=self.store, clock=lambda: NOW)

    def value(self, name: str, **labels: str) -> float | None:
        """Return a sample of the rendered text, or None if it has none."""
        wanted = (name, frozenset(labels.items()))
        return _samples(self.metrics.render()).get(wanted)


def _samples(text: bytes) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


@pytest.fixture
def source() -> Source:
    return Source()


def test_files_that_are_not_read_are_counted_by_source(source: Source) -> None:
    changed, too_old = (f"streamjob_source_files_{why}" for why in ("changed", "too_old"))
    assert source.value(changed, source="flights") is source.value(too_old, source="flights") is None
    (chain,) = source.job.chains
    unread = chain.inputs[0].model_copy(update={"files_changed": 2, "files_too_old": 3})

    source.job = a_job(chains=(chain.model_copy(update={"inputs": (unread,)}),))

    assert source.value(changed, source="flights") == 2
    assert source.value(too_old, source="flights") == 3


def test_what_the_views_know_is_there_when_it_is_asked_for(source: Source) -> None:
    assert source.value("streamjob_records_in_total", chain="flights") == 1_234_567
    assert source.value("streamjob_records_out_total", chain="flights") == 23_456
    assert source.value("streamjob_batch_id", chain="flights") == 41
    assert source.value("streamjob_restarts_total") == 1
    assert source.value("streamjob_epoch") == 3
    assert source.value("streamjob_start_time_seconds") == START
    lag = source.value("streamjob_watermark_lag_seconds", chain="flights", input="weather")
    assert lag == pytest.approx(337_601_734)
    watermark = source.value("streamjob_watermark_timestamp_seconds", chain="flights", input="flights")
    assert watermark == WATERMARK_MS / 1000


def test_the_part_of_each_executor_is_known_by_its_name(source: Source) -> None:
    assert source.value("streamjob_executors") is None

    source.job = a_job(executors=executors(2, wanted=3))

    assert source.value("streamjob_executors") == 2
    assert source.value("streamjob_executors_wanted") == 3
    assert source.value("streamjob_executors_lost_total") == 1
    assert source.value("streamjob_executors_skew_ratio", of="rows") == 1.5
    assert source.value("streamjob_executor_state_rows", executor="executor-0") == 1_200_000
    assert source.value("streamjob_executor_state_partitions", executor="executor-1") == 4
    assert source.value("streamjob_executor_state_size_bytes", executor="executor-1") == 4_000_000
    assert source.value("streamjob_executor_records_in_total", executor="executor-1") == 500_000
    assert source.value("streamjob_executor_busy_ratio", executor="executor-0") == 0.95


def test_late_records_are_counted_and_an_input_that_holds_the_watermark_back_is_told(source: Source) -> None:
    (chain,) = source.job.chains
    inputs = (chain.inputs[0].model_copy(update={"holds_watermark_back": True}), *chain.inputs[1:])
    changed = chain.model_copy(update={"inputs": inputs, "records_dropped_late": {"hours": 7}})
    source.job = a_job(chains=(changed,))

    assert source.value("streamjob_records_dropped_late_total", chain="flights", operator="hours") == 7
    assert source.value("streamjob_watermark_held_back", chain="flights", input="flights") == 1
    assert source.value("streamjob_watermark_held_back", chain="flights", input="weather") == 0


def test_event_times_out_of_the_ordinary_are_counted_and_a_partition_that_holds_the_watermark_back_is_told(
    source: Source,
) -> None:
    (chain,) = source.job.chains
    silent = PartitionView(topic="t", partition=0, position=7, holds_watermark_back=True)
    first = chain.inputs[0].model_copy(update={"records_late": 120, "records_ahead": 1, "partitions": (silent,)})
    source.job = a_job(chains=(chain.model_copy(update={"inputs": (first, *chain.inputs[1:])}),))

    assert source.value("streamjob_records_late_total", chain="flights", input="flights") == 120
    assert source.value("streamjob_records_ahead_total", chain="flights", input="flights") == 1
    assert source.value("streamjob_watermark_held_back", chain="flights", input="flights") == 1


def test_checkpoints_are_counted_by_their_outcome(source: Source) -> None:
    assert source.value("streamjob_checkpoints_total", outcome="completed") == 2
    assert source.value("streamjob_checkpoints_total", outcome="failed") == 1
    assert source.value("streamjob_checkpoints_in_progress") == 1


def test_the_last_checkpoint_is_described(source: Source) -> None:
    assert source.value("streamjob_last_checkpoint_id") == 14
    assert source.value("streamjob_last_checkpoint_age_seconds") == 3
    assert source.value("streamjob_last_checkpoint_timestamp_seconds") == NOW - 3
    assert source.value("streamjob_last_checkpoint_duration_seconds") == 0.42
    assert source.value("streamjob_last_checkpoint_size_bytes") == 1_200_000
    assert source.value("streamjob_last_checkpoint_state_size_bytes") == 14_500_000


def test_exactly_one_state_is_the_jobs(source: Source) -> None:
    source.job = a_job(state=JobState.RESTARTING)

    states = {state: source.value("streamjob_state", state=state.value) for state in JobState}

    assert states.pop(JobState.RESTARTING) == 1
    assert set(states.values()) == {0}


def test_what_is_not_known_yet_is_left_out(source: Source) -> None:
    source.job = a_job(epoch=None, last_checkpoint=None, chains=())

    assert source.value("streamjob_epoch") is None
    assert source.value("streamjob_last_checkpoint_age_seconds") is None
    assert source.value("streamjob_records_in_total", chain="flights") is None
    assert source.value("streamjob_checkpoints_total", outcome="failed") == 1


def test_batches_and_checkpoints_are_gathered_as_distributions(source: Source) -> None:
    source.metrics.observe_batch(CHAIN, 0.3)
    source.metrics.observe_batch(CHAIN, 7.0)
    source.metrics.observe_checkpoint(SnapshotKind.SAVEPOINT, 0.42, 1_200_000)

    assert source.value("streamjob_batch_duration_seconds_count", chain="flights") == 2
    assert source.value("streamjob_batch_duration_seconds_sum", chain="flights") == 7.3
    assert source.value("streamjob_batch_duration_seconds_bucket", chain="flights", le="0.5") == 1
    assert source.value("streamjob_checkpoint_duration_seconds_sum", kind="savepoint") == 0.42
    assert source.value("streamjob_checkpoint_size_bytes_bucket", kind="savepoint", le="1e+06") == 0
    assert source.value("streamjob_checkpoint_size_bytes_bucket", kind="savepoint", le="1e+07") == 1


def test_store_requests_are_counted_by_verb(source: Source) -> None:
    source.store.put(Key("a"), b"123")

    assert source.value("streamjob_store_requests_total", verb="put") == 1
    assert source.value("streamjob_store_bytes_total", verb="put") == 3
    assert source.value("streamjob_store_failures_total", verb="put") == 0
    assert source.value("streamjob_store_requests_total", verb="get") == 0


def test_what_is_in_flight_between_two_chains_is_told_by_channel(source: Source) -> None:
    source.job = several_chains()
    into_report = {"from": "hours", "to": "report"}

    assert source.value("streamjob_channel_records", **into_report) == 12_345
    assert source.value("streamjob_channel_bytes", **into_report) == 64_000_000
    assert source.value("streamjob_channel_capacity_bytes", **into_report) == 67_108_864
    assert source.value("streamjob_channel_fill_ratio", **into_report) == 0.954
    assert source.value("streamjob_channel_lag_seconds", **into_report) == 3540


def test_a_channel_without_watermarks_has_no_lag(source: Source) -> None:
    job = several_chains()
    source.job = several_chains(channels=tuple(channel.model_copy(update={"lag_ms": None}) for channel in job.channels))

    assert source.value("streamjob_channel_lag_seconds", **{"from": "hours", "to": "report"}) is None
    assert source.value("streamjob_channel_records", **{"from": "flights", "to": "hours"}) == 0


def test_backpressure_is_told_by_the_chain_that_waits(source: Source) -> None:
    source.job = several_chains()

    assert source.value("streamjob_backpressured_ratio", chain="hours") == 0.72
    assert source.value("streamjob_backpressured_seconds_total", chain="hours") == 61.5
    assert source.value("streamjob_backpressured_ratio", chain="report") == 0
    assert source.value("streamjob_chain_finished", chain="report") == 0


def test_the_last_checkpoint_is_described_by_chain(source: Source) -> None:
    source.job = several_chains()
    name = "streamjob_last_checkpoint_chain"

    assert source.value(f"{name}_alignment_seconds", chain="hours") == 1.2
    assert source.value(f"{name}_start_delay_seconds", chain="report") == 0.9
    assert source.value(f"{name}_sync_seconds", chain="report") == 0.007
    assert source.value(f"{name}_async_seconds", chain="report") == 0.3
    assert source.value(f"{name}_persisted_bytes", chain="report") == 5000
    assert source.value(f"{name}_processed_bytes", chain="report") == 10_000
    assert source.value(f"{name}_size_bytes", chain="report") == 400_000
    assert source.value(f"{name}_state_size_bytes", chain="report") == 4_800_000
    assert source.value(f"{name}_unaligned", chain="report") == 1
    assert source.value(f"{name}_unaligned", chain="hours") == 0
    assert source.value("streamjob_last_checkpoint_unaligned") == 1


def test_what_a_sink_has_done_is_read_from_the_view(source: Source) -> None:
    assert source.value("streamjob_sink_records_total", sink="report") == 23_456
    assert source.value("streamjob_sink_records_published_total", sink="report") == 20_000
    assert source.value("streamjob_sink_batches_published_total", sink="report") == 38
    assert source.value("streamjob_sink_waiting_batches", sink="report") == 3
    assert source.value("streamjob_sink_last_published_checkpoint_id", sink="report") == 14
    assert source.value("streamjob_sink_last_published_timestamp_seconds", sink="report") == NOW - 2.5
    assert source.value("streamjob_sink_failures_total", sink="report") == 0


def test_a_sink_that_cannot_tell_its_rows_has_no_number_of_them(source: Source) -> None:
    (sink,) = a_job().sinks
    unknown = sink.model_copy(update={"records": None, "records_published": None, "last_published": None})
    source.job = a_job(sinks=(unknown,))

    assert source.value("streamjob_sink_records_total", sink="report") is None
    assert source.value("streamjob_sink_last_published_checkpoint_id", sink="report") is None
    assert source.value("streamjob_sink_waiting_batches", sink="report") == 3


def test_the_times_that_a_sink_takes_are_gathered_as_they_pass(source: Source) -> None:
    sink = OperatorUid("report")
    source.metrics.observe_sink(sink, "stage", 0.7)
    source.metrics.observe_sink(sink, "commit", 0.1)
    source.metrics.observe_sink(sink, "commit", 0.2)
    source.metrics.observe_sink(sink, "abort", 5)

    assert source.value("streamjob_sink_stage_duration_seconds_sum", sink="report") == 0.7
    assert source.value("streamjob_sink_commit_duration_seconds_count", sink="report") == 2


def test_a_duration_that_is_not_known_is_left_out(source: Source) -> None:
    job = several_chains()
    assert job.last_checkpoint is not None
    task = job.last_checkpoint.tasks[CHAIN].model_copy(update={"alignment_duration": -1})
    last = job.last_checkpoint.model_copy(update={"tasks": {CHAIN: task}})
    source.job = several_chains(last_checkpoint=last)

    assert source.value("streamjob_last_checkpoint_chain_alignment_seconds", chain="flights") is None
    assert source.value("streamjob_last_checkpoint_chain_sync_seconds", chain="flights") == 0.007


def test_every_name_is_ours_and_says_its_unit(source: Source) -> None:
    names = {family.name for family in source.metrics.registry.collect()}

    assert all(re.fullmatch(r"streamjob_[a-z_]+", name) for name in names)
    assert not [name for name in names if re.search(r"_(ms|millis|mb|kb)(_|$)", name)]


def test_two_jobs_of_one_process_do_not_share_a_registry(source: Source) -> None:
    other = Source()
    other.job = a_job(restarts=7)

    assert source.value("streamjob_restarts_total") == 1
    assert other.value("streamjob_restarts_total") == 7
    assert not [family for family in REGISTRY.collect() if family.name.startswith("streamjob")]
