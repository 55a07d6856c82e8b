"""The state that the emission lock guards: the emissions of every chain, and the cuts of checkpoints.

A chain emits a batch as its last act. A chain's cut is its last emitted batch, taken as soon as the barriers have
reached it: at the trigger for a chain that reads only sources, otherwise with the batch after which every stream that
it reads is consumed up to the barrier or to its end. A chain that is cut forwards the barrier into its own stream. An
unaligned checkpoint cuts all chains at its trigger, and a switched one the remaining chains; the data in flight between
two cuts is then part of the checkpoint. `streamjob.protocol.emissions.loops` has feedback channels.

Source: Carbone et al., Lightweight Asynchronous Snapshots (2015), and FLIP-76.

Callers of `Emissions` hold the process-wide emission lock; no method blocks or waits. Execute the effects that a
method returns before releasing the lock.

Usage: `restore` each chain that has state, and `restore_log` its stream if it has readers; `open` before anything runs;
`begin` and `emit` at both ends of every batch, `committed` once Spark's `commits/<batch>` exists, `end` when a chain
is done; `trigger` on StartCheckpoint, `switch` on SwitchToUnaligned; acknowledge each cut in the effects once
Spark has committed its batch and its files are stored; `complete` on CompletionSucceeded, `abort` on AbortCheckpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streamjob.ids import NO_BATCH, BatchId, ChainUid, CheckpointId
from streamjob.protocol.emissions.channels import ChannelLog, Entry
from streamjob.protocol.emissions.emission_state import EmissionState
from streamjob.protocol.emissions.emitted import (
    Batch,
    ChainCut,
    Channel,
    Effects,
    EmissionSealed,
    IllegalEmission,
    Output,
)
from streamjob.protocol.emissions.loops import Loop, is_quiet
from streamjob.protocol.emissions.under_way import CheckpointUnderWay

__all__ = ["Batch", "ChainCut", "Effects", "EmissionSealed", "Emissions", "IllegalEmission", "Output"]


class Emissions(EmissionState):
    """The emissions and cuts of all chains of a job in one epoch; its arguments are those of `EmissionState`."""

    def restore(
        self,
        chain: ChainUid,
        batch: BatchId,
        consumed: Mapping[ChainUid, int] | None = None,
    ) -> None:
        """Let a chain start after a restored cut, whose committables are committed already.

        Raises:
            IllegalEmission: the chain has emitted a batch in this epoch, or `consumed` names no input of it.
        """
        state = self._chains[chain]
        if state.emitted != NO_BATCH:
            raise IllegalEmission(f"chain {chain} cannot be restored after batch {batch} after it has emitted")
        self._streams.restore_position(chain, consumed or {})
        state.emitted = state.covered = batch

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
        """Start a chain's stream with the in-flight data of a checkpoint; before any chain runs.

        Args:
            producer: the chain; a chain without readers needs no stream, but may have ended.
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

    def open(self) -> Effects:
        """Finish the restore; a loop without anything left to do ends at once."""
        self._check_restored()
        # The caller has set the restored part itself; return only its consequences.
        self._streams.changes()
        return self._effects()

    def begin(self, chain: ChainUid, batch: BatchId) -> None:
        """Record that a batch runs; until it is emitted, it may produce output for the chain's readers."""
        self._chains[chain].running = batch

    def running(self, chain: ChainUid) -> BatchId | None:
        """Return the batch that runs; None between two batches."""
        return self._chains[chain].running

    def await_base(self) -> None:
        """Let nothing be published before a checkpoint has completed; before anything runs."""
        self._has_base = False

    def run_again(self, chain: ChainUid, last: BatchId) -> None:
        """Let a snapshot that stops the job wait until a chain has emitted a batch; before anything runs."""
        self._chains[chain].pinned = last

    def publish(self, chain: ChainUid) -> bool:
        """Return whether the sinks of a chain may publish the batch that runs, before it is emitted.

        Nothing may be published behind the cut of a snapshot that stops the job. A batch that may be published is
        therefore emitted before such a snapshot cuts anything.
        """
        state = self._chains[chain]
        if self._has_base and self._sealed_by is None and self._waiting_seal is None:
            state.publishing = True
        return state.publishing

    def emit(self, chain: ChainUid, batch: Batch) -> Effects:
        """Make a batch the chain's last emitted one; the previous one is then committed.

        Raises:
            EmissionSealed: a stopping snapshot has cut the chain already.
            IllegalEmission: it does not follow the last emitted batch, comes after the chain's end, has read past
                its frontier, or has output for readers but has no readers.
        """
        state = self._chains[chain]
        self._check_open(chain, batch)
        log = self._streams.log(chain)
        if log is None and batch.output is not None and batch.output.segments:
            raise IllegalEmission(f"batch {batch.batch} of chain {chain} has output for readers, but no readers")
        # Spark begins a batch only after the commit of the previous one.
        self._streams.commit(chain)
        self._streams.consume(chain, batch.consumed)
        state.emitted, state.running, state.publishing = batch.batch, None, False
        state.staged.extend((batch.batch, sink, committable) for sink, committable in batch.staged.items())
        if log is not None and batch.output is not None:
            self._append(chain, *log.append_data(batch.output.segments, batch.output.watermark_ms))
        if self._waiting_seal is not None and not self._must_emit():
            checkpoint, unaligned = self._waiting_seal
            self._begin_checkpoint(checkpoint, seal=True, unaligned=unaligned)
        self._align(chain)
        return self._effects()

    def _check_open(self, chain: ChainUid, batch: Batch) -> None:
        self._check_restored()
        state = self._chains[chain]
        if self.is_sealed(chain):
            raise EmissionSealed(f"batch {batch.batch} of chain {chain} comes after snapshot {self._sealed_by}")
        if state.ended:
            raise IllegalEmission(f"chain {chain} emits batch {batch.batch} after its end")
        if batch.batch != state.emitted + 1:
            raise IllegalEmission(f"chain {chain} emits batch {batch.batch} after batch {state.emitted}")

    def committed(self, chain: ChainUid, batch: BatchId) -> Effects:
        """Record that Spark has committed an emitted batch; repetition changes nothing.

        Raises:
            IllegalEmission: the batch is not the last emitted one, nor an earlier one.
        """
        state = self._chains[chain]
        if batch > state.emitted:
            raise IllegalEmission(f"chain {chain} commits batch {batch}, but only {state.emitted} is emitted")
        if batch == state.emitted:
            self._streams.commit(chain)
        return self._effects()

    def end(self, chain: ChainUid, *, drained: bool = False) -> Effects:
        """Record that a chain is done: its readers see the end of input. Idempotent. Readers in its loop end with it.

        Args:
            drained: its input has not ended, or not for good: a start from a later snapshot reads on.

        Raises:
            EmissionSealed: a stopping snapshot has cut the chain already.
            IllegalEmission: a stream that it reads has not ended, or is not consumed.
        """
        self._check_restored()
        state = self._chains[chain]
        if not state.ended:
            if self.is_sealed(chain):
                raise EmissionSealed(f"the end of chain {chain} comes after snapshot {self._sealed_by}")
            if not self.input_ended(chain):
                raise IllegalEmission(f"chain {chain} ends before it has consumed the end of its inputs")
            self._end(chain, drained=drained)
        return self._effects()

    def _end(self, chain: ChainUid, *, drained: bool) -> None:
        state, log = self._chains[chain], self._streams.log(chain)
        state.ended, state.drained = True, drained
        if log is not None:
            self._append(chain, log.append_end())

    def _end_quiet_loops(self) -> None:
        """End the loops that have come to rest, except those with parts cut by a barrier or a stopping snapshot."""
        under_way, streams = self._under_way, self._streams
        for loop in streams.loops:
            if self._chains[loop.chains[0]].ended or any(self.is_sealed(chain) for chain in loop.chains):
                continue
            if under_way is not None and under_way.aligning and not under_way.cuts.keys() >= set(loop.chains):
                continue
            if is_quiet(loop, self._runs, self._has_consumed_end, streams.unread):
                self._end_loop(loop)

    def _end_loop(self, loop: Loop) -> None:
        drained = any(self._chains[producer].drained for producer, _ in loop.outer)
        for chain in loop.chains:
            self._end(chain, drained=drained)
        if not drained:
            self._streams.read_off(loop.inner)

    def _runs(self, chain: ChainUid) -> bool:
        return self._chains[chain].running is not None

    def _has_consumed_end(self, channel: Channel) -> bool:
        return self._streams.has_consumed_end(*channel)

    def trigger(self, checkpoint: CheckpointId, *, seal: bool = False, unaligned: bool = False) -> Effects:
        """Cut every chain that waits for no barrier: at once, or with `seal` when all that is published is emitted.

        Args:
            checkpoint: the checkpoint that begins.
            seal: no chain emits anything after its cut, because the checkpoint stops the job.
            unaligned: cut every chain, and include the in-flight data; no barrier is written.

        Raises:
            ValueError: the checkpoint, or a later one, was triggered before, or one is under way.
        """
        if self._last_triggered is not None and checkpoint <= self._last_triggered:
            raise ValueError(f"checkpoint {checkpoint} or a later one was triggered before")
        if self._under_way is not None:
            raise ValueError(f"checkpoint {checkpoint} is triggered while {self._under_way.id} is under way")
        self._check_restored()
        self._last_triggered = checkpoint
        if seal and self._must_emit():
            self._waiting_seal = checkpoint, unaligned
        else:
            self._begin_checkpoint(checkpoint, seal=seal, unaligned=unaligned)
        return self._effects()

    def _must_emit(self) -> bool:
        return any(each.must_emit for each in self._chains.values())

    def _begin_checkpoint(self, checkpoint: CheckpointId, *, seal: bool, unaligned: bool) -> None:
        self._waiting_seal = None
        self._under_way = CheckpointUnderWay(checkpoint, self._clock(), self._chains, self._streams)
        if seal:
            self._sealed_by = checkpoint
        if unaligned:
            self._cut_the_rest()
        else:
            for chain in self._chains:
                self._align(chain)

    def switch(self, checkpoint: CheckpointId) -> Effects:
        """Switch to unaligned: cut the chains that still wait for a barrier where they are. The barrier is then
        obsolete.

        Nothing happens if the checkpoint is not under way, or has cut every chain.
        """
        if self._waiting_seal is not None and self._waiting_seal[0] == checkpoint:
            self._waiting_seal = checkpoint, True
        under_way = self._under_way
        if under_way is not None and under_way.id == checkpoint and len(under_way.cuts) < len(self._chains):
            self._cut_the_rest()
        return self._effects()

    def complete(self, checkpoint: CheckpointId) -> Effects:
        """Release the committables and the cuts of a completed checkpoint. Idempotent."""
        if self._under_way is not None and self._under_way.id == checkpoint:
            self._has_base = True
            for chain, cut in self._under_way.cuts.items():
                state = self._chains[chain]
                state.covered = cut.batch
                state.staged = [entry for entry in state.staged if entry[0] > cut.batch]
            self._let_go(checkpoint)
        return self._effects()

    def abort(self, checkpoint: CheckpointId) -> Effects:
        """Forget a checkpoint's cuts: its committables go into the next one, and sealed chains may emit again."""
        if self._waiting_seal is not None and self._waiting_seal[0] == checkpoint:
            self._waiting_seal = None
        if self._under_way is not None and self._under_way.id == checkpoint:
            if self._sealed_by == checkpoint:
                self._sealed_by = None
            self._let_go(checkpoint)
        return self._effects()

    def _let_go(self, checkpoint: CheckpointId) -> None:
        self._under_way = None
        self._streams.let_go()
        if checkpoint != self._sealed_by:
            self._streams.release(checkpoint)

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
        inputs = streams.forward_inputs(chain)
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
        """Cut all remaining chains where they are; the barrier under way is obsolete."""
        under_way = self._under_way
        assert under_way is not None
        under_way.aligning = False
        self._cut(under_way, [chain for chain in self._chains if chain not in under_way.cuts], unaligned=True)
        if under_way.id != self._sealed_by:
            self._streams.release(under_way.id)

    def _cut(self, under_way: CheckpointUnderWay, chains: Iterable[ChainUid], *, unaligned: bool) -> None:
        now = self._clock()
        for chain in chains:
            cut = under_way.cut(chain, now, unaligned=unaligned)
            self._cuts.append(cut)
            self._streams.let_go(chain)
            for producer in cut.consumed.keys() - cut.in_flight.keys() - under_way.cuts.keys():
                self._streams.keep((producer, chain), cut.consumed[producer])

    def _effects(self) -> Effects:
        self._end_quiet_loops()
        frontiers, dropped = self._streams.changes()
        cuts, self._cuts = tuple(self._cuts), []
        appended, self._appended = tuple(self._appended), []
        return Effects(
            checkpoint=self._under_way.id if cuts and self._under_way is not None else None,
            cuts=cuts,
            appended=appended,
            frontiers=frontiers,
            dropped=dropped,
        )
