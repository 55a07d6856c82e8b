"""A job of several chains: its graph and inputs, and what its snapshots and its result must be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from tests.simulation.flow import (
    SOURCE,
    FlowState,
    Node,
    Record,
    Work,
    batch_result,
    decode,
    in_groups,
    is_loop,
    run_to_the_end,
    source_records,
    watermark_of,
)
from tests.simulation.model import ModelSink, Row
from tests.simulation.oracle import Oracle, Violation
from tests.simulation.world import Choices, World

from streamjob.ids import ChainUid, Epoch, OperatorUid
from streamjob.protocol.emissions.channels import END_OF_TIME_MS
from streamjob.snapshot.manifest import ChannelState, EntryKind, Manifest
from streamjob.snapshot.record import LogRecord
from streamjob.testing.memory_store import MemoryStore

LIMITS = (12, None, None, 5, 40)
MOMENTS = (
    "aligned",
    "unaligned",
    "aborted half way",
    "switched half way",
    "rows in flight",
    "restored rows in flight",
    "restored rows in flight again",
    "obsolete barriers in flight",
    "ends in flight",
    "some chains have ended",
    "producers that wait for room",
    "goes on behind a failed stop",
    "drained savepoints",
    "drained checkpoints",
    "drained beside finished chains",
    "drained again",
    "reads on behind a drain",
    "drains while a writer waits for room",
    "drains while barriers align",
)


def source_of(chain: ChainUid) -> OperatorUid:
    """Return the name of a chain's own source in a manifest."""
    return OperatorUid(f"{SOURCE}-{chain}")


def sink_of(chain: ChainUid) -> OperatorUid:
    """Return the name of a chain's sink in a manifest."""
    return OperatorUid(f"sink-{chain}")


def state_path(chain: ChainUid) -> str:
    """Return what a snapshot calls the file of a chain's state."""
    return f"{chain}/state"


def draw_graph(choices: Choices) -> tuple[Node, ...]:
    """Return a graph of 2 to 5 chains, each with at most two inputs, producers before their readers."""
    names = [ChainUid(name) for name in "abcde"[: 2 + choices.pick(4)]]
    inputs: dict[ChainUid, tuple[ChainUid, ...]] = {}
    for number, name in enumerate(names):
        if number == 0 or choices.pick(6) == 5:
            inputs[name] = (SOURCE,)
            continue
        first = names[number - 1 - choices.pick(min(number, 3))]
        second = (None, *names[:number], SOURCE)[choices.pick(number + 2)]
        inputs[name] = (first,) if second in (None, first) else (first, second)
    read = {each for several in inputs.values() for each in several}
    return tuple(
        Node(
            name,
            work=Work((0, 0, 1, 2)[choices.pick(4)]),
            inputs=inputs[name],
            has_sink=name not in read or choices.pick(4) == 3,
            steps=(1, 1, 12)[choices.pick(3)],
        )
        for name in names
    )


def draw_loops(choices: Choices) -> tuple[Node, ...]:
    """Return a graph as of `draw_graph`, some of whose chains are in loops."""
    nodes = draw_graph(choices)
    for _ in range(1 + choices.pick(2)):
        pairs = [(reader, writer) for reader in nodes for writer in nodes if SOURCE not in reader.inputs]
        pairs = pairs or [(nodes[-1], nodes[-1])]
        reader, writer = pairs[choices.pick(len(pairs))]
        looped = tuple(
            replace(node, feedback=(writer.uid,), laps=1) if node is reader and not node.feedback else node
            for node in nodes
        )
        members = loops_of(looped)
        if reader.uid in members and writer.uid in members[reader.uid] and _comes_behind(nodes, reader, writer):
            nodes = looped
    nodes = nodes if loops_of(nodes) else _one_loop(nodes)
    members = loops_of(nodes)
    if any(SOURCE in node.inputs for node in nodes if node.uid in members):
        nodes = _one_loop(nodes)
        members = loops_of(nodes)
    single = sum(bool(node.feedback) for node in nodes) == 1
    laps = 1 + choices.pick(3) if single else 1
    return tuple(replace(node, work=Work.PASS, laps=laps) if node.uid in members else node for node in nodes)


