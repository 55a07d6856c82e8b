"""Simulates the drivers of a namespace: `python -m bench.controller_drivers NAMESPACE LOCATION LOG HOLD`.

A pod that runs gets a driver, which reads its token and its job file, claims its log on S3, completes checkpoints
there, and answers the control API at the pod's address, as the runtime does. It computes nothing. A stop ends behind a
savepoint or a last checkpoint, and then the pod ends. LOG gets a line for what happens; while the file HOLD exists, no
checkpoint is taken.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import os
import resource
import sys
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import yaml
from aiohttp import web
from bench.controller_cluster import Connection, connected

from streamjob.client.models import (
    Accepted,
    CheckpointingChanges,
    CheckpointingView,
    JobView,
    LastCheckpointView,
    Problem,
    RestoredFromView,
    StopRequest,
    TriggerState,
    TriggerView,
)
from streamjob.errors import ExitCode
from streamjob.ids import Attempt, BatchId, CheckpointId, Key, OperatorUid, Owner, TriggerId
from streamjob.job.graph import graph_of
from streamjob.job.plan import Plan, plan
from streamjob.job.reading import read_spec
from streamjob.job.spec import CheckpointingPolicy, JobSpec
from streamjob.protocol.lifecycle import JobState
from streamjob.protocol.log import JobId
from streamjob.protocol.manifests import MANIFEST_NAME, encode_manifest
from streamjob.protocol.ownership import Claim, Identity, claim, complete
from streamjob.protocol.statistics import StatisticsTracker
from streamjob.protocol.triggers import CheckpointProperties, SnapshotKind
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import ChainState, Manifest, OperatorState
from streamjob.snapshot.record import RecordKind
from streamjob.store.base import Store
from streamjob.store.effects import drive
from streamjob_operator.cluster.api import Conflict, NotFound
from streamjob_operator.cluster.kinds import CONFIG_MAP, POD, SECRET, Object
from streamjob_operator.manifests.names import ATTEMPT_LABEL, CONTAINER, CONTROL_PORT, JOB_FILE, TOKEN_KEY
from streamjob_operator.storing import S3Stores, job_root

_T = TypeVar("_T")
_FIRST_CHECKPOINT = 1.0
_THREADS = 8
_JSON = "application/json"


class Log:
    """Tells the benchmark when something happened to a job, in seconds since 1970.

    Args:
        file: gets one JSON object a line.
    """

    def __init__(self, file: Path) -> None:
        self._file = file.open("a", buffering=1)

    def note(self, what: str, job: str) -> None:
        """Write it down."""
        self._file.write(json.dumps({"at": time.time(), "what": what, "job": job}) + "\n")


class JobReader:
    """Reads job files; what they have in common is planned once, for planning takes longer than all the rest."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[JobSpec, Plan]] = {}

    def read(self, text: str) -> tuple[JobSpec, Plan, dict[str, Any]]:
        """Return a job, its plan and its content."""
        content = yaml.load(text, Loader=yaml.CSafeLoader)
        common = json.dumps({key: content[key] for key in ("sources", "operators", "sinks")})
        if common not in self._known:
            spec = read_spec(content).spec
            assert spec is not None
            self._known[common] = spec, plan(spec)
        return *self._known[common], content


