"""Simulates the drivers of a namespace: `python -m bench.controller_drivers NAMESPACE LOCATION LOG HOLD`.

Each running pod gets a driver, which reads its token and its job file, claims its log on S3, completes checkpoints
there, and answers the control API at the pod's address, like the runtime. It computes nothing. A stop ends with a
savepoint or a last checkpoint, and then the pod ends. LOG gets a line for each event; while the file HOLD exists, no
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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from aiohttp import web
from bench.controller_cluster import Connection, connected
from bench.controller_driver import Driver, JobReader

from streamjob.client.models import (
    Accepted,
    CheckpointingChanges,
    Problem,
    StopRequest,
)
from streamjob.errors import ExitCode
from streamjob.ids import TriggerId
from streamjob.protocol.lifecycle import JobState
from streamjob.snapshot.keys import job_root
from streamjob.snapshot.record import RecordKind
from streamjob_operator.cluster.api import Conflict, NotFound
from streamjob_operator.cluster.kinds import CONFIG_MAP, POD, SECRET, Object
from streamjob_operator.objects.names import CONTAINER, CONTROL_PORT, JOB_FILE, TOKEN_KEY
from streamjob_operator.storage.job_stores import S3Stores

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


class Drivers:
    """All drivers of a namespace.

    Args:
        connection: the Kubernetes API, for the kubelet's work: Secrets and files are read, ends are reported.
        location: of all snapshots.
        log: receives the events.
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
            await asyncio.sleep(driver.policy.interval or driver.policy.timeout)

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
        answer = driver.answer(request.path, request.query.get("include", ""), request.query.getall("trigger", ()))
        return _problem(404, "Not Found") if answer is None else web.Response(body=answer, content_type=_JSON)

    async def _end(self, pod: Object) -> None:
        """Report the end of the process like a kubelet."""
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
