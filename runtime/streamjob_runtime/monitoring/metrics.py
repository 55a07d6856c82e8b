"""The job's metrics in Prometheus' form, with units in their names.

Most values are read from the control API's views when Prometheus asks; only distributions are collected as events
happen. A process runs a single job, so only `streamjob_info` carries its name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from streamjob.client.models import (
    ChannelView,
    CheckpointsView,
    JobState,
    JobView,
    LastCheckpointView,
    LastPublishedView,
    LookupView,
    SinkView,
    SnapshotKind,
    TableView,
    TaskStatistics,
)
from streamjob.ids import ChainUid, OperatorUid
from streamjob.live_policy import LivePolicy
from streamjob_runtime.monitoring.chain_metrics import chain_metrics
from streamjob_runtime.monitoring.executor_metrics import executor_metrics
from streamjob_runtime.monitoring.metered_store import MeteredStore
from streamjob_runtime.sinks.meter import Call

_BATCH_BUCKETS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 300)
_CHECKPOINT_BUCKETS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600)
_SINK_BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)
_SIZE_BUCKETS = tuple(float(10**power) for power in range(3, 13))


class Metrics:
    """All metrics of one job, in a registry of their own; may be used from any thread.

    Args:
        job: returns the current state of the job.
        checkpoints: returns the statistics of the checkpoints.
        store: the store whose calls are counted.
        policy: returns the checkpointing policy in force.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        job: Callable[[], JobView],
        checkpoints: Callable[[], CheckpointsView],
        *,
        store: MeteredStore | None = None,
        policy: Callable[[], LivePolicy] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_Views(job, checkpoints, store, policy, clock))
        self._batches = Histogram(
            "streamjob_batch_duration_seconds",
            "Time from the start of a micro-batch to its emission; the count is the number of batches.",
            ["chain"],
            buckets=_BATCH_BUCKETS,
            registry=self.registry,
        )
        self._durations = Histogram(
            "streamjob_checkpoint_duration_seconds",
            "Time from the trigger of a checkpoint to its completion.",
            ["kind"],
            buckets=_CHECKPOINT_BUCKETS,
            registry=self.registry,
        )
        self._sizes = Histogram(
            "streamjob_checkpoint_size_bytes",
            "Bytes that a completed checkpoint wrote.",
            ["kind"],
            buckets=_SIZE_BUCKETS,
            registry=self.registry,
        )
        self._sink_calls: Mapping[Call, Histogram] = {
            "stage": Histogram(
                "streamjob_sink_stage_duration_seconds",
                "Time for a sink to stage a batch, including the computation of the batch if its chain has no other "
                "output. The count is the number of batches.",
                ["sink"],
                buckets=_SINK_BUCKETS,
                registry=self.registry,
            ),
            "commit": Histogram(
                "streamjob_sink_commit_duration_seconds",
                "Time for a sink to publish a checkpoint. The count is the number of checkpoints.",
                ["sink"],
                buckets=_SINK_BUCKETS,
                registry=self.registry,
            ),
        }

    def observe_sink(self, sink: OperatorUid, call: Call, seconds: float) -> None:
        """Record the duration of a successful call of a sink."""
        if (histogram := self._sink_calls.get(call)) is not None:
            histogram.labels(sink).observe(seconds)

    def observe_batch(self, chain: ChainUid, seconds: float) -> None:
        """Record the duration of an emitted batch."""
        self._batches.labels(chain).observe(seconds)

    def observe_checkpoint(self, kind: SnapshotKind, seconds: float, checkpointed_size: int) -> None:
        """Record a completed checkpoint: the seconds since its trigger and the bytes that it wrote."""
        self._durations.labels(kind.value).observe(seconds)
        self._sizes.labels(kind.value).observe(checkpointed_size)

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text form."""
        return generate_latest(self.registry)


class _Views(Collector):
    def __init__(
        self,
        job: Callable[[], JobView],
        checkpoints: Callable[[], CheckpointsView],
        store: MeteredStore | None,
        policy: Callable[[], LivePolicy] | None,
        clock: Callable[[], float],
    ) -> None:
        self._policy = policy
        self._job = job
        self._checkpoints = checkpoints
        self._store = store
        self._clock = clock

    def describe(self) -> Iterator[Metric]:
        """Return nothing: the job may not exist yet when the collector is registered."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield metrics from the current views."""
        job = self._job()
        yield from _job_metrics(job)
        yield from chain_metrics(job)
        yield from _channel_metrics(job)
        yield from _sink_metrics(job)
        yield from executor_metrics(job.executors)
        yield from _table_metrics(job, self._clock())
        yield from _lookup_metrics(job)
        yield from _checkpoint_metrics(job, self._checkpoints(), self._clock())
        if self._policy is not None:
            yield from _policy_metrics(self._policy())
        if self._store is not None:
            yield from _store_metrics(self._store)


