"""Measures checkpoints of a small state by the number of executors and of state partitions."""

from __future__ import annotations

import os
import shutil

from bench.executors.keyed import Feed, take, wait_for
from bench.executors.results import Checkpoints
from bench.executors.setting import Setting, on_executors
from bench.running import running

_KEYS = 4000
_SETTLING = 1


def checkpoints(setting: Setting, executors: int, partitions: int, samples: int) -> Checkpoints:
    """Take checkpoints, each behind a batch that changes all partitions. Raises RunFailed."""
    directory = setting.work / f"checkpoints-{executors}-{partitions}"
    location, workdir = setting.location(directory.name), directory / "work"
    feed = Feed(directory / "input")
    feed.put(_KEYS)
    changes: dict[str, object] = {"sources.changes.options.path": feed.directory, "maxParallelism": partitions}
    load = os.getloadavg()[0]
    taken = []
    job_command = on_executors("keyed.yaml", location, workdir, changes, executors)
    with running(job_command, workdir, directory / "log.txt", setting.timeout) as job:
        for _ in range(_SETTLING + samples):
            wait_for(job, feed.records)
            taken.append(take(setting, job, location))
            feed.put(_KEYS)
    shutil.rmtree(directory)
    return Checkpoints(executors=executors, partitions=partitions, load_before=load, samples=tuple(taken[_SETTLING:]))
