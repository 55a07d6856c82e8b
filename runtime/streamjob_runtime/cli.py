"""The command `streamjob run`."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import threading
import time
import uuid
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from streamjob.errors import ExitCode, InvalidInput
from streamjob.ids import Attempt, TriggerId
from streamjob.job.load import load_job
from streamjob.job.plan import plan
from streamjob.protocol import messages as m
from streamjob.protocol.restarts import RestartPolicy
from streamjob.protocol.restore import ClaimMode
from streamjob.snapshot.manifest import Manifest
from streamjob.store.opening import open_location
from streamjob.store.probe import probe
from streamjob_runtime.api.server import ControlServer
from streamjob_runtime.checkpoints import OnCompleted
from streamjob_runtime.clock import steady_clock
from streamjob_runtime.control import RunningJob
from streamjob_runtime.epoch import Job
from streamjob_runtime.ledger import RestoreFrom
from streamjob_runtime.metered_store import MeteredStore
from streamjob_runtime.metrics import Metrics
from streamjob_runtime.runner import Runner, RunOptions
from streamjob_runtime.session import SessionSettings
from streamjob_runtime.spark_holder import SparkHolder
from streamjob_runtime.sql_judge import parse_with_spark
from streamjob_runtime.view import StandardErrorHandler, View, open_view

_STATE_DIRECTORY = ".streamjob"
_LOOK_SECONDS = 1.0
_RESTARTS = 10
"""Restarts in the process, counted anew after ten quiet minutes; then it exits, and whoever started it may go on."""


def run(
    file: Annotated[Path, typer.Argument(help="The job: YAML, a StreamJob resource, or Python that defines `job`.")],
    location: Annotated[str | None, typer.Option(help="Where checkpoints are kept: a path, file:/// or s3://.")] = None,
    namespace: Annotated[str | None, typer.Option(help="The job's namespace in the store.")] = None,
    name: Annotated[str | None, typer.Option(help="The job's name. Default: the file's.")] = None,
    restore_from: Annotated[
        str, typer.Option("--from", help="latest, none, or the URI of a snapshot's manifest.")
    ] = "latest",
    claim_mode: Annotated[ClaimMode, typer.Option(help="Who owns the snapshot from now on.")] = ClaimMode.CLAIM,
    allow_non_restored_state: Annotated[
        bool, typer.Option("--allow-non-restored-state", help="Give up state of operators that the job has no more.")
    ] = False,
    require_snapshot: Annotated[bool, typer.Option("--require-snapshot", help="Do not start from nothing.")] = False,
    attempt: Annotated[int, typer.Option(min=0, help="Number of this attempt; exit 4 if a higher one was.")] = 0,
    workdir: Annotated[Path | None, typer.Option(help="Local directory of the running job.")] = None,
    parallelism: Annotated[int | None, typer.Option(min=1, help="Task slots.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="PATH=VALUE: change a field of the job.")] = None,
    grace: Annotated[float, typer.Option(min=0, help="Seconds for the last checkpoint after SIGTERM.")] = 30.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show nothing but errors.")] = False,
) -> None:
    """Run a job on an embedded Spark, from its latest checkpoint."""
    overrides = list(set_ or ())
    if parallelism is not None:
        overrides.append(f"parallelism={parallelism}")
    loaded = load_job(file, overrides, spark_parser=parse_with_spark, environ=os.environ)
    spec = loaded.spec
    chain = plan(spec).chains[0]
    name = name or spec.name
    namespace = namespace or loaded.namespace or "default"
    place = open_location(
        location or loaded.location() or str(loaded.directory / _STATE_DIRECTORY / "snapshots"), Path.cwd()
    ).job(namespace, name)
    work = (workdir or loaded.directory / _STATE_DIRECTORY / "work" / name).absolute()
    _make(work)

    _log_to_standard_error()
    view = open_view(quiet=quiet)
    store = MeteredStore(place.store())
    probe(store, uuid.uuid4().hex, time.time())
    scratch = work / f"process-{os.getpid()}"
    settings = SessionSettings(
        name=name,
        parallelism=spec.parallelism,
        max_parallelism=spec.max_parallelism,
        workdir=scratch,
        conf=loaded.spark_conf(),
        python_path=(loaded.directory,),
    )
    live = not quiet and sys.stdout.isatty()
    spark = SparkHolder(settings, work / "spark.log" if live else None)
    clock = steady_clock()
    job = Job(
        loaded=loaded, chain=chain, namespace=namespace, name=name, workdir=work, clock=clock, spark=spark.session
    )
    runner = Runner(
        job,
        store,
        RunOptions(
            restore_from=RestoreFrom(restore_from, claim_mode, require_snapshot, allow_non_restored_state),
            attempt=Attempt(attempt),
            restarts=RestartPolicy(attempts=_RESTARTS),
        ),
    )
    control = RunningJob(runner)
    metrics = Metrics(control.job, control.checkpoints, store=store)
    runner.on_completed = metrics_of_completions(metrics)
    server = ControlServer(control, work, metrics=metrics.render)
    _clear_scratch(work)
    scratch.mkdir(exist_ok=True)
    watcher = _Watcher(control, view, metrics)
    with server:
        stopper = _Stopper(runner, view, grace)
        stopper.listen()
        watcher.start()
        try:
            code = runner.run()
        finally:
            watcher.stop()
            stopper.done()
            spark.stop()
            store.close()
            shutil.rmtree(scratch, ignore_errors=True)
    if code is not ExitCode.OK:
        raise typer.Exit(int(code))


def metrics_of_completions(metrics: Metrics) -> OnCompleted:
    """Return what notes each completed checkpoint in the metrics."""

    def note(action: m.CompleteCheckpoint, manifest: Manifest) -> None:
        written = sum(each.metrics.checkpointed_size for each in action.acknowledgements.values())
        metrics.observe_checkpoint(action.properties.kind, manifest.completed - manifest.triggered, written)

    return note


class _Watcher:
    """Reads the query's progress and updates the view about once a second."""

    def __init__(self, control: RunningJob, view: View, metrics: Metrics) -> None:
        self._control = control
        self._view = view
        self._metrics = metrics
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        self._view.update(self._control.job(), self._control.checkpoints())
        self._view.close()

    def _run(self) -> None:
        while not self._stopped.wait(_LOOK_SECONDS):
            try:
                self._control.observe(self._metrics)
            except Exception as error:
                # Spark may be gone or going; what is shown stays as it was, and the job's own thread reports why.
                logging.getLogger("streamjob").debug("Progress could not be read: %s", error)
            self._view.update(self._control.job(), self._control.checkpoints())


