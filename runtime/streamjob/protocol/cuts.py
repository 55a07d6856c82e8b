"""The state that the publication lock guards: what every chain has published, and where checkpoints cut it.

Publication is the last act of a batch. A chain's cut is its last published batch, taken at once when the barriers have
reached it: at the trigger for a chain that reads sources only, else with the batch behind which every stream that it
reads is consumed up to the barrier or to its end. A chain that is cut forwards the barrier into its own stream. An
unaligned checkpoint cuts all chains at its trigger, and a switched one all that are left; what is in flight between two
cuts belongs to the checkpoint then. Source: Carbone et al., Lightweight Asynchronous Snapshots (2015), and FLIP-76.

Whoever calls a method of `Publications` holds the process-wide publication lock; nothing here blocks or waits. The
effects that a method returns are to be executed under the same hold of the lock.

How to drive it: `restore` each chain that does not start from nothing, and `restore_log` for what others read of it;
`publish` at the end of every batch, `committed` once Spark's `commits/<batch>` exists, `end` when a chain is done;
`trigger` on StartCheckpoint, `switch` on SwitchToUnaligned; acknowledge each cut that an effect brings once
`is_committed` says so and its files are stored; `complete` on CompletionSucceeded, `abort` on AbortCheckpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pydantic import JsonValue

from streamjob.ids import NO_BATCH, BatchId, ChainUid, CheckpointId, OperatorUid
from streamjob.protocol.channels import Backlog, ChannelLog, Entry
from streamjob.protocol.published import (
    Batch,
    ChainCut,
    Channel,
    Effects,
    IllegalPublication,
    Output,
    PublicationSealed,
)
from streamjob.protocol.streams import Streams
from streamjob.protocol.under_way import ChainProgress, CheckpointUnderWay

__all__ = ["Batch", "ChainCut", "Effects", "IllegalPublication", "Output", "PublicationSealed", "Publications"]


class Publications:
    """The publications and cuts of all chains of a job in one epoch.

    Args:
        chains: the job's chains.
        channels: pairs of producer and consumer.
        clock: seconds, for the figures; the coordinator's clock.

    Raises:
        ValueError: a channel names a chain that is not there or stands twice, or the channels form a cycle.
    """

    def __init__(
        self,
        chains: Iterable[ChainUid],
        channels: Iterable[Channel] = (),
        *,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._chains = {chain: ChainProgress() for chain in chains}
        self._streams = Streams(self._chains, channels)
        self._clock = clock
        self._under_way: CheckpointUnderWay | None = None
        self._last_triggered: CheckpointId | None = None
        self._sealed_by: CheckpointId | None = None
        self._restored_checked = False
        self._cuts: list[ChainCut] = []
        self._appended: list[tuple[ChainUid, Entry]] = []

    @property
    def channels(self) -> tuple[Channel, ...]:
        """All channels: pairs of producer and consumer."""
        return self._streams.channels

    def restore(
        self,
        chain: ChainUid,
        batch: BatchId,
        positions: Mapping[OperatorUid, JsonValue],
        watermarks: Mapping[OperatorUid, int],
        consumed: Mapping[ChainUid, int] | None = None,
    ) -> None:
        """Let a chain begin behind a restored cut, whose committables are published already.

        Raises:
            IllegalPublication: the chain has published a batch in this epoch, or `consumed` names no input of it.
        """
        state = self._chains[chain]
        if state.published != NO_BATCH:
            raise IllegalPublication(f"chain {chain} is to be restored behind batch {batch} after it has published")
        self._streams.restore_position(chain, consumed or {})
        state.published = state.committed = batch
        state.positions, state.watermarks = dict(positions), dict(watermarks)

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
        """Let a chain's stream begin with what was in flight in a checkpoint; before anything runs.

        Args:
            producer: the chain; one that nobody reads needs no stream, but may have ended.
            entries: all that one of its readers has not consumed; one that several have not may be given repeatedly.
            next_index: the index of the next entry.
            ended: whether the chain is done for good.
            released: the restored checkpoint: its barrier and all before are obsolete.
            watermark_ms: the chain's watermark before `entries`, in ms since 1970.

        Raises:
            BrokenLog: the entries are no stream that ends right below `next_index`.
        """
        self._chains[producer].ended = ended
        if self._streams.log(producer) is not None:
            log = ChannelLog(producer, entries, next_index=next_index, ended=ended, watermark_ms=watermark_ms)
            self._streams.restore_log(producer, log, released)

    def publish(self, chain: ChainUid, batch: Batch) -> Effects:
        """Make a batch the chain's last published one; the one before it is committed, then.

        Raises:
            PublicationSealed: a stopping snapshot has cut the chain already.
            IllegalPublication: it is not the batch behind the last published one, comes behind the chain's end, has
                read what it may not, or hands something to readers of which there are none.
        """
        state = self._chains[chain]
        self._check_open(chain, batch)
        log = self._streams.log(chain)
        if log is None and batch.output is not None and batch.output.segments:
            raise IllegalPublication(
                f"batch {batch.batch} of chain {chain} has output for readers, but nobody reads it"
            )
        # Spark begins a batch only behind the commit of the one before.
        state.committed = state.published
        self._streams.commit(chain)
        self._streams.consume(chain, batch.consumed)
        state.published = batch.batch
        state.positions.update(batch.positions)
        state.watermarks.update(batch.watermarks)
        state.staged.extend((batch.batch, sink, committable) for sink, committable in batch.staged.items())
        if log is not None and batch.output is not None:
            self._append(chain, *log.append_data(batch.output.segments, batch.output.watermark_ms))
        self._align(chain)
        return self._effects()

    def _check_open(self, chain: ChainUid, batch: Batch) -> None:
        self._check_restored()
        state = self._chains[chain]
        if self.is_sealed(chain):
            raise PublicationSealed(f"batch {batch.batch} of chain {chain} comes behind snapshot {self._sealed_by}")
        if state.ended:
            raise IllegalPublication(f"chain {chain} publishes batch {batch.batch} behind its end")
        if batch.batch != state.published + 1:
            raise IllegalPublication(f"chain {chain} publishes batch {batch.batch} behind batch {state.published}")

    def committed(self, chain: ChainUid, batch: BatchId) -> Effects:
        """Note that Spark has committed a published batch; a repeated note changes nothing.

        Raises:
            IllegalPublication: the batch is not the last published one, nor an earlier one.
        """
        state = self._chains[chain]
        if batch > state.published:
            raise IllegalPublication(f"chain {chain} commits batch {batch}, but only {state.published} is published")
        state.committed = max(state.committed, batch)
        if batch == state.published:
            self._streams.commit(chain)
        return self._effects()

    def end(self, chain: ChainUid, *, drained: bool = False) -> Effects:
        """Note that a chain is done: its readers see the end of input; once is enough.

        Args:
            chain: the chain.
            drained: its input has not ended, or not for good: who starts from a later snapshot reads on.

        Raises:
            PublicationSealed: a stopping snapshot has cut the chain already.
            IllegalPublication: a stream that it reads has not ended, or is not consumed.
        """
        self._check_restored()
        state = self._chains[chain]
        if not state.ended:
            if self.is_sealed(chain):
                raise PublicationSealed(f"the end of chain {chain} comes behind snapshot {self._sealed_by}")
            if not self.input_ended(chain):
                raise IllegalPublication(f"chain {chain} ends before it has consumed the end of its inputs")
            state.ended, state.drained = True, drained
            log = self._streams.log(chain)
            if log is not None:
                self._append(chain, log.append_end())
        return self._effects()

    def last_published(self, chain: ChainUid) -> BatchId:
        """Return the chain's last published batch, NO_BATCH if there is none."""
        return self._chains[chain].published

    def has_ended(self, chain: ChainUid) -> bool:
        """Return whether the chain is done, for good or drained."""
        return self._chains[chain].ended

    def is_sealed(self, chain: ChainUid) -> bool:
        """Return whether a stopping snapshot has cut the chain, so that it may publish nothing more."""
        if self._sealed_by is None:
            return False
        under_way = self._under_way
        return under_way is None or under_way.id != self._sealed_by or chain in under_way.cuts

    def trigger(self, checkpoint: CheckpointId, *, seal: bool = False, unaligned: bool = False) -> Effects:
        """Cut, at once, every chain that waits for no barrier.

        Args:
            checkpoint: the checkpoint that begins.
            seal: each chain publishes nothing more behind its cut: the checkpoint stops the job.
            unaligned: cut every chain, and take what is in flight; no barrier is written.

        Raises:
            ValueError: the checkpoint, or a later one, was triggered before, or one is under way.
        """
        if self._last_triggered is not None and checkpoint <= self._last_triggered:
            raise ValueError(f"checkpoint {checkpoint} or one behind it was triggered before")
        if self._under_way is not None:
            raise ValueError(f"checkpoint {checkpoint} is triggered while {self._under_way.id} is under way")
        self._check_restored()
        self._last_triggered = checkpoint
        self._under_way = CheckpointUnderWay(checkpoint, self._clock())
        if seal:
            self._sealed_by = checkpoint
        if unaligned:
            self._cut_the_rest()
        else:
            for chain in self._chains:
                self._align(chain)
        return self._effects()

    def switch(self, checkpoint: CheckpointId) -> Effects:
        """Go on unaligned: cut the chains that still wait for a barrier where they are; the barrier is obsolete then.

        Nothing happens if the checkpoint is not under way, or has cut every chain.
        """
        under_way = self._under_way
        if under_way is not None and under_way.id == checkpoint and len(under_way.cuts) < len(self._chains):
            self._cut_the_rest()
        return self._effects()

    def complete(self, checkpoint: CheckpointId) -> Effects:
        """Let go of the committables that a completed checkpoint took, and of its cuts; once is enough."""
        if self._under_way is not None and self._under_way.id == checkpoint:
            for chain, cut in self._under_way.cuts.items():
                state = self._chains[chain]
                state.staged = [entry for entry in state.staged if entry[0] > cut.batch]
            self._let_go(checkpoint)
        return self._effects()

    def abort(self, checkpoint: CheckpointId) -> Effects:
        """Forget a checkpoint's cuts; its committables go into the next, and what it had sealed may publish again."""
        if self._under_way is not None and self._under_way.id == checkpoint:
            if self._sealed_by == checkpoint:
                self._sealed_by = None
            self._let_go(checkpoint)
        return self._effects()

    def _let_go(self, checkpoint: CheckpointId) -> None:
        self._under_way = None
        if checkpoint != self._sealed_by:
            self._streams.release(checkpoint)

    def cuts_of(self, checkpoint: CheckpointId) -> Mapping[ChainUid, ChainCut]:
        """Return the cuts that a checkpoint has made so far; none if it is not under way."""
        under_way = self._under_way
        return dict(under_way.cuts) if under_way is not None and under_way.id == checkpoint else {}

    def is_committed(self, checkpoint: CheckpointId, chain: ChainUid) -> bool:
        """Whether Spark has committed the batch at which the checkpoint cut the chain: it may be acknowledged then."""
        cut = self.cuts_of(checkpoint).get(chain)
        return cut is not None and self._chains[chain].committed >= cut.batch

    def input_ended(self, chain: ChainUid) -> bool:
        """Return whether the chain has consumed every stream that it reads to its end; True if it reads none."""
        return all(self._streams.has_consumed_end(producer, chain) for producer in self._streams.inputs(chain))

    def input_drained(self, chain: ChainUid) -> bool:
        """Return whether a chain that this one reads was drained: its stream ends in this epoch only."""
        return any(self._chains[producer].drained for producer in self._streams.inputs(chain))

    def watermark_at(self, producer: ChainUid, position: int) -> int | None:
        """Return the newest watermark in a chain's stream before a position, in ms since 1970.

        That is END_OF_TIME_MS behind the end of the stream, and None if there is none.

        Raises:
            BrokenLog: the position is outside the stream.
            KeyError: nobody reads the chain.
        """
        log = self._streams.log(producer)
        if log is None:
            raise KeyError(f"chain {producer} has no stream: nobody reads it")
        return log.watermark_at(position)

    def frontier(self, producer: ChainUid, consumer: ChainUid) -> int:
        """Return the position up to which a chain may read another's stream.

        Raises:
            IllegalPublication: there is no such channel.
        """
        return self._streams.frontier(producer, consumer)

    def backlog(self, producer: ChainUid, consumer: ChainUid | None = None) -> Backlog:
        """Return the data that a consumer, by default the slowest, has not consumed; none if nobody reads the chain."""
        return self._streams.backlog(producer, consumer)

    def _check_restored(self) -> None:
        if not self._restored_checked:
            self._streams.check_restored()
            self._restored_checked = True

    def _append(self, chain: ChainUid, *entries: Entry) -> None:
        self._appended.extend((chain, entry) for entry in entries)

    def _align(self, chain: ChainUid) -> None:
        """Cut a chain if the barrier under way has reached it on all inputs, and forward the barrier."""
        under_way, streams = self._under_way, self._streams
        if under_way is None or not under_way.aligning or chain in under_way.cuts:
            return
        inputs = streams.inputs(chain)
        reached = [producer for producer in inputs if streams.has_reached(producer, chain, under_way.id)]
        if reached:
            under_way.first_barriers.setdefault(chain, (self._clock(), streams.consumed_bytes(chain)))
        ended = self._chains[chain].ended
        if not ended and not all(
            producer in reached or streams.has_consumed_end(producer, chain) for producer in inputs
        ):
            return
        log = streams.log(chain)
        if log is not None and not ended:
            self._append(chain, log.append_barrier(under_way.id))
        self._cut(under_way, [chain], unaligned=False)
        if under_way.id != self._sealed_by:
            streams.release(under_way.id, [chain])

    def _cut_the_rest(self) -> None:
        """Cut all chains that are not cut yet where they are; the barrier under way is obsolete."""
        under_way = self._under_way
        assert under_way is not None
        under_way.aligning = False
        self._cut(under_way, [chain for chain in self._chains if chain not in under_way.cuts], unaligned=True)
        if under_way.id != self._sealed_by:
            self._streams.release(under_way.id)

    def _cut(self, under_way: CheckpointUnderWay, chains: Iterable[ChainUid], *, unaligned: bool) -> None:
        now = self._clock()
        for chain in chains:
            self._cuts.append(under_way.cut(chain, self._chains, self._streams, now, unaligned=unaligned))

    def _effects(self) -> Effects:
        changes = self._streams.changes()
        cuts, self._cuts = tuple(self._cuts), []
        appended, self._appended = tuple(self._appended), []
        return Effects(
            checkpoint=self._under_way.id if cuts and self._under_way is not None else None,
            cuts=cuts,
            appended=appended,
            frontiers=changes.frontiers,
            dropped=changes.dropped,
        )
