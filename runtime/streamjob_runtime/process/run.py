"""The process behind `streamjob run`: assembles a job, runs it, and cleans up.

Spark takes seconds to start. So it starts in the background as soon as the job is known to be valid and unfinished,
while the modules for the control API and the view are imported.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from streamjob.errors import ExitCode, InvalidInput, ProcessUnfit, StreamJobError
from streamjob.ids import Attempt, Owner
from streamjob.job.loading.load import LoadedJob, load_job
from streamjob.job.planning.available_now import check_available_now
from streamjob.job.planning.on_executors import check_on_executors
from streamjob.job.planning.plan import plan
from streamjob.protocol.lifecycle import JobState
from streamjob.protocol.log.records import JobId, read
from streamjob.protocol.log.restore import LATEST, NONE, ClaimMode
from streamjob.protocol.restarts import WITHIN_A_PROCESS
from streamjob.store.base import Store
from streamjob.store.effects import drive
from streamjob.store.opening import Location, snapshot_reference
from streamjob.store.probe import probe
from streamjob.stored.start_snapshot import FROM_SPARK, STATE_DIRECTORY, job_location
from streamjob.telemetry.logs import LogFormat, describe_process, log_format, log_to
from streamjob.telemetry.settings import TelemetrySettings
from streamjob.telemetry.spans import TRACEPARENT
from streamjob_runtime.executors.driver.options import ExecutorOptions
from streamjob_runtime.process.lock import RunningLock
from streamjob_runtime.process.termination import TerminationLog
from streamjob_runtime.spark.connectors.finding import needed
from streamjob_runtime.spark.holder import SparkHolder
from streamjob_runtime.spark.job_files import JobFiles
from streamjob_runtime.spark.parsing import parse_with_spark
from streamjob_runtime.spark.process.sockets import remove_sockets
from streamjob_runtime.spark.session import SessionSettings, keep_utc

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamjob_runtime.executors.driver.driver_side import DriverSide

_SCRATCH = "process-"
_ADDRESSES = frozenset(
    {
        "spark.blockManager.port",
        "spark.driver.bindAddress",
        "spark.driver.blockManager.port",
        "spark.driver.host",
        "spark.driver.port",
    }
)


class UnusableWorkdir(InvalidInput):
    """The work directory cannot be written to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOptions:
    """The options of `streamjob run`; None means the default from the job file. `grace` is in seconds.

    `owner` is the process in the log, a new one if None. If state must be rearranged on one disk, a driver starts
    another process, see `on_one_disk`: `owner` is then the driver, and with `once` the process ends behind its first
    checkpoint. With `standby` it waits, ready, until the process has ended that runs the job in the same work
    directory. With `wait_for_start` it waits, ready, until the control API tells it to start. With `available_now` the
    run is over when it has read what is there.
    """

    file: Path
    overlays: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    location: str | None = None
    namespace: str | None = None
    name: str | None = None
    restore_from: str = "latest"
    claim_mode: ClaimMode = ClaimMode.CLAIM
    require_snapshot: bool = False
    allow_non_restored_state: bool = False
    strict: bool = False
    attempt: int = 0
    workdir: Path | None = None
    grace: float = 30.0
    quiet: bool = False
    executors: ExecutorOptions | None = None
    owner: Owner | None = None
    once: bool = False
    standby: bool = False
    wait_for_start: bool = False
    available_now: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A job's identity, the location of its snapshots, and its work directory."""

    job: JobId
    location: Location
    work: Path


def load(options: ProcessOptions) -> LoadedJob:
    """Return the job. Raises InvalidJob."""
    return load_job(
        options.file,
        options.overrides,
        overlays=options.overlays,
        variables=options.variables,
        spark_parser=parse_with_spark,
        environ=os.environ,
    )


def place_of(options: ProcessOptions, loaded: LoadedJob) -> Place:
    """Return the place of a job. Raises InvalidInput if its location cannot be used."""
    job = JobId(options.namespace or loaded.namespace or "default", options.name or loaded.spec.name)
    work = options.workdir or loaded.directory / STATE_DIRECTORY / "work" / job.name
    return Place(job, job_location(loaded, options.location).job(job.namespace, job.name), work.absolute())


def run_process(options: ProcessOptions) -> ExitCode:
    """Run a job to its end, with control API and view; return the exit code.

    Raises:
        StreamJobError: the job could not run, or has failed; the error carries the exit code.
    """
    # Before the job's modules are loaded, which may look at the clock.
    keep_utc()
    termination = TerminationLog.from_environment(os.environ)
    try:
        return _run_process(options, termination)
    except Exception as error:
        termination.write_error(error)
        raise