def _job_metrics(job: JobView) -> Iterator[Metric]:
    info = GaugeMetricFamily(
        "streamjob_info", "Always 1; the labels identify the job.", labels=["job", "job_namespace", "version"]
    )
    info.add_metric([job.name, job.namespace, version("streamjob")], 1)
    yield info
    state = GaugeMetricFamily(
        "streamjob_state", "1 for the current state of the job, 0 for the others.", labels=["state"]
    )
    for possible in JobState:
        state.add_metric([possible.value], float(job.state is possible))
    yield state
    yield GaugeMetricFamily("streamjob_start_time_seconds", "Start of the process, since 1970.", value=job.start_time)
    yield GaugeMetricFamily("streamjob_attempt", "Number that the controller gave to this process.", value=job.attempt)
    epoch = GaugeMetricFamily("streamjob_epoch", "Epoch of the last claim of the job's log; absent before it.")
    if job.epoch is not None:
        epoch.add_metric([], job.epoch)
    yield epoch
    yield CounterMetricFamily("streamjob_restarts", "Restarts after failures in this process.", value=job.restarts)


def _channel_metrics(job: JobView) -> Iterator[Metric]:
    figures: tuple[tuple[str, str, Callable[[ChannelView], float | None]], ...] = (
        ("records", "Records in flight from a chain to another", lambda channel: channel.records),
        ("bytes", "Bytes in flight from a chain to another", lambda channel: channel.bytes),
        ("capacity_bytes", "Bytes in flight at which the writing chain waits", lambda channel: channel.capacity_bytes),
        ("fill_ratio", "Share of a channel's capacity that is in flight; it may exceed 1", lambda each: each.fill),
        (
            "lag_seconds",
            "Watermark of the writing chain minus that of the reading one; absent unless both have one",
            lambda channel: None if channel.lag_ms is None else channel.lag_ms / 1000,
        ),
    )
    for name, documentation, read in figures:
        gauge = GaugeMetricFamily(f"streamjob_channel_{name}", f"{documentation}.", labels=["from", "to"])
        for channel in job.channels:
            if (value := read(channel)) is not None:
                gauge.add_metric([channel.source, channel.target], value)
        yield gauge


