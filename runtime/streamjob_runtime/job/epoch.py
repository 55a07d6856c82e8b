"""One epoch of a job: claim the log, restore, run the chains, take checkpoints, until something ends it."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.clock import Clock
from streamjob.comparison.compatibility import Restored, check_compatible
from streamjob.ids import ChainUid, CheckpointId, TriggerId
from streamjob.job.graph import graph_of
from streamjob.job.load import LoadedJob
from streamjob.job.plan import Plan
from streamjob.protocol import messages as m
from streamjob.protocol.coordinator import Coordinator
from streamjob.protocol.lifecycle import JobState
from streamjob.protocol.restore import Resolution
from streamjob.protocol.triggers import SnapshotKind
from streamjob.snapshot.manifest import Manifest
from streamjob.store.staging import StoreStaging
from streamjob_runtime.chain.chain import Chain
from streamjob_runtime.chain.end_of_chains import end_chains
from streamjob_runtime.chain.outputs import Outputs
from streamjob_runtime.chain.publication import Publication
from streamjob_runtime.checkpointing.checkpoints import Checkpoints, OnCompleted
from streamjob_runtime.checkpointing.ledger import Ledger, RestoreFrom
from streamjob_runtime.checkpointing.manifests import ManifestMaker
from streamjob_runtime.job.assembly import Assembled, Assembler
from streamjob_runtime.job.output_recovery import open_outputs, recover_output
from streamjob_runtime.kafka.reporting import OffsetReporter, OffsetReports, report_offsets
from streamjob_runtime.kafka.starting import check_sources
from streamjob_runtime.restoring.download import SnapshotFileCorrupt, SnapshotFileMissing
from streamjob_runtime.restoring.restoration import Workdir
from streamjob_runtime.sinks.factory import SinkSurroundings
from streamjob_runtime.sinks.meter import SinkMeters

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STOP_SECONDS = 30.0
_LONGEST_WAIT = 86_400.0
_SCRATCH = ".sinks"
"""Directory for files of sinks; no chain has such a name."""

log = logging.getLogger("streamjob")


class EpochEnd(StrEnum):
    """How an epoch ended."""

    FINISHED = "FINISHED"
    STOPPED = "STOPPED"
    SUPERSEDED = "SUPERSEDED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class EpochOutcome:
    """How an epoch ended, and why if that was not as asked."""

    end: EpochEnd
    message: str = ""


@dataclass(frozen=True)
class Job:
    """What all epochs of a job in this process share.

    Args:
        loaded: the job.
        plan: its chains.
        namespace: the job's namespace.
        name: the job's name in the store.
        workdir: its local directory.
        clock: seconds since 1970.
        spark: starts Spark with that many state partitions, once; later calls return the same session.
        sink_meters: counts what the sinks do.
        offset_reports: counts what could not be reported to Kafka.
    """

    loaded: LoadedJob
    plan: Plan
    namespace: str
    name: str
    workdir: Path
    clock: Clock
    spark: Callable[[int], SparkSession]
    sink_meters: SinkMeters = field(default_factory=SinkMeters)
    offset_reports: OffsetReports = field(default_factory=OffsetReports)


class Epoch:
    """One epoch. `run` blocks until it ends; everything else may be called from other threads meanwhile.

    Args:
        job: what the epochs share.
        ledger: the claimed log.
        restore_from: which snapshot to start from.
        coordinate: makes the coordinator of the epoch, given the id that its checkpoints must be above.
        state_lock: guards the coordinator.
        held: files that the epoch before still holds locally, a directory per chain.
        stopped: the job was stopped behind the log's newest completion: that is published, and nothing more is done.
        on_state: is told RESTORING, where there is something to restore, RUNNING, FINISHING and STOPPING.
        on_restored: is told when all is ready to run.
        on_completed: is told of each completion.
        on_discarded: is told of each checkpoint that is no longer retained.
    """

    def __init__(
        self,
        *,
        job: Job,
        ledger: Ledger,
        restore_from: RestoreFrom,
        coordinate: Callable[[CheckpointId], Coordinator],
        state_lock: threading.RLock,
        held: Path | None,
        stopped: bool,
        on_state: Callable[[JobState], None],
        on_restored: Callable[[Epoch], None],
        on_completed: OnCompleted,
        on_discarded: Callable[[CheckpointId], None],
    ) -> None:
        self._job = job
        self._ledger = ledger
        self._restore_from = restore_from
        self._coordinate = coordinate
        self._state_lock = state_lock
        self._held = held
        self._stopped = stopped
        self._on_state = on_state
        self._on_restored = on_restored
        self._on_completed = on_completed
        self._on_discarded = on_discarded
        self._events: queue.SimpleQueue[m.Event] = queue.SimpleQueue()
        self._statuses: dict[ChainUid, m.ChainStatus] = {}
        self._directory = job.workdir / str(ledger.epoch)
        self._wake_at: float | None = None
        self._settled = False
        self._stopping = False
        self.chains: Mapping[ChainUid, Chain] = {}
        self.publication: Publication | None = None
        self.restored: Restored | None = None
        self.coordinator: Coordinator | None = None
        self.rewriting: tuple[int, int] | None = None
        """While the state is rewritten, the number of its partitions and that to come; None at all other times."""
        self.left: tuple[str, ...] = ()
        """What could not be ended of it; as long as something is, no other epoch may begin."""
        self._checkpoints: Checkpoints | None = None
        self._reporter: OffsetReporter | None = None

    @property
    def held(self) -> Path | None:
        """The files of the epoch's last completed checkpoint; None if it completed none."""
        return self._checkpoints.held if self._checkpoints else None

    @property
    def listens(self) -> bool:
        """Whether an event would reach the coordinator; ask it under the state lock, and post under the same."""
        return self.coordinator is not None and not self._settled

    def post(self, event: m.Event) -> None:
        """Hand an event to the coordinator."""
        self._events.put(event)

    def run(self) -> EpochOutcome:
        """Restore, run, and clean up.

        Raises:
            CannotRestore: the snapshot cannot be restored.
            InvalidInput: the job cannot run.
        """
        resolution = self._ledger.resolve(self._restore_from)
        if resolution.manifest is not None:
            self._on_state(JobState.RESTORING)
        finished = self._ledger.finished and not resolution.fork
        surroundings = self._surroundings()
        max_parallelism = self._job.loaded.spec.max_parallelism
        if resolution.manifest is not None and not finished and not self._stopped:
            # Before the sinks: a job that is refused takes no sink's place.
            max_parallelism = self._compare(resolution)
        outputs = open_outputs(self._job.plan, surroundings, self._job.sink_meters)
        try:
            recover_output(self._ledger, outputs, self._graph()["sinks"], surroundings, resolution)
            if finished:
                return EpochOutcome(EpochEnd.FINISHED, "the job had finished before")
            if self._stopped:
                return EpochOutcome(EpochEnd.STOPPED)
            if resolution.fork:
                log.warning(
                    "This start is a fork: the job does not continue from the log's last completion. Output "
                    "published since then stays published, and is published again."
                )
            return self._run_chains(outputs, resolution, max_parallelism)
        finally:
            outputs.close()

    def _compare(self, resolution: Resolution) -> int:
        """Compare the job with the snapshot that it starts from; return the number of state partitions to run with."""
        assert resolution.manifest is not None
        restored = Restored(resolution.manifest, self._uri(resolution), resolution.fork)
        allow = self._restore_from.allow_non_restored_state
        compared = check_compatible(self._job.loaded.spec, self._job.plan, restored, allow)
        # Where nothing has changed, a start is not to wait for Spark's planning.
        undecided = {uid: why for uid, why in compared.undecided.items() if uid in compared.changed}
        self.restored = replace(restored, origins=compared.origins, undecided=undecided, allow=allow)
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
        )

    def _run_chains(self, outputs: Outputs, resolution: Resolution, max_parallelism: int) -> EpochOutcome:
        job, workdir = self._job, Workdir(self._directory, self._held)
        assembler = Assembler(job.loaded, job.plan, self.restored, workdir, job.clock)
        with ThreadPoolExecutor(1, thread_name_prefix="restore") as pool:
            # Spark takes seconds to start; the files come meanwhile.
            files = pool.submit(self._download, assembler, resolution)
            spark = job.spark(max_parallelism)
            files.result()
        check_sources(spark, job.loaded, job.plan, self.restored)
        self._rewrite_state(assembler, spark, max_parallelism)
        assembled = assembler.build(spark, outputs, self._chain_status, self._first_output)
        self._reporter = report_offsets(spark, job.loaded, job.namespace, job.name, job.offset_reports)
        try:
            return self._run_assembled(spark, assembled, outputs, max_parallelism, workdir)
        finally:
            assembled.close()
            self._reporter.close()

    def _rewrite_state(self, assembler: Assembler, spark: SparkSession, max_parallelism: int) -> None:
        partitions = None if self.restored is None else self.restored.manifest.graph.get("maxParallelism")
        if isinstance(partitions, int) and partitions != max_parallelism:
            self.rewriting = partitions, max_parallelism
        try:
            assembler.rewrite_state(spark, max_parallelism)
        finally:
            self.rewriting = None

    def _run_assembled(
        self, spark: SparkSession, assembled: Assembled, outputs: Outputs, max_parallelism: int, workdir: Workdir
    ) -> EpochOutcome:
        self.publication = assembled.publication
        self._checkpoints = Checkpoints(
            acknowledgers=assembled.acknowledgers,
            publication=assembled.publication,
            ledger=self._ledger,
            job=self._job.name,
            outputs=outputs,
            manifest_of=self._manifests(max_parallelism),
            holds=workdir.holds,
            clock=self._job.clock,
            post=self.post,
            on_completed=self._completed,
            on_discarded=self._on_discarded,
        )
        with self._state_lock:
            self.coordinator = self._coordinate(self._ledger.last_id)
        self.chains = assembled.chains
        self._on_restored(self)
        assembled.publication.open_channels(assembled.streams)
        for uid in assembled.finished:
            self._chain_status(uid, m.ChainStatus.FINISHED, "")
        try:
            for chain in assembled.chains.values():
                chain.start()
            return self._loop()
        finally:
            self.left = end_chains(spark, assembled.chains.values(), _STOP_SECONDS)
            self._checkpoints.close()
            self._settle()

    def _completed(self, action: m.CompleteCheckpoint, manifest: Manifest) -> None:
        self._on_completed(action, manifest)
        if self._reporter is not None:
            self._reporter.note(manifest)

    def _download(self, assembler: Assembler, resolution: Resolution) -> None:
        if self.restored is None:
            return
        try:
            assembler.download(self._ledger.locate(resolution))
        except (SnapshotFileMissing, SnapshotFileCorrupt) as error:
            raise self._ledger.explain_unusable(resolution, error.what) or error from error

    def _graph(self) -> dict[str, Any]:
        return graph_of(self._job.loaded.spec, self._job.loaded.directory)

    def _manifests(self, max_parallelism: int) -> ManifestMaker:
        graph = {**self._graph(), "maxParallelism": max_parallelism}
        return ManifestMaker(self._job.namespace, self._job.name, self._ledger.epoch, graph, self._job.clock)

    def _chain_status(self, chain: ChainUid, status: m.ChainStatus, message: str) -> None:
        self.post(m.ChainStateChanged(now=self._job.clock(), chain=chain, status=status, message=message))

    def _first_output(self) -> None:
        """After a restore readers have waited long enough: publish the first output now, not after an interval."""
        if self.restored is not None:
            trigger_id = TriggerId(f"first-output-of-epoch-{self._ledger.epoch}")
            self.post(m.TriggerRequested(now=self._job.clock(), trigger_id=trigger_id, kind=SnapshotKind.CHECKPOINT))

    def _loop(self) -> EpochOutcome:
        while True:
            event = self._next_event()
            if isinstance(event, m.ChainStateChanged):
                self._note_status(event)
            assert self.coordinator is not None
            with self._state_lock:
                actions = self.coordinator.handle(event)
            self._show_stopping(self.coordinator)
            for action in actions:
                outcome = self._execute(action)
                if outcome is not None:
                    return outcome

    def _show_stopping(self, coordinator: Coordinator) -> None:
        if coordinator.stopping != self._stopping and not coordinator.ended:
            self._stopping = coordinator.stopping
            # A savepoint that failed leaves the job running.
            self._on_state(JobState.STOPPING if self._stopping else JobState.RUNNING)

    def _note_status(self, event: m.ChainStateChanged) -> None:
        self._statuses[event.chain] = event.status
        if self._stopping:
            return
        statuses = [self._statuses.get(chain.uid) for chain in self._job.plan.chains]
        if all(status is m.ChainStatus.FINISHED for status in statuses):
            self._on_state(JobState.FINISHING)
        elif all(status in (m.ChainStatus.RUNNING, m.ChainStatus.FINISHED) for status in statuses):
            self._on_state(JobState.RUNNING)

    def _settle(self) -> None:
        """Hand in what the workers still reported, such as a completion that was under way."""
        assert self.coordinator is not None
        with self._state_lock:
            while not self._events.empty():
                self.coordinator.handle(self._events.get())
            self.coordinator.handle(m.EpochEnded(now=self._job.clock()))
            self._settled = True

    def _next_event(self) -> m.Event:
        # A Tick that comes too early does no harm, and Python cannot wait for centuries.
        timeout = None if self._wake_at is None else min(max(0.0, self._wake_at - self._job.clock()), _LONGEST_WAIT)
        try:
            return self._events.get(timeout=timeout)
        except queue.Empty:
            self._wake_at = None
            return m.Tick(now=self._job.clock())

    def _execute(self, action: m.Action) -> EpochOutcome | None:
        assert self._checkpoints is not None
        match action:
            case m.StartCheckpoint():
                self._checkpoints.start(action)
            case m.SwitchToUnaligned():
                self._checkpoints.switch(action)
            case m.AbortCheckpoint():
                self._checkpoints.abort(action)
            case m.CompleteCheckpoint():
                self._checkpoints.complete(action)
            case m.Publish():
                self._checkpoints.publish(action)
            case m.WakeAt():
                self._wake_at = action.time
            case m.FailJob():
                return EpochOutcome(EpochEnd.FAILED, action.message)
            case m.EndJob():
                return EpochOutcome(EpochEnd(action.end.value), action.message)
            case m.DrainSources():
                assert self.publication is not None
                with self.publication.lock:
                    for chain in self.chains.values():
                        chain.drain()
            case m.DiscardAcknowledgement() | m.ResolveTrigger():
                pass
        return None
