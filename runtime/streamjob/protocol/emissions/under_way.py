"""The progress of each chain, and the checkpoint that is cutting them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from streamjob.ids import NO_BATCH, BatchId, ChainUid, CheckpointId, OperatorUid
from streamjob.protocol.emissions.channels import Entry
from streamjob.protocol.emissions.emitted import ChainCut, FedBack
from streamjob.protocol.emissions.streams import Streams
from streamjob.snapshot.manifest import EntryKind


@dataclass(slots=True)
class ChainProgress:
    """The emissions of a chain that no completed checkpoint covers yet.

    `covered` is the last batch that a completed checkpoint covers, and `pinned` the last one that runs again as it did
    before. `running` is the batch that has begun and is not emitted, and `publishing` whether a sink may be publishing
    it. `ended` is final in this epoch; a start from a snapshot of a `drained` chain continues to read.
    """

    emitted: BatchId = NO_BATCH
    covered: BatchId = NO_BATCH
    pinned: BatchId = NO_BATCH
    running: BatchId | None = None
    publishing: bool = False
    staged: list[tuple[BatchId, OperatorUid, JsonValue]] = field(default_factory=list)
    ended: bool = False
    drained: bool = False

    @property
    def must_emit(self) -> bool:
        """Whether batches that are published, or may be, are not emitted yet."""
        return self.publishing or self.emitted < self.pinned

    @property
    def finished(self) -> bool:
        """Whether its work is done for good, also for later epochs."""
        return self.ended and not self.drained

    def committables(self) -> dict[OperatorUid, tuple[JsonValue, ...]]:
        """Return the staged committables by sink, oldest first."""
        by_sink: dict[OperatorUid, list[JsonValue]] = {}
        for _, sink, committable in self.staged:
            by_sink.setdefault(sink, []).append(committable)
        return {sink: tuple(staged) for sink, staged in by_sink.items()}


@dataclass(slots=True)
class CheckpointUnderWay:
    """A checkpoint from its trigger to its end.

    Args:
        id: also that of its barriers.
        triggered: the time of its trigger, in seconds.
        aligning: whether its barriers still cut chains; they are obsolete once it is unaligned.
        first_barriers: when the first barrier reached a chain, in seconds, and the bytes it had consumed by then.
    """

    id: CheckpointId
    triggered: float
    chains: Mapping[ChainUid, ChainProgress]
    streams: Streams
    aligning: bool = True
    first_barriers: dict[ChainUid, tuple[float, int]] = field(default_factory=dict)
    cuts: dict[ChainUid, ChainCut] = field(default_factory=dict)

    def cut(self, chain: ChainUid, now: float, *, unaligned: bool) -> ChainCut:
        """Cut a chain after its last emitted batch.

        Its in-flight data ends at its producers' cuts; a producer without a cut must be cut before anything else
        happens. Its fed-back data starts at the cuts of its readers, which come before its own or, like those of its
        producers, at the same moment.
        """
        progress, streams = self.chains[chain], self.streams
        consumed = streams.consumed(chain)
        ends = {producer: self._end_of(producer) for producer in streams.forward_inputs(chain)}
        next_index, ended = self._end_of(chain)
        consumed_bytes = streams.consumed_bytes(chain)
        first_barrier, bytes_before = self.first_barriers.get(chain, (now, consumed_bytes))
        self.cuts[chain] = ChainCut(
            chain=chain,
            batch=progress.emitted,
            committables=progress.committables(),
            consumed=consumed,
            in_flight={producer: self._left(producer, consumed[producer], end) for producer, (end, _) in ends.items()},
            ended_inputs=frozenset(producer for producer, (_, has_ended) in ends.items() if has_ended),
            fed_back={
                consumer: self._fed_back(chain, consumer, next_index) for consumer in streams.feeds_back_to(chain)
            },
            next_index=next_index,
            ended=ended,
            unaligned=unaligned,
            start_delay=first_barrier - self.triggered,
            alignment_duration=now - first_barrier,
            processed_bytes=consumed_bytes - bytes_before,
        )
        return self.cuts[chain]

    def _fed_back(self, producer: ChainUid, consumer: ChainUid, end: int) -> FedBack:
        cut = self.cuts.get(consumer)
        consumed = (self.streams.consumed(consumer) if cut is None else cut.consumed)[producer]
        return FedBack(consumed=consumed, entries=self._left(producer, consumed, end))

    def _left(self, producer: ChainUid, start: int, end: int) -> tuple[Entry, ...]:
        entries = self.streams.in_flight(producer, start, end)
        if not self.chains[producer].drained:
            return entries
        # A job that continues from here starts after the end, which it treats as an entry without records.
        return tuple(replace(entry, kind=EntryKind.DATA) if entry.kind is EntryKind.END else entry for entry in entries)

    def _end_of(self, producer: ChainUid) -> tuple[int, bool]:
        """Return the end of a chain's stream in the checkpoint, and whether it has ended there for good."""
        cut = self.cuts.get(producer)
        if cut is not None:
            return cut.next_index, cut.ended
        log = self.streams.log(producer)
        return (0 if log is None else log.next), self.chains[producer].finished
