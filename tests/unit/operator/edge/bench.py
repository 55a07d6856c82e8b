"""The whole edge of the controller over fakes: an API in memory, drivers that answer, directories for buckets."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import httpx
from tests.unit.operator.edge.fake_cluster import FakeCluster
from tests.unit.stored.job import Job

from streamjob.client.models import CheckpointingView
from streamjob.protocol.coordination.statistics import StatisticsTracker
from streamjob.protocol.log.records import JobId
from streamjob.store import LocalStore
from streamjob.store.base import Store
from streamjob_operator.cluster.driver_api import Answer, Drivers
from streamjob_operator.cluster.events import EventRecorder
from streamjob_operator.cluster.kinds import EVENT, POD, SECRET, STATEFUL_SET, STREAM_JOB, STREAM_SNAPSHOT, Object
from streamjob_operator.decisions import decide, wanted_successor, wanted_trials, wanted_triggers
from streamjob_operator.evaluation.cache import Evaluations
from streamjob_operator.evaluation.reading import Resources
from streamjob_operator.machinery.work_queue import WorkLoops
from streamjob_operator.main import DriverBuilder
from streamjob_operator.metrics import Metrics
from streamjob_operator.reconciling.acting import Actor
from streamjob_operator.reconciling.observing import Observer, SnapshotIndex, Tokens
from streamjob_operator.reconciling.pod_dry_run import Admissions
from streamjob_operator.reconciling.reconciler import Decide, JobReconciler
from streamjob_operator.reconciling.snapshot_reconciler import SnapshotReconciler
from streamjob_operator.settings import Settings
from streamjob_operator.storage.job_stores import JobStores

_Result = TypeVar("_Result")
NAMESPACE, NAME = "a", "orders"
LOCATION = "s3://bucket/snapshots"
START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
ADDRESS, ADDRESS_OF_SUCCESSOR = "10.0.0.1", "10.0.0.2"
_SETTINGS = Settings()

SPEC: Object = {
    "job": {
        "sources": [{"name": "numbers", "format": "rate", "options": {"rowsPerSecond": "10"}}],
        "operators": [{"name": "half", "inputs": ["numbers"], "sql": "SELECT value FROM numbers"}],
        "sinks": [{"name": "out", "input": "half", "format": "console", "delivery": "at-least-once"}],
    },
    "checkpointing": {"interval": "10s", "location": LOCATION},
    "image": "example/one",
}


_CHECKPOINTS = StatisticsTracker().overview().model_dump(mode="json", by_alias=True)
_POLICY = CheckpointingView(
    interval=10, timeout=600, min_pause=0, mode="aligned", tolerable_failed_checkpoints=10, num_retained=3
).model_dump(mode="json", by_alias=True)


def a_job(**spec: Any) -> Object:
    """Return a StreamJob as a user applies it."""
    return {
        "apiVersion": "streamjob.io/v1alpha1",
        "kind": "StreamJob",
        "metadata": {"namespace": NAMESPACE, "name": NAME, "uid": "job-uid"},
        "spec": SPEC | spec,
    }


async def evaluated_here(function: Callable[..., _Result], *arguments: object) -> _Result:
    """Evaluate a spec in this process."""
    return function(*arguments)


@dataclass
class FakeDriver:
    """A driver's control API; requests are answered at once, and stops end the process.

    `older`: an older runtime, which always answers with the job alone. `load`: laid over its report of the job.
    `waits`: it has not been told to start.
    """

    stored: Job
    attempt: int
    token: str = ""
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    triggers: dict[str, dict[str, Any]] = field(default_factory=dict)
    refuses: str | None = None
    stopped: bool = False
    last: dict[str, Any] | None = None
    epoch: int = 1
    older: bool = False
    requests: int = 0
    load: dict[str, Any] = field(default_factory=dict)
    waits: bool = False

    def answer(self, request: httpx.Request) -> httpx.Response:
        path, body = request.url.path, json.loads(request.content or b"{}")
        if request.headers["Authorization"] != f"Bearer {self.token}":
            return httpx.Response(401, json={"title": "Unauthorized", "status": 401})
        self.requests += 1
        if path == "/v1/job":
            return httpx.Response(200, json=self._view() | self._parts(request.url.params))
        if path == "/v1/checkpoints" and request.method == "GET":
            return httpx.Response(200, json=_CHECKPOINTS)
        if path == "/v1/checkpointing":
            return httpx.Response(200, json=_POLICY)
        if request.method == "GET":
            known = self.triggers.get(path.rsplit("/", 1)[1])
            return httpx.Response(200, json=known) if known else httpx.Response(404, json={"title": "?", "status": 404})
        self.asked.append((path, body))
        if path == "/v1/start":
            self._start()
            return httpx.Response(202, json={"attempt": self.attempt})
        self._take(path.rsplit("/", 1)[1].removesuffix("s"), body)
        return httpx.Response(202, json={"triggerId": body["triggerId"]})

    def _parts(self, asked: httpx.QueryParams) -> dict[str, Any]:
        if self.older:
            return {}
        parts = {"checkpoints": _CHECKPOINTS, "checkpointing": _POLICY}
        wanted = asked.get_list("trigger")
        triggers = {"triggers": {each: self.triggers[each] for each in wanted if each in self.triggers}}
        return {name: parts[name] for name in asked.get("include", "").split(",")} | (triggers if wanted else {})

    def checkpoint(self, now: float) -> None:
        """Complete a periodic checkpoint."""
        number = (self.stored.claim.newest.id or 0) + 1 if self.stored.claim.newest else 1
        self.stored.complete(number)
        path = f"{LOCATION}/{NAMESPACE}/{NAME}/checkpoints/{self.epoch}-{number}/manifest.json"
        self._completed(number, "checkpoint", path, now)

    def _start(self) -> None:
        if self.waits:
            self.waits = False
            self.stored.claim_log(self.attempt)
            self.epoch = self.stored.claim.epoch

    def _take(self, kind: str, body: dict[str, Any]) -> None:
        trigger = {"triggerId": body["triggerId"], "kind": kind, "state": "FAILED", "failure": self.refuses}
        if self.refuses is None:
            trigger |= {"state": "COMPLETED", "failure": None}
            if kind == "savepoint" or body.get("savepoint"):
                number = (self.stored.claim.newest.id or 0) + 1 if self.stored.claim.newest else 1
                place = f"{LOCATION}/savepoints/{NAME}-{number}-abc"
                self.stored.savepoint(number, b"state", place)
                path = f"{place}/manifest.json"
                trigger |= {"checkpoint": number, "result": path}
                self._completed(number, "savepoint", path, self.last["completed"] if self.last else START)
            self.stopped = self.stopped or kind == "stop"
        self.triggers.setdefault(body["triggerId"], trigger)

    def _completed(self, number: int, kind: str, path: str, now: float) -> None:
        self.last = {
            "id": number,
            "kind": kind,
            "triggered": now - 1,
            "completed": now,
            "durationMs": 1000,
            "checkpointedSize": 10,
            "stateSize": 20,
            "path": path,
        }

    def _view(self) -> dict[str, Any]:
        return {
            "state": "CREATED" if self.waits else "STOPPED" if self.stopped else "RUNNING",
            "waiting": "prepared" if self.waits else None,
            "name": NAME,
            "namespace": NAMESPACE,
            "attempt": self.attempt,
            "epoch": self.epoch,
            "startTime": START,
            "uptime": 1.0,
            "lastCheckpoint": self.last,
            **self.load,
        }


class Bench:
    """A controller whose clock moves only when it waits.

    Args:
        root: for the directories that represent buckets.
        before: a controller that has died, whose world this one finds.
        decide: takes the place of the real decision.
        ambient: whether the controller's own credentials serve jobs that name none.
        settings: the controller's.
    """

    def __init__(
        self,
        root: Path,
        *,
        before: Bench | None = None,
        decide: Decide = decide,
        ambient: bool = True,
        settings: Settings = _SETTINGS,
    ) -> None:
        self.now: float = START if before is None else before.now
        self.cluster: FakeCluster = FakeCluster() if before is None else before.cluster
        self.driver: FakeDriver | None = None if before is None else before.driver
        self.successor: FakeDriver | None = None
        # How the processes of preflights end.
        self.preflight: Object = {"exitCode": 0, "message": '{"state": "FINISHED", "message": "", "exitCode": 0}'}
        self.root = root
        self.makes_executors = True
        self.job_store: Job = (
            Job(root / "bucket" / "snapshots", JobId(NAMESPACE, NAME)) if before is None else before.job_store
        )
        self.index = SnapshotIndex()
        self.metrics = Metrics(now=self.clock)
        drivers = Drivers(send=self._send)
        stored = JobStores(self.cluster, self._open, ambient=ambient, clock=self.clock)
        events = EventRecorder(self.cluster, now=self.time, pause=0)
        self.evaluations = Evaluations(evaluated_here)
        tokens, resources = Tokens(self.cluster), Resources(self.evaluations)
        build = DriverBuilder(settings)
        admissions = Admissions(self.cluster, build, build.executors, self.clock)
        observer = Observer(
            self.cluster,
            drivers,
            tokens,
            stored,
            self.index,
            admissions,
            wanted_triggers,
            wanted_trials,
            self.evaluations,
            wanted_successor,
            self.clock,
        )
        actor = Actor(self.cluster, drivers, tokens, stored, events, admissions, self.clock)
        self.jobs = JobReconciler(
            self.cluster, resources, observer.observe, decide, actor, self.metrics, events, self.time
        )
        self.snapshots = SnapshotReconciler(self.cluster, resources, observer, actor, stored, events, self.time)

    def clock(self) -> float:
        return self.now

    def time(self) -> datetime:
        return datetime.fromtimestamp(self.now, UTC)

    @property
    def job(self) -> Object:
        return self.cluster.objects[(STREAM_JOB, NAMESPACE, NAME)]

    @property
    def lifecycle(self) -> str:
        return str(self.job.get("status", {}).get("lifecycleState"))

    def events(self) -> set[str]:
        """Return the reasons of all events."""
        return {thing["reason"] for (kind, _, _), thing in self.cluster.objects.items() if kind == EVENT}

    def condition(self, kind: str) -> Object:
        found: Object = next(each for each in self.job["status"]["conditions"] if each["type"] == kind)
        return found

    async def until(self, wanted: Callable[[], bool], *, rounds: int = 60) -> None:
        """Reconcile, as often as the decisions ask for it, until something is so."""
        for _ in range(rounds):
            if wanted():
                return
            await self.step()
        raise AssertionError(f"it never came to that: {self.job.get('status') if self._exists() else 'gone'}")

    async def step(self) -> None:
        """Let Kubernetes do its part, and reconcile everything once."""
        await self._stateful_sets()
        self._kubelet()
        delay = await self.jobs.reconcile(NAMESPACE, NAME)
        for kind, namespace, name in list(self.cluster.objects):
            if kind == STREAM_SNAPSHOT:
                self.index.put(self.cluster.objects[(kind, namespace, name)])
                await self.snapshots.reconcile(namespace, name)
        self.now += 1.0 if delay is None else 0.0 if delay == WorkLoops.GONE else min(delay, 5.0)

    def _exists(self) -> bool:
        return (STREAM_JOB, NAMESPACE, NAME) in self.cluster.objects

    async def _stateful_sets(self) -> None:
        """Make as many pods as each set wants, and delete those of a set that is gone."""
        sets = [thing for (kind, _, _), thing in self.cluster.objects.items() if kind == STATEFUL_SET]
        wanted = {
            f"{each['metadata']['name']}-{number}": each["spec"]["template"]
            for each in sets
            for number in range(each["spec"]["replicas"])
        }
        for name in set(self.executors()) - set(wanted):
            await self.cluster.delete(POD, NAMESPACE, name)
        for name in sorted(set(wanted) - set(self.executors())) if self.makes_executors else ():
            template = copy.deepcopy(wanted[name])
            meta = {**template["metadata"], "namespace": NAMESPACE, "name": name}
            await self.cluster.create(POD, {"metadata": meta, "spec": template["spec"]})

    def executors(self) -> dict[str, Object]:
        """Return the pods of executors, by name."""
        return {
            name: pod
            for (kind, _, name), pod in self.cluster.objects.items()
            if kind == POD and pod["metadata"]["labels"]["app.kubernetes.io/component"] == "executor"
        }

    def _kubelet(self) -> None:
        """Run the pods that there are."""
        for name, pod in self.executors().items():
            if "status" not in pod:
                status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
                self.cluster.edit(POD, NAMESPACE, name, status=status)
        for (kind, _, name), pod in list(self.cluster.objects.items()):
            if kind != POD or name in self.executors():
                continue
            if "streamjob.io/preflight" in pod["metadata"]["labels"]:
                phase = "Failed" if self.preflight["exitCode"] else "Succeeded"
                self._status(name, phase, {"terminated": self.preflight})
                continue
            attempt = int(pod["metadata"]["labels"]["streamjob.io/attempt"])
            if "status" not in pod:
                started = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
                if "--wait-for-start" in pod["spec"]["containers"][0]["args"]:
                    self.successor = FakeDriver(self.job_store, attempt, self._token(pod), waits=True)
                    self._status(name, "Running", started, ADDRESS_OF_SUCCESSOR)
                    continue
                self.job_store.claim_log(attempt)
                self.driver = FakeDriver(self.job_store, attempt, self._token(pod), epoch=self.job_store.claim.epoch)
                self._status(name, "Running", started)
            elif self.driver is not None and self.driver.attempt == attempt and self.driver.stopped:
                ended = {"terminated": {"exitCode": 0, "message": '{"state": "STOPPED", "exitCode": 0}'}}
                self._status(name, "Succeeded", ended)

    def _status(self, name: str, phase: str, state: Object, address: str = ADDRESS) -> None:
        status = {"phase": phase, "podIP": address, "containerStatuses": [{"name": "streamjob", "state": state}]}
        self.cluster.edit(POD, NAMESPACE, name, status=status)

    def _token(self, pod: Object) -> str:
        (secret,) = [each["secret"]["secretName"] for each in pod["spec"]["volumes"] if each["name"] == "control"]
        return base64.b64decode(self.cluster.objects[(SECRET, NAMESPACE, secret)]["data"]["token"]).decode()

    async def _send(self, method: str, url: str, headers: dict[str, str], body: bytes | None) -> Answer:
        request = httpx.Request(method, url, headers=headers, content=body)
        drivers = {ADDRESS: self.driver, ADDRESS_OF_SUCCESSOR: self.successor}
        driver = drivers.get(request.url.host)
        if driver is None:
            raise ConnectionRefusedError("refused")
        response = driver.answer(request)
        return Answer(response.status_code, response.reason_phrase, response.content)

    def _open(self, uri: str, _environment: Mapping[str, str]) -> Store:
        return LocalStore(self.root / uri.removeprefix("s3://").rstrip("/"))


async def running(bench: Bench, **spec: object) -> None:
    """Bring a StreamJob to the state STABLE."""
    await bench.cluster.create(STREAM_JOB, a_job(**spec))
    await bench.until(lambda: bench.lifecycle == "DEPLOYED")
    assert bench.driver is not None
    bench.driver.checkpoint(bench.now)
    await bench.until(lambda: bench.lifecycle == "STABLE")
