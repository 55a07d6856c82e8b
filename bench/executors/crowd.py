"""Measures the driver's answers to the agents of many executors, which open state and store a checkpoint at once.

Driver and agents are the real classes, over HTTP on the loopback interface; there is no Spark, and nothing is uploaded.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from bench.executors.results import Crowd
from bench.processes import RunFailed
from starlette.responses import PlainTextResponse

from streamjob.ids import BatchId, ChainUid, CheckpointId, Epoch, Key
from streamjob.snapshot.manifest import FileRef
from streamjob_runtime.checkpointing.upload.uploader import Progress, Target, Uploader, UploadStatistics
from streamjob_runtime.control.api.admission import LIMITS
from streamjob_runtime.control.api.guard import trust_connection
from streamjob_runtime.control.api.listener import Server
from streamjob_runtime.executors.agent.client import DriverAway, DriverClient, Refused
from streamjob_runtime.executors.build_id import this_build
from streamjob_runtime.executors.credentials import Credentials
from streamjob_runtime.executors.driver.fleet import Fleet
from streamjob_runtime.executors.driver.routes import AgentRoutes
from streamjob_runtime.executors.driver.segments import SegmentsOnExecutors
from streamjob_runtime.executors.driver.state import StateOnExecutors
from streamjob_runtime.executors.messages import (
    Adoption,
    Allocate,
    Allocated,
    Commands,
    Done,
    HoldStores,
    Known,
    KnownFiles,
    Nothing,
    Poll,
    Registration,
    Store,
    Stored,
    Welcome,
)
from streamjob_runtime.spark.checkpoint_dir.files import StoreVersion

SECRET = "0123456789abcdef0123456789abcdef"
STORES, FILES, NEW_OBJECTS = 4, 60, 4
"""State partitions of an executor, files of each in a checkpoint, and objects that an executor uploads for it."""
_CHAIN = ChainUid("keyed")
_SECONDS = 120.0


def crowd(agents: int, rounds: int) -> Iterator[Crowd]:
    """Let agents open their state, then store checkpoints, each of them the same number of files. Raises RunFailed."""
    fleet = Fleet(agents, this_build(), time.time)
    state = StateOnExecutors(fleet, SegmentsOnExecutors(fleet, "file:///", time.time))
    routes = AgentRoutes(fleet, Credentials.derive(SECRET, "attempt"), state.handlers())
    fleet.open(Welcome(executor="", driver_url="", application="", java_options=(), store="file:///"))
    server = Server("control API", "PORT")
    limits = replace(LIMITS, connections=LIMITS.connections + routes.connections)
    server.serve(routes.beside(PlainTextResponse(""), trust_connection), 0, limits)
    context = get_context("spawn")
    failures = context.Value("i", 0)
    child = context.Process(target=_agents, args=(server.url, agents, failures), daemon=True)
    try:
        state.begin(Epoch(1), {})
        child.start()
        _until(lambda: _all_live(fleet, agents), child)
        _until(lambda: sum(each.stores for each in state.counts().values()) == agents * STORES, child)
        for number in range(rounds):
            load, wall, cpu = os.getloadavg()[0], time.monotonic(), time.process_time()
            try:
                files = _checkpoint(state, CheckpointId(number + 1), agents)
            except Exception as error:
                raise RunFailed(f"{agents} agents cannot store a checkpoint: {error}") from error
            assert len(files) == agents * STORES * FILES
            yield Crowd(
                agents=agents,
                requests=agents * (NEW_OBJECTS + 3),
                seconds=time.monotonic() - wall,
                cpu=time.process_time() - cpu,
                failures=failures.value,
                load_before=load,
            )
    finally:
        fleet.close()
        server.stop()
        child.terminate()
        child.join()


def _all_live(fleet: Fleet, agents: int) -> bool:
    for number in range(1, agents + 1):
        fleet.registered_in_spark(str(number), "127.0.0.1")
    return len(fleet.live()) == agents


def _until(condition: Callable[[], bool], child: Any) -> None:
    deadline = time.monotonic() + _SECONDS
    while not condition():
        if time.monotonic() > deadline or not child.is_alive():
            raise RunFailed(f"the agents got no further within {_SECONDS:.0f} s")
        time.sleep(0.05)


def _checkpoint(state: StateOnExecutors, checkpoint: CheckpointId, agents: int) -> tuple[FileRef, ...]:
    stores = [StoreVersion(f"state/0/{partition}", ("id",)) for partition in range(agents * STORES)]
    uploader = cast(Uploader, SimpleNamespace(uri="file:///"))
    target = Target(uploader, {}, lambda sha256: Key(f"shared/1/{checkpoint}-{sha256}"))
    return state.store(checkpoint, _CHAIN, BatchId(checkpoint), stores, {}, target, Progress())()


def _agents(url: str, count: int, failures: Any) -> None:
    threads = [threading.Thread(target=_agent, args=(url, number, failures)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _agent(url: str, number: int, failures: Any) -> None:
    client = DriverClient(url, f"executor-{number}", SECRET)

    def ask(path: str, message: Any, kind: type[Any], seconds: float = 60.0) -> Any:
        while True:
            try:
                return client.ask(path, message, kind, seconds)
            except DriverAway:
                with failures.get_lock():
                    failures.value += 1
                time.sleep(0.5)

    while True:
        try:
            client.meet()
            break
        except DriverAway:
            time.sleep(0.5)
    me = ask("register", Registration(address="127.0.0.1", cores=4, build=this_build()), Welcome).executor
    stores = [
        Store(executor=me, directory=f"/1/{_CHAIN}/checkpoint/state/0/{number * STORES + each}")
        for each in range(STORES)
    ]
    with ThreadPoolExecutor(STORES) as pool:
        list(pool.map(lambda store: ask("adopt", store, Adoption), stores))
        list(pool.map(lambda store: ask("adopted", store, Nothing), stores))
        while True:
            try:
                told = ask("poll", Poll(executor=me, registered=True), Commands, 30.0)
            except Refused:
                return
            for command in told.commands:
                pool.submit(_hold, ask, me, command)


def _hold(ask: Callable[..., Any], me: str, command: Any) -> None:
    asked = HoldStores.model_validate(command.body)
    paths = [Path(store.path) / f"{file}.changelog" for store in asked.stores for file in range(FILES)]
    ask("known", Known(executor=me, transfer=asked.transfer, identities=tuple(map(str, paths))), KnownFiles)
    keys = [
        ask("allocate", Allocate(executor=me, transfer=asked.transfer, sha256=f"{me}-{each}"), Allocated).key
        for each in range(NEW_OBJECTS)
    ]
    files = tuple(
        FileRef(path=str(path), object=keys[number % NEW_OBJECTS], offset=number, length=1, sha256="0" * 64)
        for number, path in enumerate(paths)
    )
    body = Stored(files=files, statistics=UploadStatistics()).model_dump(mode="json")
    ask("done", Done(executor=me, command=command.id, body=body), Nothing)
