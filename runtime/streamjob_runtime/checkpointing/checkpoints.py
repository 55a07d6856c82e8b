"""Executes the coordinator's decisions about checkpoints while the stream runs, and reports back by events."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from streamjob.clock import Clock
from streamjob.errors import StreamJobError
from streamjob.ids import ChainUid, CheckpointId
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.failures import AbortReason
from streamjob.protocol.emissions.cuts import ChainCut
from streamjob.protocol.log.committing import Commit
from streamjob.snapshot.manifest import Manifest, SinkState
from streamjob.store.base import StoreError
from streamjob.store.effects import drive
from streamjob.store.opening import Location
from streamjob.telemetry.logs import Value, within
from streamjob_runtime.chain.emissions.emission_lock import EmissionLock
from streamjob_runtime.chain.emissions.outputs import Outputs
from streamjob_runtime.checkpointing.acknowledging import Acknowledges
from streamjob_runtime.checkpointing.ledger import Ledger
from streamjob_runtime.checkpointing.log_work import (
    AskAgain,
    CheckpointListener,
    Collect,
    LogProgram,
    LogWork,
    NameInLog,
    WriteSavepoint,
)
from streamjob_runtime.checkpointing.savepoints import Savepoint, savepoint_location
from streamjob_runtime.checkpointing.upload.uploader import Progress, Target, UploadCancelled, Uploader
from streamjob_runtime.spark.checkpoint_dir.hold import release
from streamjob_runtime.spark.text.error_text import describe

if TYPE_CHECKING:
    from streamjob_runtime.executors.driver.state import StateOnExecutors

ManifestOf = Callable[[m.CompleteCheckpoint], Manifest]

_ASK_AGAIN_SECONDS = 2.0

log = logging.getLogger("streamjob")


@dataclass
class _UnderWay:
    progress: dict[ChainUid, Progress]
    savepoint: Savepoint | None = None
    acknowledging: list[Future[None]] = field(default_factory=list)
    sinks: tuple[SinkState, ...] = ()


class Checkpoints:
    """The checkpoints of one epoch; methods are called by the coordinator's thread and return at once.

    Args:
        manifest_of: creates the manifest of a checkpoint that all chains have acknowledged.
        holds: directory for the files that the chains hold.
        clock: seconds since 1970.
        state: the processes that have the chains' state; None if this one has.
    """

    def __init__(
        self,
        *,
        acknowledgers: Mapping[ChainUid, Acknowledges],
        emission: EmissionLock,
        ledger: Ledger,
        outputs: Outputs,
        manifest_of: ManifestOf,
        holds: Path,
        clock: Clock,
        listener: CheckpointListener,
        state: StateOnExecutors | None = None,
    ) -> None:
        self._state = state
        self._acknowledgers = dict(acknowledgers)
        self._emission = emission
        self._ledger = ledger
        self._uploader = Uploader(ledger.store)
        self._outputs = outputs
        self._log_work = LogWork(ledger.log, manifest_of, clock, listener)
        self._holds = holds
        self._clock = clock
        self._listener = listener
        self._under_way: dict[CheckpointId, _UnderWay] = {}
        self._last_held: CheckpointId | None = None
        self._closing = threading.Event()
        self._chains_pool = ThreadPoolExecutor(max(1, len(acknowledgers)), thread_name_prefix="acknowledge")
        # One thread: the claim is not thread-safe, and completing, committing and deleting have an order.
        self._log_pool = ThreadPoolExecutor(1, thread_name_prefix="log")
        emission.on_cut = self._on_cut

    @property
    def held(self) -> Path | None:
        """The files of this epoch's last completed checkpoint, with a directory per chain; None if there is none."""
        return None if self._last_held is None else self._hold(self._last_held)

    def start(self, action: m.StartCheckpoint) -> None:
        """Cut the chains that wait for no barrier at once; each chain acknowledges after its cut."""
        properties = action.properties
        self._ledger.log.begin(action.id)
        self._under_way[action.id] = under_way = _UnderWay({chain: Progress() for chain in self._acknowledgers})
        if properties.is_savepoint:
            try:
                under_way.savepoint = Savepoint(self._location(action), self._ledger.store.uri)
            except StreamJobError as error:
                self._decline(action.id, action.chains[0], AbortReason.UPLOAD_FAILED, error)
                return
        self._emission.trigger(action.id, seal=properties.stopping, unaligned=properties.unaligned)

    def _location(self, action: m.StartCheckpoint) -> Location:
        root, job = self._ledger.store.uri, self._ledger.log.claim.identity.job.name
        return savepoint_location(root, action.properties.location, job, action.id, uuid.uuid4().hex[:8])

    def switch(self, action: m.SwitchToUnaligned) -> None:
        """Cut the chains that still wait for a barrier where they are."""
        self._emission.switch(action.id)

    def _on_cut(self, checkpoint: CheckpointId, cut: ChainCut) -> None:
        under_way = self._under_way.get(checkpoint)
        if under_way is not None and not self._closing.is_set():
            progress = under_way.progress[cut.chain]
            fields: Mapping[str, Value] = {"checkpoint": checkpoint, "chain": cut.chain}
            task = self._chains_pool.submit(
                within, fields, self._acknowledge, checkpoint, cut, under_way.savepoint, progress
            )
            under_way.acknowledging.append(task)

    def _hold(self, checkpoint: CheckpointId) -> Path:
        """Return the directory of a checkpoint's held files, with a subdirectory per chain."""
        return self._holds / str(checkpoint)

    def _target(self, checkpoint: CheckpointId, chain: ChainUid) -> Target:
        return Target(
            uploader=self._uploader,
            known=self._ledger.log.reusable_files(checkpoint, chain),
            key_of=partial(self._ledger.log.allocate, checkpoint),
        )

    def _acknowledge(
        self, checkpoint: CheckpointId, cut: ChainCut, savepoint: Savepoint | None, progress: Progress
    ) -> None:
        directory = self._hold(checkpoint) / cut.chain
        try:
            acknowledgement = self._acknowledgers[cut.chain].acknowledge(
                checkpoint,
                cut,
                directory=directory,
                target=savepoint.target if savepoint else self._target(checkpoint, cut.chain),
                progress=progress,
            )
        except UploadCancelled:
            release(directory)
        except StoreError as error:
            self._decline(checkpoint, cut.chain, AbortReason.UPLOAD_FAILED, error)
        except Exception as error:
            self._decline(checkpoint, cut.chain, AbortReason.DECLINED, error)
        else:
            self._listener.post(m.ChainAcknowledged(now=self._clock(), id=checkpoint, acknowledgement=acknowledgement))

    def _decline(self, checkpoint: CheckpointId, chain: ChainUid, reason: AbortReason, error: Exception) -> None:
        self._listener.post(
            m.ChainDeclined(now=self._clock(), id=checkpoint, chain=chain, reason=reason, message=describe(error))
        )

    def abort(self, action: m.AbortCheckpoint) -> None:
        """Forget a checkpoint: its uploads are garbage now, unless its outcome is unknown."""
        under_way = self._under_way.pop(action.id, None)
        self._emission.abort(action.id)
        if under_way is None:
            return
        for progress in under_way.progress.values():
            progress.cancel()
        if not action.keep_files:
            self._ledger.log.aborted(action.id)
        fields: Mapping[str, Value] = {"checkpoint": action.id}
        task = self._chains_pool.submit(within, fields, self._release, action.id, under_way, action.keep_files)
        task.add_done_callback(partial(_report, action.id))

    def _release(self, checkpoint: CheckpointId, under_way: _UnderWay, keep_files: bool) -> None:
        # An acknowledgement may still be linking files there. It began before this task; the pool keeps the order.
        wait(under_way.acknowledging)
        release(self._hold(checkpoint))
        if self._state is not None:
            self._state.abort(checkpoint)
        savepoint = under_way.savepoint
        if savepoint is not None:
            try:
                if not keep_files:
                    savepoint.discard()
            except StoreError as error:
                log.warning("Files of a failed savepoint may be left at %s: %s", savepoint.uri, error.what)
            finally:
                savepoint.close()

    def complete(self, action: m.CompleteCheckpoint) -> None:
        """Write the manifest, then the log's record."""
        task = self._log_pool.submit(within, {"checkpoint": action.id}, self._complete, action)
        task.add_done_callback(partial(_report, action.id))

    def _complete(self, action: m.CompleteCheckpoint) -> None:
        under_way = self._under_way.get(action.id)
        savepoint = under_way.savepoint if under_way else None

        def named(manifest: Manifest) -> None:
            self._emission.complete(action.id)
            self._under_way[action.id].sinks = manifest.sinks
            self._keep_held(action.id)

        self._do(self._log_work.complete(action, savepoint, named), savepoint)

    def _do(self, program: LogProgram, savepoint: Savepoint | None = None) -> None:
        def perform(effect: object) -> object:
            match effect:
                case WriteSavepoint(manifest):
                    assert savepoint is not None
                    savepoint.write(manifest)
                    return None
                case NameInLog(manifest, reference):
                    self._ledger.complete(manifest, reference)
                    return None
                case AskAgain():
                    return self._closing.wait(_ASK_AGAIN_SECONDS)
                case Commit(checkpoint, output):
                    self._outputs.commit(checkpoint, output)
                    return None
                case Collect():
                    return self._ledger.collect()
                case _:
                    raise TypeError(f"{effect!r} is no work on the log")

        drive(self._ledger.store, program, perform=perform)

    def _keep_held(self, checkpoint: CheckpointId) -> None:
        previous, self._last_held = self._last_held, checkpoint
        if self._state is not None:
            self._state.complete(checkpoint)
        if previous is not None:
            release(self._hold(previous))

    def commit(self, action: m.CommitOutput) -> None:
        """Commit a completed checkpoint's committables in all sinks; collect garbage afterwards."""
        task = self._log_pool.submit(within, {"checkpoint": action.id}, self._commit, action.id)
        task.add_done_callback(partial(_report, action.id))

    def _commit(self, checkpoint: CheckpointId) -> None:
        under_way = self._under_way.pop(checkpoint)
        if under_way.savepoint is not None:
            under_way.savepoint.close()
        self._do(self._log_work.commit(checkpoint, under_way.sinks))

    def close(self) -> None:
        """Cancel running work and wait for its end; the last completed checkpoint stays held."""
        self._closing.set()
        # A copy: a running commit removes its checkpoint.
        for under_way in list(self._under_way.values()):
            for progress in under_way.progress.values():
                progress.cancel()
        for pool in (self._chains_pool, self._log_pool):
            pool.shutdown(wait=True)
        self._uploader.close()
        for under_way in self._under_way.values():
            if under_way.savepoint is not None:
                under_way.savepoint.close()


def _report(checkpoint: CheckpointId, task: Future[None]) -> None:
    """Log a task's exception. Whatever the coordinator must know, the task has posted itself."""
    if (error := task.exception()) is not None:
        extra = {"checkpoint": checkpoint}
        log.error("Background work failed: %s", describe(error), exc_info=error, extra=extra)