def _run_process(options: ProcessOptions, termination: TerminationLog) -> ExitCode:
    loaded = load(options)
    # Unusable settings are an error before anything starts.
    TelemetrySettings.from_environment(os.environ)
    if options.executors is not None:
        check_on_executors(loaded.spec, local_files=options.executors.reach_local_files)
    if options.available_now:
        check_available_now(loaded.spec)
    place = place_of(options, loaded)
    work, store = place.work, place.location.store()
    describe_process(job=place.job.name, namespace=place.job.namespace, attempt=options.attempt)
    scratch = _make_scratch(work)
    probes = ExitStack()
    try:
        executors = None
        if options.executors is not None:
            from streamjob_runtime.executors.driver.driver_side import DriverSide

            executors = DriverSide(options.executors, work, store.uri, time.time)
        spark = SparkHolder(
            SessionSettings(
                name=place.job.name,
                parallelism=_slots(loaded, options),
                max_parallelism=loaded.spec.max_parallelism,
                workdir=scratch,
                conf=_conf(loaded, options),
                python_path=(loaded.directory,),
                connectors=needed(loaded.spec, os.environ),
                root=work,
                executors=executors.for_spark if executors else None,
            ),
            log_file=work / "spark.log" if not options.quiet and sys.stdout.isatty() else None,
            on_started=executors.spark_started if executors else None,
        )
        try:
            view = drive(store, read(place.job, checkpoints=1))
            if not view.finished:
                # Java takes longest. Start it before the imports, which would compete with it.
                import pyspark.sql  # noqa: F401

                threading.Thread(target=spark.start_early, name="start-spark", daemon=True).start()
            probe(store, uuid.uuid4().hex, time.time())
            code = _run_job(options, loaded, place.job, store, work, spark, executors, termination, probes)
            if view.finished and options.restore_from == LATEST:
                from streamjob_runtime.process.finished import tell_of_finished

                tell_of_finished(loaded, store, view, asked=not options.attempt)
            return code
        finally:
            spark.stop()
            store.close()
    finally:
        # Probes are answered until all else is done, so that an orderly end fails none.
        with probes:
            shutil.rmtree(scratch, ignore_errors=True)


