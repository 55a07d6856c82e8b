"""An epoch of a job of several chains: real publications, channels and in-flight data; rows and files in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath

from tests.simulation.flow import SOURCE, FlowState, Node, Outcome, Record, decode, encode, process, watermark_of
from tests.simulation.graph_world import GraphWorld, positions_in, restored_channels, sink_of, source_of, state_path
from tests.simulation.oracle import Violation
from tests.simulation.runtime import CommitFailed, EpochRun, Pause, Process, SinkFailed, Stage, Steps, Wait

from streamjob.ids import NO_BATCH, BatchId, ChainUid, CheckpointId, OperatorUid
from streamjob.job.spec import ChannelPolicy
from streamjob.protocol import messages as m
from streamjob.protocol.channels import END_OF_TIME_MS, Segment
from streamjob.protocol.cuts import Batch, ChainCut, Output, Publications, PublicationSealed
from streamjob.snapshot.manifest import ChainState, Manifest, OperatorState, SinkState, SourceState
from streamjob.store.base import StoreUnavailable
from streamjob_runtime.channels.in_flight import channel_states, is_segment, restored_log, segment_path
from streamjob_runtime.channels.stream import Stream
from streamjob_runtime.publication import Publication

SEGMENT_RECORDS = 2
BOUNDS = ChannelPolicy(capacity_records=6)


class LocalStream(Stream):
    """A stream without Spark: it has the entries that it was told of, and the files that were not dropped."""

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

    def read(self, start: int, end: int) -> list[Record]:
        """Return the records of entries. Raises Violation if one of them is gone."""
        if start < self._base or end > self._base + len(self._entries):
            raise Violation(f"entries {start} to below {end} are to be read, the first is {self._base}")
        entries = self._entries[start - self._base : end - self._base]
        return [record for segments in entries for segment in segments for record in decode(self.file(segment.name))]

    def file(self, name: str) -> bytes:
        """Return a segment's content. Raises Violation if it was deleted."""
        if name not in self.files:
            raise Violation(f"segment {name} was deleted too early")
        return self.files[name]


@dataclass
class Place:
    """Where a chain stands behind a batch: its state, its source's offset and its positions in others' streams."""

    state: FlowState = field(default_factory=FlowState)
    offset: int = 0
    consumed: dict[ChainUid, int] = field(default_factory=dict)

    def copy(self) -> Place:
        """Return a place that changes independently."""
        return Place(self.state.copy(), self.offset, dict(self.consumed))


