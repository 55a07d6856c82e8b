"""Starts the measured processes, one at a time, and ends them with all their descendants."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.proc import descendants, stat_of

REPOSITORY = Path(__file__).resolve().parents[1]


class RunFailed(Exception):
    """A measured process did not do its work."""

    @classmethod
    def told_by(cls, log: Path, what: str) -> RunFailed:
        """Return what went wrong, with the end of the process' log."""
        return cls(f"{what}; {log} ends:\n{log.read_text()[-3000:]}")


@dataclass(frozen=True, slots=True)
class Used:
    """Seconds of a process, and CPU seconds of it and its descendants.

    `samples` are CPU seconds used so far, each with its time in seconds since 1970.
    """

    wall: float
    cpu: float
    load_before: float
    samples: tuple[tuple[float, float], ...]


def streamjob(*arguments: str) -> list[str]:
    """Return the command line of `streamjob`."""
    return [str(Path(sys.executable).with_name("streamjob")), *arguments]


@contextlib.contextmanager
def locked(lock: Path | None) -> Iterator[None]:
    """Hold a file's lock, so that other work of this machine that respects it waits."""
    if lock is None:
        yield
        return
    with lock.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Have what is started meanwhile see more variables."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def started(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a session of its own; when the block ends, nothing of it is left."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        for pid in kill_tree(process):
            while stat_of(pid)[:1] not in ([], ["Z"]):
                time.sleep(0.01)


def kill_tree(process: subprocess.Popen[bytes]) -> list[int]:
    """Kill a process and all its descendants with SIGKILL, and wait for it; return the descendants: they may linger."""
    below = descendants(process.pid) if process.poll() is None else []
    for pid in [process.pid, *below] if process.poll() is None else below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return below


def measure(command: Sequence[str], directory: Path, timeout: float) -> Used:
    """Run a command to its end and return its resources.

    Args:
        command: what to run.
        directory: for its log and the account.
        timeout: seconds.

    Raises:
        RunFailed: it failed, or took too long.
    """
    account, log = directory / "account.json", directory / "log.txt"
    before = os.getloadavg()[0]
    with started([sys.executable, "-m", "bench.accounting", str(account), *command], log) as process:
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise RunFailed(f"{command[0]} did not end within {timeout:.0f} s; see {log}") from None
    if code:
        raise RunFailed.told_by(log, f"{' '.join(command[:3])} ended with {code}")
    used = json.loads(account.read_text())
    samples = tuple((when, cpu) for when, cpu in used.pop("samples"))
    return Used(**used, load_before=before, samples=samples)
