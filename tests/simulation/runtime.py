"""A runtime without Spark: epochs that run the real protocol code, each task a generator of single steps.

An `EpochRun` is one epoch of one process: claim, restore, commit, then chains, a coordinator, uploads, and one
committer that completes, commits and collects in turn. Tasks of an epoch that failed may go on as zombies, as stuck
threads do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.simulation.model import sha256
from tests.simulation.oracle import JOB, Violation
from tests.simulation.process import Process
from tests.simulation.tasks import Effect, Pause, SinkFailed, Steps, Task, Wait

from streamjob.errors import CannotRestore, Superseded
from streamjob.ids import ChainUid, CheckpointId, Key, OperatorUid, Owner, TriggerId
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.coordinator import Coordinator
from streamjob.protocol.coordination.failures import AbortReason
from streamjob.protocol.log.committing import Commit
from streamjob.protocol.log.ownership import Identity, claim_log
from streamjob.protocol.log.restore import Resolution
from streamjob.protocol.manifests.stored_manifests import encode_manifest
from streamjob.snapshot.manifest import FileRef, Manifest, SinkState
from streamjob.store.base import ObjectMissing, StoreError
from streamjob.store.effects import Program, StoreEffect, get, put
from streamjob_runtime.checkpointing.epoch_log import EpochLog
from streamjob_runtime.checkpointing.log_work import (
    AskAgain,
    Collect,
    LogEffect,
    LogProgram,
    LogWork,
    NameInLog,
    WriteSavepoint,
)
from streamjob_runtime.checkpointing.manifest_assembly import ManifestAssembler
from streamjob_runtime.checkpointing.upload.packing import by_content
from streamjob_runtime.restoring.download import SnapshotFileMissing

SINK = OperatorUid("sink")
ASK_AGAIN_SECONDS = 2.0


@dataclass(frozen=True)
class SavepointName:
    """The place of a savepoint: a directory below the job's root."""

    directory: str

    @property
    def uri(self) -> str:
        return f"{self.directory}manifest.json"

    @property
    def reference(self) -> str:
        return self.uri


