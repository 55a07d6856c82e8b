"""A job of one chain: its inputs, its epochs, and what its snapshots and its result must be."""

from __future__ import annotations

from dataclasses import dataclass

from tests.models.watched_emissions import WatchedEmissions
from tests.simulation.model import ModelSink, Row, Source, State, committables_of, decode_state, encode_state
from tests.simulation.oracle import Oracle, Violation
from tests.simulation.process import Process
from tests.simulation.runtime import SINK, EpochRun
from tests.simulation.tasks import CommitFailed, Pause, SinkFailed, Stage, Steps, Wait
from tests.simulation.world import Choices, World

from streamjob.ids import NO_BATCH, BatchId, ChainUid, CheckpointId, OperatorUid
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.emissions.channels import END_OF_TIME_MS
from streamjob.protocol.emissions.cuts import Batch, ChainCut, EmissionSealed
from streamjob.snapshot.manifest import ChainState, Manifest, OperatorState, SinkState, SourceState
from streamjob.snapshot.record import LogRecord
from streamjob.store.base import StoreUnavailable
from streamjob.testing.memory_store import MemoryStore

CHAIN, SOURCE = ChainUid("chain"), OperatorUid("source")


def position_in(manifest: Manifest | None) -> tuple[int, bool]:
    """Return how far a snapshot has read, and whether it is flushed, and has read nothing since."""
    if manifest is None:
        return 0, False
    position = manifest.sources[0].position
    assert isinstance(position, int)
    return position, manifest.chains[0].watermark == END_OF_TIME_MS


class ChainOracle(Oracle):
    """Checks that a cut holds the output since the previous cut, and the state after it."""

    def __init__(self, source: Source, limit: int | None, min_retained: int) -> None:
        super().__init__(MemoryStore(), ModelSink(), min_retained)
        self.source = source
        self.limit = limit
        self.flushed_at: list[int] = []

    def check_cut(self, record: LogRecord, manifest: Manifest) -> None:
        position, flushed = position_in(manifest)
        files = {file.path: self.read(file) for file in manifest.files()}
        state, _ = self.source.fold({}, 0, position)
        if decode_state(files) != state:
            raise Violation(f"{record.kind} {record.id}: its state is not that of position {position}")
        before, was_flushed = position_in(self.completions[-1][1] if self.completions else None)
        finished = manifest.operators[0].finished
        stays_flushed = was_flushed and position == before
        if flushed is not (stays_flushed or finished or manifest.drained):
            raise Violation(f"{record.kind} {record.id} is {'' if flushed else 'not '}flushed")
        if finished and position != self.limit:
            raise Violation(f"{record.kind} {record.id} is said to be finished at position {position}")
        earlier, _ = self.source.fold({}, 0, before)
        _, expected = self.source.fold(earlier, before, position)
        if flushed and not stays_flushed:
            self.flushed_at.append(position)
            expected += self.source.flush(state, position)
        named: list[Row] = []
        for name in committables_of(manifest.sinks):
            named += self.sink.ever_staged[name]
        if sorted(named) != sorted(expected):
            raise Violation(
                f"{record.kind} {record.id}: its committables are not the output from {before} to {position}: "
                f"{sorted(named)} instead of {sorted(expected)}"
            )

    def check_result(self) -> None:
        assert self.limit is not None
        if self.sink.delivered() != Source(self.limit).batch_result(self.flushed_at):
            raise Violation("what the sink shows is not the batch's result")


class ChainWorld(World):
    """One source; without a `limit` it has no end yet."""

    def __init__(self, choices: Choices, *, limit: int | None, min_retained: int) -> None:
        self.source = Source(limit or 0)
        self.limit = limit
        self.read_to = 0
        self._known = ChainOracle(self.source, limit, min_retained)
        super().__init__(choices, self._known)

    def end_inputs(self) -> None:
        if self.limit is None:
            self.limit = self._known.limit = self.read_to + 3

    def run_of(self, process: Process, number: int) -> ChainRun:
        """Return a new epoch of a process."""
        return ChainRun(self, process, number)


@dataclass
class Snapshot:
    """The content of the chain's local checkpoint after a batch."""

    state: State
    position: int
    flushed: bool
    finished: bool = False


