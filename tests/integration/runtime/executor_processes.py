"""Finds and kills the processes of a job's executors."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

LONG = 300.0
"""Seconds for what two cold Java processes and their Python workers need on a busy machine."""
ON_TWO = ("--executors", "2", "--executor-memory", "600m")
"""The options of `streamjob run` for two executors on this machine."""


def java_of_executors(workdir: Path) -> dict[str, int]:
    """Return the Java processes of executors below a work directory, by the name of the executor."""
    return _processes(workdir, b"io.streamjob.executors.ExecutorProcess")


def agents_of_executors(workdir: Path) -> dict[str, int]:
    """Return the agents of executors below a work directory, by the name of the executor."""
    return _processes(workdir, b"--work-dir")


def kill(pid: int) -> None:
    """End a process as the kernel does when memory runs out."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _processes(workdir: Path, word: bytes) -> dict[str, int]:
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if word not in words:
                continue
            for directory in (workdir / "executors").iterdir():
                inside = str(directory).encode() + b"/work"
                if any(each.endswith(inside) for each in words):
                    found[directory.name] = int(entry.name)
    return found
