"""Measures jobs on executors beside jobs in one process: CPU per record, checkpoints, and restores."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench import data
from bench.batches import our_batches, used_between
from bench.data import PAYLOAD_BYTES, EventFiles
from bench.executors.results import (
    EMPTY,
    MEASURED_EXECUTORS,
    ONE_PROCESS,
    REMOTE,
    SURVIVED,
    Cost,
    Restored,
    Taken,
)
from bench.executors.threads import Sampler, between
from bench.object_store import ObjectStore
from bench.processes import REPOSITORY, RunFailed, environment, measure
from bench.running import JOBS, RunningJob, command, manifest, running
from tests.integration.runtime.agents import Agents

from streamjob.ids import CheckpointId
from streamjob.snapshot import keys
from streamjob.store.opening import open_location

NAME = "keyed"
MEMORY = "600m"
_FILE_RECORDS = 25_000
_EVENTS_A_FILE, _FILES_OF_A_BATCH = 250_000, 4
_COST_KEYS = 10_000
_CHECKPOINT_KEYS = 4000
_SETTLING = 1
_PARTITIONS = 8
_CHANGED = 1000


@dataclass(frozen=True)
class Setting:
    """The setting that all parts share.

    Args:
        work: directories of the jobs are made below it.
        cache: for input that is made once.
        store: the S3 server.
        timeout: seconds for whatever is waited for.
    """

    work: Path
    cache: Path
    store: ObjectStore
    timeout: float

    def location(self, name: str) -> str:
        """Return a place for a job's snapshots."""
        return f"s3://{self.store.server.bucket}/{name}"


def on_executors(job: str, location: str, workdir: Path, changes: dict[str, object], executors: int) -> list[str]:
    """Return the command that runs a job on executors of one core each; in its own process for none."""
    made = command(JOBS / job, location, workdir, changes)
    return [*made, "--executors", str(executors), "--executor-memory", MEMORY] if executors else made


