"""Chains in a random graph on real `Emissions`, and an observer who knows what each entry, cut and frontier must be.

Nothing here reads the protocol's own idea of what is consumed or in flight: the observer keeps the streams as the
effects appended them, and the positions as it emitted them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from streamjob.ids import NO_BATCH, BatchId, ChainUid, CheckpointId
from streamjob.protocol.channels import END_OF_TIME_MS, Backlog, Entry, EntryKind, Segment
from streamjob.protocol.cuts import Batch, ChainCut, Effects, Emissions, EmissionSealed, Output

Channel = tuple[ChainUid, ChainUid]

CAPACITY = 3
"""Records that may wait for the slowest reader before a producer waits."""


@dataclass(frozen=True)
class Shape:
    """A graph: chains 0 to `chains` - 1; an edge leads from a lower to a higher one, feedback back."""

    chains: int
    edges: frozenset[tuple[int, int]]
    with_source: frozenset[int] = frozenset()
    """Chains that read a native source in addition to their channels."""
    feedback: frozenset[tuple[int, int]] = frozenset()

    def reached(self, start: int, edges: frozenset[tuple[int, int]]) -> set[int]:
        """Return where edges lead to from a chain, in one step at least."""
        found: set[int] = set()
        waiting = [start]
        while waiting:
            following = {target for source, target in edges if source == waiting[-1]} - found
            waiting.pop()
            found |= following
            waiting += following
        return found

    def loop(self, chain: int) -> frozenset[int]:
        """Return the chains of the loop that a chain is in; none if it is in none."""
        edges = self.edges | self.feedback
        return frozenset(each for each in self.reached(chain, edges) if chain in self.reached(each, edges))


@dataclass
class Known:
    """The observer's knowledge of a chain; `written` has each entry of its stream with its batch.

    `begins` is where its stream begins in this epoch, and `drained_ends` has the ends of input that are none for good.
    """

    batch: BatchId = NO_BATCH
    committed: BatchId = NO_BATCH
    consumed: dict[ChainUid, int] = field(default_factory=dict)
    consumed_behind: dict[BatchId, dict[ChainUid, int]] = field(default_factory=dict)
    written: list[tuple[BatchId, Entry]] = field(default_factory=list)
    watermark: int | None = None
    running: bool = False
    ended: bool = False
    drained: bool = False
    begins: int = 0
    drained_ends: set[int] = field(default_factory=set)


@dataclass
class Checkpoint:
    """The checkpoint under way, as the observer sees it."""

    id: CheckpointId
    unaligned: bool
    seal: bool
    cuts: dict[ChainUid, ChainCut] = field(default_factory=dict)


class Observed:
    """A graph of chains, each step of which is checked."""

    def __init__(self, shape: Shape) -> None:
        self.names = [ChainUid("abcdefgh"[number]) for number in range(shape.chains)]
        pairs = shape.edges | shape.feedback
        self.channels = sorted((self.names[source], self.names[target]) for source, target in pairs)
        self.feedback = {(self.names[source], self.names[target]) for source, target in shape.feedback}
        loops = {number: shape.loop(number) for number in range(shape.chains)}
        self.loop = {self.names[number]: [self.names[each] for each in sorted(loops[number])] for number in loops}
        self.inputs = {name: [p for p, c in self.channels if c == name] for name in self.names}
        self.readers = {name: [c for p, c in self.channels if p == name] for name in self.names}
        self.natives = {
            name for number, name in enumerate(self.names) if not self.inputs[name] or number in shape.with_source
        }
        self.chains = {name: Known(consumed=dict.fromkeys(self.inputs[name], 0)) for name in self.names}
        self.loops_ended = 0
        self.cutting: set[ChainUid] = set()
        self.job = Emissions(self.names, self.channels, feedback=self.feedback)
        self.frontiers: dict[Channel, int] = dict.fromkeys(self.channels, 0)
        self.last_id = CheckpointId(0)
        self.under_way: Checkpoint | None = None
        self.sealed: CheckpointId | None = None
        self.draining = False
        self.completed: Checkpoint | None = None
        self.segments = 0
        self.completions = 0

    def begin(self, chain: ChainUid) -> None:
        """Let the chain's next batch begin; `run_batch` emits it."""
        known = self.chains[chain]
        if not known.ended:
            known.running = True
            self.job.begin(chain, BatchId(known.batch + 1))

    def run_batch(self, chain: ChainUid, reads: int, emits: int) -> None:
        """Commit a batch that reads up to `reads` entries of each input, and hands on `emits` segments."""
        known = self.chains[chain]
        if known.ended:
            return
        room = self.job.backlog(chain) if self.readers[chain] else Backlog()
        if room.records >= CAPACITY:
            return
        consumed = {p: min(known.consumed[p] + reads, self.frontiers[p, chain]) for p in self.inputs[chain]}
        names = [f"{chain}{self.segments + number}" for number in range(emits if self.readers[chain] else 0)]
        self.segments += len(names)
        watermark = known.watermark if reads % 2 else (known.watermark or 0) + 1
        output = Output(
            segments=tuple(Segment(name=name, records=1, length=2) for name in names), watermark_ms=watermark
        )
        batch = Batch(batch=BatchId(known.batch + 1), consumed=consumed, output=output)
        if self._is_sealed(chain):
            with pytest.raises(EmissionSealed):
                self.job.emit(chain, batch)
            return
        known.committed = known.batch
        known.batch, known.running = batch.batch, False
        known.consumed.update(consumed)
        known.consumed_behind[batch.batch] = dict(known.consumed)
        known.watermark = watermark
        self._watch(self.job.emit(chain, batch))
        written = [entry for at, entry in known.written if at == batch.batch and entry.kind is EntryKind.DATA]
        assert [segment.name for entry in written for segment in entry.segments] == names

    def commit(self, chain: ChainUid) -> None:
        """Let Spark commit the chain's last batch."""
        known = self.chains[chain]
        known.committed = known.batch
        self._watch(self.job.committed(chain, known.batch))

    def drain(self) -> None:
        """Let all chains that read native sources end before their input does."""
        self.draining = True

    def end(self, chain: ChainUid, *, for_good: bool = True) -> None:
        """End a chain whose inputs have ended; `for_good`: its own sources have ended, too, not been drained only."""
        if not self.inputs_ended(chain):
            return
        if self._is_sealed(chain) and not self.chains[chain].ended:
            with pytest.raises(EmissionSealed):
                self.job.end(chain)
            return
        known = self.chains[chain]
        if not known.ended:
            own_drained = self.draining and not for_good and chain in self.natives
            known.ended, known.drained = True, own_drained or self._input_drained(chain)
        self._watch(self.job.end(chain, drained=known.drained))

    def _input_drained(self, chain: ChainUid) -> bool:
        drained = any(self.chains[producer].drained for producer in self.inputs[chain])
        assert self.job.input_drained(chain) is drained
        return drained

    def inputs_ended(self, chain: ChainUid) -> bool:
        """Whether the chain has consumed the end of all inputs."""
        known = self.chains[chain]
        ended = all(
            known.ended
            if self.loop[chain]
            else self.chains[p].ended and known.consumed[p] == len(self.chains[p].written)
            for p in self.inputs[chain]
        )
        assert self.job.input_ended(chain) is ended
        return ended

    def trigger(self, *, unaligned: bool, seal: bool) -> None:
        """Begin a checkpoint, unless one is under way; after a drain has begun, only one that stops the job."""
        if self.under_way is not None or self.sealed is not None:
            return
        if self.draining:
            if not all(known.ended for known in self.chains.values()):
                return
            seal = True
        self.last_id = CheckpointId(self.last_id + 1)
        self.under_way = Checkpoint(self.last_id, unaligned, seal)
        self.sealed = self.last_id if seal else None
        self._watch(self.job.trigger(self.last_id, unaligned=unaligned, seal=seal))

    def switch(self) -> None:
        """Let the checkpoint under way go on unaligned."""
        if self.under_way is not None:
            self.under_way.unaligned = True
            self._watch(self.job.switch(self.under_way.id))

    def abort(self) -> None:
        """Give the checkpoint under way up."""
        if self.under_way is not None:
            checkpoint, self.under_way, self.sealed = self.under_way, None, None
            self._watch(self.job.abort(checkpoint.id))

    def complete(self) -> None:
        """Complete the checkpoint under way, if every chain is cut and committed."""
        checkpoint = self.under_way
        if checkpoint is None or len(checkpoint.cuts) < len(self.names):
            return
        for chain, cut in checkpoint.cuts.items():
            if self.chains[chain].committed < cut.batch:
                return
        self.under_way, self.completed = None, checkpoint
        self.completions += 1
        self._watch(self.job.complete(checkpoint.id))

    def crash(self) -> None:
        """Start again after the last completed checkpoint, or from nothing."""
        self.job = Emissions(self.names, self.channels, feedback=self.feedback)
        self.under_way = self.sealed = None
        self.draining = False
        self.frontiers = dict.fromkeys(self.channels, 0)
        if self.completed is None:
            self.chains = {name: Known(consumed=dict.fromkeys(self.inputs[name], 0)) for name in self.names}
            return
        cuts = self.completed.cuts
        for name, cut in cuts.items():
            known = self.chains[name]
            known.batch = known.committed = cut.batch
            known.consumed = dict(cut.consumed)
            known.consumed_behind = {cut.batch: dict(cut.consumed)}
            known.written = known.written[: cut.next_index]
            known.running, known.ended, known.drained = False, cut.ended, False
            known.begins = cut.next_index
            known.drained_ends = {index for index in known.drained_ends if index < cut.next_index}
            known.watermark = self._watermark(name, cut.next_index)
            left = [entry for reader in self.readers[name] for entry in in_flight_of(cuts, name, reader)]
            first = min((cuts[reader].consumed[name] for reader in self.readers[name]), default=0)
            watermark = self._watermark(name, first)
            self.job.restore_log(name, left, cut.next_index, cut.ended, self.completed.id, watermark_ms=watermark)
            self.job.restore(name, cut.batch, cut.consumed)
        for channel in self.channels:
            self.frontiers[channel] = self.job.frontier(*channel)
        self._watch(self.job.open())

    def run_fairly(self, rounds: int) -> None:
        """Let every chain run and commit in turn, each reading all that it may and handing on as much as it may."""
        for _ in range(rounds):
            for chain in self.names:
                if not self._is_sealed(chain):
                    self.run_batch(chain, 1000, 1)
                self.commit(chain)

    def _is_sealed(self, chain: ChainUid) -> bool:
        under_way = self.under_way
        return self.sealed is not None and (under_way is None or chain in under_way.cuts)

    def _watch(self, effects: Effects) -> None:
        self.cutting = {cut.chain for cut in effects.cuts}
        for producer, entry in effects.appended:
            if entry.kind is EntryKind.END and self.loop[producer] and not self.chains[producer].ended:
                self._end_loop(self.loop[producer])
            known = self.chains[producer]
            assert entry.index == len(known.written), "indexes are dense"
            if entry.index > known.begins:
                assert known.written[-1][1].kind is not EntryKind.END, "nothing comes behind the end"
            known.written.append((known.batch, entry))
            if entry.kind is EntryKind.END and known.drained:
                known.drained_ends.add(entry.index)
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
        self._check()

    def _end_loop(self, loop: list[ChainUid]) -> None:
        assert self._is_at_rest(loop), "a loop ends when nothing can happen in it"
        assert not self._is_held_up(loop)
        self.loops_ended += 1
        outer = [p for p, c in self.channels if c in loop and p not in loop]
        for chain in loop:
            self.chains[chain].ended = True
            self.chains[chain].drained = any(self.chains[p].drained for p in outer)

    def _is_at_rest(self, loop: list[ChainUid]) -> bool:
        into = [(p, c) for p, c in self.channels if c in loop]
        left = {(p, c): self.chains[p].written[self.chains[c].consumed[p] :] for p, c in into}
        return not any(
            any(entry.segments for _, entry in left[p, c]) if p in loop else left[p, c] or not self.chains[p].ended
            for p, c in into
        ) and not any(self.chains[chain].running for chain in loop)

    def _is_held_up(self, loop: list[ChainUid]) -> bool:
        """Whether a snapshot keeps a loop from ending."""
        under_way = self.under_way
        if any(self._is_sealed(chain) for chain in loop):
            return True
        return (
            under_way is not None and not under_way.unaligned and not under_way.cuts.keys() | self.cutting >= set(loop)
        )

    def _read_off_ended_loops(self) -> None:
        """A chain that has ended for good is at the end of its inputs."""
        for producer, reader in self.channels:
            known = self.chains[reader]
            if producer in self.loop[reader] and known.ended and not known.drained:
                known.consumed[producer] = len(self.chains[producer].written)

    def _logged(self, producer: ChainUid, reader: ChainUid) -> int:
        """Return from where a checkpoint still needs what is fed back; the end if it needs nothing."""
        cuts = {} if self.under_way is None else self.under_way.cuts
        if (producer, reader) in self.feedback and reader in cuts and producer not in cuts:
            return cuts[reader].consumed[producer]
        return len(self.chains[producer].written)

    def _committed(self, producer: ChainUid, reader: ChainUid) -> int:
        known = self.chains[reader]
        behind = known.consumed_behind.get(known.committed)
        if known.ended and not known.drained and producer in self.loop[reader]:
            behind = known.consumed
        return 0 if behind is None else behind[producer]

    def _check(self) -> None:
        for channel in self.channels:
            self._check_frontier(*channel)
        if self.under_way is not None and len(self.under_way.cuts) == len(self.names):
            self._check_consistent(self.under_way)

    def _check_frontier(self, producer: ChainUid, reader: ChainUid) -> None:
        frontier, written = self.frontiers[producer, reader], self.chains[producer].written
        assert frontier == self.job.frontier(producer, reader)
        barrier = self._barrier_that_holds(producer, reader)
        consumed = self.chains[reader].consumed[producer]
        end = len(written)
        if self.chains[producer].ended and producer in self.loop[reader]:
            end -= 1
        assert frontier == max(consumed, end if barrier is None else min(end, barrier + 1))
        consumed = self.chains[reader].consumed[producer]
        assert consumed <= frontier
        records = sum(len(entry.segments) for _, entry in written[consumed:])
        assert self.job.backlog(producer, reader).records == records
        at_end = self.chains[producer].ended and consumed == len(written)
        expected = END_OF_TIME_MS if at_end else self._watermark(producer, consumed)
        assert self.job.watermark_at(producer, consumed) == expected

    def _barrier_that_holds(self, producer: ChainUid, reader: ChainUid) -> int | None:
        """Return where the one barrier stands that the reader must not pass."""
        if (producer, reader) in self.feedback:
            return None
        under_way = self.under_way
        holding = self.sealed
        if under_way is not None and not under_way.unaligned and reader not in under_way.cuts:
            holding = under_way.id
        at = [entry.index for _, entry in self.chains[producer].written if entry.barrier is not None]
        mine = [index for index in at if self.chains[producer].written[index][1].barrier == holding]
        return mine[0] if holding is not None and mine else None

    def _watermark(self, producer: ChainUid, position: int) -> int | None:
        marks = [entry.watermark_ms for _, entry in self.chains[producer].written[:position]]
        return max((mark for mark in marks if mark is not None), default=None)

    def _check_consistent(self, checkpoint: Checkpoint) -> None:
        cuts: Mapping[ChainUid, ChainCut] = checkpoint.cuts
        for chain, cut in cuts.items():
            known = self.chains[chain]
            nothing = dict.fromkeys(self.inputs[chain], 0)
            read_off = cut.ended and bool(self.loop[chain])
            behind = known.consumed if read_off else known.consumed_behind.get(cut.batch, nothing)
            assert cut.consumed == behind, "a cut is behind an emitted batch"
            assert cut.unaligned <= checkpoint.unaligned
            for at, entry in known.written:
                if entry.kind is EntryKind.DATA:
                    assert (entry.index < cut.next_index) is (at <= cut.batch), "a cut holds what came before it"
        for producer, reader in self.channels:
            written = self.chains[producer].written[: cuts[producer].next_index]
            before = [_as_stored(entry, self.chains[producer].drained_ends) for _, entry in written]
            consumed, in_flight = cuts[reader].consumed[producer], in_flight_of(cuts, producer, reader)
            assert before[:consumed] + list(in_flight) == before, "each entry is consumed or in flight, once"
            assert consumed <= len(before), "nothing behind the producer's cut is consumed"
            fed_back = (producer, reader) in self.feedback
            own = self.chains[reader].written[: cuts[reader].next_index]
            left_behind = producer in self.loop[reader] and bool(own) and own[-1][1].kind is EntryKind.END
            assert not in_flight or fed_back or cuts[reader].unaligned or left_behind
            if left_behind:
                assert not any(entry.segments for entry in in_flight)
            ends = bool(before) and before[-1].kind is EntryKind.END
            assert cuts[producer].ended is ends
            assert fed_back or (producer in cuts[reader].ended_inputs) is ends


def in_flight_of(cuts: Mapping[ChainUid, ChainCut], producer: ChainUid, reader: ChainUid) -> tuple[Entry, ...]:
    """Return what a checkpoint holds of a channel."""
    fed_back = cuts[producer].fed_back.get(reader)
    if fed_back is None:
        return cuts[reader].in_flight[producer]
    assert producer not in cuts[reader].in_flight, "one of the two tells"
    assert fed_back.consumed == cuts[reader].consumed[producer]
    return fed_back.entries


def _as_stored(entry: Entry, drained_ends: set[int]) -> Entry:
    return replace(entry, kind=EntryKind.DATA) if entry.index in drained_ends else entry
