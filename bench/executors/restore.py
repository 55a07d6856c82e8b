"""Measures a restore of state: in one process, on executors with empty disks, and on executors that have survived."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from bench.data import PAYLOAD_BYTES
from bench.executors.keyed import Feed, wait_for
from bench.executors.results import Restored
from bench.executors.setting import JOBS, Setting, on_executors
from bench.processes import environment
from bench.running import RunningJob, command, running
from tests.integration.runtime.agents import Agents

MEASURED_EXECUTORS = 2
LOCAL, EMPTY, SURVIVED = "one process", "2 executors, empty disks", "2 executors that survived"
_PARTITIONS = 8
_CHANGED = 1000


def restore(setting: Setting, megabytes: int, on_run: Callable[[Restored], None]) -> tuple[Restored, ...]:
    """Make state of a size, and restore it in each way. Raises RunFailed."""
    directory = setting.work / f"restore-{megabytes}"
    location = setting.location(directory.name)
    feed = Feed(directory / "input")
    changes: dict[str, object] = {"sources.changes.options.path": feed.directory, "maxParallelism": _PARTITIONS}
    feed.put(megabytes * 1_000_000 // PAYLOAD_BYTES)
    made = on_executors("keyed.yaml", location, directory / "made", changes, 0)
    with running(made, directory / "made", directory / "made.log", setting.timeout) as job:
        wait_for(job, feed.records)
        size = job.checkpoint().state_size
    shutil.rmtree(directory / "made")
    found: list[Restored] = []

    def keep(way: str, arguments: list[str], workdir: Path, then: Callable[[RunningJob], None] | None = None) -> None:
        feed.put(_CHANGED)
        found.append(_restore(setting, way, size, arguments, workdir, then))
        shutil.rmtree(workdir)

    for way, executors in ((LOCAL, 0), (EMPTY, MEASURED_EXECUTORS)):
        workdir = directory / f"on-{executors}"
        keep(way, on_executors("keyed.yaml", location, workdir, changes, executors), workdir)
        on_run(found[-1])
    agents = Agents(directory / "agents")
    with environment(agents.environment):
        agents.start()
        try:
            for way, name in ((EMPTY, "before"), (SURVIVED, "after")):
                arguments = [*command(JOBS / "keyed.yaml", location, directory / name, changes), *agents.arguments]
                # Files that a completed checkpoint names are held; the driver is killed with SIGKILL then.
                keep(way, arguments, directory / name, _and_checkpoint)
                on_run(found[-1])
        finally:
            agents.end()
    shutil.rmtree(directory)
    return tuple(found)


def _and_checkpoint(job: RunningJob) -> None:
    job.checkpoint()


def _restore(
    setting: Setting,
    way: str,
    size: int,
    arguments: list[str],
    workdir: Path,
    then: Callable[[RunningJob], None] | None,
) -> Restored:
    load, before = os.getloadavg()[0], setting.store.position()
    begun = time.monotonic()
    with running(arguments, workdir, workdir.with_suffix(".log"), setting.timeout) as job:
        ready = time.monotonic() - begun
        wait_for(job, 1)
        first = time.monotonic() - begun
        gets = setting.store.since(before).requests.get("GetObject", 0)
        if then is not None:
            then(job)
    return Restored(way=way, state_bytes=size, running=ready, first_batch=first, gets=gets, load_before=load)
