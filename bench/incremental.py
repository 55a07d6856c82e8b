"""Measures checkpoints that share files with those before them, and restores: `python -m bench.incremental --help`.

The files are written by hand in Spark's formats; all later steps are those of a job: hold, upload, completion,
collection and restore, on a real S3 server. There is no Spark, so only checkpoints are measured.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from unittest import mock

from bench import incremental_report, model
from bench.entry import Benchmark, parser, run
from bench.incremental_model import Aged, ByAge, BySize, Incremental, Restored, Sized, Step
from bench.object_store import ObjectStore, object_store
from bench.processes import REPOSITORY, locked
from bench.spark_files import SparkFiles

from streamjob.ids import Attempt, ChainUid, CheckpointId, Key, OperatorUid, Owner
from streamjob.protocol.log import JobId
from streamjob.protocol.ownership import Identity
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import ChainState, FileRef, Manifest, SourceState
from streamjob.store.opening import open_location
from streamjob_runtime.checkpointing.ledger import Ledger, RestoreFrom
from streamjob_runtime.checkpointing.upload import Uploader, packing, packs_of
from streamjob_runtime.checkpointing.upload.packing import PACK_BELOW
from streamjob_runtime.restoring.download import download
from streamjob_runtime.spark.checkpoint_dir.hold import hold, release

RESULTS = REPOSITORY / "bench" / "incremental.json"
JOB = JobId("bench", "incremental")
CHAIN = ChainUid("keyed")
NUM_RETAINED = 3
RESTORES = 5
PARTS = ("size", "age")


class BenchedJob:
    """A job that takes checkpoints of files that are written by hand, in one epoch.

    Args:
        server: the S3 server.
        directory: where its files are, and what is held of them.
        files: shared files, the source's log and changelogs aside.
        history: batches before.
    """

    def __init__(self, server: ObjectStore, directory: Path, files: int, history: int) -> None:
        self._server = server
        self._directory = directory
        self._store = open_location(f"s3://{server.server.bucket}/{directory.name}").store()
        self._uploader = Uploader(self._store)
        self._ledger = self._claim()
        self._ledger.resolve(RestoreFrom())
        self._id = CheckpointId(0)
        self._held: Path | None = None
        self.spark = SparkFiles(directory / "checkpoint", files, history, Random(files))

    def _claim(self) -> Ledger:
        identity = Identity(job=JOB, owner=Owner(os.urandom(8).hex()), attempt=Attempt(0))
        return Ledger.claim(self._store, identity, time.time, NUM_RETAINED)

    def checkpoint(self) -> Step:
        """Take a checkpoint of the current files; return its cost."""
        self._id = CheckpointId(self._id + 1)
        before, cpu, begun = self._server.position(), time.process_time(), time.perf_counter()
        self._ledger.begin(self._id)
        directory = self._directory / f"held-{self._id}"
        held = hold(self.spark.directory, self.spark.batch, directory)
        linked = time.perf_counter()
        known, key_of = self._ledger.reusable_files(self._id, CHAIN), partial(self._ledger.allocate, self._id)
        files = self._uploader.upload(held, known, key_of)
        uploaded = time.perf_counter()
        manifest = self._manifest(files)
        self._ledger.complete(manifest)
        completed = time.perf_counter()
        self._ledger.committed(self._id)
        self._ledger.collect()
        if self._held is not None:
            release(self._held)
        self._held = directory
        ended, cpu = time.perf_counter(), time.process_time() - cpu
        traffic = self._server.since(before)
        size = next(each.size for each in self._store.list(keys.manifest(manifest.epoch, manifest.id)))
        return Step(
            hold=linked - begun,
            upload=uploaded - linked,
            complete=completed - uploaded,
            delete=ended - completed,
            cpu=cpu,
            changed_bytes=self.spark.changed_bytes,
            put_bytes=traffic.put_bytes,
            manifest_bytes=size,
            requests=traffic.requests,
        )

    def _manifest(self, files: tuple[FileRef, ...]) -> Manifest:
        return Manifest(
            job=JOB.name,
            namespace=JOB.namespace,
            id=self._id,
            epoch=self._ledger.epoch,
            kind="checkpoint",
            triggered=time.time(),
            completed=time.time(),
            graph={},
            chains=(ChainState(uid=CHAIN, operators=(), batch=self.spark.batch, files=files),),
            sources=(SourceState(uid=OperatorUid("source"), position={"logOffset": self.spark.batch}),),
        )

    def restore(self) -> Restored:
        """End the epoch, and start the next ones from the store alone."""
        self._uploader.close()
        restored = [self._restore_once() for _ in range(RESTORES)]
        return restored[-1].model_copy(
            update={
                "times": RESTORES,
                "resolve": median(each.resolve for each in restored),
                "download": median(each.download for each in restored),
            }
        )

    def _restore_once(self) -> Restored:
        before, begun = self._server.position(), time.perf_counter()
        ledger = self._claim()
        resolution = ledger.resolve(RestoreFrom())
        assert resolution.manifest is not None
        resolved = time.perf_counter()
        files = list(resolution.manifest.files_of(CHAIN))
        target = self._directory / "restored"
        download(files, ledger.locate(resolution), target)
        ended = time.perf_counter()
        requests = self._server.since(before).requests
        self._compare(target)
        shutil.rmtree(target)
        stored = {each.key: each.size for each in self._store.list(keys.SHARED_PREFIX)}
        named = {file.object for file in files}
        return Restored(
            resolve=resolved - begun,
            download=ended - resolved,
            requests=requests,
            objects=len(named),
            packs=len(packs_of(files, PACK_BELOW)),
            stored_bytes=sum(stored[Key(name)] for name in named),
            living_bytes=sum({(file.object, file.offset): file.length for file in files}.values()),
        )

    def _compare(self, target: Path) -> None:
        assert self._held is not None
        there = {file.relative_to(target) for file in target.rglob("*") if file.is_file()}
        held = {file.relative_to(self._held) for file in self._held.rglob("*") if file.is_file()}
        assert there == held
        assert all((target / path).read_bytes() == (self._held / path).read_bytes() for path in held)

    def close(self) -> None:
        """Remove its files, and what is stored of it."""
        self._store.delete([each.key for each in self._store.list("")])
        self._store.close()
        shutil.rmtree(self._directory)


@contextmanager
def _job(server: ObjectStore, directory: Path, files: int, history: int) -> Iterator[BenchedJob]:
    job = BenchedJob(server, directory, files, history)
    try:
        yield job
    finally:
        job.close()


def by_size(server: ObjectStore, work: Path, files: int, history: int, steps: int) -> Sized:
    """Measure a job with a given number of files and a given history, by checkpoints after equal changes."""
    with _job(server, work / f"size-{files}-{history}", files, history) as job:
        load = os.getloadavg()[0]
        first = job.checkpoint()
        taken = []
        for _ in range(steps):
            job.spark.advance()
            taken.append(job.checkpoint())
        return Sized(
            files=files,
            history=history,
            whole_history_bytes=job.spark.history_bytes,
            load_before=load,
            first=first,
            # The first collection of an epoch sweeps; the second one may delete what the first checkpoint alone had.
            steps=tuple(taken[1:]),
            restored=job.restore(),
        )


def by_age(server: ObjectStore, work: Path, files: int, checkpoints: int, *, repacking: bool) -> Aged:
    """Measure a job after the given number of checkpoints."""
    with _job(server, work / f"age-{files}-{repacking}", files, 1) as job, _repacking(repacking):
        load = os.getloadavg()[0]
        job.checkpoint()
        taken = []
        for _ in range(checkpoints):
            job.spark.advance()
            taken.append(job.checkpoint())
        return Aged(
            files=files,
            checkpoints=checkpoints,
            repacking=repacking,
            load_before=load,
            put_bytes=sum(step.put_bytes for step in taken),
            seconds=sum(step.seconds for step in taken),
            cpu=sum(step.cpu for step in taken),
            restored=job.restore(),
        )


@contextmanager
def _repacking(wanted: bool) -> Iterator[None]:
    if wanted:
        yield
        return
    with mock.patch.object(packing, "packs_to_rewrite", return_value=frozenset[str]()):
        yield


def arguments() -> argparse.Namespace:
    """Read the command line."""
    made = parser("make bench-increments", __doc__, "few and small")
    add = made.add_argument
    add("--part", choices=PARTS, action="append", help="measure these parts only, and keep the others' results")
    add("--files", type=int, nargs="*", default=(100, 1000, 10_000), metavar="N", help="(100 1000 10000)")
    add("--history", type=int, nargs="*", default=(60, 3600), metavar="N", help="batches of a second before (60 3600)")
    add("--steps", type=int, default=11, metavar="N", help="checkpoints of each (11)")
    add("--aged", type=int, default=1000, metavar="N", help="files of the job that grows old (1000)")
    add("--checkpoints", type=int, default=360, metavar="N", help="that it takes, one each ten seconds (360)")
    options = made.parse_args()
    if options.quick:
        options.files, options.steps, options.checkpoints, options.aged = (100, 1000), 4, 40, 100
    return options


def bench(benchmark: Benchmark) -> None:
    """Measure; show and store the results after every part."""
    options, work = benchmark.options, benchmark.work

    def keep(**part: BySize | ByAge) -> None:
        before = None if options.quick else model.load(Incremental, RESULTS)
        result = (before or Incremental()).model_copy(update=part)
        benchmark.keep(result, RESULTS, incremental_report.render)
        for title, table in incremental_report.tables(result):
            benchmark.show(title, table)

    with locked(options.lock), object_store(work / "s3") as server:
        if "size" in (options.part or PARTS):
            begun, sized = time.time(), list[Sized]()
            for files in options.files:
                for history in options.history:
                    sized.append(by_size(server, work, files, history, options.steps))
                    benchmark.tell(f"{files:,} files, {history:,} batches before")
            keep(size=BySize(circumstances=benchmark.circumstances(begun), jobs=tuple(sized)))
        if "age" in (options.part or PARTS):
            begun = time.time()
            aged = [
                by_age(server, work, options.aged, options.checkpoints, repacking=repacking)
                for repacking in (True, False)
            ]
            keep(age=ByAge(circumstances=benchmark.circumstances(begun), jobs=tuple(aged)))


def main() -> int:
    """Run the benchmark; return its exit code."""
    return run(arguments(), bench)


if __name__ == "__main__":
    sys.exit(main())
