"""Runs the same query with plain Spark and with streamjob, in turn, and counts CPU, time, requests and bytes."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from bench import plain
from bench.hadoop_aws import hadoop_aws_jars
from bench.model import CheckpointRun, Run
from bench.object_store import ObjectStore, Traffic
from bench.processes import REPOSITORY, measure, streamjob
from bench.rounds import rounds
from bench.running import settings
from pyarrow import parquet

from streamjob.ids import Key
from streamjob.snapshot.manifest import Manifest
from streamjob.snapshot.record import LogRecord
from streamjob.store.opening import open_location
from streamjob_runtime.spark.job_files import JobFiles

JOBS = REPOSITORY / "bench" / "jobs"
OURS = "streamjob"
SIDES: Mapping[str, str] = {
    "a": plain.DEFAULTS,
    "b": plain.TUNED,
    "c": plain.S3A,
    "d": OURS,
}
WORKLOADS: Mapping[str, str] = {"windows": "windows.yaml", "pass-through": "pass_through.yaml"}


@dataclass(frozen=True)
class Setting:
    """The settings that all runs share.

    Args:
        input: directory of the events.
        records: how many they are.
        batch_records: how many a batch reads.
        cache: for jars.
        work: the parent directory of the runs' directories, which are removed afterwards.
        store: the S3 server.
        interval: seconds between checkpoints of ours.
        timeout: seconds for one run.
        lock: held while a round lasts.
    """

    input: Path
    records: int
    batch_records: int
    cache: Path
    work: Path
    store: ObjectStore
    interval: float
    timeout: float
    lock: Path | None = None


def compare(setting: Setting, workload: str, sides: str, count: int, on_run: Callable[[Run], None]) -> None:
    """Run all sides of a workload, interleaved in several rounds."""
    for number, turn in rounds(sides, count, setting.lock):
        for side in turn:
            on_run(run(setting, workload, side, number))


def run(setting: Setting, workload: str, side: str, number: int) -> Run:
    """Run one side once.

    Raises:
        RunFailed: it failed.
    """
    name = f"{workload}-{side}-{number}"
    directory = setting.work / name
    directory.mkdir(parents=True)
    output = directory / "output"
    job = JOBS / WORKLOADS[workload]
    bucket = f"s3://{setting.store.server.bucket}/{name}"
    command = _ours(job, directory, bucket, setting.interval) if side == "d" else _plain(job, directory, side, name)
    if side == "c":
        command += ["--jars", ",".join(map(str, hadoop_aws_jars(setting.cache)))]
    command += settings({"sources.events.options.path": setting.input, "sinks.report.options.path": output})
    position = setting.store.position()
    used = measure(command, directory, setting.timeout)
    passed = setting.store.since(position) if side in "cd" else Traffic({}, 0)
    report = directory / "batches.json"
    batches = (
        our_batches(directory / "work") if side == "d" else [Batch(*each) for each in json.loads(report.read_text())]
    )
    full = setting.records // setting.batch_records
    result = Run(
        workload=workload,
        side=side,
        round=number,
        records=setting.records,
        rows=count_rows(output),
        wall=used.wall,
        user=used.user,
        system=used.system,
        load_before=used.load_before,
        load_after=used.load_after,
        batches_ms=tuple(batch.milliseconds for batch in batches),
        warm_cpu=used_between(used.samples, batches[0].end, batches[full - 1].end) if full > 1 else None,
        warm_records=(full - 1) * setting.batch_records,
        requests=passed.requests,
        put_bytes=passed.put_bytes,
        checkpoints=tuple(our_checkpoints(bucket, job)) if side == "d" else (),
    )
    shutil.rmtree(directory)
    return result


def _ours(job: Path, directory: Path, location: str, interval: float) -> list[str]:
    places = ["--location", location, "--workdir", str(directory / "work")]
    return streamjob("run", str(job), "--quiet", *places, "--set", f"checkpointing.interval={interval:g}s")


def _plain(job: Path, directory: Path, side: str, name: str) -> list[str]:
    # Our settings include where a job's checkpoint is.
    own = {"b": JobFiles(directory).location(directory / "checkpoint"), "c": f"s3a://snapshots/{name}"}
    checkpoint = own.get(side, f"file://{directory}/checkpoint")
    places = ["--checkpoint", checkpoint, "--scratch", str(directory), "--report", str(directory / "batches.json")]
    return [sys.executable, "-m", "bench.plain", str(job), "--side", SIDES[side], *places]


def count_rows(output: Path) -> int:
    """Return the rows in all Parquet files below a directory."""
    return sum(parquet.read_metadata(file).num_rows for file in output.rglob("part-*.parquet"))


class Batch(NamedTuple):
    """A batch: its duration in ms, and its end in seconds since 1970."""

    milliseconds: float
    end: float


def plain_batches(report: Path) -> list[Batch]:
    """Return the batches that plain Spark reported."""
    return [Batch(*each) for each in json.loads(report.read_text())]


def our_batches(workdir: Path, chain: str = "*") -> list[Batch]:
    """Return the batches that a chain ran, from the files that Spark left in the job's work directory.

    Args:
        workdir: of the job.
        chain: its uid; it can be left out if the job has only one.
    """
    (checkpoint,) = workdir.glob(f"*/{chain}/checkpoint")
    return batches_of(checkpoint)


def batches_of(checkpoint: Path) -> list[Batch]:
    """Return the batches of a query, from the files in its checkpoint directory."""
    return batches_between(_times(checkpoint / "offsets"), _times(checkpoint / "commits"))


def _times(directory: Path) -> dict[int, float]:
    return {int(file.name): file.stat().st_mtime for file in directory.iterdir() if file.name.isdecimal()}


def batches_between(planned: Mapping[int, float], committed: Mapping[int, float]) -> list[Batch]:
    """Return the batches with the time from commit to commit.

    The first and the last batch count from their planning: the last is the flush, before which the query is restarted.

    Args:
        planned: seconds since 1970 at which each batch's positions were written.
        committed: and its commit.
    """
    numbers = sorted(committed)
    begins = {after: committed[before] for before, after in pairwise(numbers)}
    for number in (numbers[0], numbers[-1]):
        begins[number] = planned[number]
    return [Batch((committed[number] - begins[number]) * 1000, committed[number]) for number in numbers]


def used_between(samples: Sequence[tuple[float, float]], begin: float, end: float) -> float:
    """Return the CPU seconds used from `begin` to `end`, interpolated between samples of (time, used so far)."""
    times, used = zip(*samples, strict=True)
    at_begin, at_end = np.interp([begin, end], times, used)
    return float(at_end - at_begin)


def our_checkpoints(location: str, job: Path) -> list[CheckpointRun]:
    """Return the checkpoints that a job has completed and that its log still names."""
    name = "pass-through" if job.stem == "pass_through" else job.stem
    store = open_location(location, REPOSITORY).job("default", name).store()
    try:
        keys = [each.key for each in store.list("log/")]
        records = [LogRecord.model_validate_json(store.get(key)) for key in keys]
        found = []
        for record in records:
            if record.completes and record.manifest is not None and record.id is not None:
                manifest = Manifest.model_validate_json(store.get(Key(record.manifest)))
                seconds = record.time - manifest.triggered
                found.append(CheckpointRun(id=record.id, seconds=seconds, state_bytes=manifest.state_size()))
        return found
    finally:
        store.close()
