"""Measures checkpoints under backpressure, and recovery from them: `python -m bench.backpressure --help`."""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from bench.data import RECORD_BYTES, make_records
from bench.entry import Benchmark, parser, run
from bench.object_store import ObjectStore, object_store
from bench.plot import Axis, draw
from bench.processes import RunFailed, kill_tree, locked, started
from bench.results import Page, Records, Row, head
from bench.running import JOBS, RunningJob, command, manifest, running
from bench.tables import MB, Table, goal_list, mid
from pyarrow import parquet

from streamjob.client.models import CheckpointingChanges, JobView

JOB = JOBS / "backpressure.yaml"
MODES = ("aligned", "unaligned", "switch")
SWITCH_AFTER_SECONDS = 1.0
BATCH_RECORDS = 1000
DEFAULT_BATCH_RECORDS = 1_000_000
_WARM_RECORDS = 3 * BATCH_RECORDS
_SLOTS = 2
_FUNCTIONS = {1: "slow:one_millisecond", 5: "slow:five_milliseconds"}
_KILL_RECORDS, _KILL_CAPACITY = 24_000, 4_000
_KILL_SWITCH_SECONDS = 0.3


class Sample(Row):
    """One checkpoint while a channel was full: of `capacity` records, for which each of two slots takes `record_ms`.

    Durations in ms: `total` from the trigger to the last acknowledgement, `until_held` of it until the last chain was
    cut and its files were held locally, `upload` of the chain that uploaded longest, `completed` until the log named
    the checkpoint. `in_flight` are the bytes of records in the checkpoint, `uploaded` those it had to write.
    """

    record_ms: int
    capacity: int
    max_batch_records: int
    mode: str
    total: int
    until_held: int
    upload: int
    completed: int
    start_delay: int
    in_flight: int
    uploaded: int

    @property
    def seconds(self) -> float:
        """The work that waits, in seconds."""
        return self.capacity * self.record_ms / 1000 / _SLOTS

    @property
    def backlog(self) -> str:
        """Names the backlog."""
        name = f"{self.seconds:g} s: {self.capacity:,} × {self.record_ms} ms"
        return name if self.max_batch_records == BATCH_RECORDS else f"{name}, default `maxBatchRecords`"


class Kill(Row):
    """A job killed in the middle and started again; `in_flight` bytes were in the checkpoint that it went on from."""

    mode: str
    records: int
    visible_at_kill: int
    in_flight: int
    missing: int
    repeated: int

    @property
    def equal(self) -> bool:
        """Whether the output is what went in."""
        return not self.missing and not self.repeated


SAMPLES = Records("backpressure-checkpoints", Sample)
KILLS = Records("backpressure-kills", Kill)


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


def measure(setting: Setting, load: Load) -> Iterator[Sample]:
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
    with running(command(JOB, location, workdir, changes), workdir, log, setting.timeout) as job:
        # Both chains have run batches, and the store's connections are open, before anything is counted.
        job.until(lambda: (job.view().records_out or 0) >= _WARM_RECORDS)
        take(job, load, "unaligned")
        for mode in order(load.rounds):
            yield take(job, load, mode)
    shutil.rmtree(directory)


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
    taken = job.checkpoint()
    job.until(lambda: (last := job.view().last_checkpoint) is not None and last.id == taken.id)
    last = job.view().last_checkpoint
    assert last is not None
    tasks = list(taken.tasks.values())
    return Sample(
        record_ms=load.record_ms,
        capacity=load.capacity,
        max_batch_records=load.max_batch_records,
        mode=mode,
        total=taken.end_to_end_duration,
        until_held=max(task.end_to_end_duration - max(0, task.async_duration) for task in tasks),
        upload=max(task.async_duration for task in tasks),
        completed=last.duration_ms,
        start_delay=max(task.start_delay for task in tasks),
        in_flight=taken.persisted_data,
        uploaded=taken.checkpointed_size,
    )


def _waiting(view: JobView) -> int:
    return view.channels[0].records if view.channels else 0


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
        in_flight=sum(
            file.length for channel in stored.channels for entry in channel.entries for file in entry.segments
        ),
        missing=len(np.setdiff1d(np.arange(_KILL_RECORDS), distinct)),
        repeated=len(ids) - len(distinct),
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