class Driver:
    """One driver: its log, its checkpoints, and what it answers.

    Args:
        pod: its pod.
        token: of its control API.
        job: what it runs, as a `JobReader` has it.
        store: the job's root.
    """

    def __init__(self, pod: Object, token: str, job: tuple[JobSpec, Plan, dict[str, Any]], store: Store) -> None:
        self.pod = pod
        self.token = f"Bearer {token}".encode()
        self.attempt = int(pod["metadata"]["labels"][ATTEMPT_LABEL])
        spec, self._plan, content = job
        self.id = JobId(pod["metadata"]["namespace"], str(content["name"]))
        self.policy = CheckpointingPolicy.model_validate(content.get("checkpointing") or {})
        same = {"name": self.id.name, "parallelism": content.get("parallelism"), "maxParallelism": spec.max_parallelism}
        self._graph = {**graph_of(spec), **same}
        self._store = store
        self._started = time.time()
        self._state = JobState.CREATED
        self._claim: Claim | None = None
        self._restored: RestoredFromView | None = None
        self._last: LastCheckpointView | None = None
        self._statistics = StatisticsTracker()
        self.turn = asyncio.Lock()
        self.triggers: dict[TriggerId, TriggerView] = {}
        self.answers: dict[str, bytes] = {}
        self._change(JobState.CREATED)

    @property
    def held(self) -> Claim:
        """The log, once it is claimed."""
        assert self._claim is not None
        return self._claim

    @property
    def runs(self) -> bool:
        """Whether it takes checkpoints."""
        return self._state is JobState.RUNNING

    def begin(self) -> None:
        """Claim the log, and go on from what it has."""
        identity = Identity(job=self.id, owner=Owner(uuid.uuid4().hex), attempt=Attempt(self.attempt))
        self._claim = drive(self._store, claim(identity, time.time()))
        newest = self._claim.newest
        if newest is not None and newest.id is not None and newest.manifest is not None:
            self._claim.published(newest.id)
            path = newest.manifest if "://" in newest.manifest else self._store.uri + newest.manifest
            self._restored = RestoredFromView(id=newest.id, kind=SnapshotKind(newest.kind.value), path=path)
        self._change(JobState.RUNNING)

    def checkpoint(self, kind: RecordKind) -> str:
        """Complete a snapshot, and return the URI of its manifest."""
        held, begun = self.held, time.time()
        number = CheckpointId(held.last_id + 1)
        chains = tuple(chain.uid for chain in self._plan.chains)
        self._statistics.started(number, CheckpointProperties(kind=SnapshotKind(kind.value)), begun, chains)
        if kind is RecordKind.SAVEPOINT:
            directory = keys.SAVEPOINTS_PREFIX + keys.savepoint_prefix(self.id.name, number, uuid.uuid4().hex[:8])
            name = f"{directory}{MANIFEST_NAME}"
            reference = self._store.uri + name
        else:
            name = reference = keys.manifest(held.epoch, number)
        self._store.put(Key(name), encode_manifest(self._manifest(kind, number, begun)))
        drive(self._store, complete(held, kind, number, reference, time.time()))
        held.published(number)
        path = reference if "://" in reference else self._store.uri + reference
        self._statistics.completed(number, path)
        now = time.time()
        self._last = LastCheckpointView(
            id=number,
            kind=SnapshotKind(kind.value),
            triggered=begun,
            completed=now,
            duration_ms=round((now - begun) * 1000),
            checkpointed_size=0,
            state_size=0,
            path=path,
        )
        self._change(self._state)
        return path

    def stop(self, request: StopRequest) -> None:
        """Note that a stop was asked for."""
        trigger = request.trigger_id or TriggerId(uuid.uuid4().hex)
        self.triggers[trigger] = TriggerView(trigger_id=trigger, kind="stop", state=TriggerState.IN_PROGRESS)
        self._change(JobState.STOPPING)

    def stopped(self, trigger: TriggerId, path: str) -> None:
        """Note that it took place."""
        done = {"state": TriggerState.COMPLETED, "result": path, "checkpoint": self.held.last_id}
        self.triggers[trigger] = self.triggers[trigger].model_copy(update=done)
        self._change(JobState.STOPPED)

    def change_policy(self, changes: CheckpointingChanges) -> None:
        """Take over another checkpointing policy."""
        self.policy = CheckpointingPolicy.model_validate({**self.policy.model_dump(), **changes.changed()})
        self._change(self._state)

    def _manifest(self, kind: RecordKind, number: CheckpointId, begun: float) -> Manifest:
        chains = tuple(
            ChainState(
                uid=chain.uid, operators=tuple(OperatorUid(each.uid) for each in chain.operators), batch=BatchId(number)
            )
            for chain in self._plan.chains
        )
        operators = tuple(
            OperatorState(uid=each.uid, chain=chain.uid) for chain in self._plan.chains for each in chain.operators
        )
        return Manifest(
            job=self.id.name,
            namespace=self.id.namespace,
            id=number,
            epoch=self.held.epoch,
            kind="savepoint" if kind is RecordKind.SAVEPOINT else "checkpoint",
            triggered=begun,
            completed=time.time(),
            graph=self._graph,
            chains=chains,
            operators=operators,
        )

    def _change(self, state: JobState) -> None:
        self._state = state
        view = JobView(
            state=state,
            name=self.id.name,
            namespace=self.id.namespace,
            graph=self._graph,
            attempt=self.attempt,
            epoch=None if self._claim is None else self._claim.epoch,
            start_time=self._started,
            uptime=time.time() - self._started,
            location=self._store.uri,
            last_checkpoint=self._last,
            restored_from=self._restored,
        )
        policy = CheckpointingView.model_validate(self.policy.model_dump(include=set(CheckpointingView.model_fields)))
        self.answers = {
            "/v1/job": view.model_dump_json().encode(),
            "/v1/checkpoints": self._statistics.overview().model_dump_json().encode(),
            "/v1/checkpointing": policy.model_dump_json().encode(),
        }