def _one_loop(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return a line of chains, the second of which reads the last one's output."""
    first, *others = nodes
    line = [replace(node, inputs=(nodes[number].uid,), feedback=()) for number, node in enumerate(others)]
    line[0] = replace(line[0], feedback=(line[-1].uid,))
    return (replace(first, feedback=()), *line)


def _comes_behind(nodes: tuple[Node, ...], reader: Node, writer: Node) -> bool:
    """Return whether a chain reads, directly or through others, what another writes, or is the same."""
    behind = {reader.uid}
    for node in nodes:
        if behind.intersection(node.inputs):
            behind.add(node.uid)
    return writer.uid in behind


def loops_of(nodes: tuple[Node, ...]) -> dict[ChainUid, tuple[ChainUid, ...]]:
    """Return the chains that are in loops, each with all of its loop."""
    loops = [tuple(node.uid for node in group) for group in in_groups(nodes) if is_loop(group)]
    return {chain: loop for loop in loops for chain in loop}


def drawn_limits(choices: Choices, nodes: tuple[Node, ...]) -> dict[ChainUid, int | None]:
    """Return where the sources of a graph end, None for one that has no end yet."""
    return {node.uid: LIMITS[choices.pick(len(LIMITS))] for node in nodes if SOURCE in node.inputs}


def positions_in(manifest: Manifest) -> dict[ChainUid, int]:
    """Return how far a snapshot has read each source."""
    positions: dict[ChainUid, int] = {}
    for source in manifest.sources:
        assert isinstance(source.position, int)
        positions[ChainUid(source.uid.removeprefix(f"{SOURCE}-"))] = source.position
    return positions


class GraphOracle(Oracle):
    """Knows that what was put out, and what follows from a cut, is the result of all that the cut's sources have read.

    Each key's rows are numbered by the sinks' chains, without gaps in the order of publication.
    """

    def __init__(self, nodes: tuple[Node, ...], limits: Mapping[ChainUid, int | None], min_retained: int) -> None:
        super().__init__(MemoryStore(), ModelSink(), min_retained)
        self.nodes = nodes
        self.loops = loops_of(nodes)
        self.limits = limits
        self.drains: list[dict[ChainUid, int]] = []
        self.moments = Counter(dict.fromkeys(MOMENTS, 0))
        self._put_out: dict[ChainUid, list[Row]] = {node.uid: [] for node in nodes}

    def check_cut(self, record: LogRecord, manifest: Manifest) -> None:
        what = f"{record.kind} {record.id}"
        self._check_finished(what, manifest)
        self._check_channels(what, manifest)
        self._count(manifest)
        for sink in manifest.sinks:
            put_out = self._put_out[ChainUid(sink.uid.removeprefix("sink-"))]
            put_out += [row for name in sink.committables for row in self.sink.ever_staged[str(name)]]
        contents = {file.path: self.read(file) for file in manifest.files()}
        states = {node.uid: FlowState.decode(contents[state_path(node.uid)]) for node in self.nodes}
        self._check_watermarks(what, manifest, states)
        pending = {
            (channel.source, channel.target): [
                row for entry in channel.entries for file in entry.segments for row in decode(contents[file.path])
            ]
            for channel in manifest.channels
        }
        try:
            following = run_to_the_end(self.nodes, states, pending)
        except Violation as error:
            raise Violation(f"{what}: behind it, {error}") from error
        if manifest.drained:
            self._check_drained(what, manifest, states)
            if any(following.values()):
                raise Violation(f"{what} is drained, and {following} is still to come")
        rows = {chain: put_out + following[chain] for chain, put_out in self._put_out.items()}
        self._check_rows(what, rows, positions_in(manifest))
        if manifest.drained:
            self.drains.append(positions_in(manifest))

    def _check_rows(self, what: str, rows: Mapping[ChainUid, list[Row]], limits: Mapping[ChainUid, int]) -> None:
        expected = batch_result(self.nodes, limits, self.drains)
        for chain, given in rows.items():
            wanted, found = Counter(row[0] for row in expected[chain]), Counter(row[0] for row in given)
            if wanted != found:
                raise Violation(f"{what}: chain {chain} loses {wanted - found} and puts {found - wanted} out too often")
            numbers: Counter[int] = Counter()
            for name, key, number in given:
                numbers[key] += 1
                if number != numbers[key]:
                    raise Violation(f"{what}: chain {chain} puts {name} out as {number} of {key}, not {numbers[key]}")

    def _check_finished(self, what: str, manifest: Manifest) -> None:
        """Only what has read all that there will ever be is finished, whatever a drain has flushed."""
        finished = {operator.chain for operator in manifest.operators if operator.finished}
        positions = positions_in(manifest)
        for node in self.nodes:
            all_read = SOURCE not in node.inputs or positions[node.uid] == self.limits[node.uid]
            if node.uid in finished and not (all_read and finished.issuperset(node.producers)):
                raise Violation(f"{what}: chain {node.uid} is said to have finished")
        for channel in manifest.channels:
            if channel.ended is not (channel.source in finished):
                raise Violation(f"{what}: channel {channel.source} -> {channel.target} ends without its writer")

    def _check_drained(self, what: str, manifest: Manifest, states: Mapping[ChainUid, FlowState]) -> None:
        if any(entry.segments or not self.is_inner(each) for each in manifest.channels for entry in each.entries):
            raise Violation(f"{what} is drained, and something is in flight")
        for node in self.nodes:
            if node.uid not in self.loops and watermark_of(node, states[node.uid]) != END_OF_TIME_MS:
                raise Violation(f"{what} is drained, and chain {node.uid} is not flushed")

    def _check_channels(self, what: str, manifest: Manifest) -> None:
        ends: dict[ChainUid, tuple[int, bool]] = {}
        for channel in manifest.channels:
            name, end = f"{what}: channel {channel.source} -> {channel.target}", (channel.next, channel.ended)
            if [entry.index for entry in channel.entries] != list(range(channel.consumed, channel.next)):
                raise Violation(f"{name} does not hold the entries from {channel.consumed} to below {channel.next}")
            if ends.setdefault(channel.source, end) != end:
                raise Violation(f"{name} ends at {end}, and another channel at {ends[channel.source]}")
            left_behind = manifest.drained and self.is_inner(channel)
            if channel.entries and not (manifest.unaligned or left_behind or self.is_feedback(channel)):
                raise Violation(f"{name} holds entries, and the snapshot is aligned")
            if any(entry.barrier is not None and entry.barrier > manifest.id for entry in channel.entries):
                raise Violation(f"{name} holds the barrier of a later checkpoint")
        if {(each.source, each.target) for each in manifest.channels} != {
            (producer, node.uid) for node in self.nodes for producer in node.producers
        }:
            raise Violation(f"{what} does not tell of every channel")

    def _check_watermarks(self, what: str, manifest: Manifest, states: Mapping[ChainUid, FlowState]) -> None:
        """A reader's current or next watermark of an input is one that the producer has reported."""
        nodes = {node.uid: node for node in self.nodes}
        for channel in manifest.channels:
            if channel.source in self.loops or channel.target in self.loops:
                continue
            told = watermark_of(nodes[channel.source], states[channel.source])
            known = states[channel.target].watermarks.get(channel.source, 0)
            will_be = max([known, *(entry.watermark or 0 for entry in channel.entries)])
            if EntryKind.END in {entry.kind for entry in channel.entries}:
                will_be = END_OF_TIME_MS
            if self.drains or manifest.drained:
                # A reader may have forgotten a watermark from before the drain, but its writer has not.
                in_order = will_be <= told
            else:
                # A writer that has flushed reports it by ending its stream right afterwards.
                in_order = (will_be == END_OF_TIME_MS) is channel.ended and told in (will_be, END_OF_TIME_MS)
            if not in_order:
                name = f"channel {channel.source} -> {channel.target}"
                raise Violation(f"{what}: {name} will be at watermark {will_be}, its producer is at {told}")

    def _count(self, manifest: Manifest) -> None:
        in_flight = {entry.kind for channel in manifest.channels for entry in channel.entries}
        finished = [operator.finished for operator in manifest.operators]
        moments = {
            "aligned": not manifest.unaligned,
            "unaligned": manifest.unaligned,
            **self._moments_of_loops(manifest),
            "rows in flight": any(entry.segments for each in manifest.channels for entry in each.entries),
            "obsolete barriers in flight": EntryKind.BARRIER in in_flight,
            "ends in flight": EntryKind.END in in_flight,
            "restored rows in flight again": self._in_flight_again(manifest),
            "some chains have ended": any(finished) and not all(finished),
            "drained savepoints": manifest.drained and manifest.kind == "savepoint",
            "drained checkpoints": manifest.drained and manifest.kind == "checkpoint",
            "drained beside finished chains": manifest.drained and any(finished) and not all(finished),
            "drained again": manifest.drained and positions_in(manifest) not in (*self.drains[:1], *self.drains[-1:]),
            "reads on behind a drain": not manifest.drained
            and bool(self.drains)
            and positions_in(manifest) != self.drains[-1],
        }
        self.moments.update({moment: int(reached) for moment, reached in moments.items()})

    def _moments_of_loops(self, manifest: Manifest) -> dict[str, bool]:
        if not self.loops:
            return {}
        finished = {operator.chain for operator in manifest.operators if operator.finished}
        goes_round = any(
            entry.segments for each in manifest.channels if self.is_feedback(each) for entry in each.entries
        )
        return {
            "rows go round in aligned": goes_round and not manifest.unaligned,
            "rows go round in unaligned": goes_round and manifest.unaligned,
            "rows go round in savepoints": goes_round and manifest.kind == "savepoint",
            "loops have ended, not all else": bool(finished.intersection(self.loops))
            and len(finished) < len(self.nodes),
            "drained loops": manifest.drained and not finished.issuperset(self.loops),
            "drained loops leave barriers or ends": manifest.drained
            and any(each.entries for each in manifest.channels),
        }

    def is_feedback(self, channel: ChannelState) -> bool:
        """Return whether a channel closes a cycle."""
        return any(node.uid == channel.target and channel.source in node.feedback for node in self.nodes)

    def is_inner(self, channel: ChannelState) -> bool:
        """Return whether both ends of a channel are in one loop."""
        return channel.source in self.loops.get(channel.target, ())

    def _in_flight_again(self, manifest: Manifest) -> bool:
        """Whether a checkpoint of a later epoch holds rows that were in flight in the one before."""
        if not self.completions or self.completions[-1][1].epoch == manifest.epoch:
            return False
        names = [
            {
                (channel.source, file.path)
                for channel in each.channels
                for entry in channel.entries
                for file in entry.segments
            }
            for each in (self.completions[-1][1], manifest)
        ]
        return not names[0].isdisjoint(names[1])

    def check_result(self) -> None:
        limits = {chain: limit for chain, limit in self.limits.items() if limit is not None}
        expected = batch_result(self.nodes, limits, self.drains)
        given = Counter(name for name, _, _ in self.sink.delivered())
        if given != Counter(row[0] for rows in expected.values() for row in rows):
            raise Violation("what the sinks show is not the batch's result")


class GraphWorld(World):
    """A graph of chains; a source without a limit has no end yet.

    `written` is what such a source has so far; None for ever more.
    """

    def __init__(self, choices: Choices, nodes: tuple[Node, ...], limits: dict[ChainUid, int | None]) -> None:
        self.nodes = {node.uid: node for node in nodes}
        self.limits = limits
        self.written: int | None = None
        self.read_to = dict.fromkeys(limits, 0)
        self.local_files: dict[Epoch, list[dict[str, bytes]]] = {}
        self.graph_oracle = GraphOracle(nodes, limits, 1)
        super().__init__(choices, self.graph_oracle)
        self.note(f"the graph: {nodes}, limits {limits}")

    @property
    def channels(self) -> tuple[tuple[ChainUid, ChainUid], ...]:
        """The pairs of producer and reader."""
        return tuple((producer, node.uid) for node in self.nodes.values() for producer in node.producers)

    @property
    def feedback(self) -> tuple[tuple[ChainUid, ChainUid], ...]:
        """The channels that close a cycle."""
        return tuple((producer, node.uid) for node in self.nodes.values() for producer in node.feedback)

    @property
    def left_behind(self) -> list[str]:
        """The segments that the finished epoch has still, though all of its chains have read everything."""
        return [name for files in self.local_files[self.oracle.completions[-1][0].epoch] for name in files]

    def end_inputs(self) -> None:
        for chain, limit in self.limits.items():
            if limit is None:
                self.limits[chain] = self.read_to[chain] + 3 if self.written is None else self.written

    def read_source(self, chain: ChainUid, start: int, count: int) -> list[Record]:
        """Return up to the given number of records from an offset of a chain's source."""
        there = self._there(chain)
        end = start + count if there is None else min(start + count, there)
        self.read_to[chain] = max(self.read_to[chain], end)
        return source_records(chain, start, end)

    def has_more(self, chain: ChainUid, position: int) -> bool:
        """Return whether a chain's source has something from an offset on."""
        there = self._there(chain)
        return there is None or position < there

    def has_ended(self, chain: ChainUid, position: int) -> bool:
        """Return whether a chain's source has nothing from an offset on, and never will."""
        return position == self.limits[chain]

    def _there(self, chain: ChainUid) -> int | None:
        limit = self.limits[chain]
        return self.written if limit is None else limit


def restored_channels(manifest: Manifest, producer: ChainUid) -> list[ChannelState]:
    """Return what a snapshot says of the channels of a producer."""
    return [channel for channel in manifest.channels if channel.source == producer]