class _Stopper:
    """SIGTERM and SIGINT stop the job behind a last checkpoint; a second one, or the end of the grace, at once."""

    def __init__(self, runner: Runner, view: View, grace: float) -> None:
        self._runner = runner
        self._view = view
        self._grace = grace
        self._asked = False
        self._timer: threading.Timer | None = None

    def listen(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def done(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            self._leave()
        self._asked = True
        # Not in the handler: the thread that it interrupts may hold the lock that a stop takes.
        threading.Thread(target=self._ask, args=(signal.Signals(number).name,), daemon=True).start()
        self._timer = threading.Timer(self._grace, self._leave)
        self._timer.daemon = True
        self._timer.start()

    def _ask(self, name: str) -> None:
        self._view.message(f"{name}: stopping behind a last checkpoint, within {self._grace:g} s")
        self._runner.stop_now(TriggerId(f"signal-{os.getpid()}"))

    def _leave(self) -> None:
        self._view.close()
        typer.echo("Left without a last checkpoint; the job goes on from the one before.", err=True)
        os._exit(int(ExitCode.OK))


class UnusableWorkdir(InvalidInput):
    """The work directory cannot be written to."""


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnusableWorkdir(
            f"The work directory {directory} cannot be made: {error.strerror}", "name another one with --workdir"
        ) from error


def _clear_scratch(work: Path) -> None:
    """Drop what processes that were killed have left behind."""
    for directory in work.glob("process-*"):
        pid = directory.name.removeprefix("process-")
        if pid.isdigit() and (int(pid) == os.getpid() or not Path(f"/proc/{pid}").exists()):
            shutil.rmtree(directory, ignore_errors=True)


def _log_to_standard_error() -> None:
    handler = StandardErrorHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    logger = logging.getLogger("streamjob")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
