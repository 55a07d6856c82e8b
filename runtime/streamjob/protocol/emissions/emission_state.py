"""The state of a job's emissions, with queries; callers hold the emission lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from streamjob.ids import BatchId, ChainUid, CheckpointId
from streamjob.protocol.emissions.channels import Backlog, Entry
from streamjob.protocol.emissions.emitted import ChainCut, Channel
from streamjob.protocol.emissions.streams import Streams
from streamjob.protocol.emissions.under_way import ChainProgress, CheckpointUnderWay


class EmissionState:
    """The progress of all chains of a job in one epoch.

    Args:
        channels: pairs of producer and consumer.
        feedback: those of them that close a cycle.
        clock: the coordinator's clock in seconds, for the figures.

    Raises:
        ValueError: a channel names an unknown chain or occurs twice, the channels without `feedback` form a cycle, or
            one of `feedback` closes none.
    """

    def __init__(
        self,
        chains: Iterable[ChainUid],
        channels: Iterable[Channel] = (),
        *,
        feedback: Iterable[Channel] = (),
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._chains = {chain: ChainProgress() for chain in chains}
        self._streams = Streams(self._chains, channels, feedback)
        self._clock = clock
        self._under_way: CheckpointUnderWay | None = None
        self._last_triggered: CheckpointId | None = None
        self._sealed_by: CheckpointId | None = None
        self._waiting_seal: tuple[CheckpointId, bool] | None = None
        self._has_base = True
        self._restored_checked = False
        self._cuts: list[ChainCut] = []
        self._appended: list[tuple[ChainUid, Entry]] = []

    @property
    def channels(self) -> tuple[Channel, ...]:
        """All channels: pairs of producer and consumer."""
        return self._streams.channels

    def loop(self, chain: ChainUid) -> tuple[ChainUid, ...]:
        """Return the chains of the loop that a chain is in; none if it is in none."""
        return next((loop.chains for loop in self._streams.loops if chain in loop.chains), ())

    def feeds_back(self, chain: ChainUid) -> bool:
        """Return whether the chain writes a feedback channel."""
        return bool(self._streams.feeds_back_to(chain))

    def last_emitted(self, chain: ChainUid) -> BatchId:
        """Return the chain's last emitted batch, NO_BATCH if there is none."""
        return self._chains[chain].emitted

    def last_covered(self, chain: ChainUid) -> BatchId:
        """Return the last batch of the chain that a completed checkpoint covers, NO_BATCH if there is none."""
        return self._chains[chain].covered

    def has_ended(self, chain: ChainUid) -> bool:
        """Return whether the chain is done, for good or drained."""
        return self._chains[chain].ended

    def is_drained(self, chain: ChainUid) -> bool:
        """Return whether the chain is done in this epoch only."""
        return self._chains[chain].drained

    def is_sealed(self, chain: ChainUid) -> bool:
        """Return whether a stopping snapshot has cut the chain, so that it may emit nothing more."""
        if self._sealed_by is None:
            return False
        under_way = self._under_way
        return under_way is None or under_way.id != self._sealed_by or chain in under_way.cuts

    def has_read_on(self, chain: ChainUid) -> bool:
        """Return whether the chain has consumed all that its input streams have so far."""
        return all(self._streams.has_read_on(producer, chain) for producer in self._streams.inputs(chain))

    def input_ended(self, chain: ChainUid) -> bool:
        """Return whether the chain has consumed all its input streams to the end; True if it has none.

        For a chain in a loop, this is true when the loop has come to its end.
        """
        if self.loop(chain):
            return self._chains[chain].ended
        return all(self._streams.has_consumed_end(producer, chain) for producer in self._streams.inputs(chain))

    def input_drained(self, chain: ChainUid) -> bool:
        """Return whether an input chain was drained: its stream ends in this epoch only."""
        return any(self._chains[producer].drained for producer in self._streams.inputs(chain))

    def watermark_at(self, producer: ChainUid, position: int) -> int | None:
        """Return the newest watermark in a chain's stream before a position, in ms since 1970.

        Returns END_OF_TIME_MS after the end of the stream, and None if there is none.

        Raises:
            BrokenLog: the position is outside the stream.
            KeyError: the chain has no readers.
        """
        log = self._streams.log(producer)
        if log is None:
            raise KeyError(f"chain {producer} has no stream, since it has no readers")
        return log.watermark_at(position)

    def frontier(self, producer: ChainUid, consumer: ChainUid) -> int:
        """Return the position up to which a chain may read another's stream.

        Raises:
            IllegalEmission: there is no such channel.
        """
        return self._streams.frontier(producer, consumer)

    def backlog(self, producer: ChainUid, consumer: ChainUid | None = None) -> Backlog:
        """Return the data that a consumer has not consumed, by default the slowest; none if the chain has no readers.

        The consumers of feedback channels are not among the slowest: no producer waits for them.
        """
        return self._streams.backlog(producer, consumer)

    def stored_bytes(self, producer: ChainUid) -> int:
        """Return the number of bytes of a chain's stream that still exist, consumed or not; 0 without readers."""
        return self._streams.stored_bytes(producer) if self._streams.log(producer) is not None else 0
