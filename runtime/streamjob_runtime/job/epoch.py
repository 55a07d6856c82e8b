"""One epoch of a job: claim the log, restore, run the chains, take checkpoints, until something ends it."""

from __future__ import annotations

import logging
import queue
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from streamjob.clock import Clock
from streamjob.comparison.compatibility import Restored
from streamjob.comparison.graphs import compare
from streamjob.comparison.snapshot_job import kept_notes
from streamjob.errors import CannotRestore, ProcessUnfit, StreamJobError
from streamjob.ids import ChainUid, CheckpointId, OperatorUid, TriggerId
from streamjob.job.loading.load import LoadedJob
from streamjob.job.planning.graph import graph_of
from streamjob.job.planning.plan import Plan
from streamjob.migration.records import MigrationRecord
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.triggers import SnapshotKind
from streamjob.protocol.lifecycle import JobState
from streamjob.protocol.log.restore import Resolution
from streamjob.snapshot.manifest import Manifest
from streamjob.store.staging import StoreStaging
from streamjob_runtime.chain.chain import Chain, ChainListener
from streamjob_runtime.chain.emissions.emission_lock import EmissionLock
from streamjob_runtime.chain.emissions.outputs import Outputs
from streamjob_runtime.chain.ending.end_of_chains import end_chains
from streamjob_runtime.checkpointing.checkpoints import Checkpoints
from streamjob_runtime.checkpointing.ledger import Ledger, RestoreFrom
from streamjob_runtime.checkpointing.log_work import CheckpointListener
from streamjob_runtime.checkpointing.manifest_assembly import ManifestAssembler
from streamjob_runtime.discovery.covering import Covered, read_by
from streamjob_runtime.executors.driver.state import RestoredState
from streamjob_runtime.job.assembly import Assembled, Assembler
from streamjob_runtime.job.bad_input_errors import bad_input_in
from streamjob_runtime.job.coordination import Coordination
from streamjob_runtime.job.epoch_directories import drop_epochs
from streamjob_runtime.job.first_positions import FirstPositions
from streamjob_runtime.job.output_recovery import (
    Journals,
    check_published,
    claim_journals,
    open_outputs,
    recover_journals,
    recover_output,
)
from streamjob_runtime.job.targets import check_targets
from streamjob_runtime.job.what_is_there import LOOK_SECONDS, WhatIsThere
from streamjob_runtime.kafka.reporting import OffsetReporter, OffsetReports, report_offsets
from streamjob_runtime.kafka.source_checks import check_sources, known_topics
from streamjob_runtime.migrating.transforming import OperatorMigration
from streamjob_runtime.migrating.watching import MigrationWatch, Step
from streamjob_runtime.monitoring.query_progress import Positions
from streamjob_runtime.monitoring.traces.recorder import TraceRecorder
from streamjob_runtime.monitoring.traces.starts import StartPhases
from streamjob_runtime.restoring.download import SnapshotFileCorrupt, SnapshotFileMissing
from streamjob_runtime.restoring.restoration import Restoration, Workdir
from streamjob_runtime.sinks.factory import SinkSurroundings
from streamjob_runtime.sinks.meter import SinkMeters
from streamjob_runtime.spark.job_files import JobFiles
from streamjob_runtime.tables.static import StaticTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamjob_runtime.executors.driver.driver_side import DriverSide

_STOP_SECONDS = 30.0
_LONGEST_WAIT = 86_400.0
_WANTED_SECONDS = 30.0
"""Until a checkpoint that a chain waits for is taken again, if it failed."""
_SCRATCH = ".sinks"
"""Directory for sinks' files; no chain has this name."""

log = logging.getLogger("streamjob")


class EpochEnd(StrEnum):
    """The ways in which an epoch ends."""

    FINISHED = "FINISHED"
    STOPPED = "STOPPED"
    READ = "READ"
    """The job has read all that was there, and stops."""
    SUPERSEDED = "SUPERSEDED"
    FAILED = "FAILED"
    RESTARTED = "RESTARTED"
    """Behind a checkpoint: the next epoch begins at once."""


@dataclass(frozen=True, slots=True)
class EpochOutcome:
    """The end of an epoch, with the reason if it is unexpected."""

    end: EpochEnd
    message: str = ""


