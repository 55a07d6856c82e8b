"""Behind `Job.preview` and `Job.run`: jobs that a notebook defines, on one Spark of its process."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from streamjob.client import formatting
from streamjob.client.models import CheckpointsView, JobState, JobView
from streamjob.clock import steady_clock
from streamjob.errors import ExitCode, InvalidInput, JobFailed
from streamjob.ids import Attempt, TriggerId
from streamjob.job.loading.load import LoadedJob, load_dsl
from streamjob.job.planning.plan import plan
from streamjob.job.python_job.dsl import Job
from streamjob.protocol.restarts import WITHIN_A_PROCESS
from streamjob.stored.start_snapshot import job_location
from streamjob_runtime.checkpointing.ledger import RestoreFrom
from streamjob_runtime.control.background import BackgroundJob
from streamjob_runtime.control.terminal import open_view
from streamjob_runtime.job.epoch import Job as RunnableJob
from streamjob_runtime.job.runner import RunOptions
from streamjob_runtime.monitoring.metrics import Metrics
from streamjob_runtime.process.watching import Watcher
from streamjob_runtime.spark.connectors.finding import compilers, needed
from streamjob_runtime.spark.holder import SparkHolder
from streamjob_runtime.spark.job_files import JobFiles
from streamjob_runtime.spark.parsing import parse_with_spark
from streamjob_runtime.spark.session import SessionSettings
from streamjob_runtime.testing.preview import Preview, part_of, preview
from streamjob_runtime.testing.session import Session, changeable_conf, parser_of

_NAMESPACE = "default"
_FEWEST_SLOTS = 2


class SparkInUse(InvalidInput):
    """A job of this process runs on a Spark that another job cannot use."""


class AlreadyRunning(InvalidInput):
    """A job of this name runs in this process."""


class NotEnded(JobFailed):
    """A job has not ended within the time that was given."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a running job, as a notebook shows it."""

    job: JobView
    checkpoints: CheckpointsView

    def lines(self) -> list[tuple[str, ...]]:
        """Return a line for each chain: its name, the records in and out, and its last batch."""
        return [
            (
                chain.uid,
                formatting.count(chain.records_in),
                formatting.count(chain.records_out),
                formatting.ABSENT if chain.batch < 0 else str(chain.batch),
            )
            for chain in self.job.chains
        ]

    def summary(self) -> str:
        """Return the state of the job and the number of its checkpoints, in one line."""
        completed = self.checkpoints.counts.completed
        failure = f", {self.job.failure}" if self.job.failure else ""
        return f"{self.job.name}: {self.job.state}, {completed} snapshots completed{failure}"

    def __repr__(self) -> str:
        return "\n".join([self.summary(), *(f"  {name}: {' '.join(rest)}" for name, *rest in self.lines())])

    def _repr_html_(self) -> str:
        """Return a table, for notebooks."""
        names = ("chain", "records in", "records out", "batch")
        head = "".join(f"<th>{name}</th>" for name in names)
        body = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in line)}</tr>" for line in self.lines())
        return f"<p>{escape(self.summary())}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class RunningJob:
    """A job that runs in the background of this process, from `Job.run` on.

    It is the job of `streamjob run`: with checkpoints, restarts after failures, and exactly-once output.
    """

    def __init__(self, job: RunnableJob, location: str | None) -> None:
        self._store = job_location(job.loaded, location).job(_NAMESPACE, job.name).store()
        options = RunOptions(RestoreFrom(), Attempt(0), WITHIN_A_PROCESS)
        self._job = BackgroundJob(job, self._store, options)
        control = self._job.control
        metrics = Metrics(control.job, control.checkpoints)
        self._watcher = Watcher(control, open_view(quiet=True), metrics)
        self._watcher.start()
        self._closed = False
        self._lock = threading.Lock()

    @property
    def state(self) -> JobState:
        """Its state."""
        return self._job.control.job().state

    @property
    def has_ended(self) -> bool:
        """Whether it has stopped, finished or failed."""
        return not self._job.is_alive

    def progress(self) -> Progress:
        """Return its state and its work so far; a notebook shows it as a table."""
        return Progress(self._job.control.job(), self._job.control.checkpoints())

    def stop(self, within: float | None = None) -> None:
        """Stop it with a checkpoint, from which the next `Job.run` continues; do nothing if it has ended.

        Args:
            within: the longest time to wait, in seconds; default any time.

        Raises:
            NotEnded: it takes longer.
            StreamJobError: it has failed.
        """
        if not self.has_ended:
            self._job.runner.coordination.stop_now(TriggerId(f"notebook-{uuid.uuid4().hex}"))
        self.wait(within)

    def wait(self, within: float | None = None) -> None:
        """Wait for its end, such as that of its bounded sources.

        Args:
            within: the longest time to wait, in seconds; default any time.

        Raises:
            NotEnded: it takes longer.
            StreamJobError: it has failed.
        """
        if not self._job.join(within):
            name = self._job.runner.job.name
            raise NotEnded(f"job {name!r} has not ended within {within:g} s", "wait longer, or call stop()")
        self._close()
        if self._job.error is not None:
            raise self._job.error
        if self._job.code is not ExitCode.OK:
            status = self._job.runner.coordination.status()
            raise JobFailed(f"job {self._job.runner.job.name!r} failed: {status.failure}")

    def _close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                self._watcher.stop()
                self._store.close()

    def __repr__(self) -> str:
        return repr(self.progress())

    def _repr_html_(self) -> str:
        return self.progress()._repr_html_()


