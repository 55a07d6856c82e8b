"""Jobs as real processes, `streamjob run`, that are watched through their store and killed with all they started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from streamjob.ids import Key
from streamjob.protocol.log.records import JobId, read
from streamjob.snapshot.manifest import Manifest
from streamjob.snapshot.record import LogRecord
from streamjob.store.base import ObjectMissing
from streamjob.store.effects import drive
from streamjob.store.opening import open_location

PROGRAM = Path(sys.executable).with_name("streamjob")
WITHIN = 150.0
"""Seconds in which whatever is waited for has to happen, on a slow and busy machine."""
POLL = 0.05
"""Seconds between two looks at a job, which take from it what the machine has."""


class JobProcess:
    """One process of a job and all that it started. Its output goes to a file."""

    def __init__(self, arguments: list[str], output: Path, environment: Mapping[str, str]) -> None:
        self._output = output
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                [PROGRAM, "run", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    def output(self) -> str:
        """Return its output so far."""
        return self._output.read_text(errors="replace")

    def wait(self, seconds: float = WITHIN) -> int:
        """Wait for its end; return its exit code."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it has not ended within {seconds} s:\n{self.output()}") from None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process alone."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End everything at once, as a power cut would."""
        kill_session(self._process)

    def stop(self) -> None:
        """Stop everything where it stands, as a machine that sleeps."""
        # Twice: a child may have been started while the first round went on.
        signal_session(self.pid, signal.SIGSTOP)
        signal_session(self.pid, signal.SIGSTOP)

    def wake(self) -> None:
        """Let everything go on."""
        signal_session(self.pid, signal.SIGCONT)


def kill_session(leader: subprocess.Popen[Any]) -> None:
    """End a process and all of its session at once, as a power cut would; return when none of them is left."""
    while signal_session(leader.pid, signal.SIGKILL) or leader.poll() is None:
        time.sleep(0.01)


def signal_session(leader: int, number: signal.Signals) -> int:
    """Send a signal to the processes of a session; return how many there are."""
    members = members_of(leader)
    for pid in members:
        # Hadoop starts processes of moments, such as chmod.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    return len(members)


def members_of(leader: int) -> list[int]:
    """Return the processes of a session, the leader first; Python workers have groups of their own, not sessions."""
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == leader and fields[0] != "Z":
                    members.append(int(entry.name))
    return sorted(members, key=lambda pid: pid != leader)


def java_of(process: JobProcess) -> int:
    """Return the process of a job's Java."""
    names = {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in members_of(process.pid)}
    (java,) = [pid for pid, name in names.items() if name == "java"]
    return java


class JobRuns:
    """Starts the processes of one job, and examines its files in the store.

    Args:
        file: the job file.
        location: where the snapshots go, a directory or URI.
        name: the job's name.
    """

    def __init__(self, file: Path, location: Path | str, name: str) -> None:
        self.file = file
        self.root = Path(location) / "default" / name
        """The job's root, if the location is a directory."""
        self._location = str(location)
        self._job = JobId(namespace="default", name=name)
        self._store = open_location(self._location).job("default", name).store()
        self._processes: list[JobProcess] = []

    def start(self, *arguments: str, workdir: str = "work", environment: Mapping[str, str] | None = None) -> JobProcess:
        """Start a process; those that share a `workdir` run on one machine, the others on several."""
        directory = self.file.parent
        options = ["--location", self._location, "--workdir", str(directory / workdir), *arguments]
        output = directory / f"output-{len(self._processes)}.log"
        process = JobProcess([str(self.file), *options], output, environment or {})
        self._processes.append(process)
        return process

    def end(self) -> None:
        """End all processes that are left."""
        for process in self._processes:
            process.kill()
        self._store.close()

    def records(self) -> list[LogRecord]:
        """Return the log as it stands; what a sleeper left below it does not count."""
        return list(drive(self._store, read(self._job)).records)

    def completions(self, epoch: int | None = None) -> list[LogRecord]:
        """Return the completions in the log, of one epoch or of all."""
        records = [record for record in self.records() if record.completes]
        return records if epoch is None else [record for record in records if record.epoch == epoch]

    def manifest(self, record: LogRecord) -> Manifest | None:
        """Return the manifest that a record names; None if it is deleted already."""
        try:
            return Manifest.model_validate_json(self._store.get(Key(str(record.manifest))))
        except ObjectMissing:
            return None

    def furthest(self) -> int:
        """Return the last batch that any retained checkpoint covers, -1 before the first."""
        manifests = [self.manifest(record) for record in self.completions()]
        return max((chain.batch for found in manifests if found for chain in found.chains), default=-1)

    def files(self) -> dict[str, bytes]:
        """Return everything in the store, by key."""
        return {info.key: self._store.get(info.key) for info in self._store.list("")}

    def wait(self, condition: Callable[[], bool], what: str, process: JobProcess, seconds: float = WITHIN) -> None:
        """Wait until a condition holds; the process must not end before."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert process.exit_code is None, (
                f"ended with {process.exit_code} before {what} (epoch {self.epoch()}):\n{process.output()}"
            )
            assert time.monotonic() < deadline, f"no {what} within {seconds} s:\n{process.output()}"
            time.sleep(POLL)

    def epoch(self) -> int:
        """Return the epoch of the last claim, whose record may be pruned by now; 0 before the first."""
        return drive(self._store, read(self._job)).epoch

    def wait_for_claim(self, epoch: int, process: JobProcess) -> None:
        """Wait until the log is claimed for a later epoch than `epoch`."""
        self.wait(lambda: self.epoch() > epoch, "claim", process)

    def wait_for_progress(self, batch: int, process: JobProcess) -> None:
        """Wait until a checkpoint covers more than `batch`."""
        self.wait(lambda: self.furthest() > batch, f"checkpoint behind batch {batch}", process)


@contextlib.contextmanager
def job_runs(file: Path, location: Path | str, name: str) -> Iterator[JobRuns]:
    """Run a job's processes; at the end none of them is left."""
    runs = JobRuns(file, location, name)
    try:
        yield runs
    finally:
        runs.end()