class ChainRun(EpochRun):
    """One epoch of the chain."""

    def __init__(self, inputs: ChainWorld, process: Process, number: int) -> None:
        self.inputs = inputs
        super().__init__(process, number)

    @property
    def chains(self) -> tuple[ChainUid, ...]:
        return (CHAIN,)

    def restore(self, manifest: Manifest | None, files: dict[str, bytes]) -> None:
        position, flushed = position_in(manifest)
        finished = manifest is not None and manifest.operators[0].finished
        self.batch = manifest.chains[0].batch if manifest is not None else NO_BATCH
        self.emissions = WatchedEmissions([CHAIN])
        self.emissions.restore(CHAIN, self.batch)
        begun = Snapshot(decode_state(files), position, flushed, finished)
        self.snapshots: dict[BatchId, Snapshot] = {self.batch: begun}
        self.world.note(f"{self.name}: epoch {self.epoch} starts at batch {self.batch}, position {position}")

    def start_chains(self) -> None:
        self.spawn("chain", self._chain(self.batch))

    def _chain(self, batch: BatchId) -> Steps:
        inputs, choices = self.inputs, self.world.choices
        snapshot = self.snapshots[batch]
        self.report(CHAIN, m.ChainStatus.FINISHED if snapshot.finished else m.ChainStatus.RUNNING)
        try:
            while not snapshot.finished and not (self.draining and snapshot.flushed):
                batch = BatchId(batch + 1)
                size = 0 if self.draining else 1 + choices.pick(4)
                end = snapshot.position + size if inputs.limit is None else min(snapshot.position + size, inputs.limit)
                state, rows = inputs.source.fold(snapshot.state, snapshot.position, end)
                inputs.read_to = max(inputs.read_to, end)
                finished = snapshot.position == inputs.limit
                flushes = (finished or size == 0) and not snapshot.flushed
                if flushes:
                    rows = inputs.source.flush(state, end)
                flushed = flushes or (snapshot.flushed and end == snapshot.position)
                name = f"{self.epoch}-{self.name}-{batch}"
                if rows:
                    yield Stage(name, self.epoch, tuple(rows))
                emitted = Batch(batch=batch, staged={SINK: name} if rows else {})
                yield Wait(lambda: not self.emissions.is_sealed(CHAIN) or self.coordinator_ended())
                self.emissions.emit(CHAIN, emitted)
                snapshot = Snapshot(state, end, flushed, finished)
                yield Pause("commit")
                self.snapshots[batch] = snapshot
                self.emissions.committed(CHAIN, batch)
                yield Pause("next batch")
            if not self.coordinator_ended():
                self.report(CHAIN, m.ChainStatus.FINISHED if snapshot.finished else m.ChainStatus.DRAINED)
        except EmissionSealed:
            return
        except (SinkFailed, CommitFailed) as error:
            self.report(CHAIN, m.ChainStatus.FAILED, repr(error))

    def trigger(self, start: m.StartCheckpoint) -> None:
        (cut,) = self.emissions.trigger(start.id, seal=start.properties.stopping).cuts
        self.world.note(f"{self.name}: {start.properties.kind} {start.id} cuts at batch {cut.batch}")
        self.spawn(f"upload {start.id}", self._upload(start, cut))

    def switch(self, checkpoint: CheckpointId) -> None:
        self.emissions.switch(checkpoint)

    def abort(self, checkpoint: CheckpointId) -> None:
        self.emissions.abort(checkpoint)

    def let_go(self, checkpoint: CheckpointId) -> None:
        self.emissions.complete(checkpoint)

    def _upload(self, start: m.StartCheckpoint, cut: ChainCut) -> Steps:
        checkpoint = start.id
        yield Wait(lambda: checkpoint in self.aborted or cut.batch in self.snapshots)
        if checkpoint in self.aborted:
            return
        snapshot = self.snapshots[cut.batch]
        contents = encode_state(snapshot.state)
        try:
            files = yield from self.store_files(start, CHAIN, contents)
        except StoreUnavailable as error:
            self.decline(checkpoint, CHAIN, error)
            return
        if len(files) < len(contents):
            return
        watermark = END_OF_TIME_MS if snapshot.flushed else snapshot.position
        acknowledgement = m.ChainAcknowledgement(
            state=ChainState(
                uid=CHAIN, operators=(OperatorUid("fold"),), batch=cut.batch, watermark=watermark, files=files
            ),
            operators=(OperatorState(uid=OperatorUid("fold"), chain=CHAIN, finished=snapshot.finished),),
            sources=(SourceState(uid=SOURCE, position=snapshot.position),),
            sinks=(SinkState(uid=SINK, committables=cut.committables.get(SINK, ())),),
        )
        yield from self.acknowledge(checkpoint, acknowledgement)
