"""The common start and end of benchmarks: command line, directory for runs, output and stored results."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench import machine, model
from bench.model import Circumstances, M
from bench.processes import REPOSITORY, RunFailed
from bench.tables import Table
from rich.console import Console
from tests.servers.process import ServerMissing

from streamjob_runtime.spark.connectors.fetching import CannotFetch

_CANNOT_MEASURE = (RunFailed, CannotFetch, ServerMissing)


@dataclass(frozen=True)
class Benchmark:
    """A benchmark under way.

    Args:
        options: its command line.
        work: directory for the runs.
        cache: directory for what is generated or fetched once.
    """

    options: argparse.Namespace
    work: Path
    cache: Path
    console: Console = field(default_factory=lambda: Console(highlight=False))

    def tell(self, text: str) -> None:
        """Print a line after the time of day."""
        self.console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] {text}")

    def show(self, title: str, table: Table) -> None:
        """Print a table."""
        self.console.print(table.rich(title))

    def circumstances(self, begun: float) -> Circumstances:
        """Return when, where and with what a part was measured that began at `begun`, in seconds since 1970."""
        return machine.circumstances(begun, machine.command_line(self.options.target))

    def keep(self, results: M, file: Path, render: Callable[[M], str]) -> None:
        """Replace a file of results and the report next to it, unless this is only a trial."""
        if not self.options.quick:
            model.save(results, file, render)


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


def run(options: argparse.Namespace, body: Callable[[Benchmark], None]) -> int:
    """Run a benchmark; return its exit code. Files of a failed run are kept."""
    # Child processes have a session of their own, so a signal to end must be passed on to them.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamjob-bench"
    work = REPOSITORY / "bench" / ".work" / str(os.getpid())
    work.mkdir(parents=True)
    benchmark = Benchmark(options, work, cache)
    try:
        body(benchmark)
    except _CANNOT_MEASURE as failure:
        benchmark.console.print(f"[bold red]failed[/]: {failure}", markup=True)
        benchmark.console.print(f"what it left is in {work}")
        return 1
    shutil.rmtree(work)
    return 0
