"""The controller's own metrics, in Prometheus' form; a job's own come from its driver."""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_QUICK = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True)
class ScalingSample:
    """Automatic scaling of one job: its task slots, those that fit, and its load; None where it is not known.

    Args:
        recommended: task slots that fit the load.
        arrival_rate: records per second that arrive.
        capacity: records per second that the slots can process.
        lag: seconds.
        moved: time of the last change of the slots (since 1970), and its means.
    """

    slots: int
    recommended: int | None = None
    arrival_rate: float | None = None
    capacity: float | None = None
    lag: float | None = None
    moved: tuple[float, str] | None = None


@dataclass(frozen=True, slots=True)
class JobSample:
    """The metrics of one job.

    Args:
        checkpointed: the time of its last completed checkpoint (since 1970).
        scaling: its automatic scaling; None if that is off.
    """

    state: str
    checkpointed: float | None = None
    scaling: ScalingSample | None = None


_Value = Callable[[ScalingSample], float | None]
_SCALING: Mapping[str, tuple[str, _Value]] = {
    "slots": ("Task slots of a job that is scaled automatically.", lambda job: job.slots),
    "recommended_slots": ("Task slots that fit its load.", lambda job: job.recommended),
    "arrival_rate": ("Records that arrive per second.", lambda job: job.arrival_rate),
    "capacity": ("Records per second that its task slots can process.", lambda job: job.capacity),
    "lag_seconds": ("Its unread records, divided by those that arrive per second.", lambda job: job.lag),
}


class _Jobs(Collector):
    """Counts the jobs when it is asked, so that a job that is gone is gone from the metrics as well."""

    def __init__(self, samples: dict[tuple[str, str], JobSample], now: Callable[[], float]) -> None:
        self._samples = samples
        self._now = now

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        states = GaugeMetricFamily(
            "streamjob_controller_jobs", "StreamJobs by namespace and lifecycle state.", labels=["namespace", "state"]
        )
        samples = dict(self._samples)
        tally = Tally((namespace, sample.state) for (namespace, _), sample in samples.items())
        for labels, count in sorted(tally.items()):
            states.add_metric(labels, count)
        yield states
        age = GaugeMetricFamily(
            "streamjob_controller_checkpoint_age_seconds",
            "Seconds since a job's last completed checkpoint.",
            labels=["namespace", "name"],
        )
        now = self._now()
        for labels, sample in sorted(samples.items(), key=lambda item: item[0]):
            if sample.checkpointed is not None:
                age.add_metric(labels, max(0.0, now - sample.checkpointed))
        yield age
        yield from self._scaling(samples)

    def _scaling(self, samples: Mapping[tuple[str, str], JobSample]) -> Iterator[Metric]:
        for name, (meaning, value) in _SCALING.items():
            family = GaugeMetricFamily(
                f"streamjob_controller_autoscaling_{name}", meaning, labels=["namespace", "name"]
            )
            for labels, sample in sorted(samples.items(), key=lambda item: item[0]):
                number = None if sample.scaling is None else value(sample.scaling)
                if number is not None:
                    family.add_metric(labels, number)
            yield family


class Metrics:
    """All metrics of one controller.

    Args:
        now: seconds since 1970.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.registry = CollectorRegistry()
        self._samples: dict[tuple[str, str], JobSample] = {}
        self.registry.register(_Jobs(self._samples, now))
        self.leader = Gauge(
            "streamjob_controller_leader",
            "Whether this replica is the leader (1) or on standby (0).",
            registry=self.registry,
        )
        self.reconcile_seconds = Histogram(
            "streamjob_controller_reconcile_seconds",
            "Duration of one reconciliation.",
            buckets=_QUICK,
            registry=self.registry,
        )
        self.reconcile_errors = Counter(
            "streamjob_controller_reconcile_errors",
            "Failed reconciliations, by the class of the error. They are retried.",
            ["error"],
            registry=self.registry,
        )
        self.actions = Counter(
            "streamjob_controller_actions", "Executed actions, by kind.", ["action"], registry=self.registry
        )
        self._moves = Counter(
            "streamjob_controller_autoscaling_moves",
            "Changes of a job's task slots by automatic scaling, by the way in which they were made.",
            ["namespace", "name", "means"],
            registry=self.registry,
        )
        self.reconciling = Gauge(
            "streamjob_controller_reconciling", "Reconciliations in progress.", registry=self.registry
        )
        self.watch_lag = Gauge(
            "streamjob_controller_watch_lag_seconds",
            "Age of the oldest change that a listing shows and the watch has not delivered.",
            registry=self.registry,
        )
        self._requests = Histogram(
            "streamjob_controller_kubernetes_request_seconds",
            "Duration of requests to the Kubernetes API.",
            ["verb", "resource"],
            buckets=_QUICK,
            registry=self.registry,
        )
        self._control = Histogram(
            "streamjob_controller_control_request_seconds",
            "Duration of requests to the control API of drivers.",
            ["call"],
            buckets=_QUICK,
            registry=self.registry,
        )

    def request(self, verb: str, resource: str, seconds: float) -> None:
        """Note a request to the Kubernetes API."""
        self._requests.labels(verb, resource).observe(seconds)

    def control(self, call: str, seconds: float) -> None:
        """Note a request to a driver's control API."""
        self._control.labels(call).observe(seconds)

    def job(self, namespace: str, name: str, sample: JobSample | None) -> None:
        """Record a job's state, or None if it is gone."""
        if sample is None:
            self._samples.pop((namespace, name), None)
            return
        before = self._samples.get((namespace, name))
        self._samples[(namespace, name)] = sample
        if before is not None and before.scaling is not None and sample.scaling is not None:
            moved = sample.scaling.moved
            if moved is not None and moved != before.scaling.moved:
                self._moves.labels(namespace, name, moved[1]).inc()

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text form."""
        return generate_latest(self.registry)
