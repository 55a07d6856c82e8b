"""Measures checkpoints under backpressure, and recovery from them: `python -m bench.backpressure --help`."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from bench import backpressure_report, data, model
from bench.backpressure_model import Backlog, Backpressure, Kill, Sample
from bench.entry import Benchmark, parser, run
from bench.object_store import ObjectStore, object_store
from bench.processes import REPOSITORY, RunFailed, kill_tree, locked, started
from bench.running import RunningJob, command, manifest, running
from pyarrow import parquet

from streamjob.client.models import CheckpointingChanges, JobView

JOB = REPOSITORY / "bench" / "jobs" / "backpressure.yaml"
RESULTS = REPOSITORY / "bench" / "backpressure.json"
MODES = ("aligned", "unaligned", "switch")
SWITCH_AFTER_SECONDS = 1.0
BATCH_RECORDS = 1000
DEFAULT_BATCH_RECORDS = 1_000_000
_WARM_RECORDS = 3 * BATCH_RECORDS
_SLOTS = 2
_PAYLOAD_BYTES = 112
_FUNCTIONS = {1: "slow:one_millisecond", 5: "slow:five_milliseconds"}
_KILL_RECORDS, _KILL_CAPACITY = 24_000, 4_000
_KILL_SWITCH_SECONDS = 0.3


@dataclass(frozen=True)
class Setting:
    """The settings that all runs share.

    Args:
        work: directories of the jobs are made below it.
        store: the S3 server.
        timeout: seconds for whatever is waited for.
    """

    work: Path
    store: ObjectStore
    timeout: float


@dataclass(frozen=True)
class Load:
    """A backlog to measure with: `seconds` of work for two slots, each record `record_ms`; `rounds` of each mode."""

    seconds: float
    record_ms: int = 1
    max_batch_records: int = BATCH_RECORDS
    rounds: int = 5

    @property
    def capacity(self) -> int:
        """Records that make as much work."""
        return round(self.seconds * 1000 / self.record_ms) * _SLOTS

    @property
    def name(self) -> str:
        """Names the run."""
        return f"backlog-{self.seconds:g}-{self.record_ms}-{self.max_batch_records}"


# An aligned checkpoint takes as long as the backlog: fewer of the long ones.
LOADS = (
    Load(1),
    Load(2),
    Load(10, rounds=3),
    Load(30, rounds=2),
    Load(100, rounds=1),
    Load(10, record_ms=5, rounds=3),
    Load(2, max_batch_records=DEFAULT_BATCH_RECORDS),
    Load(10, max_batch_records=DEFAULT_BATCH_RECORDS, rounds=3),
)
_UNALIGNED = 7


def measure(setting: Setting, load: Load, on_sample: Callable[[Sample], None]) -> Backlog:
    """Fill the channel, and take checkpoints of each mode while it is full.

    Raises:
        RunFailed: the job failed, or stood still.
    """
    directory = setting.work / load.name
    source = directory / "input"
    # The producer gets a slot between two batches of its reader only: its batches must be no smaller than theirs.
    a_file = max(BATCH_RECORDS, load.capacity // 10)
    busy = (load.rounds * 2 + 2) * load.seconds + 90
    make_records(source, a_file, count=3 + int((load.capacity + busy * 1000 * _SLOTS / load.record_ms) / a_file))
    changes: dict[str, object] = {
        "sources.records.options.path": source,
        "sinks.report.options.path": directory / "output",
        "operators.slow.python": _FUNCTIONS[load.record_ms],
        "channels.capacityRecords": load.capacity,
        "channels.maxBatchRecords": load.max_batch_records,
    }
    location = f"s3://{setting.store.server.bucket}/{load.name}"
    workdir, log = directory / "work", directory / "log.txt"
    samples: list[Sample] = []
    load_before = os.getloadavg()[0]
    with running(command(JOB, location, workdir, changes), workdir, log, setting.timeout) as job:
        # Both chains have run batches, and the store's connections are open, before anything is counted.
        job.until(lambda: (job.view().records_out or 0) >= _WARM_RECORDS)
        take(job, load, "unaligned")
        for mode in order(load.rounds):
            samples.append(take(job, load, mode))
            on_sample(samples[-1])
    shutil.rmtree(directory)
    return Backlog(
        record_ms=load.record_ms,
        capacity=load.capacity,
        max_batch_records=load.max_batch_records,
        load_before=load_before,
        samples=tuple(samples),
    )


def order(rounds: int) -> Iterator[str]:
    """Yield modes in turn: after an aligned checkpoint nothing in flight is stored, so the next one uploads it all."""
    for _ in range(rounds):
        yield from ("aligned", "unaligned", "switch")
    yield from ["unaligned"] * max(0, _UNALIGNED - rounds)


def take(job: RunningJob, load: Load, mode: str) -> Sample:
    """Take a checkpoint while the channel is full."""
    job.client.patch_checkpointing(
        CheckpointingChanges(
            mode="unaligned" if mode == "unaligned" else "aligned",
            aligned_checkpoint_timeout=SWITCH_AFTER_SECONDS if mode == "switch" else None,
        )
    )
    job.until(lambda: _waiting(job.view()) >= load.capacity)
    (channel,) = job.view().channels
    taken = job.checkpoint()
    job.until(lambda: (last := job.view().last_checkpoint) is not None and last.id == taken.id)
    last = job.view().last_checkpoint
    assert last is not None
    tasks = list(taken.tasks.values())
    return Sample(
        mode=mode,
        unaligned=any(task.unaligned_checkpoint for task in tasks),
        backlog_records=channel.records,
        backlog_bytes=channel.bytes,
        total=taken.end_to_end_duration,
        until_held=max(task.end_to_end_duration - max(0, task.async_duration) for task in tasks),
        upload=max(task.async_duration for task in tasks),
        completed=last.duration_ms,
        start_delay=max(task.start_delay for task in tasks),
        alignment=max(task.alignment_duration for task in tasks),
        held=max(task.sync_duration for task in tasks),
        in_flight=taken.persisted_data,
        uploaded=taken.checkpointed_size,
    )


def _waiting(view: JobView) -> int:
    return view.channels[0].records if view.channels else 0


def make_records(directory: Path, records: int, count: int) -> None:
    """Write files of records with ids from 0 and bytes that do not compress."""
    directory.mkdir(parents=True)
    chance = np.random.default_rng(7)
    for number in range(count):
        content = pa.py_buffer(chance.bytes(records * _PAYLOAD_BYTES))
        offsets = pa.py_buffer(np.arange(records + 1, dtype=np.int32) * _PAYLOAD_BYTES)
        payload = pa.Array.from_buffers(pa.binary(), records, [None, offsets, content])
        ids = np.arange(number * records, (number + 1) * records)
        data.put(pa.table({"id": ids, "payload": payload}), directory, f"{number:06}.parquet")


def recover(setting: Setting, mode: str) -> Kill:
    """Kill a job amid its checkpoints, let another process run it to its end, and compare what went in and came out.

    Raises:
        RunFailed: the job failed, or stood still.
    """
    directory = setting.work / f"kill-{mode}"
    source, output = directory / "input", directory / "output"
    workdir, log = directory / "work", directory / "log.txt"
    location = f"s3://{setting.store.server.bucket}/kill-{mode}"
    make_records(source, _KILL_CAPACITY // 10, count=10 * _KILL_RECORDS // _KILL_CAPACITY)
    changes: dict[str, object] = {
        "sources.records.bounded": "true",
        "sources.records.options.path": source,
        "sinks.report.options.path": output,
        "channels.capacityRecords": _KILL_CAPACITY,
        "checkpointing.interval": "1s",
        "checkpointing.mode": "unaligned" if mode == "unaligned" else "aligned",
    }
    if mode == "switch":
        changes["checkpointing.alignedCheckpointTimeout"] = f"{_KILL_SWITCH_SECONDS:g}s"
    arguments = command(JOB, location, workdir, changes)
    with started(arguments, log) as process:
        job = RunningJob(process, workdir, log, setting.timeout)
        job.until(lambda: _amid(job.view(), mode))
        kill_tree(process)
    visible = len(ids_in(output))
    with started(arguments, log) as process:
        job = RunningJob(process, workdir, log, setting.timeout)
        restored = job.view().restored_from
        assert restored is not None
        stored = manifest(location, JOB.stem, restored.id)
        job.ended()
    ids = ids_in(output)
    distinct = np.unique(ids)
    result = Kill(
        mode=mode,
        records=_KILL_RECORDS,
        visible_at_kill=visible,
        checkpoint=restored.id,
        unaligned=stored.unaligned,
        in_flight=sum(
            file.length for channel in stored.channels for entry in channel.entries for file in entry.segments
        ),
        missing=len(np.setdiff1d(np.arange(_KILL_RECORDS), distinct)),
        repeated=len(ids) - len(distinct),
        output=len(ids),
    )
    shutil.rmtree(directory)
    return result


def _amid(view: JobView, mode: str) -> bool:
    """Whether a job is about half through, and has a checkpoint of its mode."""
    last = view.last_checkpoint
    taken = last is not None and (mode == "aligned" or last.persisted_data > 0)
    return taken and (view.records_out or 0) > _KILL_RECORDS // 3


def ids_in(output: Path) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the ids that readers of a sink see."""
    tables = [parquet.read_table(file, columns=["id"]) for file in sorted(output.glob("part-*.parquet"))]
    return pa.concat_tables(tables).column("id").to_numpy() if tables else np.empty(0, np.int64)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    made = parser("make bench-backpressure", __doc__, "a backlog of a second and one kill")
    add = made.add_argument
    add("--only", choices=["backlogs", "kills"], help="measure only this; the other's last results stay")
    add("--timeout", type=float, default=600.0, metavar="S", help="seconds that may be waited for one thing (600)")
    return made.parse_args()


