"""A job that runs while the benchmark asks it for things."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.processes import REPOSITORY, RunFailed, started, streamjob

from streamjob.client.client import ControlClient
from streamjob.client.discovery import find_endpoint, read_control_file
from streamjob.client.models import CheckpointDetail, JobState, JobView
from streamjob.errors import StreamJobError
from streamjob.ids import CheckpointId, Key
from streamjob.snapshot.manifest import Manifest
from streamjob.snapshot.record import LogRecord
from streamjob.store.opening import open_location

JOBS = REPOSITORY / "bench" / "jobs"
POLL_SECONDS = 0.05


class RunningJob:
    """A process that runs a job.

    Args:
        process: it.
        workdir: its work directory.
        log: its output.
        timeout: seconds for anything that is waited for.
    """

    def __init__(self, process: subprocess.Popen[bytes], workdir: Path, log: Path, timeout: float) -> None:
        self._process = process
        self._log = log
        self._timeout = timeout
        # One that was killed may have left its control file: reading that fails while its process does not run.
        self.until(lambda: read_control_file(workdir).pid > 0)
        endpoint = find_endpoint(workdir=workdir)
        self.client = ControlClient(endpoint.url, endpoint.token)
        self.until(lambda: self.client.job().state is JobState.RUNNING)

    @property
    def pid(self) -> int:
        """The driver's process id."""
        return self._process.pid

    def view(self) -> JobView:
        """Return the job as it stands."""
        return self.client.job()

    def checkpoint(self) -> CheckpointDetail:
        """Take a checkpoint and return its statistics. Raises RunFailed if it did not complete."""
        outcome = self.client.wait(self.client.trigger_checkpoint(), timeout=self._timeout, poll=POLL_SECONDS)
        if outcome.checkpoint is None or outcome.failure:
            raise RunFailed(f"the checkpoint failed: {outcome.failure}")
        return self.client.checkpoint(CheckpointId(outcome.checkpoint))

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition. Raises RunFailed if the process ends before, or it takes too long."""
        deadline = time.monotonic() + self._timeout
        while True:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RunFailed.told_by(self._log, "the job got no further")
            try:
                if condition():
                    return
            except StreamJobError as error:
                if time.monotonic() > deadline:
                    raise RunFailed(str(error)) from error
            time.sleep(POLL_SECONDS)

    def ended(self) -> None:
        """Wait until the job has ended by itself. Raises RunFailed if it failed."""
        try:
            code = self._process.wait(self._timeout)
        except subprocess.TimeoutExpired:
            raise RunFailed.told_by(self._log, "the job did not end") from None
        if code:
            raise RunFailed.told_by(self._log, f"the job ended with {code}")


def settings(changes: Mapping[str, object]) -> list[str]:
    """Return the arguments that change some fields of a job."""
    return [part for name, value in changes.items() for part in ("--set", f"{name}={value}")]


def command(job: Path, location: str, workdir: Path, changes: dict[str, object]) -> list[str]:
    """Return the command that runs a job with some of its fields changed."""
    places = ["--location", location, "--workdir", str(workdir)]
    return streamjob("run", str(job), "--quiet", *places, *settings(changes))


@contextmanager
def running(arguments: list[str], workdir: Path, log: Path, timeout: float) -> Iterator[RunningJob]:
    """Run a job; when the block ends, nothing of its processes is left."""
    with started(arguments, log) as process:
        yield RunningJob(process, workdir, log, timeout)


def manifests(location: str, job: str) -> list[tuple[LogRecord, Manifest]]:
    """Return the completed checkpoints that a job's log names: the records, and what they refer to."""
    store = open_location(location, REPOSITORY).job("default", job).store()
    try:
        records = [LogRecord.model_validate_json(store.get(each.key)) for each in store.list("log/")]
        named = [(record, record.manifest) for record in records if record.completes and record.manifest is not None]
        return [(record, Manifest.model_validate_json(store.get(Key(name)))) for record, name in named]
    finally:
        store.close()


def manifest(location: str, job: str, checkpoint: CheckpointId) -> Manifest:
    """Return the manifest of a completed checkpoint."""
    (found,) = (each for record, each in manifests(location, job) if record.id == checkpoint)
    return found
