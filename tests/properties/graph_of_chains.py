"""Chains in a random graph: watched emissions, and what a job would do with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from tests.models.watched_emissions import WatchedEmissions, in_flight_of

from streamjob.ids import BatchId, ChainUid, CheckpointId
from streamjob.protocol.emissions.channels import Backlog, Segment
from streamjob.protocol.emissions.cuts import Batch, ChainCut, EmissionSealed, Output

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

    def emissions(self) -> WatchedEmissions:
        """Return emissions of chains that have done nothing."""
        names = [ChainUid("abcdefgh"[number]) for number in range(self.chains)]
        channels = sorted((names[source], names[target]) for source, target in self.edges | self.feedback)
        feedback = {(names[source], names[target]) for source, target in self.feedback}
        return WatchedEmissions(names, channels, feedback=feedback)

    def loop(self, chain: int) -> list[ChainUid]:
        """Return the chains of the loop that a chain is in; none if it is in none."""
        observer = self.emissions().observer
        return observer.loop[observer.names[chain]]


@dataclass(frozen=True)
class Completed:
    """A completed checkpoint: its cuts, and the watermark of each stream where it begins and where it ends."""

    id: CheckpointId
    cuts: Mapping[ChainUid, ChainCut]
    first_watermarks: Mapping[ChainUid, int | None]
    watermarks: Mapping[ChainUid, int | None]


class RandomJob:
    """A job of a graph's chains, to which anything may happen."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.job = shape.emissions()
        observer = self.job.observer
        self.names, self.loop = observer.names, observer.loop
        self.inputs, self.readers = observer.inputs, observer.readers
        self.natives = {
            name for number, name in enumerate(self.names) if not self.inputs[name] or number in shape.with_source
        }
        self.watermarks: dict[ChainUid, int | None] = dict.fromkeys(self.names)
        self.last_id = CheckpointId(0)
        self.draining = False
        self.completed: Completed | None = None
        self.segments = 0
        self.completions = 0

    @property
    def under_way(self) -> CheckpointId | None:
        """The checkpoint under way."""
        under_way = self.job.observer.under_way
        return None if under_way is None else under_way.id

    @property
    def cuts(self) -> Mapping[ChainUid, ChainCut]:
        """The cuts of the checkpoint under way."""
        under_way = self.job.observer.under_way
        return {} if under_way is None else under_way.cuts

    @property
    def sealed(self) -> bool:
        """Whether a snapshot stops the job, or has stopped it."""
        return self.job.observer.sealed is not None

    @property
    def ended(self) -> bool:
        """Whether all chains have ended."""
        return all(known.ended for known in self.job.observer.chains.values())

    def begin(self, chain: ChainUid) -> None:
        """Let the chain's next batch begin; `run_batch` emits it."""
        known = self.job.observer.chains[chain]
        if not known.ended:
            self.job.begin(chain, BatchId(known.batch + 1))

    def run_batch(self, chain: ChainUid, reads: int, emits: int) -> None:
        """Emit a batch that reads up to `reads` entries of each input, and hands on `emits` segments."""
        observer = self.job.observer
        known = observer.chains[chain]
        if known.ended:
            return
        room = self.job.backlog(chain) if self.readers[chain] else Backlog()
        if room.records >= CAPACITY:
            return
        consumed = {p: min(known.consumed[p] + reads, observer.frontiers[p, chain]) for p in self.inputs[chain]}
        names = [f"{chain}{self.segments + number}" for number in range(emits if self.readers[chain] else 0)]
        self.segments += len(names)
        watermark = self.watermarks[chain] if reads % 2 else (self.watermarks[chain] or 0) + 1
        output = Output(
            segments=tuple(Segment(name=name, records=1, length=2) for name in names), watermark_ms=watermark
        )
        batch = Batch(batch=BatchId(known.batch + 1), consumed=consumed, output=output)
        if observer.is_sealed(chain):
            with pytest.raises(EmissionSealed):
                self.job.emit(chain, batch)
            return
        self.watermarks[chain] = watermark
        self.job.emit(chain, batch)

    def commit(self, chain: ChainUid) -> None:
        """Let Spark commit the chain's last batch."""
        self.job.committed(chain, self.job.observer.chains[chain].batch)

    def drain(self) -> None:
        """Let all chains that read native sources end before their input does."""
        self.draining = True

    def end(self, chain: ChainUid, *, for_good: bool = True) -> None:
        """End a chain whose inputs have ended; `for_good`: its own sources have ended, too, not been drained only."""
        if not self.job.input_ended(chain):
            return
        known = self.job.observer.chains[chain]
        if self.job.observer.is_sealed(chain) and not known.ended:
            with pytest.raises(EmissionSealed):
                self.job.end(chain)
            return
        drained = known.drained
        if not known.ended:
            own_drained = self.draining and not for_good and chain in self.natives
            drained = own_drained or self.job.input_drained(chain)
        self.job.end(chain, drained=drained)

    def trigger(self, *, unaligned: bool, seal: bool) -> None:
        """Begin a checkpoint, unless one is under way; after a drain has begun, only one that stops the job."""
        if self.under_way is not None or self.sealed:
            return
        if self.draining:
            if not self.ended:
                return
            seal = True
        self.last_id = CheckpointId(self.last_id + 1)
        self.job.trigger(self.last_id, unaligned=unaligned, seal=seal)

    def switch(self) -> None:
        """Let the checkpoint under way go on unaligned."""
        if self.under_way is not None:
            self.job.switch(self.under_way)

    def abort(self) -> None:
        """Give the checkpoint under way up."""
        if self.under_way is not None:
            self.job.abort(self.under_way)

    def complete(self) -> None:
        """Complete the checkpoint under way, if every chain is cut and committed."""
        checkpoint, cuts, chains = self.under_way, dict(self.cuts), self.job.observer.chains
        if checkpoint is None or len(cuts) < len(self.names):
            return
        if any(chains[chain].committed < cut.batch for chain, cut in cuts.items()):
            return
        firsts = {name: min((cuts[each].consumed[name] for each in self.readers[name]), default=0) for name in cuts}
        self.completed = Completed(
            checkpoint,
            cuts,
            {name: chains[name].stream.watermark_at(firsts[name]) for name in cuts},
            {name: chains[name].stream.watermark_at(cut.next_index) for name, cut in cuts.items()},
        )
        self.completions += 1
        self.job.complete(checkpoint)

    def crash(self) -> None:
        """Start again after the last completed checkpoint, or from nothing."""
        self.job = self.shape.emissions()
        self.draining = False
        if self.completed is None:
            self.watermarks = dict.fromkeys(self.names)
            return
        cuts = self.completed.cuts
        for name, cut in cuts.items():
            self.watermarks[name] = self.completed.watermarks[name]
            left = [entry for reader in self.readers[name] for entry in in_flight_of(cuts, name, reader)]
            watermark = self.completed.first_watermarks[name]
            self.job.restore_log(name, left, cut.next_index, cut.ended, self.completed.id, watermark_ms=watermark)
            self.job.restore(name, cut.batch, cut.consumed)
        self.job.open()

    def run_fairly(self, rounds: int) -> None:
        """Let every chain run and commit in turn, each reading all that it may and handing on as much as it may."""
        for _ in range(rounds):
            for chain in self.names:
                if not self.job.observer.is_sealed(chain):
                    self.run_batch(chain, 1000, 1)
                self.commit(chain)