@dataclass(frozen=True)
class Job:
    """The parts of a job that all its epochs in this process share.

    Args:
        name: the job's name in the store.
        files: gives the directories below it the names by which Spark knows them.
        clock: seconds since 1970.
        spark: returns the Spark session with the given number of state partitions; the first call starts it.
        sink_meters: count the work of the sinks.
        offset_reports: counts failed reports to Kafka.
        executors: the executors in other processes; None if this process computes.
        at_hand: files of a checkpoint that were brought beforehand, for the first restore; None if there are none.
        recorder: records traces; None if there are none.
        unfit: returns the error to end with if this process cannot run another epoch, None if it can; waits for its
            Spark to end for so many seconds.
        available_now: whether it ends, behind a checkpoint, with what is there when an epoch starts.
    """

    loaded: LoadedJob
    plan: Plan
    namespace: str
    name: str
    workdir: Path
    files: JobFiles
    clock: Clock
    spark: Callable[[int], SparkSession]
    sink_meters: SinkMeters = field(default_factory=SinkMeters)
    offset_reports: OffsetReports = field(default_factory=OffsetReports)
    executors: DriverSide | None = None
    at_hand: Path | None = None
    recorder: TraceRecorder | None = None
    unfit: Callable[[float], ProcessUnfit | None] = lambda patience: None
    available_now: bool = False


@dataclass(frozen=True, slots=True)
class EpochView:
    """The running parts of an epoch; empty until its chains are assembled.

    Args:
        restored: the snapshot that it was restored from; None for a fresh start.
        rewriting: during a rewrite of the state, the old and new numbers of partitions; None at other times.
        migrating: the change of state to a new form and its step; None at other times.
        partitions: the number of state partitions; None until it is known.
        tables: the job's tables; None until they are read.
        begun: where its Kafka sources continue, and the ends of their partitions at that time.
    """

    chains: Mapping[ChainUid, Chain] = field(default_factory=dict)
    emission: EmissionLock | None = None
    restored: Restored | None = None
    rewriting: tuple[int, int] | None = None
    migrating: tuple[OperatorMigration, Step] | None = None
    partitions: int | None = None
    tables: StaticTables | None = None
    begun: Mapping[OperatorUid, Positions] = field(default_factory=dict)


