"""Runs a command and records the resources of it and all its descendants: `python -m bench.accounting FILE COMMAND…`.

Descendants whose parent ends first become children of this process, so all are counted: the JVM of PySpark, its Python
workers, and the programs that they start.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from bench.proc import descendants, stat_of

_PR_SET_CHILD_SUBREAPER = 36


_SAMPLE_SECONDS = 0.25


def main() -> int:
    """Run the command; return its exit code."""
    file, command = Path(sys.argv[1]), sys.argv[2:]
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "orphaned processes cannot be adopted, so they could not be counted")
    begun = time.monotonic()
    process = subprocess.Popen(command)
    samples = []
    while True:
        try:
            code = process.wait(_SAMPLE_SECONDS)
            break
        except subprocess.TimeoutExpired:
            samples.append((time.time(), _used_so_far()))
    wall = time.monotonic() - begun
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    account = {"wall": wall, "cpu": used.ru_utime + used.ru_stime, "samples": samples}
    file.write_text(json.dumps(account))
    return code


def _used_so_far() -> float:
    """CPU seconds of all descendants, of those that have ended by their parents' account."""
    ticks = sum(sum(map(int, stat[11:15])) for stat in map(stat_of, descendants(os.getpid())) if stat)
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
