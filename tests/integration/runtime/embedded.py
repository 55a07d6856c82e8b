"""Jobs that run in the tests' own process, on its one Spark: for what does not depend on a process of its own."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.integration.job_files import job_files
from tests.integration.runtime.purchases import write_job

from streamjob.clock import steady_clock
from streamjob.errors import ExitCode
from streamjob.ids import Attempt, TriggerId
from streamjob.job.loading.load import load_job
from streamjob.job.planning.plan import plan
from streamjob.protocol.lifecycle import JobState
from streamjob.protocol.restarts import RestartPolicy
from streamjob.store.base import Store
from streamjob.store.opening import open_location
from streamjob_runtime.checkpointing.ledger import RestoreFrom
from streamjob_runtime.control.running_job import RunningJob
from streamjob_runtime.job.epoch import Job
from streamjob_runtime.job.runner import Runner, RunOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WITHIN = 240.0
"""Seconds in which whatever is waited for has to happen, on a slow and busy machine."""

FAST = RestartPolicy(initial_delay=0.2, max_delay=1.0)


@dataclass(frozen=True, kw_only=True)
class Life:
    """How a job is run once.

    Args:
        file: the job file.
        location: where the snapshots go: a directory or URI; not used with `store`.
        name: the job's name in the store.
        overrides: `PATH=VALUE` each.
        restore_from: the snapshot to start from.
        restarts: the restart strategy.
        attempt: the number of the attempt.
        store: the store at the job's root; None for the one at the location.
        available_now: whether it ends with what is there.
    """

    file: Path
    location: str = ""
    name: str = "job"
    overrides: tuple[str, ...] = ()
    restore_from: RestoreFrom = field(default_factory=RestoreFrom)
    restarts: RestartPolicy = FAST
    attempt: int = 0
    store: Store | None = None
    available_now: bool = False


def life_in(directory: Path, job: Mapping[str, Any], **fields: Any) -> Life:
    """Write a job into `job` in a directory; return its life, with its snapshots in `snapshots` there."""
    return Life(file=write_job(directory / "job", job), location=str(directory / "snapshots"), **fields)


class EmbeddedJob:
    """A job that runs on a thread until it ends."""

    def __init__(self, spark: SparkSession, life: Life) -> None:
        loaded = load_job(life.file, life.overrides)

        def session(partitions: int) -> SparkSession:
            spark.conf.set("spark.sql.shuffle.partitions", partitions)
            return spark

        workdir = life.file.parent / "work" / life.name
        workdir.mkdir(parents=True, exist_ok=True)
        store = life.store or open_location(life.location).job("default", life.name).store()
        job = Job(
            loaded=loaded,
            plan=plan(loaded.spec),
            namespace="default",
            name=life.name,
            workdir=workdir,
            files=job_files(spark),
            clock=steady_clock(),
            spark=session,
            available_now=life.available_now,
        )
        options = RunOptions(restore_from=life.restore_from, attempt=Attempt(life.attempt), restarts=life.restarts)
        self.runner = Runner(job, store, options)
        self.control = RunningJob(self.runner)
        self._code: ExitCode | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"job-{life.name}", daemon=True)
        self._thread.start()

    @property
    def state(self) -> JobState:
        return self.runner.coordination.lifecycle.state

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def wait(self, seconds: float = WITHIN) -> ExitCode:
        """Wait for its end; return its exit code, or raise what ended it."""
        self._thread.join(seconds)
        assert not self.running, f"the job has not ended within {seconds} s: {self.control.job()}"
        if self._error is not None:
            raise self._error
        assert self._code is not None
        return self._code

    def records_not_decoded(self) -> list[int | None]:
        """Return for each input how many records it has left out, as the control API shows it now."""
        self.control.observe()
        return [each.records_not_decoded for chain in self.control.job().chains for each in chain.inputs]

    def wait_for(self, condition: Callable[[], bool], what: str, seconds: float = WITHIN) -> None:
        """Wait until a condition holds; the job must not end before."""
        deadline = time.monotonic() + seconds
        while not condition():
            if not self.running:
                self.wait()
                raise AssertionError(f"the job ended as {self.state} before: {what}")
            assert time.monotonic() < deadline, f"not within {seconds} s: {what}; {self.control.job()}"
            time.sleep(0.01)

    def wait_for_checkpoints(self, more: int = 1, during: str = "") -> None:
        """Wait until that many more checkpoints have completed."""
        target = self.completed + more
        self.wait_for(lambda: self.completed >= target, f"{target} completed checkpoints {during}".rstrip())

    def checkpoint(self) -> None:
        """Take a checkpoint now, and wait for it."""
        completed = self.completed
        self.control.trigger_checkpoint(TriggerId(f"test-{completed}"))
        self.wait_for(lambda: self.completed > completed, "the checkpoint that was asked for")

    def wait_for_batches(self, more: int = 1) -> None:
        """Wait until its last chain has published that many more batches.

        After a channel, the first one may be empty.
        """
        target = self.batch + more
        self.wait_for(lambda: self.batch >= target, f"batch {target}")

    def stop(self) -> ExitCode:
        """Stop it with a last checkpoint."""
        self.runner.coordination.stop_now(TriggerId("test-stop"))
        return self.wait()

    @property
    def batch(self) -> int:
        """The last emitted batch of the job's last chain; -1 before the first."""
        chains = self.runner.epoch.chains if self.runner.epoch else {}
        last = chains.get(self.runner.job.plan.chains[-1].uid)
        return last.last_emitted if last else -1

    @property
    def completed(self) -> int:
        """How many checkpoints it has completed."""
        return self.control.checkpoints().counts.completed

    @property
    def failed(self) -> int:
        """How many checkpoints have failed."""
        return self.control.checkpoints().counts.failed

    def _run(self) -> None:
        try:
            self._code = self.runner.run()
        except BaseException as error:
            self._error = error


@contextlib.contextmanager
def running(spark: SparkSession, life: Life) -> Iterator[EmbeddedJob]:
    """Run a job; if it still runs at the end, it is stopped, so that it does not meddle with the next test."""
    job = EmbeddedJob(spark, life)
    try:
        yield job
    finally:
        if job.running:
            with contextlib.suppress(Exception):
                job.stop()


def finish(spark: SparkSession, life: Life) -> None:
    """Run a job to its end."""
    with running(spark, life) as job:
        assert job.wait() is ExitCode.OK