class Drivers:
    """All drivers of a namespace.

    Args:
        connection: the Kubernetes API, where a kubelet's part is played: Secrets and files are read, ends are told.
        location: of all snapshots.
        log: is told what happens.
        hold: while this file exists, no periodic checkpoint is taken.
    """

    def __init__(self, connection: Connection, location: str, log: Log, hold: Path) -> None:
        self._cluster = connection.cluster
        self._location = location
        self._log = log
        self._hold = hold
        self._stores = S3Stores()
        self._jobs = JobReader()
        self._threads = ThreadPoolExecutor(_THREADS)
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._stops: dict[str, asyncio.Event] = {}

    def saw(self, event: str, pod: Object) -> None:
        """Take note of a pod as a watch brings it."""
        uid, status = pod["metadata"]["uid"], pod.get("status") or {}
        if event == "ADDED":
            self._log.note("created", _job_of(pod))
        if event == "DELETED":
            life = self._lives.pop(uid, None)
            if life is not None:
                life.cancel()
        elif status.get("phase") == "Running" and status.get("podIP") and uid not in self._lives:
            self._lives[uid] = asyncio.create_task(self._live(pod), name=pod["metadata"]["name"])

    async def _live(self, pod: Object) -> None:
        namespace, volumes = pod["metadata"]["namespace"], {each["name"]: each for each in pod["spec"]["volumes"]}
        secret = await self._cluster.get(SECRET, namespace, volumes["control"]["secret"]["secretName"])
        file = volumes["job"]["projected"]["sources"][-1]["configMap"]["name"]
        job = self._jobs.read((await self._cluster.get(CONFIG_MAP, namespace, file))["data"][JOB_FILE])
        root = job_root(self._location, namespace, str(job[2]["name"]))
        token = base64.b64decode(secret["data"][TOKEN_KEY]).decode()
        driver = Driver(pod, token, job, self._stores(root, os.environ))
        await self._in_thread(driver.begin)
        stop: asyncio.Future[StopRequest] = asyncio.get_running_loop().create_future()
        server = await asyncio.get_running_loop().create_server(
            web.Server(lambda request: self._answer(driver, stop, request), access_log=None),
            pod["status"]["podIP"],
            CONTROL_PORT,
        )
        checkpoints = asyncio.create_task(self._take_checkpoints(driver))
        try:
            request = await stop
            kind = RecordKind.SAVEPOINT if request.savepoint else RecordKind.CHECKPOINT
            async with driver.turn:
                path = await self._in_thread(lambda: driver.checkpoint(kind))
            driver.stopped(next(iter(driver.triggers)), path)
        finally:
            checkpoints.cancel()
            server.close()
        await self._end(driver.pod)
        self._log.note("ended", driver.id.name)

    async def _take_checkpoints(self, driver: Driver) -> None:
        await asyncio.sleep(_FIRST_CHECKPOINT)
        while True:
            # A stop waits for the one that is under way.
            async with driver.turn:
                if driver.runs and not self._hold.exists():
                    await self._in_thread(lambda: driver.checkpoint(RecordKind.CHECKPOINT))
            await asyncio.sleep(driver.policy.interval)

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _answer(
        self, driver: Driver, stop: asyncio.Future[StopRequest], request: web.BaseRequest
    ) -> web.Response:
        given = request.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(given, driver.token):
            return _problem(401, "Unauthorized")
        route = request.method, request.path
        if route == ("PATCH", "/v1/checkpointing"):
            changes = CheckpointingChanges.model_validate_json(await request.read())
            if changes.model_fields_set:
                self._log.note("patch", driver.id.name)
                driver.change_policy(changes)
        elif route == ("POST", "/v1/stop"):
            asked = StopRequest.model_validate_json(await request.read())
            if asked.trigger_id not in driver.triggers:
                if stop.done():
                    return _problem(409, "Conflict with the job's state")
                self._log.note("stop", driver.id.name)
                driver.stop(asked)
                stop.set_result(asked)
            accepted = Accepted(trigger_id=asked.trigger_id or next(iter(driver.triggers)))
            return web.Response(status=202, body=accepted.model_dump_json(), content_type=_JSON)
        elif request.method == "GET" and request.path.startswith("/v1/triggers/"):
            found = driver.triggers.get(TriggerId(request.path.rpartition("/")[2]))
            if found is None:
                return _problem(404, "Not Found")
            return web.Response(body=found.model_dump_json(), content_type=_JSON)
        answer = driver.answers.get(request.path)
        return _problem(404, "Not Found") if answer is None else web.Response(body=answer, content_type=_JSON)

    async def _end(self, pod: Object) -> None:
        """Tell of the process's end as a kubelet does."""
        said = json.dumps({"state": JobState.STOPPED, "message": "", "exitCode": int(ExitCode.OK)})
        ended = {"exitCode": 0, "reason": "Completed", "message": said, "startedAt": pod["status"]["startTime"]}
        while True:
            try:
                pod = await self._cluster.get(POD, pod["metadata"]["namespace"], pod["metadata"]["name"])
                status = {**pod["status"], "phase": "Succeeded", "containerStatuses": [_container(pod, ended)]}
                await self._cluster.replace(POD, {**pod, "status": status}, subresource="status")
            except Conflict:
                continue
            except NotFound:
                return
            return


def _container(pod: Object, ended: Object) -> Object:
    found = next(each for each in pod["status"]["containerStatuses"] if each["name"] == CONTAINER)
    return {**found, "ready": False, "state": {"terminated": ended}}


def _job_of(pod: Object) -> str:
    return str(pod["metadata"]["name"]).rpartition("-driver-")[0]


def _problem(status: int, title: str) -> web.Response:
    body = Problem(title=title, status=status).model_dump_json()
    return web.Response(status=status, body=body, content_type="application/problem+json")


async def main(namespace: str, location: str, log: Path, hold: Path) -> None:
    """Simulate until killed."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    async with connected() as connection:
        await connection.watch(POD, namespace, Drivers(connection, location, Log(log), hold).saw)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])))
