"""Runs the same query with plain Spark and with streamjob, in turn, and counts CPU, time, requests and bytes."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench import plain
from bench.batches import Batch, count_rows, our_batches, used_between
from bench.jars import hadoop_aws_jars
from bench.object_store import ObjectStore, Traffic
from bench.processes import RunFailed, measure, streamjob
from bench.results import Records, Row
from bench.running import JOBS, manifests, settings
from bench.tables import MB, Table, goal_list, loads, mid, of_side, paired, quantile
from pydantic import Field

from streamjob_runtime.spark.job_files import JobFiles

SIDES: Mapping[str, str] = {"a": plain.DEFAULTS, "b": plain.TUNED, "c": plain.S3A, "d": "streamjob"}
NAMES = {
    "a": "plain Spark, its defaults",
    "b": "plain Spark, our settings",
    "c": "plain Spark, checkpoint on s3a",
    "d": "streamjob, checkpoints on S3",
}
NEAR_PLAIN = 1.03
"""Most CPU of ours, as a multiple of plain Spark with the same settings."""
ENOUGH_RUNS = 5
"""Least number of runs that a median is to be of."""
FEWER_REQUESTS = 10.0
"""Least number of times that plain Spark on s3a makes more requests than ours."""


class Run(Row):
    """One run of one side; times in seconds, batches in ms.

    `cpu` is that of the whole process tree, `warm_cpu` that from the end of the first batch to the end of the last full
    one, for `warm_records`. Checkpoints take seconds from their trigger to their record in the log.
    """

    side: str
    round: int
    records: int
    keys: int
    wall: float
    cpu: float
    load_before: float
    batches_ms: tuple[float, ...]
    warm_cpu: float | None = None
    warm_records: int = 0
    requests: dict[str, int] = Field(default_factory=dict)
    put_bytes: int = 0
    checkpoints: tuple[float, ...] = ()
    largest_checkpoint: int = 0

    @property
    def warm_cpu_per_million(self) -> float:
        """CPU seconds per million records after the first batch; 0 if there was only one."""
        return (self.warm_cpu or 0.0) * 1e6 / (self.warm_records or 1)


WORKLOADS = {
    "windows": Records("compare-windows", Run),
    "pass-through": Records("compare-pass-through", Run),
}
"""The compared queries, by the name of their job."""


@dataclass(frozen=True)
class Setting:
    """The settings that all runs share.

    Args:
        input: directory of the events.
        records: how many they are.
        keys: how many of them differ in their key.
        batch_records: how many a batch reads.
        cache: for jars.
        work: the parent directory of the runs' directories, which are removed afterwards.
        store: the S3 server.
        interval: seconds between checkpoints of ours.
        timeout: seconds for one run.
    """

    input: Path
    records: int
    keys: int
    batch_records: int
    cache: Path
    work: Path
    store: ObjectStore
    interval: float
    timeout: float


def run(setting: Setting, workload: str, side: str, number: int) -> Run:
    """Run one side once. Raises RunFailed if it failed, or wrote nothing."""
    name = f"{workload}-{side}-{number}"
    directory = setting.work / name
    directory.mkdir(parents=True)
    output = directory / "output"
    job = JOBS / f"{workload.replace('-', '_')}.yaml"
    bucket = f"s3://{setting.store.server.bucket}/{name}"
    command = _ours(job, directory, bucket, setting.interval) if side == "d" else _plain(job, directory, side, name)
    if side == "c":
        command += ["--jars", ",".join(map(str, hadoop_aws_jars(setting.cache)))]
    command += settings({"sources.events.options.path": setting.input, "sinks.report.options.path": output})
    position = setting.store.position()
    used = measure(command, directory, setting.timeout)
    passed = setting.store.since(position) if side in "cd" else Traffic({}, 0)
    batches = our_batches(directory / "work") if side == "d" else _plain_batches(directory / "batches.json")
    if not count_rows(output):
        raise RunFailed(f"({side}) wrote no rows")
    taken = manifests(bucket, workload) if side == "d" else []
    full = setting.records // setting.batch_records
    shutil.rmtree(directory)
    return Run(
        side=side,
        round=number,
        records=setting.records,
        keys=setting.keys,
        wall=used.wall,
        cpu=used.cpu,
        load_before=used.load_before,
        batches_ms=tuple(batch.milliseconds for batch in batches),
        warm_cpu=used_between(used.samples, batches[0].end, batches[full - 1].end) if full > 1 else None,
        warm_records=(full - 1) * setting.batch_records,
        requests=passed.requests,
        put_bytes=passed.put_bytes,
        checkpoints=tuple(record.time - manifest.triggered for record, manifest in taken),
        largest_checkpoint=max((manifest.state_size() for _, manifest in taken), default=0),
    )


def _ours(job: Path, directory: Path, location: str, interval: float) -> list[str]:
    places = ["--location", location, "--workdir", str(directory / "work")]
    return streamjob("run", str(job), "--quiet", *places, "--set", f"checkpointing.interval={interval:g}s")


def _plain(job: Path, directory: Path, side: str, name: str) -> list[str]:
    # Our settings include where a job's checkpoint is.
    own = {"b": JobFiles(directory).location(directory / "checkpoint"), "c": f"s3a://snapshots/{name}"}
    checkpoint = own.get(side, f"file://{directory}/checkpoint")
    places = ["--checkpoint", checkpoint, "--scratch", str(directory), "--report", str(directory / "batches.json")]
    return [sys.executable, "-m", "bench.plain", str(job), "--side", SIDES[side], *places]


def _plain_batches(report: Path) -> list[Batch]:
    return [Batch(*each) for each in json.loads(report.read_text())]


TEXT = """\
All sides run the same query on the same files, bounded, in batches of 1 M records (four files), with two task
slots and four state partitions, and write Parquet with the same code: our file sink's `stage`, which plain Spark calls
from `foreachBatch` without the protocol around it. Sides alternate within a round.