class GraphRun(EpochRun):
    """One epoch of all chains of the graph."""

    def __init__(self, graph: GraphWorld, process: Process, number: int) -> None:
        self.graph = graph
        super().__init__(process, number)

    @property
    def chains(self) -> tuple[ChainUid, ...]:
        return tuple(self.graph.nodes)

    @property
    def all_is_read(self) -> bool:
        """Whether all that the sources have so far is read, in committed batches."""
        offsets = {chain: places[max(places)].offset for chain, places in self._places.items()}
        return not any(self.graph.has_more(chain, offsets[chain]) for chain in self.graph.limits)

    def restore(self, manifest: Manifest | None, files: dict[str, bytes]) -> None:
        self._starts: dict[CheckpointId, m.StartCheckpoint] = {}
        self._finished: frozenset[ChainUid] = frozenset()
        self._drained: set[ChainUid] = set()
        self._event_time: dict[ChainUid, dict[str, int]] = {}
        self._streams = {producer: LocalStream(0, {}) for producer, _ in self.graph.channels}
        self._places: dict[ChainUid, dict[BatchId, Place]] = {}
        publications = Publications(
            self.chains, self.graph.channels, feedback=self.graph.feedback, clock=self.world.clock.now
        )
        self._decided = publications
        self.publication = Publication(publications, BOUNDS)
        self.publication.on_cut = self._on_cut
        for node in self.graph.nodes.values():
            self._places[node.uid] = {NO_BATCH: Place(consumed=dict.fromkeys(node.producers, 0))}
        if manifest is not None:
            self._restore_from(manifest, files)
        self._published = {chain: place for chain, places in self._places.items() for place in places.values()}
        self.publication.open_channels(self._streams)
        self.graph.local_files[self.epoch] = [stream.files for stream in self._streams.values()]
        self.world.note(f"{self.name}: epoch {self.epoch} starts behind {manifest.id if manifest else 'nothing'}")

    def _restore_from(self, manifest: Manifest, files: dict[str, bytes]) -> None:
        positions = positions_in(manifest)
        self._finished = frozenset(each.chain for each in manifest.operators if each.finished)
        for chain in manifest.chains:
            consumed = {each.source: each.consumed for each in manifest.channels if each.target == chain.uid}
            offset = positions.get(chain.uid, 0)
            state = FlowState.decode(files[state_path(chain.uid)])
            if manifest.drained and chain.uid not in self._finished:
                state.rewind()
            self._places[chain.uid] = {chain.batch: Place(state, offset, consumed)}
            at = {source_of(chain.uid): offset} if chain.uid in positions else {}
            self._decided.restore(chain.uid, chain.batch, at, {}, consumed)
            channels = restored_channels(manifest, chain.uid)
            if not channels:
                if chain.uid in self._finished:
                    self._decided.restore_log(chain.uid, (), 0, True, manifest.id)
                continue
            log = restored_log(channels)
            self._decided.restore_log(chain.uid, log.entries, log.next, log.ended, manifest.id)
            base = log.next - len(log.entries)
            self._streams[chain.uid] = stream = LocalStream(
                base, {PurePath(file.path).name: files[file.path] for file in log.files}
            )
            stream.extend(base, [entry.segments for entry in log.entries])
            self.graph.graph_oracle.moments["restored rows in flight"] += bool(log.files)

    def start_chains(self) -> None:
        for node in self.graph.nodes.values():
            if node.uid in self._finished:
                self.report(node.uid, m.ChainStatus.FINISHED)
            else:
                self.spawn(f"chain {node.uid}", self._chain(node))

    def _chain(self, node: Node) -> Steps:
        chain, publication = node.uid, self.publication
        ((batch, place),) = self._places[chain].items()
        self.report(chain, m.ChainStatus.RUNNING)
        try:
            while not self._is_through(node, place):
                # Spark runs batches without data, too, where a function keeps state.
                if chain not in self.graph.graph_oracle.loops or self.world.choices.pick(4) < 3:
                    yield Wait(partial(self._has_work, node, place))
                batch = BatchId(batch + 1)
                ends, count = self._plan(node, place)
                # A batch that has begun reads what it was to read.
                source_done = self._source_done(node, place)
                if not self._has_room(node):
                    self.graph.graph_oracle.moments["producers that wait for room"] += 1
                    drained_before = self.draining
                    yield Wait(partial(self._has_room, node))
                    drained_meanwhile = self.draining and not drained_before
                    self.graph.graph_oracle.moments["drains while a writer waits for room"] += drained_meanwhile
                if chain in self.graph.graph_oracle.loops:
                    yield Pause("plan")
                    if self._decided.has_ended(chain):
                        self.graph.graph_oracle.moments["batches that a loop's end takes back"] += 1
                        break
                    publication.begin(chain, batch)
                for _ in range(node.steps):
                    yield Pause("compute")
                place, outcome = self._compute(node, place, ends, 0 if source_done else count, source_done)
                name = f"{self.epoch}-{self.name}-{chain}-{batch}"
                if outcome.rows:
                    yield Stage(name, self.epoch, tuple(outcome.rows))
                yield from self._while_sealed(chain)
                publication.publish(chain, self._batch(node, batch, place, outcome, name))
                self._published[chain] = place
                yield Pause("commit")
                self._places[chain][batch] = place
                publication.committed(chain, batch)
                yield Pause("next batch")
            yield from self._while_sealed(chain)
            drained = not self._ended_for_good(node, place)
            if drained:
                self._drained.add(chain)
                place.state.event_time = self._event_time[chain]
            publication.end(chain, drained=drained)
            if not self.coordinator_ended():
                self.report(chain, m.ChainStatus.DRAINED if drained else m.ChainStatus.FINISHED)
        except PublicationSealed:
            return
        except (SinkFailed, CommitFailed) as error:
            self.report(chain, m.ChainStatus.FAILED, repr(error))

    def _while_sealed(self, chain: ChainUid) -> Steps:
        """Wait until the savepoint that stops the job has failed, or the job ends, as `Publication.publish` does."""
        if self._decided.is_sealed(chain):
            yield Wait(lambda: not self._decided.is_sealed(chain) or self.coordinator_ended())
            self.graph.graph_oracle.moments["goes on behind a failed stop"] += not self._decided.is_sealed(chain)

    def _is_through(self, node: Node, place: Place) -> bool:
        if node.uid in self.graph.graph_oracle.loops:
            return self._decided.has_ended(node.uid)
        return self._inputs_ended(node, place) and watermark_of(node, place.state) == END_OF_TIME_MS

    def _inputs_ended(self, node: Node, place: Place) -> bool:
        return self._source_done(node, place) and self.publication.input_ended(node.uid)

    def _source_done(self, node: Node, place: Place) -> bool:
        """Whether nothing more is read of a chain's own source in this epoch; a drain waits for the channels."""
        return self._source_ended(node, place) or (self.draining and self.publication.input_ended(node.uid))

    def _source_ended(self, node: Node, place: Place) -> bool:
        return SOURCE not in node.inputs or self.graph.has_ended(node.uid, place.offset)

    def _ended_for_good(self, node: Node, place: Place) -> bool:
        """Whether a chain that is through is so in later epochs, too."""
        if node.uid in self.graph.graph_oracle.loops:
            return not self._decided.is_drained(node.uid)
        # The chains of a loop are drained together, whichever of them knows.
        drained = self._drained.union(each for each in self.graph.graph_oracle.loops if self._decided.is_drained(each))
        return self._source_ended(node, place) and drained.isdisjoint(node.producers)

    def _has_work(self, node: Node, place: Place) -> bool:
        if not self._source_done(node, place) and self.graph.has_more(node.uid, place.offset):
            return True
        readable = (self._streams[each].frontier(node.uid) > place.consumed[each] for each in node.producers)
        return any(readable) or self._inputs_ended(node, place)

    def _has_room(self, node: Node) -> bool:
        assert BOUNDS.capacity_records is not None
        return self.publication.backlog(node.uid).records < BOUNDS.capacity_records

    def _plan(self, node: Node, place: Place) -> tuple[dict[ChainUid, int], int]:
        """Return up to which position a batch reads each stream, and how many records of the source."""
        choices, ends = self.world.choices, dict(place.consumed)
        for producer in node.producers:
            readable = self._streams[producer].frontier(node.uid) - ends[producer]
            ends[producer] += readable if readable < 2 or choices.pick(2) == 0 else 1 + choices.pick(readable)
        return ends, (2, 1, 3, 0)[choices.pick(4)]

    def _compute(
        self, node: Node, place: Place, ends: dict[ChainUid, int], count: int, source_done: bool
    ) -> tuple[Place, Outcome]:
        reads, watermarks = {}, {}
        after = place.copy()
        after.consumed = ends
        for producer, end in ends.items():
            reads[producer] = self._streams[producer].read(place.consumed[producer], end)
            watermark = self.publication.watermark_at(producer, end)
            if watermark is not None and node.uid not in self.graph.graph_oracle.loops:
                watermarks[producer] = watermark
        if SOURCE in node.inputs:
            reads[SOURCE] = self.graph.read_source(node.uid, place.offset, count)
            after.offset += len(reads[SOURCE])
            # The batch behind the last record is the one that flushes.
            watermarks[SOURCE] = END_OF_TIME_MS if source_done else after.offset
        return after, process(node, after.state, reads, watermarks)

    def _batch(self, node: Node, batch: BatchId, place: Place, outcome: Outcome, name: str) -> Batch:
        output = None
        if node.uid in self._streams:
            segments = []
            for start in range(0, len(outcome.records), SEGMENT_RECORDS):
                records = outcome.records[start : start + SEGMENT_RECORDS]
                content, segment = encode(records), f"{self.epoch}-{batch}-{start}"
                self._streams[node.uid].files[segment] = content
                segments.append(Segment(name=segment, records=len(records), length=len(content)))
            watermark = watermark_of(node, place.state)
            # That a stream has ended, its last entry says, and no watermark before it.
            timeless = watermark == END_OF_TIME_MS or node.uid in self.graph.graph_oracle.loops
            output = Output(segments=tuple(segments), watermark_ms=None if timeless else watermark)
        return Batch(
            batch=batch,
            positions={source_of(node.uid): place.offset} if SOURCE in node.inputs else {},
            staged={sink_of(node.uid): name} if outcome.rows else {},
            consumed=place.consumed,
            output=output,
        )

    def drain(self) -> None:
        super().drain()
        # All at one moment: so nobody goes on from a later time than what writes to it.
        self._event_time = {chain: dict(place.state.watermarks) for chain, place in self._published.items()}
        assert self.coordinator is not None
        cuts = 0 if self.coordinator.pending is None else len(self._decided.cuts_of(self.coordinator.pending))
        self.graph.graph_oracle.moments["drains while barriers align"] += 0 < cuts < len(self.chains)

    def trigger(self, start: m.StartCheckpoint) -> None:
        self._starts[start.id] = start
        kind = "unaligned" if start.properties.unaligned else "aligned"
        self.world.note(f"{self.name}: {kind} {start.properties.kind} {start.id} begins")
        self.publication.trigger(start.id, seal=start.properties.stopping, unaligned=start.properties.unaligned)

    def switch(self, checkpoint: CheckpointId) -> None:
        cut_before = len(self._decided.cuts_of(checkpoint))
        self.graph.graph_oracle.moments["switched half way"] += 0 < cut_before < len(self.chains)
        self.publication.switch(checkpoint)

    def abort(self, checkpoint: CheckpointId) -> None:
        cuts = len(self._decided.cuts_of(checkpoint))
        self.graph.graph_oracle.moments["aborted half way"] += 0 < cuts < len(self.chains)
        self.publication.abort(checkpoint)

    def completed(self, checkpoint: CheckpointId) -> None:
        self.publication.complete(checkpoint)

    def _on_cut(self, checkpoint: CheckpointId, cut: ChainCut) -> None:
        self.world.note(f"{self.name}: {checkpoint} cuts {cut.chain} at batch {cut.batch}, {dict(cut.consumed)}")
        self.spawn(f"acknowledge {checkpoint} {cut.chain}", self._acknowledge(self._starts[checkpoint], cut))

    def _acknowledge(self, start: m.StartCheckpoint, cut: ChainCut) -> Steps:
        checkpoint, chain = start.id, cut.chain
        yield Pause("hold")
        if checkpoint in self.aborted:
            return
        segments = {
            segment_path(producer, segment.name): self._streams[producer].file(segment.name)
            for producer, entries in cut.in_flight.items()
            for entry in entries
            for segment in entry.segments
        }
        segments |= {
            segment_path(chain, segment.name): self._streams[chain].file(segment.name)
            for fed_back in cut.fed_back.values()
            for entry in fed_back.entries
            for segment in entry.segments
        }
        self.publication.unpin(checkpoint, chain)
        yield Wait(lambda: checkpoint in self.aborted or self._decided.is_committed(checkpoint, chain))
        if checkpoint in self.aborted:
            return
        place = self._places[chain][cut.batch]
        assert place.consumed == cut.consumed or (cut.ended and chain in self.graph.graph_oracle.loops)
        contents = {state_path(chain): place.state.encode(), **segments}
        try:
            files = yield from self.store_files(start, contents)
        except StoreUnavailable as error:
            self.decline(checkpoint, chain, error)
            return
        if len(files) < len(contents):
            return
        operator, node = OperatorUid(chain), self.graph.nodes[chain]
        sources = (SourceState(uid=source_of(chain), position=place.offset),) if SOURCE in node.inputs else ()
        committables = cut.committables.get(sink_of(chain), ())
        acknowledgement = m.ChainAcknowledgement(
            state=ChainState(
                uid=chain,
                operators=(operator,),
                batch=cut.batch,
                files=tuple(file for file in files if not is_segment(file.path)),
            ),
            channels=channel_states(cut, files),
            operators=(OperatorState(uid=operator, chain=chain, finished=cut.ended),),
            sources=sources,
            sinks=(SinkState(uid=sink_of(chain), committables=committables),) if node.has_sink else (),
            metrics=m.AcknowledgementMetrics(unaligned=cut.unaligned),
        )
        yield from self.acknowledge(checkpoint, acknowledgement)