def bench(benchmark: Benchmark) -> None:
    """Measure, show it, and keep it."""
    options, begun = benchmark.options, time.time()
    last = model.load(Backpressure, RESULTS)
    backlogs: list[Backlog] = []
    kills: list[Kill] = []
    with object_store(benchmark.work / "s3") as store:
        setting = Setting(work=benchmark.work, store=store, timeout=options.timeout)

        def keep() -> None:
            where = benchmark.circumstances(begun)
            result = Backpressure(
                circumstances=where if options.only != "kills" or last is None else last.circumstances,
                kill_circumstances=where if options.only != "backlogs" or last is None else last.kill_circumstances,
                switch_after=SWITCH_AFTER_SECONDS,
                record_bytes=_PAYLOAD_BYTES + 8,
                backlogs=tuple(backlogs) if options.only != "kills" or last is None else last.backlogs,
                kills=tuple(kills) if options.only != "backlogs" or last is None else last.kills,
            )
            benchmark.keep(result, RESULTS, backpressure_report.render)
            if not options.quick:
                RESULTS.with_suffix(".svg").write_text(backpressure_report.plot(result.backlogs))

        if options.only != "kills":
            for load in [replace(LOADS[0], rounds=2)] if options.quick else LOADS:
                benchmark.console.rule(load.name)
                with locked(options.lock):
                    backlogs.append(measure(setting, load, lambda sample: benchmark.tell(said(sample))))
                keep()
            benchmark.show("checkpoints under backpressure", backpressure_report.duration_table(backlogs))
        if options.only != "backlogs":
            for mode in MODES[1:2] if options.quick else MODES:
                with locked(options.lock):
                    kills.append(recover(setting, mode))
                keep()
            benchmark.show("killed in the middle", backpressure_report.kill_table(kills))
        if any(not kill.equal for kill in kills):
            raise RunFailed("the output of a killed job is not what went in")


def said(sample: Sample) -> str:
    """Return a checkpoint in a line."""
    return (
        f"{sample.mode}: {sample.total} ms, held after {sample.until_held},"
        f" upload {sample.upload}, completed {sample.completed}; {sample.backlog_records:,} records wait,"
        f" {sample.in_flight / 1e6:.2f} MB in flight, {sample.uploaded / 1e6:.2f} MB uploaded"
    )


def main() -> int:
    """Run the benchmark; return its exit code."""
    return run(arguments(), bench)


if __name__ == "__main__":
    sys.exit(main())
