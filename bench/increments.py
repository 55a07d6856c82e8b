"""Changes a share of a job's state, takes a checkpoint, and looks how much of it was uploaded."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Sized
from pathlib import Path

import numpy as np
from bench import data
from bench.object_store import ObjectStore
from bench.processes import locked
from bench.results import Records, Row
from bench.running import JOBS, RunningJob, command, manifest, running
from bench.tables import MB, Table, loads, mid

from streamjob.ids import CheckpointId
from streamjob.snapshot.manifest import FileRef
from streamjob_runtime.discovery.files_read import files_read
from streamjob_runtime.spark.checkpoint_dir.logs import last_committed

JOB = JOBS / "keyed.yaml"
SHARES = (0.01, 0.1)
_SETTLING_CHANGES = 2
"""Changes before those that count: a snapshot of RocksDB that holds the ones of the same size before."""
_FILE_RECORDS = 25_000
_LEAST_FILES = 20
"""Five batches: after every ten, RocksDB makes a snapshot, which is when it has flushed and compacted."""
_MAINTENANCE_SECONDS = 2.5


class Increment(Row):
    """A checkpoint after a change of a share of the keys; share 1 is the checkpoint of all state.

    Of `checkpointed_bytes`, `snapshot_bytes` are of RocksDB's own files, which it writes when it makes a snapshot; the
    rest are the changes since the last checkpoint, as Spark logs them.
    """

    keys: int
    share: float
    changed_bytes: int
    checkpointed_bytes: int
    snapshot_bytes: int
    state_bytes: int
    seconds: float
    load_before: float


INCREMENTS = Records("increments", Increment)


def grow(
    work: Path, store: ObjectStore, lock: Path | None, timeout: float, megabytes: int, changes: int
) -> Iterator[Increment]:
    """Yield the checkpoint of a complete state of the given size, then those after changes of each share of its keys.

    Before the changes of a share are counted there are some of its size that are not, so that what RocksDB still has to
    write of what went before is not taken for theirs.

    Raises:
        RunFailed: the job failed, or stood still.
    """
    directory = work / f"keyed-{megabytes}"
    source = directory / "input"
    source.mkdir(parents=True)
    location = f"s3://{store.server.bucket}/{directory.name}"
    workdir = directory / "work"
    arguments = command(JOB, location, workdir, {"sources.changes.options.path": source})
    keys = megabytes * 1_000_000 // data.PAYLOAD_BYTES
    with locked(lock), running(arguments, workdir, directory / "log.txt", timeout) as process:
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
                    yield result
    shutil.rmtree(directory)


def fresh_files(files: Iterable[FileRef], stored: Collection[str]) -> list[FileRef]:
    """Return the files of a checkpoint whose bytes lie in none of the objects that the one before it refers to."""
    return [file for file in files if file.object not in stored]


def is_of_snapshot(path: str) -> bool:
    """Return whether a file of a Spark checkpoint is RocksDB's own: an SST, or the archive that names them."""
    return path.endswith((".sst", ".zip", ".log"))


class _Job:
    """A running job whose input is put here."""

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
        read = () if last is None else files_read(checkpoint, 0, last)
        assert isinstance(read, Sized)
        return len(read)

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
        )


_TEXT = """\
A job keeps the newest payload of {payload} random bytes for every key. Random keys are changed in five
batches or more, state maintenance passes, then a checkpoint is requested. The first changes of each share are not
counted, so that the state has settled. Medians, with the maximum in brackets. "×" are multiples of all changed bytes:
Spark's log of the changes, which is in every checkpoint, and the files of RocksDB, which it writes at a snapshot after
every ten batches: the flushed data, and the data rewritten by compactions, which is in the checkpoint that follows. The
first row of each size is the first checkpoint, of all state.
"""


def section() -> Iterator[str]:
    """Yield the section on checkpointed bytes."""
    measured = INCREMENTS.load()
    yield f"## Checkpointed bytes and changed state\n\n{_TEXT.format(payload=data.PAYLOAD_BYTES)}"
    yield f"{measured.where} {loads(measured.runs)}\n\n{table(measured.runs).markdown()}"
    changed = [group for group in _groups(measured.runs) if group[0].share < 1]
    logged, added = list(map(_logged, changed)), list(map(_of_snapshots, changed))
    yield (
        f"Logged changes are {min(logged):.2f} to {max(logged):.2f} times the changed bytes;"
        f" RocksDB's files add {min(added):.1f} to {max(added):.1f} times.\n"
    )


Group = list[Increment]


def _groups(runs: Iterable[Increment]) -> list[Group]:
    """Return the checkpoints after the same change of the same state, in the order of their first appearance."""
    by: dict[tuple[int, float], Group] = {}
    for each in runs:
        by.setdefault((each.keys, each.share), []).append(each)
    return list(by.values())


def _logged(group: Group) -> float:
    logged = sum(each.checkpointed_bytes - each.snapshot_bytes for each in group)
    return logged / sum(each.changed_bytes for each in group)


def _of_snapshots(group: Group) -> float:
    written = sum(each.checkpointed_bytes for each in group)
    return written / sum(each.changed_bytes for each in group) - _logged(group)


def _most(group: Group, values: Iterable[float], form: str) -> str:
    return f" ({max(values):{form}})" if len(group) > 1 else ""


def table(runs: Iterable[Increment]) -> Table:
    """Return what checkpoints wrote for what had changed: medians, most in brackets, and multiples of all changes."""

    def checkpointed(group: Group) -> str:
        values = [each.checkpointed_bytes / MB for each in group]
        return mid(values, ".1f") + _most(group, values, ".1f")

    def seconds(group: Group) -> str:
        values = [each.seconds for each in group]
        return mid(values, ".2f") + _most(group, values, ".2f")

    return Table.of(
        _groups(runs),
        ("keys of 1 kB", lambda group: f"{group[0].keys:,}"),
        ("changed", lambda group: f"{group[0].share:.0%}"),
        ("changed MB", lambda group: mid((each.changed_bytes for each in group), ".1f", MB)),
        ("checkpointed MB", checkpointed),
        ("changes logged, ×", lambda group: f"{_logged(group):.2f}"),
        ("RocksDB's files, ×", lambda group: f"{_of_snapshots(group):.2f}"),
        ("state MB", lambda group: mid((each.state_bytes for each in group), ".1f", MB)),
        ("seconds", seconds),
    )