class Notebook:
    """The Spark of a process, and the jobs that run on it. Use the one of `notebook()`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: SparkHolder | None = None
        self._settings: SessionSettings | None = None
        self._root: Path | None = None
        self._running: dict[str, RunningJob] = {}

    def preview(
        self,
        job: Job,
        name: str | None,
        *,
        rows: int,
        sampled: int,
        given: Mapping[str, Sequence[Any]] | None,
        within: float,
    ) -> Preview:
        """Return what an operator returns for a sample of its sources; see `testing.preview`."""
        loaded = load_dsl(job, spark_parser=self._why_not)
        part = part_of(loaded, name, given or ())
        connectors = compilers(part.spec) if given is not None else needed(part.spec, os.environ)
        holder, root = self._spark(loaded, connectors)
        session = Session(holder.session(_FEWEST_SLOTS), JobFiles(root))
        return preview(loaded, name, session, root, rows=rows, sampled=sampled, given=given, within=within)

    def run(self, job: Job, location: str | None) -> RunningJob:
        """Run a job in the background.

        Args:
            location: of its snapshots; default as for `streamjob run`, with the current directory as the job file's.

        Raises:
            InvalidJob: the job is invalid.
            AlreadyRunning: a job of this name runs in this process.
            SparkInUse: another running job uses a Spark that this job cannot use.
        """
        loaded = load_dsl(job, spark_parser=self._why_not)
        name = loaded.spec.name
        with self._lock:
            if name in self._running and not self._running[name].has_ended:
                raise AlreadyRunning(f"job {name!r} runs in this process already", "stop it first: stop()")
        holder, root = self._spark(loaded, needed(loaded.spec, os.environ))
        own = holder.session(loaded.spec.max_parallelism).newSession()
        for key, value in changeable_conf(loaded, own).items():
            own.conf.set(key, value)

        def session(partitions: int) -> Any:
            holder.session(partitions)
            own.conf.set("spark.sql.shuffle.partitions", partitions)
            return own

        workdir = root / "jobs" / f"{name}-{uuid.uuid4().hex[:8]}"
        workdir.mkdir(parents=True)
        runnable = RunnableJob(
            loaded=loaded,
            plan=plan(loaded.spec),
            namespace=_NAMESPACE,
            name=name,
            workdir=workdir,
            files=JobFiles(root),
            clock=steady_clock(),
            spark=session,
            unfit=holder.unfit,
        )
        running = RunningJob(runnable, location)
        with self._lock:
            self._running[name] = running
        return running

    def close(self) -> None:
        """Stop Spark, with all jobs as they are: each continues from its last checkpoint when it runs again."""
        with self._lock:
            self._stop_spark()

    def _why_not(self, sql: str) -> str | None:
        """Return why Spark cannot parse a query, or None. A process has one Spark: another one would end it."""
        holder = self._holder
        return parse_with_spark(sql) if holder is None else parser_of(holder.session(_FEWEST_SLOTS))(sql)

    def _spark(self, loaded: LoadedJob, connectors: tuple[str, ...]) -> tuple[SparkHolder, Path]:
        """Return a Spark with at least these connectors and the job's slots, and the directory for its files."""
        with self._lock:
            slots = max(loaded.spec.parallelism, _FEWEST_SLOTS)
            now = self._settings
            if now is not None and set(connectors) <= set(now.connectors) and slots <= now.parallelism:
                assert self._holder is not None
                assert self._root is not None
                return self._holder, self._root
            busy = [name for name, each in self._running.items() if not each.has_ended]
            if busy:
                raise SparkInUse(
                    f"job {loaded.spec.name!r} needs a Spark with {slots} slots and the connectors "
                    f"{', '.join(connectors) or 'none'}, and {', '.join(map(repr, busy))} runs on one without",
                    f"stop {busy[0]!r} first",
                )
            self._stop_spark()
            self._root = root = Path(tempfile.mkdtemp(prefix="streamjob-notebook-"))
            known = () if now is None else now.connectors
            self._settings = SessionSettings(
                name="notebook",
                parallelism=slots,
                max_parallelism=slots,
                workdir=root / "spark",
                conf=changeable_conf(loaded),
                python_path=(loaded.directory,),
                connectors=tuple(dict.fromkeys((*known, *connectors))),
                root=root,
            )
            self._holder = SparkHolder(self._settings, root / "spark.log")
            return self._holder, root

    def _stop_spark(self) -> None:
        if self._holder is not None:
            self._holder.stop()
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
        self._holder = self._settings = self._root = None


_NOTEBOOK = Notebook()


def notebook() -> Notebook:
    """Return the one of this process."""
    return _NOTEBOOK


atexit.register(_NOTEBOOK.close)
