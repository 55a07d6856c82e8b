"""An epoch of a job whose graph stays as it is: each of its chains is one node of the graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath

from tests.simulation.chains_run import ChainsRun, Computed, LocalStream, Shape
from tests.simulation.flow import SOURCE, FlowState, Record, decode, encode, process, watermark_of
from tests.simulation.graph_world import GraphWorld, positions_in, restored_channels, sink_of, source_of, state_path
from tests.simulation.process import Process

from streamjob.ids import BatchId, ChainUid, OperatorUid
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.emissions.channels import END_OF_TIME_MS
from streamjob.protocol.emissions.cuts import ChainCut
from streamjob.snapshot.manifest import ChainState, FileRef, Manifest, OperatorState, SinkState, SourceState
from streamjob_runtime.chain.channels.in_flight import channel_states, is_segment, restored_log

SEGMENT_RECORDS = 2


@dataclass
class GraphPlace:
    """A chain's position after a batch: its state, its source's offset and its positions in other streams."""

    state: FlowState = field(default_factory=FlowState)
    offset: int = 0
    consumed: dict[ChainUid, int] = field(default_factory=dict)

    def copy(self) -> GraphPlace:
        """Return a place that changes independently."""
        return GraphPlace(self.state.copy(), self.offset, dict(self.consumed))


class GraphRun(ChainsRun[GraphPlace]):
    """One epoch of all chains of the graph."""

    def __init__(self, graph: GraphWorld, process: Process, number: int) -> None:
        self.graph = graph
        self.moments = graph.graph_oracle.moments
        looped = graph.graph_oracle.loops
        self.shapes = {
            node.uid: Shape(node.uid, node.producers, node.steps, node.uid in looped) for node in graph.nodes.values()
        }
        super().__init__(process, number)

    @property
    def all_is_read(self) -> bool:
        """Whether all that the sources have so far is read, in committed batches."""
        offsets = {chain: places[max(places)].offset for chain, places in self.places.items()}
        return not any(self.graph.has_more(chain, offsets[chain]) for chain in self.graph.limits)

    def restore(self, manifest: Manifest | None, files: dict[str, bytes]) -> None:
        self._event_time: dict[ChainUid, dict[str, int]] = {}
        self.make_emissions(self.graph.channels, self.graph.feedback)
        if manifest is not None:
            self._restore_from(manifest, files)
        self.open_channels()
        self.graph.local_files[self.epoch] = [stream.files for stream in self.streams.values()]
        self.world.note(f"{self.name}: epoch {self.epoch} starts behind {manifest.id if manifest else 'nothing'}")

    def begin_place(self, chain: ChainUid) -> GraphPlace:
        return GraphPlace(consumed=dict.fromkeys(self.shapes[chain].producers, 0))

    def _restore_from(self, manifest: Manifest, files: dict[str, bytes]) -> None:
        positions = positions_in(manifest)
        self.finished = frozenset(each.chain for each in manifest.operators if each.finished)
        for chain in manifest.chains:
            consumed = {each.source: each.consumed for each in manifest.channels if each.target == chain.uid}
            offset = positions.get(chain.uid, 0)
            state = FlowState.decode(files[state_path(chain.uid)])
            if manifest.drained and chain.uid not in self.finished:
                state.rewind()
            self.places[chain.uid] = {chain.batch: GraphPlace(state, offset, consumed)}
            self.decided.restore(chain.uid, chain.batch, consumed)
            channels = restored_channels(manifest, chain.uid)
            if not channels:
                if chain.uid in self.finished:
                    self.decided.restore_log(chain.uid, (), 0, True, manifest.id)
                continue
            log = restored_log(channels)
            self.decided.restore_log(chain.uid, log.entries, log.next, log.ended, manifest.id)
            base = log.next - len(log.entries)
            self.streams[chain.uid] = stream = LocalStream(
                base, {PurePath(file.path).name: files[file.path] for file in log.files}
            )
            stream.extend(base, [entry.segments for entry in log.entries])
            self.moments["restored rows in flight"] += bool(log.files)

    def source_ended(self, shape: Shape, place: GraphPlace) -> bool:
        node = self.graph.nodes[shape.uid]
        return SOURCE not in node.inputs or self.graph.has_ended(shape.uid, place.offset)

    def has_more(self, shape: Shape, place: GraphPlace) -> bool:
        return self.graph.has_more(shape.uid, place.offset)

    def is_flushed(self, shape: Shape, place: GraphPlace) -> bool:
        return watermark_of(self.graph.nodes[shape.uid], place.state) == END_OF_TIME_MS

    def compute(
        self, shape: Shape, place: GraphPlace, ends: dict[ChainUid, int], count: int, source_done: bool
    ) -> Computed[GraphPlace]:
        node, after = self.graph.nodes[shape.uid], place.copy()
        reads: dict[ChainUid, list[Record]] = {}
        watermarks = {}
        after.consumed = ends
        for producer, end in ends.items():
            segments = self.streams[producer].read(place.consumed[producer], end)
            reads[producer] = [record for segment in segments for record in decode(segment)]
            watermark = self.emission.watermark_at(producer, end)
            if watermark is not None and not shape.looped:
                watermarks[producer] = watermark
        if SOURCE in node.inputs:
            reads[SOURCE] = self.graph.read_source(node.uid, place.offset, count)
            after.offset += len(reads[SOURCE])
            # The batch after the last record is the one that flushes.
            watermarks[SOURCE] = END_OF_TIME_MS if source_done else after.offset
        outcome = process(node, after.state, reads, watermarks)
        parts = [
            outcome.records[start : start + SEGMENT_RECORDS]
            for start in range(0, len(outcome.records), SEGMENT_RECORDS)
        ]
        # That a stream has ended, its last entry says, and no watermark before it.
        watermark = watermark_of(node, after.state)
        return Computed(
            place=after,
            segments=[(encode(part), len(part)) for part in parts],
            rows={sink_of(node.uid): tuple(outcome.rows)} if outcome.rows else {},
            watermark_ms=None if watermark == END_OF_TIME_MS or shape.looped else watermark,
        )

    def positions(self, chain: ChainUid, place: GraphPlace) -> dict[OperatorUid, int]:
        return {source_of(chain): place.offset} if SOURCE in self.graph.nodes[chain].inputs else {}

    def drain(self) -> None:
        super().drain()
        # All at one moment, so that no chain continues from a later time than its producers.
        self._event_time = {chain: dict(place.state.watermarks) for chain, place in self.emitted.items()}

    def drained_at(self, chain: ChainUid, place: GraphPlace) -> None:
        place.state.event_time = self._event_time[chain]

    def contents(self, chain: ChainUid, batch: BatchId, place: GraphPlace) -> dict[str, bytes]:
        return {state_path(chain): place.state.encode()}

    def acknowledgement(self, cut: ChainCut, place: GraphPlace, files: tuple[FileRef, ...]) -> m.ChainAcknowledgement:
        chain, operator = cut.chain, OperatorUid(cut.chain)
        committables = cut.committables.get(sink_of(chain), ())
        return m.ChainAcknowledgement(
            state=ChainState(
                uid=chain,
                operators=(operator,),
                batch=cut.batch,
                files=tuple(file for file in files if not is_segment(file.path)),
            ),
            channels=channel_states(cut, files),
            operators=(OperatorState(uid=operator, chain=chain, finished=cut.ended),),
            sources=tuple(
                SourceState(uid=uid, position=position) for uid, position in self.positions(chain, place).items()
            ),
            sinks=(SinkState(uid=sink_of(chain), committables=committables),)
            if self.graph.nodes[chain].has_sink
            else (),
            metrics=m.AcknowledgementMetrics(unaligned=cut.unaligned),
        )
