"""The job's metrics in Prometheus' form, with units in their names.

Most are declared at the fields of the control API's models (`streamjob.client.chain_models`, `streamjob.figures`), and
read when Prometheus asks; only distributions are collected as events happen. A process runs a single job, so only
`streamjob_info` carries its name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from streamjob.checkpointing_policy import LiveCheckpointingPolicy
from streamjob.client.models import CheckpointsView, JobState, JobView, SnapshotKind
from streamjob.ids import ChainUid, OperatorUid
from streamjob_runtime.monitoring.figure_metrics import Family, figure_metrics
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
        policy: Callable[[], LiveCheckpointingPolicy] | None = None,
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
        policy: Callable[[], LiveCheckpointingPolicy] | None,
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
        info = Family("info", "Always 1; the labels identify the job.", ("job", "job_namespace", "version"))
        info.add((job.name, job.namespace, version("streamjob")), 1)
        state = Family("state", "1 for the current state of the job, 0 for the others.", ("state",))
        for possible in JobState:
            state.add((possible.value,), float(job.state is possible))
        yield from (info, state)
        policy = None if self._policy is None else self._policy()
        calls = None if self._store is None else self._store.counts()
        yield from figure_metrics(job, self._checkpoints(), policy, calls, self._clock())
