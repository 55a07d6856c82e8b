"""Measures how soon readers see rows that a job publishes with each batch: `python -m bench.batch_latency --help`.

Each run has a process of its own. All read from the same broker, each a topic of its own, and the sides take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
from bench.entry import Benchmark, parser, run
from bench.jars import fetched_jars
from bench.kafka import JOB, SIDES, start_command
from bench.latencies import (
    PARTITIONS,
    WARM_SECONDS,
    LatencyRun,
    See,
    copies,
    producing,
    reading,
    steady,
    values,
)
from bench.nexmark.sides import install
from bench.proc import tree_cpu_seconds
from bench.processes import RunFailed, environment, started
from bench.results import Page, Records, Row, head
from bench.running import JOBS, RunningJob, running
from bench.tables import Table, goal_list, interleaved, loads, mid, of_side, paired
from confluent_kafka import Consumer
from pyarrow import parquet
from tests.servers.kafka import KafkaServer
from tests.servers.postgresql import PostgresqlServer

BASE, OURS, BY_CHECKPOINT, FLINK = "at least once", "each batch", "exactly once, 10 s", "flink"
NAMES = {**{key: side.name for key, side in SIDES.items()}, FLINK: "Flink 2.3, exactly once, a checkpoint every 10 s"}
WINDOWS = JOBS / "kafka_windows.yaml"
KEYS, WINDOW_SECONDS = 100, 10
"""Of the query in `WINDOWS`."""
EXACTLY_ONCE = {"sinks.copy.delivery": "exactly-once", "sinks.copy.options.mode": "upsert"}
"""Changes of `WINDOWS`, which delivers at least once."""
MOST_CPU = 1.1
"""Of a job that publishes each batch, as a multiple of one that delivers at least once."""
_FLINKS_KAFKA = (
    "org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2"
    " 5605c691d11a501382c383fecba37a7a552467da5ab7ba904ef5d6f3d62c5616"
)


class BatchRun(LatencyRun):
    """The latencies of a side; `cpu` are the CPU seconds of the job's processes in the `seconds` that count."""

    round: int = 0
    seconds: float = 40.0
    cpu: float | None = None


class ReplayRun(Row):
    """Seconds from the start of a process behind a kill to the first new row that a reader sees.

    `behind` are the seconds of data that were published since the last checkpoint; on the side `nothing`, a checkpoint
    came behind them.
    """

    side: str
    round: int
    behind: float
    rate: int
    seconds: float
    load_before: float


REPLAY, NOTHING = "replays", "nothing"
REPLAY_RATE = 2000
BEHIND = (1.0, 10.0, 60.0)
REPLAYS = Records("batch-latency-replays", ReplayRun)


@contextmanager
def topic(server: KafkaServer, name: str, directory: Path) -> Iterator[tuple[dict[str, object], See]]:
    """Have the job write to a topic."""
    server.create_topic(f"{name}-copy", PARTITIONS)
    with copies(server, name) as see:
        yield {"sinks.copy.options.topic": f"{name}-copy"}, see


@contextmanager
def compacted(server: KafkaServer, name: str, directory: Path) -> Iterator[tuple[dict[str, object], See]]:
    """Have the job write the newest record of each key and window to a topic."""
    server.create_topic(f"{name}-copy", PARTITIONS, cleanup_policy="compact")
    with reading(server, f"{name}-copy") as consumer:
        yield {"sinks.copy.options.topic": f"{name}-copy"}, Newest(consumer)