def _sink_metrics(job: JobView) -> Iterator[Metric]:
    totals: tuple[tuple[str, str, Callable[[SinkView], int | None]], ...] = (
        (
            "records",
            "Records that a sink has written; absent if the sink does not report it",
            lambda sink: sink.records,
        ),
        (
            "records_published",
            "Records that a sink has written and readers can see; absent if the sink does not report it",
            lambda sink: sink.records_published,
        ),
        (
            "batches_published",
            "Batches that a sink has published with checkpoints",
            lambda sink: sink.batches_published,
        ),
        (
            "failures",
            "Calls of a sink that raised an error, including those interrupted by a stop",
            lambda sink: sink.failures,
        ),
    )
    for name, documentation, read in totals:
        counter = CounterMetricFamily(f"streamjob_sink_{name}", f"{documentation}.", labels=["sink"])
        for sink in job.sinks:
            if (value := read(sink)) is not None:
                counter.add_metric([sink.uid], value)
        yield counter
    waiting = GaugeMetricFamily(
        "streamjob_sink_waiting_batches",
        "Batches that a sink has staged and that wait for a checkpoint.",
        labels=["sink"],
    )
    for sink in job.sinks:
        waiting.add_metric([sink.uid], sink.batches_waiting)
    yield waiting
    figures: tuple[tuple[str, str, Callable[[LastPublishedView], float]], ...] = (
        ("checkpoint_id", "Id of the last checkpoint that a sink has published", lambda last: last.id),
        (
            "timestamp_seconds",
            "Time of the last publication of a sink, since 1970",
            lambda last: last.time,
        ),
    )
    for name, documentation, of_last in figures:
        gauge = GaugeMetricFamily(
            f"streamjob_sink_last_published_{name}",
            f"{documentation}; absent with at-least-once delivery.",
            labels=["sink"],
        )
        for sink in job.sinks:
            if sink.last_published is not None:
                gauge.add_metric([sink.uid], of_last(sink.last_published))
        yield gauge


def _table_metrics(job: JobView, now: float) -> Iterator[Metric]:
    figures: tuple[tuple[str, str, Callable[[TableView], float]], ...] = (
        ("rows", "Rows of a table that batches join", lambda table: table.rows),
        ("bytes", "Bytes of a table's rows in memory", lambda table: table.size),
        ("age_seconds", "Time since the rows of a table were read", lambda table: max(0.0, now - table.loaded)),
    )
    for name, documentation, read in figures:
        gauge = GaugeMetricFamily(f"streamjob_table_{name}", f"{documentation}.", labels=["table"])
        for table in job.tables:
            gauge.add_metric([table.name], read(table))
        yield gauge
    totals: tuple[tuple[str, str, Callable[[TableView], int]], ...] = (
        ("reloads", "Reloads of a table since the job's last restart", lambda table: table.reloads),
        ("reload_failures", "Failed reloads of a table since the job's last restart", lambda table: table.failures),
    )
    for name, documentation, count in totals:
        counter = CounterMetricFamily(f"streamjob_table_{name}", f"{documentation}.", labels=["table"])
        for table in job.tables:
            counter.add_metric([table.name], count(table))
        yield counter


def _lookup_metrics(job: JobView) -> Iterator[Metric]:
    figures: tuple[tuple[str, str, Callable[[LookupView], float]], ...] = (
        ("hits", "Rows whose key a lookup had cached", lambda each: each.hits),
        ("misses", "Rows whose key a lookup had not cached", lambda each: each.misses),
        ("queries", "Queries of a lookup", lambda each: each.queries),
        ("retries", "Failed queries of a lookup that were tried again", lambda each: each.retries),
        ("query_seconds", "Time of a lookup's queries, in all tasks", lambda each: each.query_seconds),
    )
    for name, documentation, read in figures:
        counter = CounterMetricFamily(
            f"streamjob_lookup_{name}", f"{documentation}, since the job's last restart.", labels=["operator", "table"]
        )
        for each in job.lookups:
            counter.add_metric([each.uid, each.table], read(each))
        yield counter


def _checkpoint_metrics(job: JobView, checkpoints: CheckpointsView, now: float) -> Iterator[Metric]:
    counts = checkpoints.counts
    ended = CounterMetricFamily(
        "streamjob_checkpoints", "Checkpoints and savepoints that ended in this process.", labels=["outcome"]
    )
    ended.add_metric(["completed"], counts.completed)
    ended.add_metric(["failed"], counts.failed)
    yield ended
    yield GaugeMetricFamily("streamjob_checkpoints_in_progress", "Checkpoints in progress.", value=counts.in_progress)
    yield CounterMetricFamily("streamjob_restores", "Restores from a snapshot in this process.", value=counts.restored)
    yield from _last_checkpoint_metrics(job.last_checkpoint, now)


