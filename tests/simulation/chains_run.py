"""An epoch of several chains: real emissions, channels and in-flight data; rows and files in memory."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Protocol, TypeVar

from tests.models.watched_emissions import WatchedEmissions
from tests.simulation.model import Row
from tests.simulation.oracle import Violation
from tests.simulation.runtime import EpochRun
from tests.simulation.tasks import CommitFailed, Pause, SinkFailed, Stage, Steps, Wait

from streamjob.ids import NO_BATCH, BatchId, ChainUid, CheckpointId, OperatorUid
from streamjob.job.model.spec import ChannelPolicy
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.emissions.channels import Segment
from streamjob.protocol.emissions.cuts import Batch, ChainCut, EmissionSealed, Output
from streamjob.snapshot.manifest import FileRef
from streamjob.store.base import StoreUnavailable
from streamjob_runtime.chain.channels.in_flight import segment_path
from streamjob_runtime.chain.channels.stream import Stream
from streamjob_runtime.chain.emissions.emission_lock import EmissionLock

BOUNDS = ChannelPolicy(capacity_records=6)


class LocalStream(Stream):
    """A stream without Spark: it has the entries that it received, and the files that were not dropped."""

    def __init__(self, base: int, files: dict[str, bytes]) -> None:
        self.files = files
        self._base = base
        self._entries: list[Sequence[Segment]] = []
        self._frontiers: dict[str, int] = {}

    def extend(self, index: int, entries: Sequence[Sequence[Segment]]) -> None:
        if index != self._base + len(self._entries):
            raise Violation(f"entry {index} is appended behind {self._base + len(self._entries) - 1}")
        self._entries += entries

    def serve(self, consumer: str, frontier: int, max_records: int) -> None:
        if frontier > self._base + len(self._entries):
            raise Violation(f"{consumer} may read up to {frontier}, but there is no such entry")
        self._frontiers[consumer] = frontier

    def drop(self, below: int) -> None:
        for segments in self._entries[: below - self._base]:
            for segment in segments:
                del self.files[segment.name]
        del self._entries[: below - self._base]
        self._base = below

    def frontier(self, consumer: str) -> int:
        """Return how far a consumer may read."""
        return self._frontiers[consumer]

    def read(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the segments of entries. Raises Violation if one of them is gone."""
        if start < self._base or end > self._base + len(self._entries):
            raise Violation(f"entries {start} to below {end} are to be read, the first is {self._base}")
        for segments in self._entries[start - self._base : end - self._base]:
            for segment in segments:
                yield self.file(segment.name)

    def file(self, name: str) -> bytes:
        """Return a segment's content. Raises Violation if it was deleted."""
        if name not in self.files:
            raise Violation(f"segment {name} was deleted too early")
        return self.files[name]


class Place(Protocol):
    """A chain's position after a batch; `consumed` has its positions in other streams."""

    consumed: dict[ChainUid, int]


P = TypeVar("P", bound=Place)


@dataclass(frozen=True)
class Shape:
    """A chain as its neighbours see it: which others it reads, how long a batch takes, whether it is in a loop."""

    uid: ChainUid
    producers: tuple[ChainUid, ...]
    steps: int
    looped: bool


@dataclass
class Computed(Generic[P]):
    """The result of a batch: the next place, segments with their numbers of records, rows for its sinks."""

    place: P
    segments: list[tuple[bytes, int]] = field(default_factory=list)
    rows: dict[OperatorUid, tuple[Row, ...]] = field(default_factory=dict)
    watermark_ms: int | None = None


