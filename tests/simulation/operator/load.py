"""The small world, with a load: records arrive, and the job's slots process them, a batch each second."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tests.simulation.operator.executor_pods import ExecutorPods
from tests.simulation.operator.objects import Pod, Stored
from tests.simulation.operator.world import ClusterWorld

from streamjob.client.models import BatchTimesView, ChainView, InputView, JobView, MemoryView, PartitionView
from streamjob.ids import ChainUid, OperatorUid
from streamjob.protocol.lifecycle import JobState
from streamjob_operator.decisions.values.actions import (
    Action,
    CreateDriver,
    DeleteExecutor,
    EnsureExecutors,
    RemoveExecutors,
    ResizeDriver,
)
from streamjob_operator.decisions.values.observation import DriverPod, Observation, PodPhase
from streamjob_operator.decisions.values.slots import cores_of, slots_of
from streamjob_operator.resources.pods import HEAP_SHARE

PER_SLOT = 10_000.0
_OVERHEAD = 0.05


@dataclass
class LoadedCluster(ClusterWorld):
    """A cluster in which records arrive.

    Args:
        rate: records per second that arrive.
        useful: slots above which more process no more records.
        partitions: state partitions of the job.
        room: slots for which a node has room; a pod with more is never scheduled, nor resized to more.
        quota: slots for which the API server takes a pod.
    """

    rate: float = 0.0
    useful: int = 1000
    partitions: int = 64
    room: int = 1000
    quota: int = 1000
    unread: float = 0.0
    position: float = 0.0
    read_from: int = 1
    """Partitions of its source."""
    stateful: bool = True
    resizes: bool = True
    """Whether Kubernetes knows how to resize a pod."""
    needs: int = 0
    """Bytes of memory below which a driver is killed when it has run for a minute."""
    needs_per_slot: int = 0
    """Bytes of memory that it needs besides, for each task slot."""
    live: int | None = None
    """Bytes of the heap that a collection leaves; None: the driver does not report its memory."""
    most_memory: int = 2**60
    """Bytes of driver.memory up to which the API server takes a pod."""
    executors: ExecutorPods = field(default_factory=ExecutorPods)
    _cores: dict[int, float] = field(default_factory=dict)
    _given: dict[int, float] = field(default_factory=dict)
    _counted: int = 0
    _rows: float = 0.0
    _batches: int = 0
    _seconds: float = 0.0

    def tick(self, seconds: float = 1) -> None:
        """Let time pass, with its records."""
        for _ in range(int(seconds)):
            super().tick(1)
            self.unread += self.rate
            self._work()

    @property
    def slots(self) -> int:
        """Task slots of the newest driver; 0 without one."""
        return 0 if not self.pods else self._slots_of(self.pods[-1])

    def observe(self, read: Stored) -> Observation:
        """Return what can be seen, with the load in the driver's report."""
        seen = super().observe(read)
        pods = tuple(self._as_its_node_says(pod) for pod in seen.pods)
        seen = replace(seen, executors=self.executors.found, executor_pods=self.executors.pods(self.now))
        return replace(seen, pods=pods, job=None if seen.job is None else self._loaded(seen.job))

    def takes(self, revision: str) -> bool:
        """Whether the API server takes the pod of a revision."""
        spec = self.revisions[revision].spec()
        fits = slots_of(spec) <= self.quota and spec.driver.memory <= self.most_memory
        return super().takes(revision) and fits

    def _create(self, action: CreateDriver) -> None:
        super()._create(action)
        pod = self.pods[-1] if self.pods else None
        if pod is None or pod.attempt != action.attempt:
            return
        spec = self.revisions[pod.revision].spec()
        driver = spec.driver
        if spec.executor is not None:
            self.executors.ensure(EnsureExecutors(revision=pod.revision, instances=spec.instances), self.now)
            return
        if driver.core_request is not None and driver.core_request == driver.core_limit:
            self._cores[pod.attempt] = self._given[pod.attempt] = cores_of(driver.core_request)
        if self._slots_of(pod) > self.room:
            self.processes = [each for each in self.processes if each is not pod.process]
            pod.process = None

    def _act(self, action: Action) -> bool:
        if isinstance(action, EnsureExecutors | RemoveExecutors | DeleteExecutor):
            self.actions.append(action)
            if isinstance(action, EnsureExecutors):
                self.executors.ensure(action, self.now)
            return True
        if not isinstance(action, ResizeDriver):
            return super()._act(action)
        self.actions.append(action)
        pod = next((each for each in self.pods if each.name == action.name), None)
        if pod is not None and self.resizes:
            self._cores[pod.attempt] = cores_of(action.cpu)
            if self._fits(pod.attempt):
                self._given[pod.attempt] = self._cores[pod.attempt]
        return True

    def _per_slot(self) -> float:
        given = self.stored.spec["autoscaling"].get("cpuPerSlot")
        return 0.0 if given is None else cores_of(given)

    def _fits(self, attempt: int) -> bool:
        return self._cores[attempt] <= self.room * self._per_slot()

    def _slots_of(self, pod: Pod) -> int:
        spec = self.revisions[pod.revision].spec()
        if spec.executor is not None:
            return self.executors.taking_part(self.now) * spec.executor.cores
        width = slots_of(spec)
        if pod.attempt not in self._given or not self._per_slot():
            return width
        return min(width, round(self._given[pod.attempt] / self._per_slot()))

    def _work(self) -> None:
        pod = self.pods[-1] if self.pods else None
        if pod is None or pod.process is None or pod.process.state is not JobState.RUNNING:
            return
        if self._lacks_memory(pod) and self.now > pod.created + 60:
            pod.process.kill()
            return
        if self._counted != pod.attempt:
            self._counted, self._rows, self._batches, self._seconds = pod.attempt, 0.0, 0, 0.0
        capacity = PER_SLOT * min(self._slots_of(pod), self.useful)
        if not capacity:
            return
        rows = min(self.unread, capacity * (1 - _OVERHEAD))
        self.unread -= rows
        self.position += rows
        self._rows += rows
        self._batches += 1
        self._seconds += _OVERHEAD + rows / capacity

    def _loaded(self, job: JobView) -> JobView:
        first = PartitionView(topic="events", partition=0, position=int(self.position), lag=int(self.unread))
        others = [first.model_copy(update={"partition": n, "position": 0, "lag": 0}) for n in range(1, self.read_from)]
        source = InputView(uid=OperatorUid("events"), lag_records=int(self.unread), partitions=(first, *others))
        times = BatchTimesView(batches=1, seconds=1.0, state_commit=0.1 if self.stateful else None)
        chain = ChainView(
            uid=ChainUid("counts"),
            operators=(OperatorUid("counts"),),
            batch=self._batches,
            records_in=int(self._rows),
            batches=self._batches,
            batch_seconds=self._seconds,
            batch_times=times,
            inputs=(source,),
        )
        spec = self.revisions[self.pods[-1].revision].spec()
        width = slots_of(spec)
        graph = {"parallelism": width, "maxParallelism": self.partitions}
        changes: dict[str, Any] = {"graph": graph, "chains": (chain,), "records_in": int(self._rows)}
        if self.live is not None:
            heap = int(spec.driver.memory * HEAP_SHARE)
            changes["memory"] = MemoryView(heap=heap, heap_live=min(heap, self.live), measured=self.now)
        if spec.executor is not None:
            changes["executors"] = self.executors.view(spec.executor.cores, self.now)
        return job.model_copy(update={**changes, "start_time": float(job.attempt)})

    def _lacks_memory(self, pod: Pod) -> bool:
        spec = self.revisions[pod.revision].spec()
        return spec.driver.memory < self.needs + self.needs_per_slot * slots_of(spec)

    def _as_its_node_says(self, pod: DriverPod) -> DriverPod:
        if pod.attempt in self._cores:
            pending = "" if self._fits(pod.attempt) else "Deferred: Node didn't have enough resource: cpu"
            cores, given = self._cores[pod.attempt], self._given[pod.attempt]
            pod = replace(pod, cores=cores, cores_given=given, resize=pending)
        own = next(each for each in self.pods if each.attempt == pod.attempt)
        if self.revisions[own.revision].spec().executor is not None:
            return pod
        if pod.ended and pod.exit_code == 137 and self._lacks_memory(own):
            return replace(pod, reason="OOMKilled", message="")
        if self._slots_of(own) <= self.room:
            return pod
        said = "0/1 nodes are available: 1 Insufficient cpu"
        return replace(pod, phase=PodPhase.PENDING, started=None, reason="Unschedulable", message=said)
