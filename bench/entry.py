"""The common start and end of benchmarks: command line, directory for runs, turns, output and stored results."""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn, TypeVar

from bench.processes import REPOSITORY, RunFailed, locked
from bench.results import Page, R, Records
from bench.tables import Table
from rich.console import Console
from tests.servers.process import ServerMissing

from streamjob_runtime.spark.connectors.fetching import CannotFetch
from streamjob_runtime.spark.process.java import find_java

_CANNOT_MEASURE = (RunFailed, CannotFetch, ServerMissing)
S = TypeVar("S")


@dataclass(frozen=True)
class Benchmark:
    """A benchmark under way.

    Args:
        options: its command line.
        page: what shows its results.
        work: directory for the runs.
        cache: directory for what is generated or fetched once.
        begun: when it began, in seconds since 1970.
    """

    options: argparse.Namespace
    page: Page
    work: Path
    cache: Path
    begun: float = field(default_factory=time.time)
    console: Console = field(default_factory=lambda: Console(highlight=False))

    def tell(self, text: object) -> None:
        """Print a line after the time of day."""
        self.console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] {text}")

    def show(self, title: str, table: Table) -> None:
        """Print a table."""
        self.console.print(table.rich(title))

    def keep(self, records: Records[R], runs: Iterable[R], begun: float | None = None, remark: str = "") -> None:
        """Replace runs that are stored, and the page, unless this is only a trial.

        Args:
            records: where they are stored.
            runs: all of them.
            begun: when the first of them began, in seconds since 1970; None if the benchmark began with it.
            remark: what readers have to know about them besides.
        """
        if not self.options.quick:
            records.save(f"{self.where(begun)}\n\n{remark}".strip(), runs)
            self.page.write()

    def where(self, begun: float | None = None) -> str:
        """Return the sentence on how, when and where something was measured that began at a time."""
        # A lock that others of the machine respect does not change what is measured.
        arguments = re.sub(r"--lock[= ]\S+ ?", "", " ".join(sys.argv[1:])).strip()
        command = f'{self.options.target} ARGS="{arguments}"' if arguments else self.options.target
        info = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        machine = f"{os.cpu_count()} × {info[1] if info else platform.machine()}, {memory:.0f} GiB, {platform.system()}"
        with tempfile.TemporaryDirectory() as directory:
            java = find_java(os.environ, Path(directory)).version
        return (
            f"`{command}`, {_utc(begun or self.begun)} to {_utc(time.time())}, on {machine}; streamjob"
            f" {version('streamjob')}, Spark {version('pyspark')}, Python {platform.python_version()}, Java {java}."
        )

    def rounds(self, sides: Sequence[S]) -> Iterator[tuple[int, list[S]]]:
        """Yield the number of each round, and the sides in its order, within one hold of the lock.

        Sides take turns and run as close together as can be, so that what disturbs the machine disturbs all of them.
        """
        for number in range(self.options.rounds):
            with locked(self.options.lock):
                yield number, order(sides, number)


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def order(sides: Sequence[S], number: int) -> list[S]:
    """Return the order of the sides in a round: each comes first, and last, about as often."""
    turn = number // 2 % len(sides)
    turned = [*sides[turn:], *sides[:turn]]
    return turned if number % 2 == 0 else turned[::-1]


def parser(target: str, purpose: str | None, quick: str) -> argparse.ArgumentParser:
    """Return a parser with the options that every benchmark has.

    Args:
        target: of the Makefile, such as `make bench-kafka`, with which the results are made again.
        purpose: what is measured.
        quick: what is done with `--quick`.
    """
    made = argparse.ArgumentParser(prog=target, description=purpose)
    made.set_defaults(target=target)
    made.add_argument("--quick", action="store_true", help=f"{quick}, for a look; writes no results")
    made.add_argument("--lock", type=Path, metavar="FILE", help="hold this file's lock meanwhile, on a shared machine")
    return made


def run(options: argparse.Namespace, page: Page, body: Callable[[Benchmark], None]) -> NoReturn:
    """Run a benchmark, and end this process. Files of a failed run are kept."""
    # Child processes have a session of their own, so a signal to end must be passed on to them.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamjob-bench"
    work = REPOSITORY / "bench" / ".work" / str(os.getpid())
    work.mkdir(parents=True)
    benchmark = Benchmark(options, page, work, cache)
    try:
        body(benchmark)
    except _CANNOT_MEASURE as failure:
        benchmark.console.print(f"[bold red]failed[/]: {failure}", markup=True)
        benchmark.console.print(f"what it left is in {work}")
        sys.exit(1)
    shutil.rmtree(work)
    sys.exit(0)