class EpochRun(ABC):
    """One epoch of a process, from its claim to its end; what its chains do, the job's own run knows."""

    def __init__(self, process: Process, number: int) -> None:
        self.process = process
        self.world = process.world
        self.name = f"{process.name}.{number}"
        self.tasks: list[Task] = [Task(f"{self.name} begin", self._begin())]
        self.coordinator: Coordinator | None = None
        self.log: EpochLog | None = None
        self.over = False
        self.draining = False
        self._drains_into: CheckpointId | None = None
        self.ending: m.JobEnd | None = None
        self._committing = False
        self._wake: float | None = None
        self._work: deque[Callable[[], Steps]] = deque()
        self.aborted: set[CheckpointId] = set()
        self.triggered: dict[CheckpointId, float] = {}
        self.stopping: set[CheckpointId] = set()
        self.sinks: dict[CheckpointId, tuple[SinkState, ...]] = {}

    def spawn(self, name: str, steps: Steps) -> None:
        """Start a task."""
        self.tasks.append(Task(f"{self.name} {name}", steps))

    def _begin(self) -> Steps:
        world, process = self.world, self.process
        identity = Identity(job=JOB, owner=Owner(process.name), attempt=process.attempt)
        try:
            claim = yield from claim_log(
                identity, world.clock.now(), num_retained=process.num_retained, again=process.has_held
            )
            self.log = log = EpochLog(claim, world.store.uri)
            process.has_held = True
            resolution = yield from log.resolve()
            files = yield from self._download(log, resolution)
            yield from log.recover([SINK], fork=resolution.fork)
            if log.claim.finished:
                self._end_process(m.JobEnd.FINISHED, "finished before")
            elif (refused := self.examine(resolution.manifest)) is not None:
                self._refuse(refused)
            else:
                try:
                    self._start(log, resolution, files)
                except SnapshotFileMissing as error:
                    raise (yield from log.explain_unusable(resolution, error.what)) or error from error
                except CannotRestore as error:
                    self._refuse(error)
        except Superseded as error:
            self._end_process(m.JobEnd.SUPERSEDED, str(error))
        except (StoreError, SinkFailed):
            # The job restarts; what was claimed stays claimed.
            self._restart()

    def _download(self, log: EpochLog, resolution: Resolution) -> Generator[StoreEffect, object, dict[str, bytes]]:
        """Return the contents of a snapshot's files by path."""
        files: dict[str, bytes] = {}
        try:
            for file in resolution.manifest.files() if resolution.manifest else ():
                content = yield from get(file.object)
                part = content[file.offset : file.offset + file.length]
                assert sha256(part) == file.sha256, f"{file.object} is corrupt"
                files[file.path] = part
        except ObjectMissing as error:
            raise (yield from log.explain_unusable(resolution, error.what)) or error from error
        return files

    def examine(self, manifest: Manifest | None) -> CannotRestore | None:
        """Return why the job cannot start from a snapshot, None if it can."""
        return None

    def refused(self, error: CannotRestore) -> None:
        """Note that the job cannot start."""
        raise error

    @property
    def job_graph(self) -> dict[str, Any]:
        """Return the job's graph for manifests."""
        return {}

    def _refuse(self, error: CannotRestore) -> None:
        self.over = True
        self.world.note(f"{self.name}: refused: {error}")
        self.process.refuse(error)
        self.refused(error)

    def _start(self, log: EpochLog, resolution: Resolution, files: dict[str, bytes]) -> None:
        process = self.process
        self.epoch = log.claim.epoch
        clock = self.world.clock.now
        manifest_of = ManifestAssembler(JOB.namespace, JOB.name, self.epoch, self.job_graph, clock)
        self.log_work = LogWork(log, manifest_of, clock, self)
        self.restore(resolution.manifest, files)
        self.coordinator = Coordinator(
            chains=self.chains,
            policy=process.policy,
            highest_id=log.last_id,
            triggers=process.triggers,
            statistics=process.statistics,
        )
        self.start_chains()
        self.spawn("timer", self._timer())
        self.spawn("committer", self._committer())

    @property
    @abstractmethod
    def chains(self) -> tuple[ChainUid, ...]:
        """The job's chains."""

    @abstractmethod
    def restore(self, manifest: Manifest | None, files: dict[str, bytes]) -> None:
        """Stand where a snapshot stood, whose files are given by path; None for the beginning."""

    @abstractmethod
    def start_chains(self) -> None:
        """Start the chains' tasks."""

    def drain(self) -> None:
        """Read no more of the sources, and flush."""
        self.world.note(f"{self.name}: drains")
        self.draining = True

    @abstractmethod
    def trigger(self, start: m.StartCheckpoint) -> None:
        """Cut chains, and let them acknowledge."""

    @abstractmethod
    def switch(self, checkpoint: CheckpointId) -> None:
        """Go on unaligned."""

    @abstractmethod
    def abort(self, checkpoint: CheckpointId) -> None:
        """Forget the cuts of a checkpoint that was given up."""

    @abstractmethod
    def let_go(self, checkpoint: CheckpointId) -> None:
        """Let go of what a completed checkpoint took."""

    def report(self, chain: ChainUid, status: m.ChainStatus, message: str = "") -> None:
        """Tell the coordinator where a chain stands."""
        self.handle(m.ChainStateChanged(now=self.world.clock.now(), chain=chain, status=status, message=message))

    def _claimed(self) -> EpochLog:
        assert self.log is not None
        return self.log

    def _timer(self) -> Steps:
        while not self.over:
            yield Wait(lambda: self._wake is not None and self.world.clock.now() >= self._wake)
            self._wake = None
            self.handle(m.Tick(now=self.world.clock.now()))

    def _committer(self) -> Steps:
        while True:
            yield Wait(lambda: bool(self._work))
            yield from self._work.popleft()()

    def coordinator_ended(self) -> bool:
        """Whether the coordinator has nothing more to decide."""
        return self.coordinator is None or self.coordinator.ended

    def handle(self, event: m.Event) -> None:
        """Pass an event to the coordinator, and execute the resulting actions."""
        if self.coordinator is None:
            return
        actions = self.coordinator.handle(event)
        for trigger_id in sorted(self.process.drains):
            self._read_outcome(trigger_id)
        for action in actions:
            self._act(action)

    def _read_outcome(self, drain: TriggerId) -> None:
        """Read what has become of a drain, as whoever asked for it does."""
        status = self.process.triggers.status(drain)
        if status is not None and status.state.resolved:
            self.process.drains.remove(drain)
            self.process.drained[drain] = status
            if self.draining:
                self.world.oracle.tells_of_drain(status)

    def _act(self, action: m.Action) -> None:
        match action:
            case m.StartCheckpoint():
                if self.draining and (self._drains_into is not None or not action.properties.drained):
                    raise Violation(f"{action.id} starts during a drain, which one drained snapshot is to end")
                self._drains_into = action.id if self.draining else None
                self._claimed().begin(action.id)
                self.triggered[action.id] = action.triggered
                if action.properties.stopping:
                    self.stopping.add(action.id)
                self.trigger(action)
            case m.SwitchToUnaligned():
                self.world.note(f"{self.name}: {action.id} goes on unaligned")
                self.switch(action.id)
            case m.AbortCheckpoint():
                self.world.note(f"{self.name}: abort {action.id}: {action.reason}")
                self.aborted.add(action.id)
                if action.reason is AbortReason.EXPIRED:
                    self.process.expired.append(self.triggered[action.id])
                self.abort(action.id)
                if not action.keep_files:
                    self._claimed().aborted(action.id)
            case m.CompleteCheckpoint():
                self._work.append(lambda: self._complete(action))
            case m.DrainSources():
                self.drain()
            case m.CommitOutput():
                self._work.append(lambda: self._commit(action.id))
            case m.WakeAt():
                self._wake = action.time
            case m.FailJob():
                self.world.note(f"{self.name}: {action.message}")
                self._restart()
            case m.RestartJob():
                self.world.note(f"{self.name}: restarts behind a checkpoint: {action.message}")
                self._restart()
            case m.EndJob():
                if self._committing:
                    self.ending = action.end
                else:
                    self._end_process(action.end, action.message)

    def store_files(
        self, start: m.StartCheckpoint, chain: ChainUid, contents: Mapping[str, bytes]
    ) -> Program[tuple[FileRef, ...]]:
        """Upload what the store lacks of a chain's files; the first ones only, if the snapshot is aborted meanwhile."""
        checkpoint, log = start.id, self._claimed()
        known = log.reusable_files(checkpoint, chain)
        files: list[FileRef] = []
        for path, content in contents.items():
            if checkpoint in self.aborted:
                break
            digest, name, offset = sha256(content), "", 0
            if start.properties.is_savepoint:
                name = f"{self._savepoint(checkpoint).directory}{chain}/{path}"
                yield from put(Key(name.removeprefix(self.world.store.uri)), content)
            elif found := known.get(by_content(digest, len(content))):
                name, offset = found.object, found.offset
            else:
                name = log.allocate(checkpoint, digest)
                yield from put(Key(name), content)
            files.append(FileRef(path=path, object=name, offset=offset, length=len(content), sha256=digest))
        return tuple(files)

    def decline(self, checkpoint: CheckpointId, chain: ChainUid, error: Exception) -> None:
        """Tell the coordinator that a chain could not store its part."""
        reason, now = AbortReason.UPLOAD_FAILED, self.world.clock.now()
        self.handle(m.ChainDeclined(now=now, id=checkpoint, chain=chain, reason=reason, message=str(error)))

    def acknowledge(self, checkpoint: CheckpointId, acknowledgement: m.ChainAcknowledgement) -> Steps:
        """Tell the coordinator that a chain has stored its part, sometimes twice."""
        event = m.ChainAcknowledged(now=self.world.clock.now(), id=checkpoint, acknowledgement=acknowledgement)
        self.handle(event)
        if self.world.choices.in_percent(10):
            yield Pause("repeat the acknowledgement")
            self.handle(event)

    def _savepoint(self, checkpoint: CheckpointId) -> SavepointName:
        return SavepointName(f"{self.world.store.uri}savepoints/{checkpoint}-{self.name}/")

    def _complete(self, action: m.CompleteCheckpoint) -> Steps:
        broken: list[AssertionError] = []

        def named(manifest: Manifest) -> None:
            self.sinks[manifest.id] = manifest.sinks
            try:
                if manifest.id not in [record.id for record in self.world.oracle.log]:
                    raise Violation(f"the log does not name {manifest.id}, which is said to be completed")
                self.let_go(manifest.id)
            except AssertionError as error:
                # To the work on the log it would be a failure like any other.
                broken.append(error)

        savepoint = self._savepoint(action.id) if action.properties.is_savepoint else None
        yield from self._do(self.log_work.complete(action, savepoint, named))
        for error in broken:
            raise error

    def _commit(self, checkpoint: CheckpointId) -> Steps:
        # An epoch that ends waits for the work on the log that has begun.
        self._committing = True
        yield from self._do(self.log_work.commit(checkpoint, self.sinks.pop(checkpoint)))
        self._committing = False
        if self.ending is not None:
            self._end_process(self.ending, "")

    def _do(self, program: LogProgram) -> Steps:
        """Do what the work on the log asks for, step by step."""
        reply: object = None
        error: Exception | None = None
        while True:
            try:
                effect = program.send(reply) if error is None else program.throw(error)
            except StopIteration:
                return
            reply, error = None, None
            try:
                reply = yield from self._done(effect)
            except Exception as raised:
                error = raised

    def _done(self, effect: LogEffect) -> Generator[Effect, object, object]:
        log, world = self.log, self.world
        assert log is not None
        match effect:
            case WriteSavepoint(manifest):
                key = Key(self._savepoint(manifest.id).uri.removeprefix(world.store.uri))
                yield from put(key, encode_manifest(manifest))
                return None
            case NameInLog(manifest, savepoint):
                yield from log.complete(manifest, world.clock.now(), savepoint)
                return None
            case AskAgain():
                world.note(f"{self.name}: the store is asked again for an unknown outcome")
                until = world.clock.now() + ASK_AGAIN_SECONDS
                yield Wait(lambda: self.over or world.clock.now() >= until)
                if world.choices.pick(2):
                    # Only the end of an epoch leaves an outcome unknown.
                    self.report(self.chains[0], m.ChainStatus.FAILED, "it fails while the store is asked")
                return self.over
            case Commit():
                return (yield effect)
            case Collect():
                return (yield from log.collect(self.process.num_retained))

    def completed(self, action: m.CompleteCheckpoint, manifest: Manifest) -> None:
        """Hear of a completion, see `CheckpointListener`."""
        self.world.note(f"{self.name}: {action.id} is completed")

    def discarded(self, checkpoint: CheckpointId) -> None:
        """Hear of a checkpoint that is no longer retained, see `CheckpointListener`."""
        self.world.note(f"{self.name}: {checkpoint} is no longer retained")

    def post(self, event: m.Event) -> None:
        """Hear of an outcome, see `CheckpointListener`."""
        if isinstance(event, m.OutputCommitted) and event.id in self.stopping:
            (record,) = [record for record, _ in self.world.oracle.completions if record.id == event.id]
            self.world.oracle.stops(record)
        if isinstance(event, m.CompletionFailed) and event.failure is m.CompletionFailure.UNKNOWN:
            self.world.note(f"{self.name}: the outcome of {event.id} stays unknown")
        self.handle(event)

    def _restart(self) -> None:
        self.over = True
        self.process.next_epoch(self)

    def _end_process(self, end: m.JobEnd, message: str) -> None:
        self.over = True
        if self.process.end is not None:
            return
        self.world.note(f"{self.name}: {end}: {message}")
        if end is m.JobEnd.SUPERSEDED:
            self.world.oracle.superseded(self.process.attempt, None if self.log is None else self.log.claim)
        self.process.end = end
        self.process.runs.clear()
