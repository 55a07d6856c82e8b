"""A runtime without Spark: epochs that run the real protocol code, each task a generator of single steps.

An `EpochRun` is one epoch of one process: claim, restore, commit, then chains, a coordinator, uploads, and one
committer that completes, commits and collects in turn. Tasks of an epoch that failed may go on as zombies, as stuck
threads do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from tests.simulation.model import sha256
from tests.simulation.oracle import JOB, Violation
from tests.simulation.process import Process
from tests.simulation.tasks import Pause, SinkFailed, Steps, Task, Wait

from streamjob.errors import CannotRestore, Superseded
from streamjob.ids import ChainUid, CheckpointId, Key, OperatorUid, Owner, TriggerId
from streamjob.protocol import messages as m
from streamjob.protocol.collector import Collector
from streamjob.protocol.committing import commit, recover
from streamjob.protocol.completing import complete_snapshot
from streamjob.protocol.coordinator import Coordinator
from streamjob.protocol.creating import OutcomeUnknown
from streamjob.protocol.failures import AbortReason
from streamjob.protocol.ownership import Claim, Identity, claim_log, verify
from streamjob.protocol.restore import Resolution, resolve
from streamjob.protocol.stored_manifests import encode_manifest
from streamjob.snapshot.manifest import FileRef, Manifest
from streamjob.store.base import StoreError
from streamjob.store.effects import Program, get, get_uri, put
from streamjob_runtime.restoring.download import SnapshotFileMissing

SINK = OperatorUid("sink")


class EpochRun(ABC):
    """One epoch of a process, from its claim to its end; what its chains do, the job's own run knows."""

    def __init__(self, process: Process, number: int) -> None:
        self.process = process
        self.world = process.world
        self.name = f"{process.name}.{number}"
        self.tasks: list[Task] = [Task(f"{self.name} begin", self._begin())]
        self.coordinator: Coordinator | None = None
        self.claim: Claim | None = None
        self.over = False
        self.draining = False
        self._drains_into: CheckpointId | None = None
        self.ending: m.JobEnd | None = None
        self._collecting = False
        self._wake: float | None = None
        self._work: deque[Callable[[], Steps]] = deque()
        self.aborted: set[CheckpointId] = set()
        self.triggered: dict[CheckpointId, float] = {}

    def spawn(self, name: str, steps: Steps) -> None:
        """Start a task."""
        self.tasks.append(Task(f"{self.name} {name}", steps))

    def _begin(self) -> Steps:
        world, process = self.world, self.process
        identity = Identity(job=JOB, owner=Owner(process.name), attempt=process.attempt)
        try:
            self.claim = claim = yield from claim_log(
                identity, world.clock.now(), checkpoints=process.num_retained, again=process.has_held
            )
            process.has_held = True
            resolution = yield from resolve(claim.below, root=world.store.uri)
            self.registry = resolution.registry(claim)
            files: dict[str, bytes] = {}
            for file in resolution.manifest.files() if resolution.manifest else ():
                content = yield from _read_object(file.object)
                part = content[file.offset : file.offset + file.length]
                assert sha256(part) == file.sha256, f"{file.object} is corrupt"
                files[file.path] = part
            yield from recover(claim, [SINK])
        except Superseded as error:
            self._end_process(m.JobEnd.SUPERSEDED, str(error))
            return
        except CannotRestore as error:
            yield from self._cannot_restore(error)
            return
        except (StoreError, SinkFailed):
            # The job restarts; what was claimed stays claimed.
            self._restart()
            return
        if claim.finished:
            self._end_process(m.JobEnd.FINISHED, "finished before")
        elif (refused := self.examine(resolution.manifest)) is not None:
            self._refuse(refused)
        else:
            try:
                self._start(claim, resolution, files)
            except SnapshotFileMissing as error:
                yield from self._cannot_restore(error)
            except CannotRestore as error:
                self._refuse(error)

    def _cannot_restore(self, error: CannotRestore) -> Steps:
        """A process that has lost the log may find its newest completion deleted: only the holder can be sure."""
        assert self.claim is not None
        try:
            yield from verify(self.claim)
        except Superseded as superseded:
            self._end_process(m.JobEnd.SUPERSEDED, str(superseded))
        except StoreError:
            self._restart()
        else:
            raise error

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

    def _start(self, claim: Claim, resolution: Resolution, files: dict[str, bytes]) -> None:
        process = self.process
        self.epoch = claim.epoch
        self.collector = Collector(self.registry)
        self.restore(resolution.manifest, files)
        self.coordinator = Coordinator(
            chains=self.chains,
            policy=process.policy,
            highest_id=resolution.last_id,
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
    def completed(self, checkpoint: CheckpointId) -> None:
        """Let go of what a completed checkpoint took."""

    def report(self, chain: ChainUid, status: m.ChainStatus, message: str = "") -> None:
        """Tell the coordinator where a chain stands."""
        self.handle(m.ChainStateChanged(now=self.world.clock.now(), chain=chain, status=status, message=message))

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
        if status is not None and status.outcome is not None:
            self.process.drains.remove(drain)
            self.process.drained[drain] = status.outcome
            if self.draining:
                self.world.oracle.tells_of_drain(status.outcome)

    def _act(self, action: m.Action) -> None:
        match action:
            case m.StartCheckpoint():
                if self.draining and (self._drains_into is not None or not action.properties.drained):
                    raise Violation(f"{action.id} starts during a drain, which one drained snapshot is to end")
                self._drains_into = action.id if self.draining else None
                self.registry.begin(action.id)
                self.triggered[action.id] = action.triggered
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
                    self.registry.aborted(action.id)
            case m.CompleteCheckpoint():
                self._work.append(lambda: self._complete(action))
            case m.DrainSources():
                self.drain()
            case m.CommitOutput():
                # The committer commits the sinks' output.
                pass
            case m.WakeAt():
                self._wake = action.time
            case m.FailJob():
                self.world.note(f"{self.name}: {action.message}")
                self._restart()
            case m.EndJob():
                if self._collecting:
                    self.ending = action.end
                else:
                    self._end_process(action.end, action.message)

    def store_files(
        self, start: m.StartCheckpoint, chain: ChainUid, contents: Mapping[str, bytes]
    ) -> Program[tuple[FileRef, ...]]:
        """Upload what the store lacks of a chain's files; the first ones only, if the snapshot is aborted meanwhile."""
        checkpoint = start.id
        files: list[FileRef] = []
        for path, content in contents.items():
            if checkpoint in self.aborted:
                break
            digest, name, offset = sha256(content), "", 0
            if start.properties.is_savepoint:
                name = f"{self.world.store.uri}{self._savepoint(checkpoint)}{chain}/{path}"
                yield from put(Key(name.removeprefix(self.world.store.uri)), content)
            elif location := self.registry.reuse(checkpoint, digest, len(content)):
                name, offset = location.object, location.offset
            else:
                name = self.registry.allocate(checkpoint, digest)
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

    def _savepoint(self, checkpoint: CheckpointId) -> str:
        return f"savepoints/{checkpoint}-{self.name}/"

    def _complete(self, action: m.CompleteCheckpoint) -> Steps:
        claim, checkpoint = self.claim, action.id
        assert claim is not None
        parts = action.acknowledgements.values()
        manifest = Manifest(
            job=JOB.name,
            namespace=JOB.namespace,
            id=checkpoint,
            epoch=claim.epoch,
            kind=action.properties.kind.value,
            unaligned=any(part.metrics.unaligned for part in parts),
            drained=action.properties.drained,
            triggered=action.triggered,
            completed=self.world.clock.now(),
            graph=self.job_graph,
            operators=tuple(operator for part in parts for operator in part.operators),
            chains=tuple(part.state for part in parts),
            channels=tuple(channel for part in parts for channel in part.channels),
            sources=tuple(source for part in parts for source in part.sources),
            sinks=tuple(sink for part in parts for sink in part.sinks),
        )
        uri: str | None = None
        failure, reason = m.CompletionFailure.NOT_WRITTEN, ""
        try:
            if action.properties.is_savepoint:
                uri = f"{self.world.store.uri}{self._savepoint(checkpoint)}manifest.json"
                yield from put(Key(uri.removeprefix(self.world.store.uri)), encode_manifest(manifest))
            completion = yield from complete_snapshot(
                claim, self.registry, manifest, self.world.clock.now(), savepoint_uri=uri
            )
        except Superseded as error:
            failure, reason = m.CompletionFailure.SUPERSEDED, str(error)
        except OutcomeUnknown as error:
            failure, reason = m.CompletionFailure.UNKNOWN, str(error)
        except StoreError as error:
            reason = str(error)
        else:
            assert completion.record in self.world.oracle.log, f"{completion!r} is not in the log"
            self.completed(checkpoint)
            now = self.world.clock.now()
            self.handle(m.CompletionSucceeded(now=now, id=checkpoint, uri=completion.record.manifest or ""))
            if self.coordinator_ended():
                return
            try:
                yield from commit(completion, manifest)
            except SinkFailed as error:
                now = self.world.clock.now()
                self.handle(m.CommitFailed(now=now, id=checkpoint, message=repr(error)))
                return
            if action.properties.stopping:
                self.world.oracle.stops(completion.record)
            self._collecting = True
            self.handle(m.OutputCommitted(now=self.world.clock.now(), id=checkpoint))
            try:
                yield from self.collector.collect(completion, self.process.num_retained)
            except Superseded as error:
                self.ending = self.ending or m.JobEnd.SUPERSEDED
                self.handle(m.OwnershipLost(now=self.world.clock.now(), message=str(error)))
            except StoreError as error:
                self.world.note(f"{self.name}: collection failed: {error}")
            self._collecting = False
            # The last completion of a job is followed by a collection, too.
            if self.ending is not None:
                self._end_process(self.ending, "")
            return
        self.handle(m.CompletionFailed(now=self.world.clock.now(), id=checkpoint, failure=failure, message=reason))

    def _restart(self) -> None:
        self.over = True
        self.process.next_epoch(self)

    def _end_process(self, end: m.JobEnd, message: str) -> None:
        self.over = True
        if self.process.end is not None:
            return
        self.world.note(f"{self.name}: {end}: {message}")
        if end is m.JobEnd.SUPERSEDED:
            self.world.oracle.superseded(self.process.attempt, self.claim)
        self.process.end = end
        self.process.runs.clear()


def _read_object(reference: str) -> Program[bytes]:
    return get_uri(reference) if "://" in reference else get(Key(reference))