class ChainsRun(EpochRun, Generic[P]):
    """One epoch of several chains; the job's own run knows their computations and restores."""

    shapes: Mapping[ChainUid, Shape]
    moments: Counter[str]

    @property
    def chains(self) -> tuple[ChainUid, ...]:
        return tuple(self.shapes)

    @abstractmethod
    def begin_place(self, chain: ChainUid) -> P:
        """Return the initial place of a chain."""

    @abstractmethod
    def compute(self, shape: Shape, place: P, ends: dict[ChainUid, int], count: int, source_done: bool) -> Computed[P]:
        """Return the result of a batch that reads streams up to `ends`, and some records of each source."""

    @abstractmethod
    def source_ended(self, shape: Shape, place: P) -> bool:
        """Return whether nothing will ever come from the chain's own sources."""

    @abstractmethod
    def has_more(self, shape: Shape, place: P) -> bool:
        """Return whether the chain's own sources have something to read."""

    @abstractmethod
    def contents(self, chain: ChainUid, batch: BatchId, place: P) -> dict[str, bytes]:
        """Return the files of a chain after a batch."""

    @abstractmethod
    def acknowledgement(self, cut: ChainCut, place: P, files: tuple[FileRef, ...]) -> m.ChainAcknowledgement:
        """Return a chain's acknowledgement of its cut."""

    def is_flushed(self, shape: Shape, place: P) -> bool:
        """Return whether a chain whose inputs have ended has nothing left to do."""
        return True

    def drained_at(self, chain: ChainUid, place: P) -> None:
        """Note that a chain has come to the end of a drain."""

    def make_emissions(
        self,
        channels: tuple[tuple[ChainUid, ChainUid], ...],
        feedback: tuple[tuple[ChainUid, ChainUid], ...],
    ) -> None:
        """Begin with chains that have done nothing."""
        self.starts: dict[CheckpointId, m.StartCheckpoint] = {}
        self.cuts: Counter[CheckpointId] = Counter()
        self.finished: frozenset[ChainUid] = frozenset()
        self._drained: set[ChainUid] = set()
        self.streams = {producer: LocalStream(0, {}) for producer, _ in channels}
        self.places: dict[ChainUid, dict[BatchId, P]] = {
            chain: {NO_BATCH: self.begin_place(chain)} for chain in self.shapes
        }
        self.decided = WatchedEmissions(self.chains, channels, feedback=feedback, clock=self.world.clock.now)
        self.emission = EmissionLock(self.decided, BOUNDS)
        self.emission.on_cut = self._on_cut

    def open_channels(self) -> None:
        """Let the chains read, where they stand."""
        self.emitted = {chain: place for chain, places in self.places.items() for place in places.values()}
        self.emission.open_channels(self.streams)

    def start_chains(self) -> None:
        for shape in self.shapes.values():
            if shape.uid in self.finished:
                self.report(shape.uid, m.ChainStatus.FINISHED)
            else:
                self.spawn(f"chain {shape.uid}", self._chain(shape))

    def _chain(self, shape: Shape) -> Steps:
        chain, emission = shape.uid, self.emission
        ((batch, place),) = self.places[chain].items()
        self.report(chain, m.ChainStatus.RUNNING)
        try:
            while not self._is_through(shape, place):
                # Spark runs batches without data, too, where a function keeps state.
                if not shape.looped or self.world.choices.pick(4) < 3:
                    yield Wait(partial(self._has_work, shape, place))
                batch = BatchId(batch + 1)
                ends, count = self._plan(shape, place)
                # A batch that has begun reads its planned input.
                source_done = self._source_done(shape, place)
                if not self._has_room(chain):
                    self.moments["producers that wait for room"] += 1
                    drained_before = self.draining
                    yield Wait(partial(self._has_room, chain))
                    drained_meanwhile = self.draining and not drained_before
                    self.moments["drains while a writer waits for room"] += drained_meanwhile
                if shape.looped:
                    yield Pause("plan")
                    if self.decided.has_ended(chain):
                        self.moments["batches that a loop's end takes back"] += 1
                        break
                    emission.begin(chain, batch)
                for _ in range(shape.steps):
                    yield Pause("compute")
                computed = self.compute(shape, place, ends, 0 if source_done else count, source_done)
                place = computed.place
                staged = {sink: f"{self.epoch}-{self.name}-{batch}-{sink}" for sink in computed.rows}
                for sink, rows in computed.rows.items():
                    yield Stage(staged[sink], self.epoch, rows)
                yield from self._while_sealed(chain)
                emission.emit(chain, self._batch(chain, batch, computed, staged))
                self.emitted[chain] = place
                yield Pause("commit")
                self.places[chain][batch] = place
                emission.committed(chain, batch)
                yield Pause("next batch")
            yield from self._while_sealed(chain)
            drained = not self._ended_for_good(shape, place)
            if drained:
                self._drained.add(chain)
                self.drained_at(chain, place)
            emission.end(chain, drained=drained)
            if not self.coordinator_ended():
                self.report(chain, m.ChainStatus.DRAINED if drained else m.ChainStatus.FINISHED)
        except EmissionSealed:
            return
        except (SinkFailed, CommitFailed) as error:
            self.report(chain, m.ChainStatus.FAILED, repr(error))

    def _while_sealed(self, chain: ChainUid) -> Steps:
        """Wait until the savepoint that stops the job has failed, or the job ends, as `EmissionLock.emit` does."""
        if self.decided.is_sealed(chain):
            yield Wait(lambda: not self.decided.is_sealed(chain) or self.coordinator_ended())
            self.moments["goes on behind a failed stop"] += not self.decided.is_sealed(chain)

    def _is_through(self, shape: Shape, place: P) -> bool:
        if shape.looped:
            return self.decided.has_ended(shape.uid)
        return self._inputs_ended(shape, place) and self.is_flushed(shape, place)

    def _inputs_ended(self, shape: Shape, place: P) -> bool:
        return self._source_done(shape, place) and self.emission.input_ended(shape.uid)

    def _source_done(self, shape: Shape, place: P) -> bool:
        """Whether nothing more is read of a chain's own sources in this epoch; a drain waits for the channels."""
        return self.source_ended(shape, place) or (self.draining and self.emission.input_ended(shape.uid))

    def _ended_for_good(self, shape: Shape, place: P) -> bool:
        """Whether a chain that is through is so in later epochs, too."""
        if shape.looped:
            return not self.decided.is_drained(shape.uid)
        # The chains of a loop are drained together, whichever of them knows.
        looped = (each.uid for each in self.shapes.values() if each.looped)
        drained = self._drained.union(each for each in looped if self.decided.is_drained(each))
        return self.source_ended(shape, place) and drained.isdisjoint(shape.producers)

    def _has_work(self, shape: Shape, place: P) -> bool:
        if not self._source_done(shape, place) and self.has_more(shape, place):
            return True
        readable = (self.streams[each].frontier(shape.uid) > place.consumed[each] for each in shape.producers)
        return any(readable) or self._inputs_ended(shape, place)

    def _has_room(self, chain: ChainUid) -> bool:
        assert BOUNDS.capacity_records is not None
        return chain not in self.streams or self.emission.backlog(chain).records < BOUNDS.capacity_records

    def _plan(self, shape: Shape, place: P) -> tuple[dict[ChainUid, int], int]:
        """Return up to which position a batch reads each stream, and how many records of each source."""
        choices, ends = self.world.choices, dict(place.consumed)
        for producer in shape.producers:
            readable = self.streams[producer].frontier(shape.uid) - ends[producer]
            ends[producer] += readable if readable < 2 or choices.pick(2) == 0 else 1 + choices.pick(readable)
        return ends, (2, 1, 3, 0)[choices.pick(4)]

    def _batch(
        self, chain: ChainUid, batch: BatchId, computed: Computed[P], staged: Mapping[OperatorUid, str]
    ) -> Batch:
        output = None
        if chain in self.streams:
            segments = []
            for number, (content, records) in enumerate(computed.segments):
                name = f"{self.epoch}-{batch}-{number}"
                self.streams[chain].files[name] = content
                segments.append(Segment(name=name, records=records, length=len(content)))
            output = Output(segments=tuple(segments), watermark_ms=computed.watermark_ms)
        return Batch(
            batch=batch,
            staged=staged,
            consumed=computed.place.consumed,
            output=output,
        )

    def drain(self) -> None:
        super().drain()
        assert self.coordinator is not None
        cuts = 0 if self.coordinator.pending is None else self.cuts[self.coordinator.pending]
        self.moments["drains while barriers align"] += 0 < cuts < len(self.chains)

    def trigger(self, start: m.StartCheckpoint) -> None:
        self.starts[start.id] = start
        kind = "unaligned" if start.properties.unaligned else "aligned"
        self.world.note(f"{self.name}: {kind} {start.properties.kind} {start.id} begins")
        self.emission.trigger(start.id, seal=start.properties.stopping, unaligned=start.properties.unaligned)

    def switch(self, checkpoint: CheckpointId) -> None:
        cut_before = self.cuts[checkpoint]
        self.moments["switched half way"] += 0 < cut_before < len(self.chains)
        self.emission.switch(checkpoint)

    def abort(self, checkpoint: CheckpointId) -> None:
        self.moments["aborted half way"] += 0 < self.cuts[checkpoint] < len(self.chains)
        self.emission.abort(checkpoint)

    def let_go(self, checkpoint: CheckpointId) -> None:
        self.emission.complete(checkpoint)

    def _on_cut(self, checkpoint: CheckpointId, cut: ChainCut) -> None:
        self.world.note(f"{self.name}: {checkpoint} cuts {cut.chain} at batch {cut.batch}, {dict(cut.consumed)}")
        self.cuts[checkpoint] += 1
        self.spawn(f"acknowledge {checkpoint} {cut.chain}", self._acknowledge(self.starts[checkpoint], cut))

    def _acknowledge(self, start: m.StartCheckpoint, cut: ChainCut) -> Steps:
        checkpoint, chain = start.id, cut.chain

        def is_aborted() -> bool:
            return checkpoint in self.aborted

        yield Pause("hold")
        if is_aborted():
            return
        segments = self._segments(cut)
        self.emission.unpin(checkpoint, chain)
        yield Wait(lambda: is_aborted() or cut.batch in self.places[chain])
        if is_aborted():
            return
        place = self.places[chain][cut.batch]
        assert place.consumed == cut.consumed or (cut.ended and self.shapes[chain].looped)
        contents = {**self.contents(chain, cut.batch, place), **segments}
        try:
            files = yield from self.store_files(start, chain, contents)
        except StoreUnavailable as error:
            self.decline(checkpoint, chain, error)
            return
        if len(files) == len(contents):
            yield from self.acknowledge(checkpoint, self.acknowledgement(cut, place, files))

    def _segments(self, cut: ChainCut) -> dict[str, bytes]:
        """Return the data in flight to a chain, and the data that it has fed back, as files."""
        entries = [(producer, entry) for producer, left in cut.in_flight.items() for entry in left]
        entries += [(cut.chain, entry) for fed_back in cut.fed_back.values() for entry in fed_back.entries]
        return {
            segment_path(producer, segment.name): self.streams[producer].file(segment.name)
            for producer, entry in entries
            for segment in entry.segments
        }