class Newest:
    """Sees a record in the first row of its key and window that is not older.

    Args:
        consumer: of the rows.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._waiting: dict[tuple[int, int], deque[int]] = defaultdict(deque)
        self._known = 0

    def __call__(self, sent: Sequence[int]) -> list[int]:
        """Return the records that are seen for the first time, after 10 ms at most."""
        found = values(self._consumer)
        new = sent[self._known :]
        self._known += len(new)
        for each in new:
            self._waiting[_group(each)].append(each)
        seen = []
        for newest in found:
            waiting = self._waiting[_group(newest)]
            while waiting and waiting[0] <= newest:
                seen.append(waiting.popleft())
        return seen


def _group(sent: int) -> tuple[int, int]:
    return sent % KEYS, sent // (WINDOW_SECONDS * 10**9)


@contextmanager
def table(server: KafkaServer, name: str, directory: Path) -> Iterator[tuple[dict[str, object], See]]:
    """Have the job write to a table of PostgreSQL."""
    with PostgresqlServer() as database:
        made = "CREATE TABLE copy (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sent BIGINT)"
        database.make_database(name)
        database.execute(made, database=name, role=database.role)
        login = {"URL": database.url(name), "USER": database.role, "PASSWORD": database.password}
        variables = {f"BENCH_{key}": value for key, value in login.items()}
        with environment(variables), database.connect(name) as reader:
            yield {}, _Rows(reader)


class _Rows:
    def __init__(self, reader: psycopg.Connection[Any]) -> None:
        self._reader = reader
        self._last = 0

    def __call__(self, sent: Sequence[int]) -> list[int]:
        time.sleep(0.01)
        # Rows are numbered in the one transaction that publishes them.
        query = "SELECT id, sent FROM copy WHERE id > %s ORDER BY id"
        found = self._reader.execute(query, (self._last,)).fetchall()
        self._last = found[-1][0] if found else self._last
        return [sent for _, sent in found]


@contextmanager
def delta(server: KafkaServer, name: str, directory: Path) -> Iterator[tuple[dict[str, object], See]]:
    """Have the job write to a Delta table, which is read by the files that each version of its log adds."""
    yield {"sinks.copy.options.path": directory / "table"}, _Versions(directory / "table")


class _Versions:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._next = 0

    def __call__(self, sent: Sequence[int]) -> list[int]:
        version = self._directory / "_delta_log" / f"{self._next:020}.json"
        if not version.exists():
            time.sleep(0.01)
            return []
        self._next += 1
        added = [entry["add"]["path"] for entry in map(json.loads, version.open()) if "add" in entry]
        columns = [parquet.read_table(self._directory / each, columns=["sent"])["sent"] for each in added]
        return [sent for column in columns for sent in column.to_pylist()]


@dataclass(frozen=True)
class Part:
    """A measurement that can run alone, and its section of the page.

    Args:
        title: of the section.
        text: what is measured; `{rate}` stands for the records per second.
        rate: records per second.
        sides: that are compared.
        runs: where the results are kept.
        job: that runs.
        target: where it writes.
        median: the most seconds in the middle that `publish: batch` should take; None for no goal.
        p99: the most seconds for 99 of 100 records.
    """

    title: str
    text: str
    rate: int
    sides: tuple[str, ...]
    runs: Records[BatchRun]
    job: Path = JOB
    target: Callable[[KafkaServer, str, Path], AbstractContextManager[tuple[dict[str, object], See]]] = topic
    median: float | None = None
    p99: float | None = None


PARTS = {
    "kafka": Part(
        "From Kafka to Kafka",
        "{rate:,} records a second to a job that only passes them on, to a consumer with `read_committed`.",
        200,
        tuple(SIDES),
        Records("batch-latency-kafka", BatchRun),
        median=0.25,
        p99=0.5,
    ),
    "windows": Part(
        "A windowed aggregation",
        "{rate:,} records a second. The job keeps the newest record of each of 100 keys in windows of 10 s, and\n"
        "writes those that changed (`outputMode: update`, `mode: upsert`). A record is seen with the first row of its\n"
        "key and window that is not older.",
        200,
        (BASE, BY_CHECKPOINT, OURS),
        Records("batch-latency-windows", BatchRun),
        job=WINDOWS,
        target=compacted,
        median=0.4,
        p99=0.8,
    ),
    "fast": Part(
        "Ten thousand records a second",
        "{rate:,} records a second, passed on from Kafka to Kafka. The client sends them in requests of up to 5 ms.",
        10_000,
        (BASE, OURS),
        Records("batch-latency-fast", BatchRun),
        p99=1.0,
    ),
    "postgresql": Part(
        "Into PostgreSQL",
        "{rate:,} records a second from Kafka into a table, with the server on the same machine. Another connection\n"
        "asks for new rows every 10 ms.",
        1000,
        (BY_CHECKPOINT, OURS),
        Records("batch-latency-postgresql", BatchRun),
        job=JOBS / "kafka_postgresql.yaml",
        target=table,
        p99=0.5,
    ),
    "delta": Part(
        "Into a Delta table",
        "{rate:,} records a second from Kafka into a table on the local disk. A reader looks for the next version\n"
        "of the table's log every 10 ms, and reads the files that it adds.",
        200,
        (OURS,),
        Records("batch-latency-delta", BatchRun),
        job=JOBS / "kafka_delta.yaml",
        target=delta,
    ),
    FLINK: Part(
        "Flink beside it",
        "{rate:,} records a second, passed on from Kafka to Kafka by Flink's Kafka connector with the guarantee\n"
        "`exactly-once`, two task slots, and aligned checkpoints. Flink has no mode in which an exactly-once\n"
        "record is visible before its checkpoint.",
        200,
        (FLINK,),
        Records("batch-latency-flink", BatchRun),
    ),
}


def measured(benchmark: Benchmark, server: KafkaServer, part: str, side: str, number: int) -> BatchRun:
    """Hand records to a running job, and wait until a reader sees each. Raises RunFailed."""
    plan, options = PARTS[part], benchmark.options
    rate, name = options.rate or plan.rate, f"{part}-{list(NAMES).index(side)}-{number}"
    directory = benchmark.work / name
    directory.mkdir(parents=True)
    server.create_topic(name, PARTITIONS)
    log, load = directory / "log.txt", os.getloadavg()[0]
    with plan.target(server, name, directory) as (changes, see):
        job: AbstractContextManager[subprocess.Popen[bytes] | RunningJob]
        if side == FLINK:
            job = started(_flink(benchmark, server, name, directory), log)
        else:
            changes |= {"name": name, "sources.events.options.subscribe": name}
            if plan.job == WINDOWS and side != BASE:
                changes |= EXACTLY_ONCE
            command = start_command(SIDES[side], directory, changes, plan.job)
            plain = SIDES[side].plain
            place = directory / "work"
            job = started(command, log) if plain else running(command, place, log, options.timeout)
        with job as process:
            cpu = partial(tree_cpu_seconds, process.pid)
            found = steady(server, name, rate, options.seconds, options.timeout, see, cpu)
    more = {"round": number, "seconds": options.seconds, "cpu": found.cpu}
    return BatchRun.of(side, rate, found.latencies, load, **more)


def _flink(benchmark: Benchmark, server: KafkaServer, name: str, directory: Path) -> list[str]:
    (jar,) = fetched_jars(_FLINKS_KAFKA, benchmark.cache / "flink-kafka")
    python, program = install(benchmark.cache).python, Path(__file__).with_name("flink_kafka.py")
    return [str(python), str(program), str(jar), server.bootstrap, name, str(directory / "checkpoints")]


def replayed(benchmark: Benchmark, server: KafkaServer, side: str, behind: float, number: int) -> ReplayRun:
    """Kill a job behind data that it has published, and wait for what its next process publishes. Raises RunFailed."""
    options, name = benchmark.options, f"replay-{side}-{behind:g}-{number}"
    rate, deadline = options.rate or REPLAY_RATE, time.monotonic() + options.timeout
    directory = benchmark.work / name
    directory.mkdir(parents=True)
    server.create_topic(name, PARTITIONS)
    server.create_topic(f"{name}-copy", PARTITIONS, cleanup_policy="compact")
    changes: dict[str, object] = {
        "name": name,
        "sources.events.options.subscribe": name,
        "sinks.copy.options.topic": f"{name}-copy",
        "checkpointing.interval": "1h",
        **EXACTLY_ONCE,
    }
    command, log = start_command(SIDES[OURS], directory, changes, WINDOWS), directory / "log.txt"
    with reading(server, f"{name}-copy") as consumer:
        with running(command, directory / "work", log, options.timeout) as job:
            see = Newest(consumer)
            with producing(server, name, rate) as sending:
                seen = _watch(see, sending.sent, lambda seen: seen > 0, deadline)
                sending.go_on()
                ended = time.monotonic() + behind
                seen += _watch(see, sending.sent, lambda _: time.monotonic() > ended, deadline)
            _watch(see, sending.sent, lambda more: seen + more >= len(sending.sent), deadline)
            if side == NOTHING:
                job.checkpoint()
        load, begun = os.getloadavg()[0], time.monotonic()
        with started(command, log), producing(server, name, rate) as sending:
            sending.go_on()
            _watch(Newest(consumer), sending.sent, lambda seen: seen > 0, deadline)
            seconds = time.monotonic() - begun
    return ReplayRun(side=side, round=number, behind=behind, rate=rate, seconds=seconds, load_before=load)


def _watch(see: See, sent: Sequence[int], enough: Callable[[int], bool], deadline: float) -> int:
    """Look until enough records are seen, and return how many. Raises RunFailed if that takes too long."""
    seen = 0
    while not enough(seen):
        if time.monotonic() > deadline:
            raise RunFailed(f"{seen:,} of {len(sent):,} records were seen")
        seen += len(see(sent))
    return seen


def arguments() -> argparse.Namespace:
    """Read the command line."""
    made = parser("make bench-batch-latency", __doc__, "a few seconds of each")
    add = made.add_argument
    parts = [*PARTS, REPLAY]
    add("--only", action="append", choices=parts, metavar="PART", help=f"measure this part: {', '.join(parts)} (all)")
    add("--rounds", type=int, default=1, metavar="N", help="rounds of all sides (1)")
    add("--rate", type=int, metavar="N", help="records a second (what the part has)")
    add("--seconds", type=float, default=40.0, metavar="S", help="seconds of them that count (40)")
    add("--timeout", type=float, default=300.0, metavar="S", help="seconds that one run may take (300)")
    options = made.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 5.0
    options.only = options.only or parts
    return options


_TEXT = """\
Seconds from the time when a record is handed to its producer until a reader sees it; the first {warm:.0f} s of a job do
not count. Jobs have two task slots, and all servers and clients are on the same machine. A row that is published with
its checkpoint is seen after half the interval, plus the duration of a checkpoint and a batch. CPU is that of the job's
processes. Batches follow one another without a pause, so a side with shorter batches runs more of them.
"""

_REPLAY = """\
{rate:,} records a second to the windowed aggregation, which publishes each batch; its only checkpoint was the one
before the first batch. The job is killed behind the given seconds of records, and started again while records keep
coming. Seconds from the start of the process until a reader sees the first record that was sent behind it: all batches
since the checkpoint have run again, and a checkpoint has completed. With nothing to run again, a checkpoint was taken
before the kill. {rounds} {load}
"""


def _render() -> str:
    parts = [head("How soon readers see what each batch publishes", "bench-batch-latency", "batch_latency.py")]
    parts.append(_TEXT.format(warm=WARM_SECONDS))
    for part in PARTS.values():
        measured = part.runs.load()
        if runs := measured.runs:
            text = f"{part.text.format(rate=runs[0].rate)} {interleaved(runs)} {loads(runs)}\n"
            parts += [f"## {part.title}\n", text, measured.where + "\n", latency_table(runs).markdown()]
            parts += filter(None, [goal_list(_goals(part, runs))])
    replays = REPLAYS.load()
    if replays.runs:
        text = _REPLAY.format(rate=replays.runs[0].rate, rounds=interleaved(replays.runs), load=loads(replays.runs))
        parts += ["## What running batches again adds to a start\n", text, replays.where + "\n"]
        parts.append(replay_table(replays.runs).markdown())
    return "\n".join(parts)


PAGE = Page("BATCH_LATENCY", _render)


def latency_table(runs: Sequence[BatchRun]) -> Table:
    """Return the latency of each side: medians over the rounds."""
    return Table.of(
        [mine for side in NAMES if (mine := of_side(runs, side))],
        ("", lambda mine: NAMES[mine[0].side]),
        ("records", lambda mine: f"{sum(run.records for run in mine):,}"),
        ("median s", lambda mine: mid((run.median for run in mine), ".2f")),
        ("p99 s", lambda mine: mid((run.p99 for run in mine), ".2f")),
        ("most s", lambda mine: f"{max(run.most for run in mine):.2f}"),
        ("CPU s / minute", lambda mine: mid((60 * run.cpu / run.seconds for run in mine if run.cpu), ".1f")),
    )


def _goals(part: Part, runs: Sequence[BatchRun]) -> Iterator[tuple[str, bool]]:
    mine = of_side(runs, OURS)
    for what, most, figures in (
        ("median", part.median, [each.median for each in mine]),
        ("p99", part.p99, [each.p99 for each in mine]),
    ):
        if most is not None and figures:
            yield f"`publish: batch`, {what} within {most:g} s: {mid(figures, '.2f')} s", median(figures) <= most
    if all(each.cpu for each in runs) and (more := paired(runs, OURS, BASE, lambda run: run.cpu or 0.0)):
        yield f"CPU at most {MOST_CPU:g} times that of at least once: {more:.2f} times", more <= MOST_CPU


def replay_table(runs: Sequence[ReplayRun]) -> Table:
    """Return what a start takes with and without batches to run again: medians over the rounds."""

    def seconds(side: str) -> Callable[[float], str]:
        return lambda behind: mid((run.seconds for run in of_side(runs, side) if run.behind == behind), ".1f")

    return Table.of(
        sorted({run.behind for run in runs}),
        ("seconds of records", lambda behind: f"{behind:g}"),
        ("nothing to run again s", seconds(NOTHING)),
        ("batches to run again s", seconds(REPLAY)),
    )


def bench(benchmark: Benchmark) -> None:
    """Measure the parts; show and store the results of each after every round."""
    options = benchmark.options
    with KafkaServer() as server, environment({"BENCH_KAFKA": server.bootstrap}):
        for name in filter(options.only.__contains__, PARTS):
            part, runs, begun = PARTS[name], list[BatchRun](), time.time()
            for number, turn in benchmark.rounds(part.sides):
                for side in turn:
                    runs.append(measured(benchmark, server, name, side, number))
                    benchmark.tell(runs[-1])
                benchmark.keep(part.runs, runs, begun)
                benchmark.show(part.title, latency_table(runs))
        if REPLAY in options.only:
            replays, begun = list[ReplayRun](), time.time()
            behinds = BEHIND[:1] if options.quick else BEHIND
            kills = [(side, behind) for behind in behinds for side in (NOTHING, REPLAY)]
            for number, turns in benchmark.rounds(kills):
                for side, behind in turns:
                    replays.append(replayed(benchmark, server, side, behind, number))
                    benchmark.tell(replays[-1])
                benchmark.keep(REPLAYS, replays, begun)
                benchmark.show("seconds until the first new row", replay_table(replays))


if __name__ == "__main__":
    run(arguments(), PAGE, bench)