def cost(setting: Setting, side: str, number: int, records: int) -> Cost:
    """Run one side. Raises RunFailed if it fails."""
    name = f"cost-{side.replace(' ', '-').replace('[', '-').rstrip(']')}-{number}"
    directory = setting.work / name
    directory.mkdir(parents=True)
    changes: dict[str, object] = {
        "sources.events.options.path": EventFiles(records, _COST_KEYS, _EVENTS_A_FILE).make(setting.cache),
        "sinks.report.options.path": directory / "output",
    }
    executors = 2 if side == REMOTE else 0
    job = on_executors("windows.yaml", setting.location(name), directory / "work", changes, executors)
    with Sampler() as sampler:
        used = measure(job, directory, setting.timeout)
    batches = our_batches(directory / "work")
    batch_records = _EVENTS_A_FILE * _FILES_OF_A_BATCH
    full = records // batch_records
    half, end = batches[full // 2 - 1].end, batches[full - 1].end
    result = Cost(
        side=side,
        round=number,
        wall=used.wall,
        cpu=used.cpu,
        warm_cpu=used_between(used.samples, batches[0].end, end),
        warm_records=(full - 1) * batch_records,
        late_cpu=used_between(used.samples, half, end),
        late_records=(full - full // 2) * batch_records,
        late_threads=between(sampler.samples, half, end),
        batches_ms=tuple(batch.milliseconds for batch in batches[1 : full - 1]),
        load_before=used.load_before,
    )
    shutil.rmtree(directory)
    return result


class Feed:
    """The input of the job.

    Args:
        directory: where its files are put.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.records = 0
        self._files = 0
        directory.mkdir(parents=True)

    def put(self, records: int) -> None:
        """Change the keys from 0 to `records`."""
        for part in np.array_split(np.arange(records), -(-records // _FILE_RECORDS)):
            self._files += 1
            data.put(data.changes(self._files, part, self._files), self.directory, f"{self._files:06}.parquet")
        self.records += records


def _wait_for(job: RunningJob, records: int) -> None:
    """Wait until a process has read so many records. Raises RunFailed, also if the job was restarted meanwhile."""
    job.until(lambda: job.view().records_in >= records)
    if restarts := job.view().restarts:
        raise RunFailed(f"the job was restarted {restarts} times, so nothing of it was measured")


def _take(setting: Setting, job: RunningJob, location: str, executors: int, partitions: int, load: float) -> Taken:
    """Take a checkpoint, and return its cost. Raises RunFailed."""
    before = setting.store.position()
    taken = job.checkpoint()
    job.until(lambda: (last := job.view().last_checkpoint) is not None and last.id == taken.id)
    passed = setting.store.since(before)
    last = job.view().last_checkpoint
    assert last is not None
    listed = manifest(location, NAME, CheckpointId(taken.id))
    store = open_location(location, REPOSITORY).job("default", NAME).store()
    try:
        (size,) = (each.size for each in store.list(keys.manifest(listed.epoch, listed.id)))
    finally:
        store.close()
    puts = passed.requests.get("PutObject", 0)
    return Taken(
        executors=executors,
        partitions=partitions,
        load_before=load,
        seconds=last.duration_ms / 1000,
        puts=puts,
        other_requests=passed.total - puts,
        put_bytes=passed.put_bytes,
        files=len(list(listed.files())),
        manifest_bytes=size,
    )


def checkpoints(setting: Setting, executors: int, partitions: int, samples: int) -> list[Taken]:
    """Take checkpoints, each behind a batch that changes all partitions. Raises RunFailed."""
    directory = setting.work / f"checkpoints-{executors}-{partitions}"
    location, workdir = setting.location(directory.name), directory / "work"
    feed = Feed(directory / "input")
    feed.put(_CHECKPOINT_KEYS)
    changes: dict[str, object] = {"sources.changes.options.path": feed.directory, "maxParallelism": partitions}
    load = os.getloadavg()[0]
    taken = []
    job_command = on_executors("keyed.yaml", location, workdir, changes, executors)
    with running(job_command, workdir, directory / "log.txt", setting.timeout) as job:
        for _ in range(_SETTLING + samples):
            _wait_for(job, feed.records)
            taken.append(_take(setting, job, location, executors, partitions, load))
            feed.put(_CHECKPOINT_KEYS)
    shutil.rmtree(directory)
    return taken[_SETTLING:]


def restore(setting: Setting, megabytes: int) -> Iterator[Restored]:
    """Make state of a size, and restore it in each way. Raises RunFailed."""
    directory = setting.work / f"restore-{megabytes}"
    location = setting.location(directory.name)
    feed = Feed(directory / "input")
    changes: dict[str, object] = {"sources.changes.options.path": feed.directory, "maxParallelism": _PARTITIONS}
    feed.put(megabytes * 1_000_000 // PAYLOAD_BYTES)
    made = on_executors("keyed.yaml", location, directory / "made", changes, 0)
    with running(made, directory / "made", directory / "made.log", setting.timeout) as job:
        _wait_for(job, feed.records)
        size = job.checkpoint().state_size
    shutil.rmtree(directory / "made")

    def restored(way: str, arguments: list[str], workdir: Path, then: Callable[[RunningJob], object]) -> Restored:
        feed.put(_CHANGED)
        found = _restore(setting, way, size, arguments, workdir, then)
        shutil.rmtree(workdir)
        return found

    for way, executors in ((ONE_PROCESS, 0), (EMPTY, MEASURED_EXECUTORS)):
        workdir = directory / f"on-{executors}"
        arguments = on_executors("keyed.yaml", location, workdir, changes, executors)
        yield restored(way, arguments, workdir, lambda job: None)
    agents = Agents(directory / "agents")
    with environment(agents.environment):
        agents.start()
        try:
            for way, name in ((EMPTY, "before"), (SURVIVED, "after")):
                arguments = [*command(JOBS / "keyed.yaml", location, directory / name, changes), *agents.arguments]
                # Files that a completed checkpoint names are held; the driver is killed with SIGKILL then.
                yield restored(way, arguments, directory / name, RunningJob.checkpoint)
        finally:
            agents.end()
    shutil.rmtree(directory)


def _restore(
    setting: Setting,
    way: str,
    size: int,
    arguments: list[str],
    workdir: Path,
    then: Callable[[RunningJob], object],
) -> Restored:
    load, before = os.getloadavg()[0], setting.store.position()
    begun = time.monotonic()
    with running(arguments, workdir, workdir.with_suffix(".log"), setting.timeout) as job:
        ready = time.monotonic() - begun
        _wait_for(job, 1)
        first = time.monotonic() - begun
        gets = setting.store.since(before).requests.get("GetObject", 0)
        then(job)
    return Restored(way=way, state_bytes=size, running=ready, first_batch=first, gets=gets, load_before=load)
