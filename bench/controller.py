"""Measures the controller with many StreamJobs on a real API server: `python -m bench.controller --help`.

The pods run on kwok's nodes, and their control APIs are simulated on loopback addresses: so the API server that
KUBECONFIG names may be anywhere, and the controller runs on this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from bench.controller_cluster import Connection, connected
from bench.controller_report import (
    CHANGES,
    DEPLOYMENT,
    IDLE,
    PAGE,
    READS,
    WRITES,
    Change,
    Deployment,
    Idle,
    changes_table,
    deployment_table,
    idle_table,
)
from bench.controller_watching import Jobs, Sent, outcomes, read_log
from bench.controller_world import ControllerProcess, World, open_cluster
from bench.entry import Benchmark, parser, run
from bench.processes import locked
from bench.tables import Table
from e2e.harness.cluster import Cluster
from tests.servers.s3 import S3Server

from streamjob_operator.cluster.kinds import STREAM_JOB, Object

REQUESTS = "streamjob_controller_kubernetes_request_seconds_count"
CONTROL = "streamjob_controller_control_request_seconds_count"
_AT_ONCE = 20
_PATIENCE = 600.0
_KINDS, _WEIGHTS = ("interval", "parallelism", "suspend"), (0.4, 0.3, 0.3)
_SERVED = re.compile(r'^apiserver_request_total\{.*\bverb="(\w+)".*\} (\S+)$', re.MULTILINE)
_LONG_LIVED = frozenset({"WATCH", "CONNECT"})


class Bench:
    """One run.

    Args:
        benchmark: what is under way.
        world: what stands around the controller.
        connection: the API server.
    """

    def __init__(self, benchmark: Benchmark, world: World, connection: Connection) -> None:
        self._benchmark = benchmark
        self._options = benchmark.options
        self._world = world
        self._connection = connection
        self._cluster = connection.cluster
        self._chance = random.Random(self._options.seed)
        self._suspended: set[str] = set()
        self._specs: dict[str, Object] = {}
        self.jobs = Jobs()

    async def run(self) -> None:
        """Measure everything."""
        watching = asyncio.create_task(self._connection.watch(STREAM_JOB, self._world.namespace, self.jobs.saw))
        served_without = await self._without_controller()
        try:
            with self._world.controller() as controller:
                await self._measure(controller, served_without)
        finally:
            watching.cancel()

    async def _without_controller(self) -> float:
        await asyncio.sleep(self._options.pause / 2)
        before = await self._served()
        await asyncio.sleep(self._options.seconds / 2)
        return (await self._served() - before) * 120 / float(self._options.seconds)

    async def _measure(self, controller: ControllerProcess, served_without: float) -> None:
        """Measure part by part, and show each; store them when all are done."""
        benchmark, loads = self._benchmark, dict[str, float]()

        def done(part: str, table: Table) -> None:
            loads[part] = os.getloadavg()[0]
            benchmark.show(part, table)

        made = await self._deploy(served_without)
        done("deployment", deployment_table(made))
        await asyncio.sleep(self._options.pause)
        idle = [await self._idle(controller, checkpoints=each) for each in (True, False)]
        done("idle", idle_table(idle))
        changes, unanswered = await self._change()
        done("changes", changes_table(changes))
        for size in self._options.sizes:
            await self._delete(len(self.jobs.seen) - size)
            await asyncio.sleep(self._options.pause)
            idle += [await self._idle(controller, checkpoints=each) for each in (True, False)]
            done(f"idle with {size}", idle_table(idle))
        found = {"unanswered": unanswered, "loads": loads, "peak_rss": controller.memory("VmHWM")}
        benchmark.keep(CHANGES, changes)
        benchmark.keep(IDLE, idle)
        benchmark.keep(DEPLOYMENT, [made.model_copy(update=found)])

    async def _deploy(self, served_without: float) -> Deployment:
        wanted = [self._world.job(number) for number in range(self._options.jobs)]
        begun = time.time()
        await _all_of([partial(self._cluster.create, STREAM_JOB, job) for job in wanted])
        accepted = time.time()
        self._specs = {job["metadata"]["name"]: job["spec"] for job in wanted}
        await self.jobs.until(self._all_ready, _PATIENCE, "Ready of all StreamJobs")
        ready = sorted(job.ready[1] - begun for job in self.jobs.seen.values())
        return Deployment(
            jobs=len(wanted),
            accepted=accepted - begun,
            ready_half=ready[len(ready) // 2],
            ready_all=ready[-1],
            rate=self._options.rate,
            served_without=served_without,
        )

    def _all_ready(self) -> bool:
        return len(self.jobs.seen) == self._options.jobs and all(job.settled for job in self.jobs.seen.values())

    async def _idle(self, controller: ControllerProcess, *, checkpoints: bool) -> Idle:
        self._world.hold_checkpoints(not checkpoints)
        # Requests in progress, and reconciliations that find their outcome, belong to the time before.
        await asyncio.sleep(self._options.pause)
        served, before, cpu = await self._served(), controller.metrics(), controller.cpu()
        begun = time.monotonic()
        await asyncio.sleep(self._options.seconds)
        seconds, cpu = time.monotonic() - begun, controller.cpu() - cpu
        after, served = controller.metrics(), await self._served() - served
        self._world.hold_checkpoints(False)
        requests = _counted(REQUESTS, before, after)

        def of(verbs: frozenset[str]) -> int:
            return sum(count for name, count in requests.items() if name.split()[0] in verbs)

        return Idle(
            jobs=len(self.jobs.seen),
            checkpoints=checkpoints,
            seconds=seconds,
            reads=of(READS),
            writes=of(WRITES),
            leases=sum(count for name, count in requests.items() if name.split()[1] == "leases"),
            served=served,
            control=sum(_counted(CONTROL, before, after).values()),
            cpu=cpu,
            rss=controller.memory(),
        )

    async def _served(self) -> int:
        text = await self._connection.text("/metrics")
        return round(sum(float(count) for verb, count in _SERVED.findall(text) if verb not in _LONG_LIVED))

    async def _change(self) -> tuple[list[Change], int]:
        """Change specs at random moments, by chance as telephone calls come in."""
        under_way: list[asyncio.Task[Sent]] = []
        for _ in range(self._options.changes):
            under_way.append(asyncio.create_task(self._change_one()))
            await asyncio.sleep(self._chance.expovariate(self._options.rate))
        sent = await asyncio.gather(*under_way)
        names = {each.job for each in sent}
        await self.jobs.until(
            lambda: all(self.jobs.seen[name].settled for name in names), _PATIENCE, "Ready behind all changes"
        )
        return outcomes(sent, self.jobs.seen, read_log(self._world.drivers_log))

    async def _change_one(self) -> Sent:
        name = self._chance.choice([name for name, job in sorted(self.jobs.seen.items()) if job.settled])
        kind, spec = self._changed(name)
        # Until the watch delivers the new generation, no one else may choose it.
        self.jobs.seen[name].generation += 1
        sent = time.time()
        written = await self._cluster.patch(STREAM_JOB, self._world.namespace, name, {"spec": spec})
        return Sent(job=name, kind=kind, generation=written["metadata"]["generation"], sent=sent)

    def _changed(self, name: str) -> tuple[str, Object]:
        if name in self._suspended:
            self._suspended.remove(name)
            return "resume", {"suspend": False}
        (kind,) = self._chance.choices(_KINDS, _WEIGHTS)
        spec = self._specs[name]
        if kind == "interval":
            others = [f"{each}s" for each in range(61, 91) if f"{each}s" != spec["checkpointing"]["interval"]]
            spec["checkpointing"]["interval"] = self._chance.choice(others)
            return kind, {"checkpointing": {"interval": spec["checkpointing"]["interval"]}}
        if kind == "parallelism":
            spec["parallelism"] = 3 - spec["parallelism"]
            return kind, {"parallelism": spec["parallelism"]}
        self._suspended.add(name)
        return kind, {"suspend": True}

    async def _delete(self, count: int) -> None:
        names = sorted(self.jobs.seen, reverse=True)[:count]
        await _all_of([partial(self._cluster.delete, STREAM_JOB, self._world.namespace, name) for name in names])
        await self.jobs.until(
            lambda: not any(name in self.jobs.seen for name in names), _PATIENCE, "end of deleted StreamJobs"
        )


async def _all_of(requests: Sequence[Callable[[], Awaitable[object]]]) -> None:
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(request: Callable[[], Awaitable[object]]) -> None:
        async with places:
            await request()

    await asyncio.gather(*(one(request) for request in requests))


def _counted(name: str, before: dict[str, float], after: dict[str, float]) -> dict[str, int]:
    """Return by how much counters grew; labels of which the last sorts first are turned round, to `verb resource`."""
    grown = {}
    for key, count in sorted(after.items()):
        if key.startswith(f"{name} ") and count > before.get(key, 0.0):
            grown[" ".join(reversed(key.split()[1:]))] = round(count - before.get(key, 0.0))
    return grown


def arguments() -> argparse.Namespace:
    """Read the command line."""
    made = parser("make bench-controller", __doc__, "50 StreamJobs")
    add = made.add_argument
    add("--jobs", type=int, default=1000, metavar="N", help="StreamJobs (1000)")
    add("--sizes", type=int, nargs="*", default=(500, 100), metavar="N", help="fewer, to compare with (500 100)")
    add("--changes", type=int, default=360, metavar="N", help="changed specs (360)")
    add("--rate", type=float, default=3.0, metavar="N", help="of them per second, on average (3)")
    add("--seconds", type=float, default=60.0, metavar="S", help="of each measurement of an idle controller (60)")
    add("--pause", type=float, default=20.0, metavar="S", help="before each of them (20)")
    add("--seed", type=int, default=1, metavar="N", help="of the random moments and kinds of changes (1)")
    options = made.parse_args()
    if options.quick:
        options.jobs, options.sizes, options.changes, options.seconds, options.pause = 50, (10,), 30, 20.0, 15.0
    return options


async def measure(benchmark: Benchmark, cluster: Cluster, s3: S3Server) -> None:
    """Measure with all that a controller has around it."""
    world = World(cluster, s3, benchmark.work)
    async with connected() as connection:
        with world.running():
            await Bench(benchmark, world, connection).run()


def bench(benchmark: Benchmark) -> None:
    """Measure on the cluster that KUBECONFIG names."""
    with locked(benchmark.options.lock), S3Server(benchmark.work / "s3") as s3:
        asyncio.run(measure(benchmark, open_cluster(), s3))


if __name__ == "__main__":
    run(arguments(), PAGE, bench)
