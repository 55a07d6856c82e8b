"""Emissions under the eyes of an observer who knows what each entry, cut and frontier must be.

The observer never reads the protocol's own idea of what is consumed or in flight: it keeps the streams as the effects
appended them, and the positions as the caller emitted them. Unit tests, properties and the simulation drive the same
watched emissions; they differ only in who decides what happens next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from streamjob.ids import NO_BATCH, BatchId, ChainUid, CheckpointId
from streamjob.protocol.emissions.channels import END_OF_TIME_MS, Entry, EntryKind
from streamjob.protocol.emissions.cuts import Batch, ChainCut, Effects, Emissions, EmissionSealed, IllegalEmission

Channel = tuple[ChainUid, ChainUid]


@dataclass
class KnownStream:
    """A chain's stream from the entry `first` on, each entry with the batch that it came with.

    `begins` is where the stream begins in this epoch, and `drained_ends` has the ends of input that are none for good.
    Of what is before `first`, `watermark` is the newest one, and `ended` says whether its last entry is the end.
    """

    first: int = 0
    begins: int = 0
    watermark: int | None = None
    ended: bool = False
    written: list[tuple[BatchId, Entry]] = field(default_factory=list)
    drained_ends: set[int] = field(default_factory=set)

    @property
    def next(self) -> int:
        return self.first + len(self.written)

    def from_to(self, start: int, end: int | None = None) -> list[Entry]:
        """Return the entries from a position to below another, by default all."""
        return [entry for _, entry in self.written[start - self.first : None if end is None else end - self.first]]

    def stored(self, end: int) -> list[Entry]:
        """Return the entries to below a position as a checkpoint stores them: the end of a drain is none for good."""
        return [
            replace(entry, kind=EntryKind.DATA) if entry.index in self.drained_ends else entry
            for entry in self.from_to(self.first, end)
        ]

    def ends_at(self, position: int) -> bool:
        """Return whether the stream ends for good right before a position."""
        before = self.stored(position)
        return before[-1].kind is EntryKind.END if before else self.ended

    def watermark_at(self, position: int) -> int | None:
        marks = [entry.watermark_ms for entry in self.from_to(self.first, position)]
        return next((mark for mark in reversed(marks) if mark is not None), self.watermark)

    def forget_below(self, position: int) -> None:
        """Forget entries that nobody needs any more."""
        if position > self.first:
            self.watermark = self.watermark_at(position)
            self.ended = self.ends_at(position)
            del self.written[: position - self.first]
            self.first = position


@dataclass
class KnownChain:
    """The observer's knowledge of a chain."""

    batch: BatchId = NO_BATCH
    committed: BatchId = NO_BATCH
    consumed: dict[ChainUid, int] = field(default_factory=dict)
    consumed_behind: dict[BatchId, dict[ChainUid, int]] = field(default_factory=dict)
    stream: KnownStream = field(default_factory=KnownStream)
    running: bool = False
    ended: bool = False
    drained: bool = False


@dataclass
class KnownCheckpoint:
    """The checkpoint under way, as the observer sees it."""

    id: CheckpointId
    unaligned: bool
    cuts: dict[ChainUid, ChainCut] = field(default_factory=dict)