def _policy_metrics(policy: LivePolicy) -> Iterator[Metric]:
    interval = GaugeMetricFamily(
        "streamjob_checkpoint_interval_seconds", "Interval of periodic checkpoints; absent if there are none."
    )
    if policy.interval is not None:
        interval.add_metric([], policy.interval)
    yield interval


def _last_checkpoint_metrics(last: LastCheckpointView | None, now: float) -> Iterator[Metric]:
    figures: tuple[tuple[str, str, Callable[[LastCheckpointView], float]], ...] = (
        ("id", "Id of the last completed checkpoint", lambda known: known.id),
        ("timestamp_seconds", "Completion of the last completed checkpoint, since 1970", lambda known: known.completed),
        ("age_seconds", "Time since the last completed checkpoint", lambda known: max(0.0, now - known.completed)),
        ("duration_seconds", "Duration of the last completed checkpoint", lambda known: known.duration_ms / 1000),
        ("size_bytes", "Bytes that the last completed checkpoint wrote", lambda known: known.checkpointed_size),
        ("state_size_bytes", "Bytes that the last completed checkpoint refers to", lambda known: known.state_size),
        (
            "unaligned",
            "1 if the last completed checkpoint was unaligned, otherwise 0",
            lambda k: k.unaligned,
        ),
    )
    for name, documentation, read in figures:
        gauge = GaugeMetricFamily(f"streamjob_last_checkpoint_{name}", f"{documentation}; absent before the first.")
        if last is not None:
            gauge.add_metric([], read(last))
        yield gauge
    yield from _task_metrics(last)


def _task_metrics(last: LastCheckpointView | None) -> Iterator[Metric]:
    figures: tuple[tuple[str, str, Callable[[TaskStatistics], float]], ...] = (
        ("start_delay_seconds", "from the trigger to the first barrier", lambda task: task.start_delay / 1000),
        ("alignment_seconds", "from the first barrier to the cut", lambda task: task.alignment_duration / 1000),
        ("sync_seconds", "time to hold its files", lambda task: task.sync_duration / 1000),
        ("async_seconds", "time to upload its files", lambda task: task.async_duration / 1000),
        ("persisted_bytes", "stored bytes of in-flight data to it", lambda task: task.persisted_data),
        ("processed_bytes", "bytes processed during the alignment", lambda task: task.processed_data),
        ("size_bytes", "bytes that it wrote", lambda task: task.checkpointed_size),
        ("state_size_bytes", "bytes that it refers to", lambda task: task.state_size),
        ("unaligned", "1 if it did not wait for all its barriers, otherwise 0", lambda task: task.unaligned_checkpoint),
    )
    for name, documentation, read in figures:
        gauge = GaugeMetricFamily(
            f"streamjob_last_checkpoint_chain_{name}",
            f"A chain in the last completed checkpoint: {documentation}.",
            labels=["chain"],
        )
        for chain, task in last.tasks.items() if last is not None else ():
            # Flink's statistics use -1 for unknown values.
            if (value := read(task)) >= 0:
                gauge.add_metric([chain], value)
        yield gauge


def _store_metrics(store: MeteredStore) -> Iterator[Metric]:
    requests = CounterMetricFamily("streamjob_store_requests", "Calls of the snapshot store.", labels=["verb"])
    failures = CounterMetricFamily(
        "streamjob_store_failures", "Calls of the snapshot store without a usable answer.", labels=["verb"]
    )
    size = CounterMetricFamily(
        "streamjob_store_bytes", "Bytes read from or written to the snapshot store.", labels=["verb"]
    )
    seconds = CounterMetricFamily(
        "streamjob_store_seconds", "Time spent in calls of the snapshot store.", labels=["verb"]
    )
    for verb, count in store.counts().items():
        requests.add_metric([verb], count.requests)
        failures.add_metric([verb], count.failures)
        size.add_metric([verb], count.bytes)
        seconds.add_metric([verb], count.seconds)
    yield from (requests, failures, size, seconds)