class Epoch(ChainListener, CheckpointListener, MigrationWatch):
    """One epoch. `run` blocks until it ends; all other methods may be called from other threads meanwhile.

    Args:
        held: files that the previous epoch still holds locally, with a directory per chain; None if there are none.
    """

    def __init__(
        self, job: Job, ledger: Ledger, restore_from: RestoreFrom, held: Path | None, coordination: Coordination
    ) -> None:
        self._job = job
        self._ledger = ledger
        self._restore_from = restore_from
        self._held = held
        self._coordination = coordination
        self._events: queue.SimpleQueue[m.Event] = queue.SimpleQueue()
        self._statuses: dict[ChainUid, m.ChainStatus] = {}
        self._directory = job.workdir / str(ledger.epoch)
        self._wake_at: float | None = None
        self._stopping = False
        self._view = EpochView()
        self.left: tuple[str, ...] = ()
        """The parts of it that could not be stopped; no other epoch may begin before they have ended."""
        self._cause: StreamJobError | None = None
        self._checkpoints: Checkpoints | None = None
        self._reporter: OffsetReporter | None = None
        self._covered = Covered()
        self._first_positions: FirstPositions | None = None
        self._start = StartPhases(ledger.epoch, job.clock)
        self._what_is_there: WhatIsThere | None = None
        self._positions: Mapping[OperatorUid, JsonValue] = {}
        self._migrations: list[MigrationRecord] = []
        self._journals: Journals | None = None
        self._next_wanted = 0.0

    @property
    def held(self) -> Path | None:
        """The files of the epoch's last completed checkpoint; None if it completed none."""
        return self._checkpoints.held if self._checkpoints else None

    def view(self) -> EpochView:
        """Return its running parts."""
        return self._view

    def run(self) -> EpochOutcome:
        """Restore, run, and clean up.

        Raises:
            CannotRestore: the snapshot cannot be restored.
            InvalidInput: the job cannot run.
            RecordNotDecoded: a source cannot decode a record, and is to fail.
        """
        resolution = self._ledger.resolve(self._restore_from)
        if resolution.manifest is not None:
            self._coordination.enter_if_possible(JobState.RESTORING)
        with self._traced(resolution):
            return self._run(resolution)

    @contextmanager
    def _traced(self, resolution: Resolution) -> Iterator[None]:
        recorder, manifest = self._job.recorder, resolution.manifest
        if recorder is None:
            yield
            return
        recorder.starting(self._start, None if manifest is None else manifest.id, self._first_output)
        try:
            yield
        finally:
            recorder.not_started(self._start, self._job.clock(), "the epoch ended before its first batch")

    def _run(self, resolution: Resolution) -> EpochOutcome:
        finished = self._ledger.log.claim.finished and not resolution.fork
        surroundings = self._surroundings()
        max_parallelism = self._job.loaded.spec.max_parallelism
        if resolution.manifest is not None and not finished and not self._coordination.stop_completed:
            # Before the sinks: a refused job must not claim a sink's path.
            max_parallelism = self._compare(resolution)
        outputs = open_outputs(self._job.plan, surroundings, self._job.sink_meters)
        try:
            with self._start.part("recover output"):
                if resolution.manifest is not None and not resolution.fork and not finished:
                    check_targets(resolution.manifest, self._graph()["sinks"], outputs.targets())
                check_published(self._ledger, outputs, resolution, self._restore_from.snapshot)
                claim_journals(self._ledger, outputs)
                recover_output(self._ledger, outputs, self._graph()["sinks"], surroundings, resolution)
            if finished:
                return EpochOutcome(EpochEnd.FINISHED, "the job had finished before")
            if self._coordination.stop_completed:
                return EpochOutcome(EpochEnd.STOPPED)
            if resolution.fork:
                log.warning(
                    "This start is a fork: the job does not continue from the log's last completion. Output "
                    "published since then stays published, and is published again."
                )
            self._journals = recover_journals(
                self._ledger, outputs, self._graph()["sinks"], surroundings, resolution, self._restore_from.snapshot
            )
            return self._run_chains(outputs, resolution, max_parallelism)
        finally:
            outputs.close()

    def _compare(self, resolution: Resolution) -> int:
        """Compare the job with its snapshot; return the number of state partitions to use."""
        assert resolution.manifest is not None
        manifest, uri, allow = resolution.manifest, self._uri(resolution), self._restore_from.allow_non_restored_state
        compared = compare(self._job.loaded.spec, self._job.plan, manifest, uri, allow)
        compared.check()
        # If nothing has changed, a start must not wait for Spark's planning.
        undecided = {uid: why for uid, why in compared.undecided.items() if uid in compared.changed}
        strict = self._restore_from.strict
        restored = Restored(manifest, uri, resolution.fork, compared.origins, undecided, allow, strict)
        self._view = replace(self._view, restored=restored)
        return compared.max_parallelism

    def _uri(self, resolution: Resolution) -> str:
        reference = resolution.reference or ""
        return reference if "://" in reference else self._ledger.store.uri + reference

    def _surroundings(self) -> SinkSurroundings:
        job, ledger, scratch = self._job, self._ledger, self._directory / _SCRATCH
        return SinkSurroundings(
            job.name,
            job.namespace,
            ledger.epoch,
            job.loaded.directory,
            staging=lambda sink: StoreStaging(ledger.store, sink, ledger.epoch, scratch / sink),
            spark=lambda: job.spark(job.loaded.spec.max_parallelism),
            modes={each.name: each.output_mode for each in job.loaded.spec.operators},
        )

    def _run_chains(self, outputs: Outputs, resolution: Resolution, max_parallelism: int) -> EpochOutcome:
        job, restored = self._job, self._view.restored
        workdir = Workdir(self._directory, self._held, job.files, job.at_hand)
        # An epoch that failed without a checkpoint has shown nothing of whether the state fits its operators.
        failed_before = self._held is None and self._coordination.has_run
        executors = job.executors
        restoration = Restoration(
            job.plan, restored, workdir, failed_before=failed_before, state_elsewhere=executors is not None, watch=self
        )
        with ThreadPoolExecutor(1, thread_name_prefix="restore") as pool:
            # Spark takes seconds to start; download the files meanwhile.
            files = pool.submit(self._download, restoration, resolution)
            with self._start.part("session"):
                spark = job.spark(max_parallelism)
            files.result()
        if job.at_hand is not None:
            # Links of files that Spark deletes later would keep them on the disk.
            shutil.rmtree(job.at_hand, ignore_errors=True)
        if executors is not None:
            with self._start.part("executors"):
                there = executors.wait(lambda: self._coordination.stop_asked or self._job.unfit(0.0) is not None)
            if (unfit := self._job.unfit(0.0)) is not None:
                raise unfit
            if not there:
                return EpochOutcome(EpochEnd.STOPPED, "The job was stopped while it waited for executors")
        starts = check_sources(spark, job.loaded, job.plan, restored)
        with self._start.part("rewrite"):
            self._rewrite_state(restoration, spark, max_parallelism)
        state = None if executors is None else executors.state
        home = "" if executors is None else self._ledger.home(resolution)
        if executors is not None:
            executors.segments.begin(self._ledger.epoch, home, restoration.segments(), self._ledger.log.lend)
        begun = {uid: Positions(each.offsets, each.ends) for uid, each in starts.items() if each.ends}
        self._view = replace(self._view, begun=begun)
        topics = known_topics(spark, job.loaded, job.plan, starts, self.cannot_continue)
        assembler = Assembler(
            job.loaded,
            job.plan,
            restoration,
            workdir,
            job.clock,
            state,
            starts,
            topics,
            journals=self._journals,
            available_now=job.available_now,
        )
        with self._start.part("assemble"):
            try:
                assembled = assembler.build(spark, outputs, self)
            finally:
                self._view = replace(self._view, migrating=None)
        if executors is not None:
            continued = restoration.state_files().items()
            restored_state = {uid: RestoredState(chain, home, refs) for uid, (chain, refs) in continued}
            executors.state.begin(self._ledger.epoch, restored_state)
        self._reporter = report_offsets(spark, job.loaded, job.namespace, job.name, job.offset_reports)
        try:
            with nullcontext() if executors is None else executors.followed(self._chain_failed, self._restart):
                # Every published batch has to continue a checkpoint.
                has_base = self._journals is None or self._journals.continued
                if not has_base:
                    assembled.emission.await_base()
                begins = not has_base or any(each.first for each in starts.values())
                return self._run_assembled(spark, assembled, outputs, max_parallelism, workdir, begins=begins)
        finally:
            assembled.close()
            self._reporter.close()
            for each in topics.values():
                each.close()

    def _rewrite_state(self, restoration: Restoration, spark: SparkSession, max_parallelism: int) -> None:
        restored = self._view.restored
        partitions = None if restored is None else restored.manifest.graph.get("maxParallelism")
        if isinstance(partitions, int) and partitions != max_parallelism:
            self._view = replace(self._view, rewriting=(partitions, max_parallelism))
        try:
            restoration.rewrite_state(spark, max_parallelism)
        finally:
            self._view = replace(self._view, rewriting=None)

    def migrating(self, each: OperatorMigration, step: Step) -> None:
        """Show a step of a change of state."""
        self._view = replace(self._view, migrating=(each, step))

    def migrated(self, record: MigrationRecord, number: int) -> None:
        """Keep the record of a change of state, for the graph of the checkpoints that follow it."""
        self._migrations.append(record)

    def _run_assembled(
        self,
        spark: SparkSession,
        assembled: Assembled,
        outputs: Outputs,
        max_parallelism: int,
        workdir: Workdir,
        *,
        begins: bool,
    ) -> EpochOutcome:
        self._view = replace(self._view, emission=assembled.emission, partitions=max_parallelism)
        self._checkpoints = Checkpoints(
            acknowledgers=assembled.acknowledgers,
            emission=assembled.emission,
            ledger=self._ledger,
            outputs=outputs,
            manifest_of=self._manifests(max_parallelism, outputs.targets(), outputs.journals()),
            holds=workdir.holds,
            clock=self._job.clock,
            listener=self,
            state=None if self._job.executors is None else self._job.executors.state,
        )
        self._coordination.begin(self._ledger.log.last_id, self.post)
        self._view = replace(self._view, chains=assembled.chains, tables=assembled.tables)
        if self._job.available_now:
            self._what_is_there = WhatIsThere(assembled.chains, assembled.emission, self._job.clock)
        drop_epochs(self._job.workdir, (self._ledger.epoch,))
        self._coordination.restored(self._view.restored)
        assembled.emission.open_channels(assembled.streams)
        if begins:
            self._first_positions = FirstPositions(
                self._ledger.epoch, assembled.emission, self._coordination, self.post, self._job.clock
            )
        for uid in assembled.finished:
            self.status_changed(uid, m.ChainStatus.FINISHED, "")
        try:
            assembled.tables.start()
            for chain in assembled.chains.values():
                chain.start()
            return self._loop()
        finally:
            self.left = end_chains(
                spark, assembled.chains.values(), _STOP_SECONDS, lambda: self._job.unfit(0.0) is not None
            )
            self._checkpoints.close()
            self._coordination.end_epoch(self._queued_events())

    def _chain_failed(self, chain: ChainUid, message: str) -> None:
        self.status_changed(chain, m.ChainStatus.FAILED, message)

    def cannot_continue(self, chain: ChainUid, error: CannotRestore) -> None:
        """End the job with an error: another epoch would end with it, too."""
        self._cause = error
        self._chain_failed(chain, error.what)

    def _restart(self, message: str) -> None:
        self.post(m.RestartRequested(now=self._job.clock(), message=message))

    def post(self, event: m.Event) -> None:
        """Queue an event for the coordinator."""
        self._events.put(event)

    def status_changed(self, chain: ChainUid, status: m.ChainStatus, message: str) -> None:
        """Pass the status of a chain to the coordinator."""
        if status is m.ChainStatus.FAILED and self._cause is None:
            self._cause = bad_input_in(message, self._job.loaded)
        self.post(m.ChainStateChanged(now=self._job.clock(), chain=chain, status=status, message=message))

    def has_output(self) -> None:
        """After a restore readers have waited long enough: commit the first output now, not after an interval."""
        if self._view.restored is not None:
            now, kind = self._job.clock(), SnapshotKind.CHECKPOINT
            self.post(m.TriggerRequested(now=now, trigger_id=self._first_output, kind=kind))

    def wants_checkpoint(self, why: str) -> None:
        """Take a checkpoint, and again after a while if none has completed."""
        now = self._job.clock()
        if now < self._next_wanted:
            return
        self._next_wanted = now + _WANTED_SECONDS
        log.info("A checkpoint is taken: %s", why)
        wanted = TriggerId(f"wanted-in-epoch-{self._ledger.epoch}-at-{now:.0f}")
        self.post(m.TriggerRequested(now=now, trigger_id=wanted, kind=SnapshotKind.CHECKPOINT))

    @property
    def _first_output(self) -> TriggerId:
        return TriggerId(f"first-output-of-epoch-{self._ledger.epoch}")

    def completed(self, action: m.CompleteCheckpoint, manifest: Manifest) -> None:
        """Record a completed checkpoint, report its positions, and let objects go that are not needed any more."""
        self._coordination.completed(action, manifest)
        # Another chain may have asked for one while this one cut it too early.
        self._next_wanted = 0.0
        self._positions = _positions_in(manifest)
        if self._first_positions is not None:
            self._first_positions.release()
        if self._what_is_there is not None:
            self._what_is_there.checkpoint_completed()
        if self._reporter is not None:
            self._reporter.note(manifest)
        retained = [each.id for each in self._ledger.log.claim.retained if each.id is not None]
        covered = self._covered.completed(manifest, retained)
        for chain in self._view.chains.values():
            chain.discoveries.covered(covered, read_by(manifest))

    def discarded(self, checkpoint: CheckpointId) -> None:
        """Record that a checkpoint is no longer retained."""
        self._coordination.discarded(checkpoint)

    def _download(self, restoration: Restoration, resolution: Resolution) -> None:
        if self._view.restored is None:
            return
        try:
            with self._start.part("download"):
                restoration.download(self._ledger.locate(resolution))
        except (SnapshotFileMissing, SnapshotFileCorrupt) as error:
            raise self._ledger.explain_unusable(resolution, error.what) or error from error

    def _graph(self) -> dict[str, Any]:
        return graph_of(self._job.loaded.spec, self._job.loaded.directory)

    def _manifests(
        self, max_parallelism: int, targets: Mapping[OperatorUid, str], journals: Mapping[OperatorUid, str]
    ) -> ManifestAssembler:
        job, restored = self._job, self._view.restored
        migrations = [each.model_dump(mode="json", by_alias=True) for each in self._migrations]
        notes = kept_notes({} if restored is None else restored.manifest.graph, migrations)
        graph = {**self._graph(), "maxParallelism": max_parallelism, **notes}
        return ManifestAssembler(job.namespace, job.name, self._ledger.epoch, graph, job.clock, targets, journals)

    def _loop(self) -> EpochOutcome:
        while True:
            event = self._next_event()
            if isinstance(event, m.ChainStateChanged):
                self._note_status(event)
            actions = self._coordination.handle(event)
            self._show_stopping()
            for action in actions:
                outcome = self._execute(action)
                if outcome is not None:
                    return outcome
            if self._first_positions is not None and (failure := self._first_positions.failure()) is not None:
                return EpochOutcome(EpochEnd.FAILED, failure)

    def _show_stopping(self) -> None:
        stopping = self._coordination.is_stopping()
        if stopping is not None and stopping != self._stopping:
            self._stopping = stopping
            # A failed savepoint leaves the job running.
            self._coordination.enter_if_possible(JobState.STOPPING if stopping else JobState.RUNNING)

    def _note_status(self, event: m.ChainStateChanged) -> None:
        self._statuses[event.chain] = event.status
        if self._stopping:
            return
        statuses = [self._statuses.get(chain.uid) for chain in self._job.plan.chains]
        if all(status is m.ChainStatus.FINISHED for status in statuses):
            self._coordination.enter_if_possible(JobState.FINISHING)
            if self._first_positions is not None:
                self._first_positions.release()
        elif all(status in (m.ChainStatus.RUNNING, m.ChainStatus.FINISHED) for status in statuses):
            self._coordination.enter_if_possible(JobState.RUNNING)
            if self._first_positions is not None:
                self._first_positions.chains_run()

    def _queued_events(self) -> Iterator[m.Event]:
        while not self._events.empty():
            yield self._events.get()

    def _next_event(self) -> m.Event:
        # An early Tick does no harm, and Python cannot wait for centuries.
        timeout = None if self._wake_at is None else min(max(0.0, self._wake_at - self._job.clock()), _LONGEST_WAIT)
        there = self._what_is_there
        if there is not None and not there.is_read:
            if (event := there.look()) is not None:
                return event
            timeout = LOOK_SECONDS if timeout is None else min(timeout, LOOK_SECONDS)
        try:
            return self._events.get(timeout=timeout)
        except queue.Empty:
            self._wake_at = None
            return m.Tick(now=self._job.clock())

    @property
    def _has_read_all(self) -> bool:
        return self._what_is_there is not None and self._what_is_there.is_read

    def _execute(self, action: m.Action) -> EpochOutcome | None:
        assert self._checkpoints is not None
        match action:
            case m.StartCheckpoint():
                if self._first_positions is not None:
                    self._first_positions.begun(action)
                if self._what_is_there is not None:
                    self._what_is_there.checkpoint_started()
                self._checkpoints.start(action)
            case m.SwitchToUnaligned():
                self._checkpoints.switch(action)
            case m.AbortCheckpoint():
                self._checkpoints.abort(action)
            case m.CompleteCheckpoint():
                self._checkpoints.complete(action)
            case m.CommitOutput():
                self._checkpoints.commit(action)
            case m.WakeAt():
                self._wake_at = action.time
            case m.FailJob():
                if self._cause is not None:
                    raise self._cause
                return EpochOutcome(EpochEnd.FAILED, action.message)
            case m.RestartJob() if self._has_read_all:
                restored = self._view.restored
                is_new = restored is None or _positions_in(restored.manifest) != self._positions
                log.info(
                    "%s; the next run continues from here",
                    "All that was there is read" if is_new else "There was nothing new to read",
                )
                self._coordination.enter(JobState.STOPPING)
                return EpochOutcome(EpochEnd.READ)
            case m.RestartJob():
                return EpochOutcome(EpochEnd.RESTARTED, action.message)
            case m.EndJob(end=m.JobEnd.STOPPED, message="") if self._has_read_all:
                return EpochOutcome(EpochEnd.READ)
            case m.EndJob(end=m.JobEnd.STOPPED) if isinstance(self._cause, CannotRestore):
                # It would end each further start, too.
                raise self._cause
            case m.EndJob():
                return EpochOutcome(EpochEnd(action.end.value), action.message)
            case m.DrainSources():
                assert self._view.emission is not None
                with self._view.emission.lock:
                    for chain in self._view.chains.values():
                        chain.drain()
        return None


def _positions_in(manifest: Manifest) -> Mapping[OperatorUid, JsonValue]:
    return {each.uid: each.position for each in manifest.sources}
