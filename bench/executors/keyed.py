"""A job with keyed state that is fed and asked for checkpoints, in one process or on executors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from bench import data
from bench.executors.results import Taken
from bench.executors.setting import Setting
from bench.processes import REPOSITORY, RunFailed
from bench.running import RunningJob, manifest

from streamjob.ids import CheckpointId
from streamjob.snapshot import keys
from streamjob.store.opening import open_location

NAME = "keyed"
_FILE_RECORDS = 25_000


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


def wait_for(job: RunningJob, records: int) -> None:
    """Wait until a process has read so many records. Raises RunFailed, also if the job was restarted meanwhile."""
    job.until(lambda: job.view().records_in >= records)
    if restarts := job.view().restarts:
        raise RunFailed(f"the job was restarted {restarts} times, so nothing of it was measured")


def take(setting: Setting, job: RunningJob, location: str) -> Taken:
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
    return Taken(
        seconds=last.duration_ms / 1000,
        requests=passed.requests,
        put_bytes=passed.put_bytes,
        files=len(list(listed.files())),
        manifest_bytes=size,
    )
