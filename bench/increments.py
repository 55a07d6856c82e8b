"""Changes a share of a job's state, takes a checkpoint, and looks how much of it was uploaded."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench import data
from bench.model import Increment
from bench.object_store import ObjectStore
from bench.processes import REPOSITORY, locked
from bench.running import RunningJob, command, manifest, running

from streamjob.ids import CheckpointId
from streamjob.snapshot.manifest import FileRef
from streamjob_runtime.spark.checkpoint_dir.files_read import files_read
from streamjob_runtime.spark.checkpoint_dir.logs import last_committed

JOB = REPOSITORY / "bench" / "jobs" / "keyed.yaml"
SHARES = (0.01, 0.1)
_SETTLING_CHANGES = 2
"""Changes before those that count: a snapshot of RocksDB that holds the ones of the same size before."""
_FILE_RECORDS = 25_000
_LEAST_FILES = 20
"""Five batches: after every ten, RocksDB makes a snapshot, which is when it has flushed and compacted."""
_MAINTENANCE_SECONDS = 2.5


@dataclass(frozen=True)
class GrowthSetting:
    """The settings that all sizes share.

    Args:
        work: directories of the jobs are made below it.
        store: the S3 server.
        timeout: seconds for the job to start, and for each change to be processed.
        lock: held while a job is measured.
    """

    work: Path
    store: ObjectStore
    timeout: float
    lock: Path | None = None


def grow(
    setting: GrowthSetting, megabytes: int, changes: int, on_run: Callable[[Increment], None]
) -> Iterator[Increment]:
    """Yield the checkpoint of a complete state of the given size, then those after changes of each share of its keys.

    Before the changes of a share are counted there are some of its size that are not, so that what RocksDB still has to
    write of what went before is not taken for theirs.

    Raises:
        RunFailed: the job failed, or stood still.
    """
    directory = setting.work / f"keyed-{megabytes}"
    source = directory / "input"
    source.mkdir(parents=True)
    location = f"s3://{setting.store.server.bucket}/{directory.name}"
    arguments = command(JOB, location, directory / "work", {"sources.changes.options.path": source})
    keys = megabytes * 1_000_000 // data.PAYLOAD_BYTES
    workdir = directory / "work"
    with locked(setting.lock), running(arguments, workdir, directory / "log.txt", setting.timeout) as process:
        job = _Job(process, source, workdir, location)
        chance = np.random.default_rng(megabytes)
        job.change(np.arange(keys))
        for share in (1.0, *SHARES):
            count = round(keys * share)
            settling = _SETTLING_CHANGES if share < 1.0 else 0
            for number in range(changes + settling if share < 1.0 else 1):
                if share < 1.0:
                    job.change(chance.choice(keys, count, replace=False))
                result = job.checkpoint(keys, share, count * data.PAYLOAD_BYTES)
                if number >= settling:
                    on_run(result)
                    yield result
    shutil.rmtree(directory)


def fresh_files(files: Iterable[FileRef], stored: Collection[str]) -> list[FileRef]:
    """Return the files of a checkpoint whose bytes lie in none of the objects that the one before it refers to."""
    return [file for file in files if file.object not in stored]


def is_of_snapshot(path: str) -> bool:
    """Return whether a file of a Spark checkpoint is RocksDB's own: an SST, or the archive that names them."""
    return path.endswith((".sst", ".zip", ".log"))


class _Job:
    """A running job whose input is put here.

    Args:
        job: what runs.
        source: directory that it reads.
        workdir: its work directory.
        location: where its snapshots go.
    """

    def __init__(self, job: RunningJob, source: Path, workdir: Path, location: str) -> None:
        self._job = job
        self._source = source
        self._workdir = workdir
        self._location = location
        self._version = 0
        self._files = 0
        self._stored: frozenset[str] = frozenset()

    def change(self, keys: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        """Give each of the keys a new payload, and wait until that is processed and maintenance has passed."""
        self._version += 1
        for part in np.array_split(keys, max(_LEAST_FILES, -(-len(keys) // _FILE_RECORDS))):
            self._files += 1
            data.put(data.changes(self._files, part, self._version), self._source, f"{self._files:06}.parquet")
        self._job.until(lambda: self._read() >= self._files)
        time.sleep(_MAINTENANCE_SECONDS)

    def _read(self) -> int:
        """Return how many files are in committed batches."""
        (checkpoint,) = self._workdir.glob("*/*/checkpoint")
        last = last_committed(checkpoint)
        return 0 if last is None else len(files_read(checkpoint, 0, last))

    def checkpoint(self, keys: int, share: float, changed: int) -> Increment:
        """Take a checkpoint."""
        load = os.getloadavg()[0]
        taken = self._job.checkpoint()
        files = list(manifest(self._location, JOB.stem, CheckpointId(taken.id)).files())
        fresh, self._stored = fresh_files(files, self._stored), frozenset(file.object for file in files)
        return Increment(
            keys=keys,
            share=share,
            changed_bytes=changed,
            checkpointed_bytes=taken.checkpointed_size,
            snapshot_bytes=sum(file.length for file in fresh if is_of_snapshot(file.path)),
            state_bytes=taken.state_size,
            seconds=taken.end_to_end_duration / 1000,
            load_before=load,
            load_after=os.getloadavg()[0],
        )