class Observer:
    """Knows what has happened to the chains of a graph, and checks what follows.

    Args:
        chains: the chains.
        channels: pairs of producer and reader.
        feedback: those of them that close a cycle.
    """

    def __init__(self, chains: Iterable[ChainUid], channels: Iterable[Channel], feedback: Iterable[Channel]) -> None:
        self.names = tuple(chains)
        self.channels = tuple(channels)
        self.feedback = frozenset(feedback)
        self.inputs = {name: [p for p, c in self.channels if c == name] for name in self.names}
        self.readers = {name: [c for p, c in self.channels if p == name] for name in self.names}
        self.loop = {name: self._loop(name) for name in self.names}
        self.chains = {name: KnownChain(consumed=dict.fromkeys(self.inputs[name], 0)) for name in self.names}
        self.frontiers: dict[Channel, int] = dict.fromkeys(self.channels, 0)
        self.under_way: KnownCheckpoint | None = None
        self.sealed: CheckpointId | None = None
        self._cutting: set[ChainUid] = set()

    def _reached(self, start: ChainUid) -> set[ChainUid]:
        """Return where channels lead to from a chain, in one step at least."""
        found: set[ChainUid] = set()
        waiting = [start]
        while waiting:
            following = set(self.readers[waiting.pop()]) - found
            found |= following
            waiting += following
        return found

    def _loop(self, chain: ChainUid) -> list[ChainUid]:
        """Return the chains of the loop that a chain is in; none if it is in none."""
        return sorted(each for each in self._reached(chain) if chain in self._reached(each))

    def is_sealed(self, chain: ChainUid) -> bool:
        """Return whether a snapshot that stops the job has cut the chain."""
        return self.sealed is not None and (self.under_way is None or chain in self.under_way.cuts)

    def input_ended(self, chain: ChainUid) -> bool:
        """Return whether a chain has consumed the end of all inputs."""
        known = self.chains[chain]
        if self.loop[chain]:
            return known.ended
        return all(self.chains[p].ended and known.consumed[p] == self.chains[p].stream.next for p in self.inputs[chain])

    def input_drained(self, chain: ChainUid) -> bool:
        """Return whether what a chain reads has ended in this epoch only."""
        return any(self.chains[producer].drained for producer in self.inputs[chain])

    def restored(self, chain: ChainUid, batch: BatchId, consumed: Mapping[ChainUid, int]) -> None:
        """Let a chain stand behind a batch of an earlier epoch."""
        known = self.chains[chain]
        known.batch = known.committed = batch
        known.consumed.update(consumed)
        known.consumed_behind = {batch: dict(known.consumed)}

    def restored_log(
        self, producer: ChainUid, entries: Iterable[Entry], next_index: int, ended: bool, watermark: int | None
    ) -> None:
        """Let a chain's stream hold what was in flight."""
        known = self.chains[producer]
        known.ended = ended
        if self.readers[producer]:
            by_index = {entry.index: entry for entry in entries}
            written = [(NO_BATCH, by_index[index]) for index in sorted(by_index)]
            first = next_index - len(written)
            known.stream = KnownStream(first, next_index, watermark, ended and not written, written)

    def emitted(self, chain: ChainUid, batch: Batch) -> None:
        """Take in a batch."""
        known = self.chains[chain]
        known.committed = known.batch
        known.batch, known.running = batch.batch, False
        known.consumed.update(batch.consumed)
        known.consumed_behind[batch.batch] = dict(known.consumed)

    def check_written(self, chain: ChainUid, batch: Batch) -> None:
        """Check that the chain's stream holds the segments of the batch just emitted."""
        segments = () if batch.output is None or not self.readers[chain] else batch.output.segments
        written = [entry for at, entry in self.chains[chain].stream.written if at == batch.batch]
        found = [segment for entry in written if entry.kind is EntryKind.DATA for segment in entry.segments]
        assert found == list(segments)

    def watch(self, job: Emissions, effects: Effects) -> None:
        """Check the effects of what was just taken in, and take them in as well."""
        self._cutting = {cut.chain for cut in effects.cuts}
        for producer, entry in effects.appended:
            self._append(producer, entry)
        for channel, frontier in effects.frontiers.items():
            assert frontier != self.frontiers[channel], "only what has changed is reported"
            self.frontiers[channel] = frontier
        for cut in effects.cuts:
            assert self.under_way is not None
            assert effects.checkpoint == self.under_way.id
            assert cut.chain not in self.under_way.cuts, "a chain is cut once"
            self.under_way.cuts[cut.chain] = cut
        self._read_off_ended_loops()
        for producer, below in effects.dropped.items():
            assert below <= min(self._committed(producer, reader) for reader in self.readers[producer])
            assert below <= min(self._logged(producer, reader) for reader in self.readers[producer])
        for loop in self.loop.values():
            assert not loop or self.chains[loop[0]].ended or self._is_held_up(loop) or not self._is_at_rest(loop)
        for channel in self.channels:
            self._check_frontier(job, *channel)
        if self.under_way is not None and self._cutting and len(self.under_way.cuts) == len(self.names):
            self._check_consistent(self.under_way)
        if self.under_way is None and self.sealed is None:
            for producer, below in effects.dropped.items():
                self.chains[producer].stream.forget_below(below)

    def _append(self, producer: ChainUid, entry: Entry) -> None:
        known = self.chains[producer]
        if entry.kind is EntryKind.END and self.loop[producer] and not known.ended:
            self._end_loop(self.loop[producer])
        stream = known.stream
        assert entry.index == stream.next, "indexes are dense"
        if entry.index > stream.begins and stream.written:
            assert stream.written[-1][1].kind is not EntryKind.END, "nothing follows the end"
        stream.written.append((known.batch, entry))
        if entry.kind is EntryKind.END and known.drained:
            stream.drained_ends.add(entry.index)

    def _end_loop(self, loop: list[ChainUid]) -> None:
        assert self._is_at_rest(loop), "a loop ends when nothing can happen in it"
        assert not self._is_held_up(loop)
        outer = [p for p, c in self.channels if c in loop and p not in loop]
        for chain in loop:
            self.chains[chain].ended = True
            self.chains[chain].drained = any(self.chains[p].drained for p in outer)

    def _is_at_rest(self, loop: list[ChainUid]) -> bool:
        for producer, reader in ((p, c) for p, c in self.channels if c in loop):
            left = self.chains[producer].stream.from_to(self.chains[reader].consumed[producer])
            if producer in loop:
                if any(entry.segments for entry in left):
                    return False
            elif left or not self.chains[producer].ended:
                return False
        return not any(self.chains[chain].running for chain in loop)

    def _is_held_up(self, loop: list[ChainUid]) -> bool:
        """Return whether a snapshot keeps a loop from ending."""
        under_way = self.under_way
        if any(self.is_sealed(chain) for chain in loop):
            return True
        return (
            under_way is not None and not under_way.unaligned and not under_way.cuts.keys() | self._cutting >= set(loop)
        )

    def _read_off_ended_loops(self) -> None:
        """Let chains of a loop that has ended for good stand at the end of what they have read."""
        for producer, reader in self.channels:
            known = self.chains[reader]
            if producer in self.loop[reader] and known.ended and not known.drained:
                known.consumed[producer] = self.chains[producer].stream.next

    def _logged(self, producer: ChainUid, reader: ChainUid) -> int:
        """Return from where a checkpoint still needs what is fed back; the end if it needs nothing."""
        cuts = {} if self.under_way is None else self.under_way.cuts
        if (producer, reader) in self.feedback and reader in cuts and producer not in cuts:
            return cuts[reader].consumed[producer]
        return self.chains[producer].stream.next

    def _committed(self, producer: ChainUid, reader: ChainUid) -> int:
        known = self.chains[reader]
        behind = known.consumed_behind.get(known.committed)
        if known.ended and not known.drained and producer in self.loop[reader]:
            behind = known.consumed
        return 0 if behind is None else behind[producer]

    def _check_frontier(self, job: Emissions, producer: ChainUid, reader: ChainUid) -> None:
        frontier, stream = self.frontiers[producer, reader], self.chains[producer].stream
        assert frontier == job.frontier(producer, reader)
        barrier = self._barrier_that_holds(producer, reader)
        consumed = self.chains[reader].consumed[producer]
        end = stream.next
        if self.chains[producer].ended and producer in self.loop[reader]:
            end -= 1
        assert frontier == max(consumed, end if barrier is None else min(end, barrier + 1))
        assert consumed <= frontier
        records = sum(segment.records for entry in stream.from_to(consumed) for segment in entry.segments)
        assert job.backlog(producer, reader).records == records
        at_end = self.chains[producer].ended and consumed == stream.next
        expected = END_OF_TIME_MS if at_end else stream.watermark_at(consumed)
        assert job.watermark_at(producer, consumed) == expected

    def _barrier_that_holds(self, producer: ChainUid, reader: ChainUid) -> int | None:
        """Return where the one barrier stands that the reader must not pass."""
        if (producer, reader) in self.feedback:
            return None
        under_way = self.under_way
        holding = self.sealed
        if under_way is not None and not under_way.unaligned and reader not in under_way.cuts:
            holding = under_way.id
        if holding is None:
            return None
        written = self.chains[producer].stream.written
        return next((entry.index for _, entry in written if entry.barrier == holding), None)

    def _check_consistent(self, checkpoint: KnownCheckpoint) -> None:
        cuts: Mapping[ChainUid, ChainCut] = checkpoint.cuts
        for chain, cut in cuts.items():
            known = self.chains[chain]
            nothing = dict.fromkeys(self.inputs[chain], 0)
            read_off = cut.ended and bool(self.loop[chain])
            behind = known.consumed if read_off else known.consumed_behind.get(cut.batch, nothing)
            assert cut.consumed == behind, "a cut is behind a emitted batch"
            assert cut.unaligned <= checkpoint.unaligned
            for at, entry in known.stream.written:
                if entry.kind is EntryKind.DATA:
                    assert (entry.index < cut.next_index) is (at <= cut.batch), "a cut holds what came before it"
        for producer, reader in self.channels:
            stream = self.chains[producer].stream
            before = stream.stored(cuts[producer].next_index)
            consumed, in_flight = cuts[reader].consumed[producer], in_flight_of(cuts, producer, reader)
            assert consumed - stream.first <= len(before), "nothing behind the producer's cut is consumed"
            assert before[max(0, consumed - stream.first) :] == list(in_flight), "each entry is consumed or in flight"
            fed_back = (producer, reader) in self.feedback
            own = self.chains[reader].stream
            last = own.from_to(own.first, cuts[reader].next_index)[-1:]
            left_behind = producer in self.loop[reader] and [entry.kind for entry in last] == [EntryKind.END]
            assert not in_flight or fed_back or cuts[reader].unaligned or left_behind
            if left_behind:
                assert not any(entry.segments for entry in in_flight)
            ends = stream.ends_at(cuts[producer].next_index)
            assert cuts[producer].ended is ends
            assert fed_back or (producer in cuts[reader].ended_inputs) is ends