- **(a)** Spark's defaults (state on the heap, Spark's file manager, 1 GB heap), checkpoint on the local disk. Two
  things are not Spark's default: four shuffle partitions instead of 200, and our jar for the sink.
- **(b)** every setting of `streamjob run` (state in RocksDB with changelog, checkpoint format 2, our checkpoint file
  manager, AQE off, ParallelGC, 2 GB heap, …), checkpoint on the local disk.
- **(c)** the settings of (b), with Spark's own file manager and `s3a://` (hadoop-aws) on a local S3 server: a
checkpoint after every batch.
- **(d)** `streamjob run`: checkpoints on the same server at an interval, exactly-once publication. At the end of its
input it runs a flush, a second query that opens the state again. The others do not: an event one hour later closes all
their windows except its own. It starts with an archive of Spark's classes, and without the pandas that PySpark
  imports with its first call into Java.

A start, its first batch and the end take some 25 s of CPU on each side whatever the number of records, more than 5 M
records cost afterwards. So a run has 20 M: with 10 M they would be half of the total, and in a job that runs for days
they are negligible.

CPU is user and system time of the whole process tree from its start to its end: the driver's Python, the JVM, all
that they start; not the S3 server. "of (b)" is the median over the rounds of the ratio to (b) in the same round.
"After the 1st batch" excludes the start, the first batch and the end: it is sampled from the end of the first batch to
that of the last full one. A batch is Spark's `triggerExecution`; in (d) the time from commit to commit. Bytes are those
of objects put.
"""


def section() -> Iterator[str]:
    """Yield the section on cost."""
    yield f"## Cost\n\n{TEXT}"
    for workload, records in WORKLOADS.items():
        measured = records.load()
        runs = measured.runs
        if not runs:
            continue
        yield f"### {workload}: {max(run.records for run in runs):,} records, {runs[0].keys:,} keys\n"
        yield f"{measured.where} {loads(runs)}\n"
        fewest = min(len(of_side(runs, side)) for side in _sides(runs))
        if fewest < ENOUGH_RUNS:
            yield f"**Provisional**: {fewest} of at least {ENOUGH_RUNS} rounds were run.\n"
        yield table(runs).markdown()
        if goals := goal_list(_goals(runs)):
            yield goals
        yield f"S3 requests of a run, median:\n\n{_requests_table(runs).markdown()}"
        if ours := of_side(runs, "d"):
            yield "Checkpoints of (d), from their trigger to their record in the log:\n"
            taken = [seconds for run in ours for seconds in run.checkpoints]
            head = ("workload", "checkpoints", "p50 s", "max s", "largest, MB")
            most = max(run.largest_checkpoint for run in ours) / MB
            row = (workload, str(len(taken)), f"{quantile(taken, 0.5):.2f}", f"{max(taken):.2f}", f"{most:.1f}")
            yield Table(head, (row,)).markdown()


def _sides(runs: Sequence[Run]) -> list[str]:
    return sorted({run.side for run in runs})


def _requests(run: Run) -> float:
    return sum(run.requests.values())


def table(runs: Sequence[Run]) -> Table:
    """Return CPU, wall time, batches and requests of each side: medians over the runs, quantiles over all batches."""

    def of(figure: Callable[[Run], float], form: str, sides: str = "abcd") -> Callable[[str], str]:
        return lambda side: mid(map(figure, of_side(runs, side)), form) if side in sides else "–"

    def ratio(figure: Callable[[Run], float]) -> Callable[[str], str]:
        return lambda side: "–" if (found := paired(runs, side, "b", figure)) is None else f"{found:.3f}"

    def batch(share: float) -> Callable[[str], str]:
        return lambda side: f"{quantile((ms for run in of_side(runs, side) for ms in run.batches_ms), share):.0f}"

    return Table.of(
        _sides(runs),
        ("side", lambda side: f"({side}) {NAMES[side]}"),
        ("runs", lambda side: len(of_side(runs, side))),
        ("CPU s / M records", of(lambda run: run.cpu * 1e6 / run.records, ".2f")),
        ("of (b)", ratio(lambda run: run.cpu)),
        ("after the 1st batch", of(lambda run: run.warm_cpu_per_million, ".2f")),
        ("of (b)", ratio(lambda run: run.warm_cpu_per_million)),
        ("wall s", of(lambda run: run.wall, ".1f")),
        ("batch p50 ms", batch(0.5)),
        ("p99 ms", batch(0.99)),
        ("S3 requests", of(_requests, ".0f", "cd")),
        ("MB put", of(lambda run: run.put_bytes / MB, ".1f", "cd")),
    )


def _requests_table(runs: Sequence[Run]) -> Table:
    sides = [side for side in _sides(runs) if side in "cd"]
    names = sorted({name for run in runs for name in run.requests})

    def of(side: str) -> Callable[[str], str]:
        return lambda name: mid((run.requests.get(name, 0) for run in of_side(runs, side)), ".0f")

    return Table.of(names, ("operation", str), *((f"({side})", of(side)) for side in sides))


def _goals(runs: Sequence[Run]) -> Iterator[tuple[str, bool]]:
    """Yield each goal with what was measured, and whether it was reached."""
    if (near := paired(runs, "d", "b", lambda run: run.cpu)) is not None:
        text = f"CPU of (d) within {NEAR_PLAIN - 1:.0%} of (b): {near - 1:+.1%}"
        warmed = paired(runs, "d", "b", lambda run: run.warm_cpu_per_million)
        yield text + (f" ({warmed - 1:+.1%} after the first batch)" if warmed else ""), near <= NEAR_PLAIN
    if (ahead := paired(runs, "d", "a", lambda run: run.cpu)) is not None:
        yield f"CPU of (d) below (a): {ahead - 1:+.1%}", ahead < 1
    if of_side(runs, "c") and of_side(runs, "d"):
        of = {side: median(map(_requests, of_side(runs, side))) for side in "cd"}
        fewer = of["c"] / of["d"]
        yield f"{FEWER_REQUESTS:.0f} times fewer S3 requests than (c): {fewer:.1f} times", fewer >= FEWER_REQUESTS