_TEXT = """\
A Python operator (`mapInPandas`) that takes 1 ms per record, after a channel, in two task slots: 2000 records per
second. Its producer could read hundreds of times as many, so the channel is always full, and checkpoints are requested
when it is. Records are {record_bytes} bytes, checkpoints go to a local S3 server (versitygw). `capacityRecords` sets
the backlog, `maxBatchRecords: 1000` lets a batch take half a second: an aligned barrier cannot pass the batch in
progress, and a segment is one task's, so it has at most `maxBatchRecords` divided by the slots. A batch has an overhead
of about 0.2 s, for its plan and its commit: an aligned checkpoint also waits for the overhead of each batch on the way.

Durations are those of `GET /v1/checkpoints/<id>`, whose end is the last acknowledgement, as in Flink. "Held" ends when
every chain was cut and hard links hold its files: from then on the stream is independent of the checkpoint. "Upload" is
the time that a chain needs to upload its held files to the S3 server. "Logged" ends when the log names the checkpoint.
One checkpoint for warm-up does not count. Unaligned checkpoints right after an aligned one upload all in-flight data,
those after another unaligned one only new data.

The mode `switch` is `aligned` with `alignedCheckpointTimeout: {switch_after:g}s`.
"""
_UPLOADS = """\
Unaligned checkpoints that had to upload everything (right after an aligned one), and those that found a part in the
store: medians.
"""
_KILLS = """\
The job gets a bounded input, a checkpoint every second and a full channel. The whole process tree gets SIGKILL about
halfway, after a checkpoint of the mode; another process continues from the log and runs to the end. Then the output
that readers of the sink see is compared with the input.
"""
FLINK_MS = {(1, 4000): (2000, 15, 74), (5, 4000): (9900, 18, None)}
"""Flink 2.3 by record's ms and records in flight (0.5 MB): aligned, median unaligned, longest unaligned, in ms."""
_FLAT = 3.0
"""Times that the shortest and the longest median may differ by for the checkpoints to be called flat."""
_SHOWN_MODES = ("aligned", "switch", "unaligned")
Group = list[Sample]
"""Checkpoints with the same backlog."""


def _render() -> str:
    measured, kills = SAMPLES.load(), KILLS.load()
    numbers = "as measured, misses included"
    parts = [
        head("Checkpoints under backpressure", "bench-backpressure", "backpressure.py", numbers),
        _TEXT.format(record_bytes=RECORD_BYTES, switch_after=SWITCH_AFTER_SECONDS),
        f"{measured.where}\n",
        "![Duration of checkpoints by backlog](backpressure.svg)\n",
        "## Duration\n",
        "ms, medians; in brackets the longest.\n",
        duration_table(measured.runs).markdown(),
        goal_list(goals(measured.runs, kills.runs)),
        "## Upload of in-flight data\n",
        _UPLOADS,
        upload_table(measured.runs).markdown(),
        "## Recovery\n",
        _KILLS,
        f"{kills.where}\n",
        kill_table(kills.runs).markdown(),
    ]
    return "\n".join(parts)


def _groups(samples: Sequence[Sample]) -> list[Group]:
    return [[each for each in samples if each.backlog == name] for name in dict.fromkeys(s.backlog for s in samples)]


def _of(group: Group, mode: str) -> Group:
    return [sample for sample in group if sample.mode == mode]


def duration_table(samples: Sequence[Sample]) -> Table:
    """Return how long checkpoints took by backlog and mode."""

    def spread(figure: Callable[[Sample], int]) -> Callable[[Group], str]:
        def text(group: Group) -> str:
            values = [figure(each) for each in group]
            return f"{median(values):.0f}" + (f" ({max(values)})" if len(values) > 1 else "")

        return text

    return Table.of(
        [found for group in _groups(samples) for mode in _SHOWN_MODES if (found := _of(group, mode))],
        ("backlog", lambda group: group[0].backlog),
        ("mode", lambda group: group[0].mode),
        ("n", len),
        ("total ms", spread(lambda each: each.total)),
        ("held ms", spread(lambda each: each.until_held)),
        ("upload ms", spread(lambda each: each.upload)),
        ("logged ms", spread(lambda each: each.completed)),
        ("start delay ms", spread(lambda each: each.start_delay)),
        ("MB in flight", lambda group: _mb(each.in_flight for each in group)),
    )


def _mb(values: Iterable[int]) -> str:
    return mid(values, ".2f", MB)


def upload_table(samples: Sequence[Sample]) -> Table:
    """Return what unaligned checkpoints uploaded, and how long that took."""
    parts: list[tuple[str, Group]] = []
    for group in _groups(samples):
        unaligned = _of(group, "unaligned")
        parts.append(("all", [each for each in unaligned if each.uploaded >= each.in_flight]))
        parts.append(("only new data", [each for each in unaligned if each.uploaded < each.in_flight]))

    def rate(part: tuple[str, Group]) -> str:
        upload = median(each.upload for each in part[1])
        return f"{median(each.uploaded for each in part[1]) / MB / upload * 1000:.0f}" if upload else "–"

    return Table.of(
        [part for part in parts if part[1]],
        ("backlog", lambda part: part[1][0].backlog),
        ("uploaded", lambda part: part[0]),
        ("n", lambda part: len(part[1])),
        ("MB in flight", lambda part: _mb(each.in_flight for each in part[1])),
        ("MB uploaded", lambda part: _mb(each.uploaded for each in part[1])),
        ("upload ms", lambda part: mid((each.upload for each in part[1]), ".0f")),
        ("MB/s", rate),
    )


