"""The streams of a job, with each reader's position and frontier; callers hold the emission lock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streamjob.ids import ChainUid, CheckpointId
from streamjob.protocol.emissions.channels import Backlog, ChannelLog, Entry
from streamjob.protocol.emissions.emitted import Channel, IllegalEmission
from streamjob.protocol.emissions.loops import Loop, loops_of

_NO_CHECKPOINT = CheckpointId(-1)


@dataclass(slots=True)
class _Reader:
    """A channel from its consumer's side: positions after the last emitted and the last committed batch."""

    consumed: int = 0
    committed: int = 0


class Streams:
    """One log per producer, and its readers' positions.

    A reader may read up to and including the first barrier that is not released for it. In a feedback channel all
    barriers are released: they have come to its writer through its reader.

    Args:
        channels: pairs of producer and consumer.
        feedback: those of them that close a cycle.

    Raises:
        ValueError: a channel names an unknown chain or occurs twice, the channels without `feedback` form a cycle, or
            one of `feedback` is not a channel or closes none.
    """

    def __init__(
        self, chains: Iterable[ChainUid], channels: Iterable[Channel], feedback: Iterable[Channel] = ()
    ) -> None:
        self._readers: dict[Channel, _Reader] = {}
        known = tuple(chains)
        for channel in channels:
            for end in channel:
                if end not in known:
                    raise ValueError(f"channel {channel[0]} -> {channel[1]} names an unknown chain {end}")
            if channel in self._readers:
                raise ValueError(f"channel {channel[0]} -> {channel[1]} is given twice")
            self._readers[channel] = _Reader()
        self._inputs = {chain: tuple(p for p, c in self._readers if c == chain) for chain in known}
        self._consumers = {chain: tuple(c for p, c in self._readers if p == chain) for chain in known}
        self._feedback = frozenset(feedback)
        if strange := sorted(self._feedback - self._readers.keys()):
            raise ValueError(f"there is no channel {strange[0][0]} -> {strange[0][1]} that could be feedback")
        self._loops = loops_of(known, self._readers, self._feedback)
        self._inner = frozenset(channel for loop in self._loops for channel in loop.inner)
        self._kept: dict[Channel, int] = {}
        self._logs = {chain: ChannelLog(chain) for chain in known if self._consumers[chain]}
        self._released = dict.fromkeys(known, _NO_CHECKPOINT)
        self._frontiers = dict.fromkeys(self._readers, 0)
        self._bases = dict.fromkeys(self._logs, 0)

    @property
    def channels(self) -> tuple[Channel, ...]:
        """All channels in the given order."""
        return tuple(self._readers)

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The job's loops."""
        return self._loops

    def inputs(self, chain: ChainUid) -> tuple[ChainUid, ...]:
        """Return the producers that a chain reads, including those of feedback channels."""
        return self._inputs[chain]

    def forward_inputs(self, chain: ChainUid) -> tuple[ChainUid, ...]:
        """Return the producers that a chain reads through channels other than feedback channels."""
        return tuple(producer for producer in self._inputs[chain] if (producer, chain) not in self._feedback)

    def feeds_back_to(self, chain: ChainUid) -> tuple[ChainUid, ...]:
        """Return the chains that read a chain's stream through feedback channels."""
        return tuple(consumer for consumer in self._consumers[chain] if (chain, consumer) in self._feedback)

    def log(self, producer: ChainUid) -> ChannelLog | None:
        """Return a chain's log; None if it has no readers."""
        return self._logs.get(producer)

    def restore_log(self, producer: ChainUid, log: ChannelLog, released: CheckpointId) -> None:
        """Start a producer's stream as it was in a checkpoint; barriers up to `released` are obsolete."""
        self._logs[producer] = log
        for consumer in self._consumers[producer]:
            self._released[consumer] = max(self._released[consumer], released)
        log.forget_barriers(released)
        self._bases[producer] = log.base
        self.changes()

    def restore_position(self, consumer: ChainUid, consumed: Mapping[ChainUid, int]) -> None:
        """Start a consumer at positions of its input streams. Raises IllegalEmission for other streams."""
        for producer, position in consumed.items():
            reader = self._reader(producer, consumer)
            reader.consumed = reader.committed = position

    def check_restored(self) -> None:
        """Raise IllegalEmission if a consumer's position is outside its producer's stream."""
        for (producer, consumer), reader in self._readers.items():
            log = self._logs[producer]
            if not log.base <= reader.consumed <= log.next:
                raise IllegalEmission(f"chain {consumer} is to read from position {reader.consumed} of {log}")

    def consumed(self, consumer: ChainUid) -> dict[ChainUid, int]:
        """Return a chain's positions in its producers' streams, after its last emitted batch."""
        return {producer: self._readers[producer, consumer].consumed for producer in self._inputs[consumer]}

    def consume(self, consumer: ChainUid, consumed: Mapping[ChainUid, int]) -> None:
        """Record the positions after an emitted batch; an omitted producer keeps its position.

        Raises:
            IllegalEmission: a position went back, or is past the chain's frontier; nothing is recorded then.
        """
        for producer, position in consumed.items():
            before, frontier = self._reader(producer, consumer).consumed, self.frontier(producer, consumer)
            if not before <= position <= frontier:
                raise IllegalEmission(
                    f"chain {consumer} has read {producer} up to {position}; it stood at {before}, "
                    f"and may read up to {frontier}"
                )
        for producer, position in consumed.items():
            self._readers[producer, consumer].consumed = position

    def consumed_bytes(self, consumer: ChainUid) -> int:
        """Return the bytes that a chain has consumed since the start of the streams' logs in this epoch."""
        return sum(self._logs[producer].bytes_before(at) for producer, at in self.consumed(consumer).items())

    def commit(self, consumer: ChainUid) -> None:
        """Record that everything a chain has consumed is committed: its emitted batch will not run again."""
        for producer in self._inputs[consumer]:
            reader = self._readers[producer, consumer]
            reader.committed = reader.consumed

    def release(self, checkpoint: CheckpointId, consumers: Iterable[ChainUid] | None = None) -> None:
        """Let chains, by default all, pass the barriers up to a checkpoint's."""
        for consumer in self._released if consumers is None else consumers:
            self._released[consumer] = max(self._released[consumer], checkpoint)

    def frontier(self, producer: ChainUid, consumer: ChainUid) -> int:
        """Return the limit for a chain in a stream: the position after the last entry that it may read.

        Raises:
            IllegalEmission: there is no such channel.
        """
        reader, log = self._reader(producer, consumer), self._logs[producer]
        # Nobody reads the end of an inner channel: its reader has ended with the whole loop.
        end = log.next - 1 if log.ended and (producer, consumer) in self._inner else log.next
        barrier = log.first_barrier_behind(self._released[consumer])
        return max(reader.consumed, end if barrier is None else min(end, barrier + 1))

    def has_reached(self, producer: ChainUid, consumer: ChainUid, checkpoint: CheckpointId) -> bool:
        """Return whether a chain has consumed a checkpoint's barrier in a stream."""
        barrier = self._logs[producer].barrier_at(checkpoint)
        return barrier is not None and barrier < self._readers[producer, consumer].consumed

    def has_consumed_end(self, producer: ChainUid, consumer: ChainUid) -> bool:
        """Return whether a chain has consumed everything that a stream will ever contain."""
        return self._logs[producer].ended and self.has_read_on(producer, consumer)

    def has_read_on(self, producer: ChainUid, consumer: ChainUid) -> bool:
        """Return whether a chain has consumed everything that a stream contains so far."""
        return self._readers[producer, consumer].consumed == self._logs[producer].next

    def unread(self, channel: Channel) -> int:
        """Return the number of unconsumed records of a channel."""
        return self._logs[channel[0]].backlog(self._readers[channel].consumed).records

    def read_off(self, channels: Iterable[Channel]) -> None:
        """Move the consumers of channels to the ends of these: no relevant data is left there."""
        for channel in channels:
            self._readers[channel].consumed = self._logs[channel[0]].next

    def keep(self, channel: Channel, position: int) -> None:
        """Keep the entries of a channel from a position on, although its consumer reads on."""
        self._kept[channel] = position

    def let_go(self, producer: ChainUid | None = None) -> None:
        """Stop keeping entries of a chain's stream, by default of all streams."""
        self._kept = {} if producer is None else {c: at for c, at in self._kept.items() if c[0] != producer}

    def stored_bytes(self, producer: ChainUid) -> int:
        """Return the number of bytes of a chain's stream that still exist, consumed or not."""
        log = self._logs[producer]
        return log.backlog(log.base).bytes

    def in_flight(self, producer: ChainUid, position: int, end: int) -> tuple[Entry, ...]:
        """Return the entries of a stream from a position to below an index."""
        return self._logs[producer].between(position, end)

    def backlog(self, producer: ChainUid, consumer: ChainUid | None) -> Backlog:
        """Return a consumer's unconsumed data; by default of the slowest, apart from feedback channels."""
        forward = (each for each in self._consumers[producer] if (producer, each) not in self._feedback)
        consumers = tuple(forward) if consumer is None else (consumer,)
        positions = [self._reader(producer, each).consumed for each in consumers]
        return self._logs[producer].backlog(min(positions)) if positions else Backlog()

    def changes(self) -> tuple[dict[Channel, int], dict[ChainUid, int]]:
        """Drop the entries that every reader has committed; return the changes since the last call.

        These are the new frontiers, and by producer the index below which its entries were dropped.
        """
        dropped: dict[ChainUid, int] = {}
        for producer, log in self._logs.items():
            consumers = self._consumers[producer]
            kept = [at for (each, _), at in self._kept.items() if each == producer]
            log.drop_below(min([*kept, *(self._readers[producer, consumer].committed for consumer in consumers)]))
            log.forget_barriers(min(self._released[consumer] for consumer in consumers))
            if log.base != self._bases[producer]:
                self._bases[producer] = dropped[producer] = log.base
        frontiers = {channel: self.frontier(*channel) for channel in self._readers}
        changed = {channel: at for channel, at in frontiers.items() if at != self._frontiers[channel]}
        self._frontiers = frontiers
        return changed, dropped

    def _reader(self, producer: ChainUid, consumer: ChainUid) -> _Reader:
        try:
            return self._readers[producer, consumer]
        except KeyError:
            raise IllegalEmission(f"there is no channel {producer} -> {consumer}") from None
