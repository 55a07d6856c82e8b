"""How every benchmark begins and ends: a directory for its runs, and what is said when one of them fails."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from bench.hadoop_aws import FetchFailed
from bench.processes import REPOSITORY, RunFailed
from rich.console import Console
from tests.servers.s3 import ServerMissing

Body = Callable[[Path, Path], None]
"""Measures, given a directory for the runs and one for what is generated or fetched once."""


def run_benchmark(body: Body, console: Console) -> int:
    """Run a benchmark; return its exit code. What a failed run left is kept."""
    # What runs has a session of its own: being told to end has to reach it.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamjob-bench"
    work = REPOSITORY / "bench" / ".work" / str(os.getpid())
    work.mkdir(parents=True)
    try:
        body(work, cache)
    except (RunFailed, FetchFailed, ServerMissing) as failure:
        console.print(f"[bold red]failed[/]: {failure}", markup=True)
        console.print(f"what it left is in {work}")
        return 1
    shutil.rmtree(work)
    return 0
