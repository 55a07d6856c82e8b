"""Shows whether a job stays as large as it is over hours: `python -m bench.soak --help`."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
from bench import data, soak_report
from bench.entry import Benchmark, parser, run
from bench.object_store import object_store
from bench.proc import cpu_seconds, descendants
from bench.processes import REPOSITORY, environment, locked
from bench.running import command, running
from bench.soak_figures import Places, histogram, look, native_memory
from bench.soak_model import Look, Soak
from pyarrow import parquet

JOB = REPOSITORY / "bench" / "jobs" / "soak.yaml"
RESULTS = REPOSITORY / "bench" / "soak.json"
KEYS = 100
_INPUT_SECONDS = 240.0
_OUTPUT_SECONDS = 60.0
_COLLECT_SECONDS = 600.0
_TIMEOUT = 120.0
# The collector is the product's default, which these options replace.
_JAVA_OPTIONS = "-XX:+UseParallelGC -XX:NativeMemoryTracking=summary"


@dataclass
class Traffic:
    """Gives a job a file of events every few seconds, and removes read files and published output.

    Args:
        source: where the job reads.
        output: where it publishes.
        every: seconds from file to file.
        rows: of a file.

    `rows_in` and `rows_out` count events, the latter those that the removed output speaks of.
    """

    source: Path
    output: Path
    every: float
    rows: int = 200
    rows_in: int = 0
    rows_out: int = 0
    _over: threading.Event = field(default_factory=threading.Event)
    _failure: BaseException | None = None

    def __enter__(self) -> Traffic:
        self._thread = threading.Thread(target=self._go, name="traffic", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        if self._failure is not None and error is None:
            raise self._failure

    def _go(self) -> None:
        try:
            number = 0
            while not self._over.is_set():
                data.put(_events(number, self.rows, time.time()), self.source, f"{number:08}.parquet")
                self.rows_in += self.rows
                number += 1
                self.take_away(input_before=time.time() - _INPUT_SECONDS, output_before=time.time() - _OUTPUT_SECONDS)
                self._over.wait(self.every)
        except BaseException as failure:
            self._failure = failure

    def take_away(self, *, input_before: float, output_before: float) -> None:
        """Remove files of input and of published output that are older than these times, in seconds since 1970."""
        for file in _older(self.source.glob("*.parquet"), input_before):
            file.unlink()
        for file in _older(self.output.glob("part-*.parquet"), output_before):
            self.rows_out += int(sum(parquet.read_table(file, columns=["events"]).column("events").to_pylist()))
            file.unlink()


def _older(files: Iterable[Path], before: float) -> list[Path]:
    return [file for file in list(files) if file.stat().st_mtime < before]


def _events(seed: int, rows: int, now: float) -> pa.Table:
    chance = np.random.default_rng(seed)
    times = (np.full(rows, now * 1e6) - chance.integers(0, 1_000_000, rows)).astype(np.int64)
    return pa.table(
        {
            "key": chance.integers(0, KEYS, rows),
            "time": pa.array(times, pa.timestamp("us", tz="UTC")),
            "value": chance.integers(0, 10_000, rows) / 100,
        }
    )


@dataclass(frozen=True)
class Plan:
    """How long to look, and how often; seconds."""

    duration: float
    warm_up: float
    every: float
    file_every: float


def soak(benchmark: Benchmark, plan: Plan) -> Iterator[Soak]:
    """Run the job and look at it; yield what was seen so far, from the end of the warm-up on.

    Raises:
        RunFailed: the job failed, or did not answer.
    """
    began, directory = time.time(), benchmark.work / "soak"
    source, output = directory / "input", directory / "output"
    workdir, log, temporary = directory / "work", directory / "log.txt", directory / "tmp"
    temporary.mkdir(parents=True)
    with object_store(benchmark.work / "s3") as store, environment({"TMPDIR": str(temporary)}):
        changes: dict[str, object] = {
            "sources.events.options.path": source,
            "sinks.report.options.path": output,
            "sparkConf.spark.driver.extraJavaOptions": _JAVA_OPTIONS,
        }
        arguments = command(JOB, f"s3://{store.server.bucket}/soak", workdir, changes)
        kept = benchmark.work / "s3" / "data"
        places = Places(work=workdir, store=kept, temporary=temporary, input=source, log=log)
        source.mkdir(parents=True)
        with running(arguments, workdir, log, _TIMEOUT) as job, Traffic(source, output, plan.file_every) as traffic:
            started, looks = time.monotonic(), list[Look]()
            begin, used = started + plan.warm_up, used_by(job.pid)
            collected = float("-inf")
            while not looks or looks[-1].at < plan.duration:
                now = time.monotonic()
                collect = now >= begin and now - collected >= _COLLECT_SECONDS
                if collect:
                    collected = now
                    keep_details(directory, job.pid, round(now - begin))
                figures = look(job.pid, places, collect=collect)
                looks.append(Look(at=now - begin, load=os.getloadavg()[0], figures=figures))
                counts = job.client.checkpoints().counts
                seen = Soak(
                    circumstances=benchmark.circumstances(began),
                    minutes=max(0.0, looks[-1].at / 60),
                    warm_up_minutes=plan.warm_up / 60,
                    cpu_share=(used_by(job.pid) - used) / (time.monotonic() - started),
                    rows_in=traffic.rows_in,
                    rows_out=traffic.rows_out,
                    restarts=job.view().restarts,
                    checkpoints=counts.completed,
                    failed_checkpoints=counts.failed,
                    looks=tuple(looks),
                )
                benchmark.tell(soak_report.said(looks[-1]))
                if looks[-1].at >= 0:
                    yield seen
                time.sleep(max(0.0, now + plan.every - time.monotonic()))
            keep_details(directory, job.pid, round(looks[-1].at))


def used_by(driver: int) -> float:
    """Return the CPU seconds of a driver and of the processes below it that have not ended."""
    return sum(map(cpu_seconds, [driver, *descendants(driver)]))


def keep_details(directory: Path, driver: int, at: int) -> None:
    """Write down the JVM's classes and what its memory is for, to find the cause of a growth by."""
    (directory / f"histogram-{at}.txt").write_text(histogram(driver))
    (directory / f"native-{at}.txt").write_text(native_memory(driver))


def arguments() -> argparse.Namespace:
    """Read the command line."""
    made = parser("make bench-soak", __doc__, "two minutes")
    add = made.add_argument
    add("--minutes", type=float, default=120.0, metavar="N", help="how long to look, the warm-up apart (120)")
    add("--warm-up", type=float, default=10.0, metavar="N", help="minutes before the looks count (10)")
    add("--every", type=float, default=30.0, metavar="S", help="seconds from look to look (30)")
    add("--file-every", type=float, default=3.0, metavar="S", help="seconds from file to file of the input (3)")
    return made.parse_args()


def bench(benchmark: Benchmark) -> None:
    """Look for as long as asked, show what grew, and keep it."""
    options = benchmark.options
    minutes, warm_up = (2.0, 0.5) if options.quick else (options.minutes, options.warm_up)
    plan = Plan(duration=minutes * 60, warm_up=warm_up * 60, every=options.every, file_every=options.file_every)
    with locked(options.lock):
        for seen in soak(benchmark, plan):
            benchmark.keep(seen, RESULTS, soak_report.render)
            result = seen
    benchmark.show("first and last quarter", soak_report.trend_table(result.looks))
    for line in soak_report.findings(result):
        benchmark.tell(line)


def main() -> int:
    """Run the benchmark; return its exit code."""
    return run(arguments(), bench)


if __name__ == "__main__":
    sys.exit(main())