def _run_job(
    options: ProcessOptions,
    loaded: LoadedJob,
    job_id: JobId,
    store: Store,
    work: Path,
    spark: SparkHolder,
    executors: DriverSide | None,
    termination: TerminationLog,
    probes: ExitStack,
) -> ExitCode:
    from streamjob.clock import steady_clock
    from streamjob_runtime.checkpointing.ledger import RestoreFrom
    from streamjob_runtime.control.api.monitoring import MonitoringServer
    from streamjob_runtime.control.api.server import ControlServer
    from streamjob_runtime.control.profiled_processes import recorders
    from streamjob_runtime.control.running_job import RunningJob
    from streamjob_runtime.control.start_gate import StartGate
    from streamjob_runtime.control.terminal import StandardErrorHandler, open_view
    from streamjob_runtime.job.epoch import Job
    from streamjob_runtime.job.runner import Runner, RunOptions
    from streamjob_runtime.lineage.starting import lineage_of
    from streamjob_runtime.monitoring.metered_store import MeteredStore
    from streamjob_runtime.monitoring.metrics import Metrics
    from streamjob_runtime.process.on_one_disk import OnOneDisk
    from streamjob_runtime.process.prepared import PreparedProcess, stand_by, wait_for_start
    from streamjob_runtime.process.reporting import Reporting
    from streamjob_runtime.process.signals import Stopper
    from streamjob_runtime.process.watching import Watcher
    from streamjob_runtime.restoring.at_hand import FilesAtHand
    from streamjob_runtime.restoring.from_spark import take_over, was_taken_over
    from streamjob_runtime.restoring.rewriting import NeedsOneDisk

    if log_format() is LogFormat.TEXT:
        # With JSON, the log is set up already, since no panel must stay below it.
        log_to(StandardErrorHandler(), LogFormat.TEXT)
    metered = MeteredStore(store)
    files = JobFiles(work)
    lock = RunningLock(work)
    at_hand = FilesAtHand(metered, job_id, _scratch_in(work) / "at-hand")
    process = PreparedProcess(options, loaded, job_id, spark, files, at_hand, _scratch_in(work))
    if not options.standby:
        lock.acquire()
    elif not stand_by(process, lock):
        return ExitCode.OK
    lock.begin()
    owner = options.owner or Owner(uuid.uuid4().hex)
    reporting = Reporting(job_id, Attempt(options.attempt), owner, _for_reporting(options))
    job = Job(
        loaded=loaded,
        plan=plan(loaded.spec),
        namespace=job_id.namespace,
        name=job_id.name,
        workdir=work,
        files=files,
        clock=steady_clock(),
        spark=spark.session,
        executors=executors,
        at_hand=at_hand.directory if options.standby or options.wait_for_start else None,
        recorder=reporting.recorder,
        unfit=spark.unfit,
        available_now=options.available_now,
    )
    named = options.restore_from
    if named.startswith(FROM_SPARK):

        def session() -> SparkSession:
            if executors is not None:
                raise NeedsOneDisk(
                    f"The state at {options.restore_from.removeprefix(FROM_SPARK)} has to be converted to RocksDB"
                )
            return spark.session(loaded.spec.max_parallelism)

        if was_taken_over(named, job.plan, job_id, metered):
            named = LATEST
        else:
            named = take_over(named, loaded, job.plan, job_id, metered, job.clock, session, _scratch_in(work))
    restore_from = RestoreFrom(
        named if named in (LATEST, NONE) else snapshot_reference(named),
        options.claim_mode,
        options.require_snapshot,
        options.allow_non_restored_state,
        options.strict,
    )
    run_options = RunOptions(
        restore_from,
        Attempt(options.attempt),
        WITHIN_A_PROCESS,
        owner=owner,
        once=options.once,
        on_one_disk=OnOneDisk(options, work) if executors else None,
    )
    runner = Runner(job, metered, run_options)
    gate = StartGate(is_open=not options.wait_for_start)
    control = RunningJob(
        runner, metered, lambda: recorders(spark, executors), lambda: spark.page, reporting.emitted, gate
    )
    metrics = Metrics(control.job, control.checkpoints, store=metered, policy=lambda: runner.coordination.policy)
    view = open_view(quiet=options.quiet)
    lineage = probes.enter_context(lineage_of(runner, os.environ))
    watcher = Watcher(control, view, metrics, lineage, job.clock)
    job.sink_meters.on_call = metrics.observe_sink
    runner.coordination.on_completed = watcher.note_completion
    reporting.begin(runner.coordination, metrics.registry.collect, runner.started)
    stopper = Stopper(runner.coordination, view, options.grace, termination, runner.stopped_code)
    probes.enter_context(MonitoringServer(control, metrics=metrics.render))
    agents = executors.routes if executors else None
    control_server = ControlServer(control, work, metrics=metrics.render, agents=agents, expect=reporting.expect)
    with reporting, control_server as server:
        if executors is not None:
            executors.start(server.url)
        is_told = not options.wait_for_start or wait_for_start(process, gate, lambda: runner.coordination.stop_asked)
        if is_told:
            # From here on there is something to save; before, SIGTERM ends the process at once.
            stopper.listen()
        watcher.start()
        try:
            code = runner.run() if is_told else runner.leave()
            lock.end()
        except StreamJobError as error:
            if not isinstance(error, ProcessUnfit):
                lock.end()
            raise
        finally:
            stopper.done()
            watcher.stop()
            if executors is not None:
                executors.stop()
    status = runner.coordination.status()
    state = status.lifecycle.state
    failure = None if state is JobState.FINISHED else status.failure
    termination.write(state, failure, code, control.last_checkpoint())
    return code


def _for_reporting(options: ProcessOptions) -> Mapping[str, str]:
    """Return the variables for traces and metrics."""
    if options.once:
        # A process that helps a job on executors is a part of its start.
        return {}
    # The trace of the first start does not cover the standby that continues the job.
    return {name: os.environ[name] for name in os.environ if not (options.standby and name == TRACEPARENT)}


def _slots(loaded: LoadedJob, options: ProcessOptions) -> int:
    """Return the task slots; a process that helps a job on executors has no more than its machine has cores."""
    return min(loaded.spec.parallelism, len(os.sched_getaffinity(0))) if options.once else loaded.spec.parallelism


def _conf(loaded: LoadedJob, options: ProcessOptions) -> dict[str, str]:
    """Return the job's settings for Spark; a process beside the driver cannot have its addresses."""
    conf = loaded.spark_conf()
    return {key: conf[key] for key in conf if not (options.once and key in _ADDRESSES)}


def _scratch_in(work: Path) -> Path:
    return work / f"{_SCRATCH}{os.getpid()}"


def _make_scratch(work: Path) -> Path:
    """Return a directory for this process alone, and remove those of killed processes."""
    try:
        work.mkdir(mode=0o700, parents=True, exist_ok=True)
        for directory in work.glob(f"{_SCRATCH}*"):
            pid = directory.name.removeprefix(_SCRATCH)
            if pid.isdigit() and (int(pid) == os.getpid() or not Path(f"/proc/{pid}").exists()):
                remove_sockets(directory)
                shutil.rmtree(directory, ignore_errors=True)
        scratch = _scratch_in(work)
        scratch.mkdir(mode=0o700)
    except OSError as error:
        raise UnusableWorkdir(
            f"The work directory {work} cannot be used: {error.strerror}", "name another one with --workdir"
        ) from error
    return scratch
