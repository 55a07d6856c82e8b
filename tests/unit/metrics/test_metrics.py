"""The job's metrics, as Prometheus reads them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.golden import compare
from tests.unit.metrics.test_metered_store import Shelf
from tests.unit.view.samples import CHAIN, NOW, a_job, checkpoints, everything, several_chains

from streamjob.client.models import CheckpointsView, JobState, JobView, SnapshotKind
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


def test_the_metrics_of_all_views_are_what_the_golden_file_has(source: Source) -> None:
    source.job = everything()
    lines = source.metrics.render().decode().splitlines()

    compare(
        Path(__file__).parent / "golden" / "everything.txt",
        "\n".join(each for each in lines if not each.startswith(("#", "streamjob_info"))),
    )


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


def test_a_channel_without_watermarks_has_no_lag(source: Source) -> None:
    job = several_chains()
    source.job = several_chains(channels=tuple(channel.model_copy(update={"lag_ms": None}) for channel in job.channels))

    assert source.value("streamjob_channel_lag_seconds", **{"from": "hours", "to": "report"}) is None
    assert source.value("streamjob_channel_records", **{"from": "flights", "to": "hours"}) == 0


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
