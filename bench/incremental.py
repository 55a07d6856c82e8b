"""Measures checkpoints that share files with those before them, and restores: `python -m bench.incremental --help`.

The files are written by hand in Spark's formats; all later steps are those of a job: hold, upload, completion,
collection and restore, on a real S3 server. There is no Spark, so only checkpoints are measured.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from unittest import mock

from bench.entry import Benchmark, parser, run
from bench.object_store import ObjectStore, object_store
from bench.processes import locked
from bench.results import Page, Records, Row, head
from bench.spark_files import PARTITIONS, SparkFiles
from bench.tables import MB, Table, loads, mid

from streamjob.ids import Attempt, ChainUid, CheckpointId, Key, OperatorUid, Owner
from streamjob.protocol.log.ownership import Identity
from streamjob.protocol.log.records import JobId
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import ChainState, FileRef, Manifest, SourceState
from streamjob.store.opening import open_location
from streamjob_runtime.checkpointing.ledger import Ledger, RestoreFrom
from streamjob_runtime.checkpointing.upload import packing
from streamjob_runtime.checkpointing.upload.packing import PACK_BELOW
from streamjob_runtime.checkpointing.upload.repacking import FAN, packs_of
from streamjob_runtime.checkpointing.upload.uploader import Uploader
from streamjob_runtime.restoring.download import download
from streamjob_runtime.spark.checkpoint_dir.hold import hold, release

JOB = JobId("bench", "incremental")
CHAIN = ChainUid("keyed")
NUM_RETAINED = 3
RESTORES = 5
PARTS = ("size", "age")


class Step(Row):
    """One checkpoint of a job with a number of shared files and a length of history, after an equal change.

    Seconds of its parts, seconds of CPU, and bytes written. `history_bytes` is the size of the source's log.
    """

    files: int
    history: int
    history_bytes: int
    hold: float
    upload: float
    complete: float
    cpu: float
    changed_bytes: int
    put_bytes: int
    manifest_bytes: int
    puts: int
    other_requests: int

    @property
    def seconds(self) -> float:
        """From the cut to the record in the log."""
        return self.hold + self.upload + self.complete


class Restored(Row):
    """A restore into an empty directory: seconds to find the snapshot and to download its files, and its cost.

    The seconds are the medians of `times` restores. Before, the job took a number of checkpoints in so many seconds,
    with or without rewritten packs.
    """

    files: int
    history: int
    checkpoints: int
    repacking: bool
    put_bytes: int
    seconds: float
    cpu: float
    load_before: float
    times: int
    resolve: float
    download: float
    gets: int
    lists: int
    objects: int
    packs: int
    stored_bytes: int
    living_bytes: int


STEPS = Records("incremental-checkpoints", Step)
BY_SIZE = Records("incremental-by-size", Restored)
BY_AGE = Records("incremental-by-age", Restored)


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
        self._size = {"files": files, "history": history}
        self._held: Path | None = None
        self.spark = SparkFiles(directory / "checkpoint", files, history, Random(files))

    def _claim(self) -> Ledger:
        identity = Identity(job=JOB, owner=Owner(os.urandom(8).hex()), attempt=Attempt(0))
        return Ledger.claim(self._store, identity, time.time, NUM_RETAINED)

    def checkpoint(self) -> Step:
        """Take a checkpoint of the current files; return its cost."""
        self._id = CheckpointId(self._id + 1)
        before, cpu, begun = self._server.position(), time.process_time(), time.perf_counter()
        self._ledger.log.begin(self._id)
        directory = self._directory / f"held-{self._id}"
        held = hold(self.spark.directory, self.spark.batch, directory)
        linked = time.perf_counter()
        known, key_of = self._ledger.log.reusable_files(self._id, CHAIN), partial(self._ledger.log.allocate, self._id)
        files = self._uploader.upload(held, known, key_of)
        uploaded = time.perf_counter()
        manifest = self._manifest(files)
        self._ledger.complete(manifest)
        completed = time.perf_counter()
        self._ledger.log.claim.committed(self._id)
        self._ledger.collect()
        if self._held is not None:
            release(self._held)
        self._held = directory
        cpu = time.process_time() - cpu
        traffic = self._server.since(before)
        puts = traffic.requests.get("PutObject", 0)
        return Step(
            **self._size,
            history_bytes=self.spark.history_bytes,
            hold=linked - begun,
            upload=uploaded - linked,
            complete=completed - uploaded,
            cpu=cpu,
            changed_bytes=self.spark.changed_bytes,
            put_bytes=traffic.put_bytes,
            manifest_bytes=next(each.size for each in self._store.list(keys.manifest(manifest.epoch, manifest.id))),
            puts=puts,
            other_requests=traffic.total - puts,
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

    def restore(self, taken: Sequence[Step], load: float, *, repacking: bool = True) -> Restored:
        """End the epoch, and start the next ones from the store alone.

        Args:
            taken: the checkpoints before.
            load: the load average before them.
            repacking: whether packs were rewritten.
        """
        self._uploader.close()
        restored = [self._restore_once() for _ in range(RESTORES)]
        return Restored(
            **self._size,
            checkpoints=len(taken),
            repacking=repacking,
            put_bytes=sum(step.put_bytes for step in taken),
            seconds=sum(step.seconds for step in taken),
            cpu=sum(step.cpu for step in taken),
            load_before=load,
            times=RESTORES,
            resolve=median(resolve for resolve, _, _ in restored),
            download=median(download for _, download, _ in restored),
            **restored[-1][2],
        )

    def _restore_once(self) -> tuple[float, float, dict[str, int]]:
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
        cost = {
            "gets": requests.get("GetObject", 0),
            "lists": requests.get("ListObjectsV2", 0),
            "objects": len(named),
            "packs": len(packs_of(files, PACK_BELOW)),
            "stored_bytes": sum(stored[Key(name)] for name in named),
            "living_bytes": sum({(file.object, file.offset): file.length for file in files}.values()),
        }
        return resolved - begun, ended - resolved, cost

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


def by_size(server: ObjectStore, work: Path, files: int, history: int, steps: int) -> tuple[list[Step], Restored]:
    """Measure a job with a given number of files and a given history, by checkpoints after equal changes."""
    with _job(server, work / f"size-{files}-{history}", files, history) as job:
        load = os.getloadavg()[0]
        taken = _checkpoints(job, steps)
        # The first collection of an epoch sweeps; the second one may delete what the first checkpoint alone had.
        return taken[1:], job.restore(taken[1:], load)


def by_age(server: ObjectStore, work: Path, files: int, checkpoints: int, *, repacking: bool) -> Restored:
    """Measure a job after the given number of checkpoints."""
    with _job(server, work / f"age-{files}-{repacking}", files, 1) as job, _repacking(repacking):
        load = os.getloadavg()[0]
        return job.restore(_checkpoints(job, checkpoints), load, repacking=repacking)


def _checkpoints(job: BenchedJob, count: int) -> list[Step]:
    """Return so many checkpoints behind changes; the first one, of all files, is not among them."""
    job.checkpoint()
    taken = []
    for _ in range(count):
        job.spark.advance()
        taken.append(job.checkpoint())
    return taken


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


_TEXT = """\
The files of a Spark checkpoint are written by hand in Spark's formats: a file source that reads a file a batch, one
stateful operator of {partitions} partitions, and as many SSTs as the first column says, of 8 to 16 kB each, every
fortieth of 300 kB. The rest is the code of a job, with an S3 server on the same machine: hard links, upload, manifest
and log record, deletion of garbage (three checkpoints are retained), and a restore into an empty directory, which is
compared byte by byte.
"""

_SIZE = """\
Between two checkpoints there are ten batches, and the change is the same in every row: a changelog of 2 kB for each
batch and partition, and one RocksDB snapshot per partition with two SSTs that are new and two that are gone. The rows
differ in the unchanged part: the files, and the history of the source, which Spark rewrites every ten batches ("log
whole"). Changed, put and log are MB; manifest kB. Hold, upload and record are seconds; together they are the
checkpoint. Medians of {steps} checkpoints.

The archive in each RocksDB snapshot lists all SSTs, and the manifest lists all files: these two grow with the files,
and are in "changed" and "manifest". The other bytes and all requests follow the change; so do the seconds, except for a
hard link, a look-up and a line of the manifest for each file. A manifest is one request however large it is, and is
written, not read, while the job runs; {costs}.
"""

_RESTORE = """\
The same jobs, restored: from the claim to the last byte, {times}. Reads are GetObject requests, of which neighbours in
one object share one.
"""

_AGE = """\
The job with {files:,} files after {checkpoints} checkpoints, one each ten seconds of its life. A pack is an object that
small files share, and stays as long as one of them is needed. If packs are rewritten when {fan} of similar size have
accumulated, few are left; "put" includes the copied bytes. Seconds of a restore: {times}. On this machine a request
costs almost nothing; with 30 ms per request and eight at a time, each read would add 4 ms.
"""


def _render() -> str:
    steps, sized, aged = STEPS.load(), BY_SIZE.load(), BY_AGE.load()
    largest = _groups(steps.runs)[-1]
    manifest = median(step.manifest_bytes for step in largest)
    costs = (
        f"with {largest[0].files:,} files it has {manifest / MB:.1f} MB, {manifest / largest[0].files:.0f} bytes a file"
    )
    oldest = aged.runs[0]
    age = _AGE.format(files=oldest.files, checkpoints=oldest.checkpoints, fan=FAN, times=_times(oldest.times))
    parts = [
        head("The cost of an incremental checkpoint as the job grows", "bench-increments", "incremental.py"),
        _TEXT.format(partitions=PARTITIONS),
        "## By size\n",
        f"{steps.where} {loads(sized.runs, 'job')}\n",
        _SIZE.format(steps=len(largest), costs=costs),
        size_table(steps.runs).markdown(),
        "## Restore\n",
        _RESTORE.format(times=_times(sized.runs[0].times)),
        restore_table(sized.runs).markdown(),
        "## By age\n",
        f"{aged.where} {loads(aged.runs, 'job')}\n",
        age,
        age_table(aged.runs).markdown(),
    ]
    return "\n".join(parts)


PAGE = Page("INCREMENTAL", _render)


def _times(times: int) -> str:
    return f"median of {times}" if times > 1 else "once"


def _time(batches: int) -> str:
    return f"{batches // 60} min" if batches < 3600 else f"{batches // 3600} h"


def _groups(steps: Iterable[Step]) -> list[list[Step]]:
    by: dict[tuple[int, int], list[Step]] = {}
    for step in steps:
        by.setdefault((step.files, step.history), []).append(step)
    return list(by.values())


def size_table(steps: Iterable[Step]) -> Table:
    """Return what a checkpoint costs by the number of files and the length of the history."""

    def of(figure: Callable[[Step], float], form: str, unit: float = 1.0) -> Callable[[list[Step]], str]:
        return lambda group: mid(map(figure, group), form, unit)

    return Table.of(
        _groups(steps),
        ("shared files", lambda group: f"{group[0].files:,}"),
        ("history", lambda group: _time(group[0].history)),
        ("changed", of(lambda step: step.changed_bytes, ".2f", MB)),
        ("put", of(lambda step: step.put_bytes, ".2f", MB)),
        ("manifest", of(lambda step: step.manifest_bytes, ".0f", 1e3)),
        ("log whole", lambda group: f"{group[-1].history_bytes / MB:.2f}"),
        ("PUT", of(lambda step: step.puts, ".0f")),
        ("other requests", of(lambda step: step.other_requests, ".0f")),
        ("hold", of(lambda step: step.hold, ".3f")),
        ("upload", of(lambda step: step.upload, ".3f")),
        ("record", of(lambda step: step.complete, ".3f")),
        ("CPU s", of(lambda step: step.cpu, ".2f")),
    )


def restore_table(runs: Iterable[Restored]) -> Table:
    """Return what a restore costs."""
    return Table.of(
        runs,
        ("shared files", lambda run: f"{run.files:,}"),
        ("history", lambda run: _time(run.history)),
        ("MB", lambda run: f"{run.living_bytes / MB:.1f}"),
        ("objects", lambda run: f"{run.objects:,}"),
        ("of them packs", lambda run: f"{run.packs:,}"),
        ("reads", lambda run: f"{run.gets:,}"),
        ("lists", lambda run: run.lists),
        ("resolve s", lambda run: f"{run.resolve:.2f}"),
        ("download s", lambda run: f"{run.download:.2f}"),
    )


def age_table(runs: Iterable[Restored]) -> Table:
    """Return what a job costs that has run for long, with packs that are rewritten and without."""
    return Table.of(
        runs,
        ("packs", lambda run: "rewritten" if run.repacking else "unchanged"),
        ("objects", lambda run: f"{run.objects:,}"),
        ("of them packs", lambda run: f"{run.packs:,}"),
        ("reads", lambda run: f"{run.gets:,}"),
        ("needed MB", lambda run: f"{run.living_bytes / MB:.1f}"),
        ("kept MB", lambda run: f"{run.stored_bytes / MB:.1f}"),
        ("restore s", lambda run: f"{run.resolve + run.download:.2f}"),
        ("put MB", lambda run: f"{run.put_bytes / MB:.0f}"),
        ("checkpoints s", lambda run: f"{run.seconds:.0f}"),
        ("CPU s", lambda run: f"{run.cpu:.0f}"),
    )


def bench(benchmark: Benchmark) -> None:
    """Measure; show and store the results after every part."""
    options, work = benchmark.options, benchmark.work
    with locked(options.lock), object_store(work / "s3") as server:
        if "size" in (options.part or PARTS):
            steps, sized = list[Step](), list[Restored]()
            for files in options.files:
                for history in options.history:
                    taken, restored = by_size(server, work, files, history, options.steps)
                    steps += taken
                    sized.append(restored)
                    benchmark.tell(restored)
            benchmark.keep(STEPS, steps)
            benchmark.keep(BY_SIZE, sized)
            benchmark.show("by size", size_table(steps))
            benchmark.show("restore", restore_table(sized))
        if "age" in (options.part or PARTS):
            begun, aged = time.time(), list[Restored]()
            for repacking in (True, False):
                aged.append(by_age(server, work, options.aged, options.checkpoints, repacking=repacking))
                benchmark.tell(aged[-1])
            benchmark.keep(BY_AGE, aged, begun)
            benchmark.show("by age", age_table(aged))


if __name__ == "__main__":
    run(arguments(), PAGE, bench)