class WatchedEmissions(Emissions):
    """Emissions, each step of which an observer checks; its arguments are those of `Emissions`."""

    def __init__(
        self,
        chains: Iterable[ChainUid],
        channels: Iterable[Channel] = (),
        *,
        feedback: Iterable[Channel] = (),
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        names, pairs, back = tuple(chains), tuple(channels), tuple(feedback)
        super().__init__(names, pairs, feedback=back, clock=clock)
        self.observer = Observer(names, pairs, back)

    def _watch(self, effects: Effects) -> Effects:
        self.observer.watch(self, effects)
        return effects

    def restore(self, chain: ChainUid, batch: BatchId, consumed: Mapping[ChainUid, int] | None = None) -> None:
        super().restore(chain, batch, consumed)
        self.observer.restored(chain, batch, consumed or {})

    def restore_log(
        self,
        producer: ChainUid,
        entries: Iterable[Entry],
        next_index: int,
        ended: bool,
        released: CheckpointId,
        *,
        watermark_ms: int | None = None,
    ) -> None:
        given = tuple(entries)
        super().restore_log(producer, given, next_index, ended, released, watermark_ms=watermark_ms)
        self.observer.restored_log(producer, given, next_index, ended, watermark_ms)
        # The caller has restored them, and asks how far each reader may read.
        self.observer.frontiers = {channel: self.frontier(*channel) for channel in self.channels}

    def open(self) -> Effects:
        self.observer.frontiers = {channel: self.frontier(*channel) for channel in self.channels}
        return self._watch(super().open())

    def begin(self, chain: ChainUid, batch: BatchId) -> None:
        super().begin(chain, batch)
        self.observer.chains[chain].running = True

    def emit(self, chain: ChainUid, batch: Batch) -> Effects:
        sealed = self.observer.is_sealed(chain)
        try:
            effects = super().emit(chain, batch)
        except EmissionSealed:
            assert sealed
            raise
        assert not sealed
        self.observer.emitted(chain, batch)
        self._watch(effects)
        self.observer.check_written(chain, batch)
        return effects

    def committed(self, chain: ChainUid, batch: BatchId) -> Effects:
        effects = super().committed(chain, batch)
        known = self.observer.chains[chain]
        known.committed = max(known.committed, batch)
        return self._watch(effects)

    def input_ended(self, chain: ChainUid) -> bool:
        ended = super().input_ended(chain)
        assert self.observer.input_ended(chain) is ended
        return ended

    def input_drained(self, chain: ChainUid) -> bool:
        drained = super().input_drained(chain)
        assert self.observer.input_drained(chain) is drained
        return drained

    def end(self, chain: ChainUid, *, drained: bool = False) -> Effects:
        known, input_ended = self.observer.chains[chain], self.observer.input_ended(chain)
        sealed = self.observer.is_sealed(chain) and not known.ended
        try:
            effects = super().end(chain, drained=drained)
        except EmissionSealed:
            assert sealed
            raise
        except IllegalEmission:
            assert not input_ended
            raise
        assert not sealed
        if not known.ended:
            assert input_ended
            known.ended, known.drained = True, drained
        return self._watch(effects)

    def trigger(self, checkpoint: CheckpointId, *, seal: bool = False, unaligned: bool = False) -> Effects:
        effects = super().trigger(checkpoint, seal=seal, unaligned=unaligned)
        self.observer.under_way = KnownCheckpoint(checkpoint, unaligned)
        if seal:
            self.observer.sealed = checkpoint
        return self._watch(effects)

    def switch(self, checkpoint: CheckpointId) -> Effects:
        effects = super().switch(checkpoint)
        under_way = self.observer.under_way
        if under_way is not None and under_way.id == checkpoint:
            under_way.unaligned = True
        return self._watch(effects)

    def complete(self, checkpoint: CheckpointId) -> Effects:
        effects = super().complete(checkpoint)
        under_way = self.observer.under_way
        if under_way is not None and under_way.id == checkpoint:
            self.observer.under_way = None
        return self._watch(effects)

    def abort(self, checkpoint: CheckpointId) -> Effects:
        effects = super().abort(checkpoint)
        under_way = self.observer.under_way
        if under_way is not None and under_way.id == checkpoint:
            self.observer.under_way = None
            if self.observer.sealed == checkpoint:
                self.observer.sealed = None
        return self._watch(effects)


def in_flight_of(cuts: Mapping[ChainUid, ChainCut], producer: ChainUid, reader: ChainUid) -> tuple[Entry, ...]:
    """Return what a checkpoint holds of a channel."""
    fed_back = cuts[producer].fed_back.get(reader)
    if fed_back is None:
        return cuts[reader].in_flight[producer]
    assert producer not in cuts[reader].in_flight, "one of the two tells"
    assert fed_back.consumed == cuts[reader].consumed[producer]
    return fed_back.entries