def kill_table(kills: Sequence[Kill]) -> Table:
    """Return what became of the output of killed jobs."""
    return Table.of(
        kills,
        ("mode", lambda kill: kill.mode),
        ("records", lambda kill: f"{kill.records:,}"),
        ("visible at the kill", lambda kill: f"{kill.visible_at_kill:,}"),
        ("restored in flight, MB", lambda kill: f"{kill.in_flight / MB:.2f}"),
        ("missing", lambda kill: kill.missing),
        ("repeated", lambda kill: kill.repeated),
        ("output", lambda kill: "equal" if kill.equal else "**differs**"),
    )


def goals(samples: Sequence[Sample], kills: Sequence[Kill]) -> Iterator[tuple[str, bool]]:
    """Yield each goal with what was measured, and whether it was reached."""
    growing = _growing(samples)
    held = [median(each.until_held for each in _of(group, "unaligned")) for group in growing]
    first, last = growing[0][0].seconds, growing[-1][0].seconds
    flat = f"unaligned flat from {first:g} to {last:g} s of backlog, the upload apart"
    yield f"{flat}: medians from {min(held):.0f} to {max(held):.0f} ms", max(held) <= _FLAT * max(min(held), 1)
    aligned = [median(each.total for each in _of(group, "aligned")) / 1000 for group in growing]
    yield f"aligned grows with the backlog: {aligned[0]:.1f} to {aligned[-1]:.1f} s", aligned[-1] > aligned[0]
    for group in _groups(samples):
        what, flinks = group[0].backlog, FLINK_MS.get((group[0].record_ms, group[0].capacity))
        if flinks is None:
            continue
        aligned_ms, unaligned_ms, longest_ms = flinks
        ours = median(each.total for each in _of(group, "aligned"))
        yield f"{what}: aligned {ours:.0f} ms (Flink {aligned_ms})", ours <= aligned_ms
        held = [each.until_held for each in _of(group, "unaligned")]
        text = f"{what}: unaligned {median(held):.0f} ms without the upload (Flink {unaligned_ms})"
        yield text, median(held) <= unaligned_ms
        if longest_ms is not None:
            text = f"{what}: unaligned at most {max(held)} ms without the upload (Flink {longest_ms})"
            yield text, max(held) <= longest_ms
    for kill in kills:
        yield f"equal output after recovery, {kill.mode}", kill.equal


def _growing(samples: Sequence[Sample]) -> list[Group]:
    """Return the backlogs that differ in nothing but their size."""
    alike = [each for each in samples if (each.record_ms, each.max_batch_records) == (1, BATCH_RECORDS)]
    return sorted(_groups(alike), key=lambda group: group[0].seconds)


def _draw() -> str:
    growing = _growing(SAMPLES.load().runs)

    def line(mode: str, figure: Callable[[Sample], int]) -> list[tuple[float, float]]:
        return [(group[0].seconds, median(map(figure, _of(group, mode))) / 1000) for group in growing]

    lines = {mode: line(mode, lambda each: each.total) for mode in _SHOWN_MODES}
    lines["… without upload"] = line("unaligned", lambda each: each.until_held)
    x, y = Axis("backlog, seconds of work", 0.8, 125.0), Axis("duration of a checkpoint, seconds", 0.003, 200.0)
    return draw("Checkpoints under backpressure (medians)", x, y, lines)


PAGE = Page("BACKPRESSURE", _render, _draw)


def bench(benchmark: Benchmark) -> None:
    """Measure, show it, and keep it."""
    options = benchmark.options
    samples: list[Sample] = []
    kills: list[Kill] = []
    with object_store(benchmark.work / "s3") as store:
        setting = Setting(work=benchmark.work, store=store, timeout=options.timeout)
        if options.only != "kills":
            for load in [replace(LOADS[0], rounds=2)] if options.quick else LOADS:
                with locked(options.lock):
                    for sample in measure(setting, load):
                        samples.append(sample)
                        benchmark.tell(sample)
            benchmark.keep(SAMPLES, samples)
            benchmark.show("checkpoints under backpressure", duration_table(samples))
        if options.only != "backlogs":
            begun = time.time()
            for mode in MODES[1:2] if options.quick else MODES:
                with locked(options.lock):
                    kills.append(recover(setting, mode))
            benchmark.keep(KILLS, kills, begun)
            benchmark.show("killed in the middle", kill_table(kills))
        if any(not kill.equal for kill in kills):
            raise RunFailed("the output of a killed job is not what went in")


if __name__ == "__main__":
    run(arguments(), PAGE, bench)
