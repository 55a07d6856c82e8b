"""The state that the publication lock guards: what every chain has published, and where checkpoints cut it.

Publication is the last act of a batch. A chain's cut is its last published batch, taken at once when the barrier
reaches it: at the trigger for a chain that reads sources only. Whoever calls a method of `Publications` holds the
process-wide publication lock; nothing here blocks or waits.

How to drive it: `restore` each chain that does not start from nothing; `publish` at the end of every batch, and
`committed` once Spark's `commits/<batch>` exists; `trigger` on StartCheckpoint; acknowledge a chain once `is_committed`
says so and its files are stored; `complete` on CompletionSucceeded, `abort` on AbortCheckpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from streamjob.ids import NO_BATCH, BatchId, ChainUid, CheckpointId, OperatorUid


class IllegalPublication(RuntimeError):
    """A batch was published or committed out of its order: the job's state cannot be trusted, so its epoch must end."""


class PublicationSealed(RuntimeError):
    """A batch came behind the cut of a stopping snapshot; it belongs to nobody and must not be committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a batch publishes: where its inputs stand behind it, what it staged, and its inputs' watermarks.

    `staged` has a sink's committable where there is something to commit. `watermarks` are in ms since 1970.
    """

    batch: BatchId
    positions: Mapping[OperatorUid, JsonValue] = field(default_factory=dict)
    staged: Mapping[OperatorUid, JsonValue] = field(default_factory=dict)
    watermarks: Mapping[OperatorUid, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainCut:
    """A chain's place in a checkpoint: behind `batch`, which is NO_BATCH for a chain that has published none.

    `committables` has everything that the chain's sinks staged up to here and no completed checkpoint has taken yet,
    oldest first.
    """

    chain: ChainUid
    batch: BatchId
    positions: Mapping[OperatorUid, JsonValue]
    watermarks: Mapping[OperatorUid, int]
    committables: Mapping[OperatorUid, tuple[JsonValue, ...]]


@dataclass(slots=True)
class _Chain:
    published: BatchId = NO_BATCH
    committed: BatchId = NO_BATCH
    positions: dict[OperatorUid, JsonValue] = field(default_factory=dict)
    watermarks: dict[OperatorUid, int] = field(default_factory=dict)
    staged: list[tuple[BatchId, OperatorUid, JsonValue]] = field(default_factory=list)


class Publications:
    """The publications and cuts of all chains of a job in one epoch.

    Args:
        chains: the job's chains.
        channels: pairs of producer and consumer; a consumer is cut by `cut` when its barriers have arrived.

    Raises:
        ValueError: a channel names a chain that is not there.
    """

    def __init__(self, chains: Iterable[ChainUid], channels: Iterable[tuple[ChainUid, ChainUid]] = ()) -> None:
        self._chains = {chain: _Chain() for chain in chains}
        self._channels = tuple(channels)
        for channel in self._channels:
            for end in channel:
                if end not in self._chains:
                    raise ValueError(f"channel {channel[0]} -> {channel[1]} names an unknown chain {end}")
        self._cuts: dict[CheckpointId, dict[ChainUid, ChainCut]] = {}
        self._sealed_by: CheckpointId | None = None

    def restore(
        self,
        chain: ChainUid,
        batch: BatchId,
        positions: Mapping[OperatorUid, JsonValue],
        watermarks: Mapping[OperatorUid, int],
    ) -> None:
        """Let a chain begin behind a restored cut, whose committables are published already.

        Raises:
            IllegalPublication: the chain has published a batch in this epoch.
        """
        state = self._chains[chain]
        if state.published != NO_BATCH:
            raise IllegalPublication(f"chain {chain} is to be restored behind batch {batch} after it has published")
        state.published = state.committed = batch
        state.positions, state.watermarks = dict(positions), dict(watermarks)

    def publish(self, chain: ChainUid, batch: Batch) -> None:
        """Make a batch the chain's last published one; the one before it is committed, then.

        Raises:
            PublicationSealed: a stopping snapshot has cut this job already.
            IllegalPublication: it is not the batch behind the last published one.
        """
        state = self._chains[chain]
        if self._sealed_by is not None:
            raise PublicationSealed(f"batch {batch.batch} of chain {chain} comes behind snapshot {self._sealed_by}")
        if batch.batch != state.published + 1:
            raise IllegalPublication(f"chain {chain} publishes batch {batch.batch} behind batch {state.published}")
        # Spark begins a batch only behind the commit of the one before.
        state.committed = state.published
        state.published = batch.batch
        state.positions.update(batch.positions)
        state.watermarks.update(batch.watermarks)
        state.staged.extend((batch.batch, sink, committable) for sink, committable in batch.staged.items())

    def committed(self, chain: ChainUid, batch: BatchId) -> None:
        """Note that Spark has committed a published batch; a repeated note changes nothing.

        Raises:
            IllegalPublication: the batch is not the last published one, nor an earlier one.
        """
        state = self._chains[chain]
        if batch > state.published:
            raise IllegalPublication(f"chain {chain} commits batch {batch}, but only {state.published} is published")
        state.committed = max(state.committed, batch)

    def last_published(self, chain: ChainUid) -> BatchId:
        """Return the chain's last published batch, NO_BATCH if there is none."""
        return self._chains[chain].published

    def trigger(
        self, checkpoint: CheckpointId, *, seal: bool = False, unaligned: bool = False
    ) -> Mapping[ChainUid, ChainCut]:
        """Cut, at once, every chain that waits for no barrier; return the cuts made so far.

        Args:
            checkpoint: the checkpoint that begins.
            seal: publish nothing more in this epoch: the checkpoint stops the job.
            unaligned: cut also the chains that read channels.

        Raises:
            ValueError: the checkpoint was triggered before.
        """
        if checkpoint in self._cuts:
            raise ValueError(f"checkpoint {checkpoint} was triggered before")
        self._cuts[checkpoint] = {}
        consumers = {target for _, target in self._channels}
        for chain in self._chains:
            if unaligned or chain not in consumers:
                self.cut(checkpoint, chain)
        if seal:
            self._sealed_by = checkpoint
        return dict(self._cuts[checkpoint])

    def cut(self, checkpoint: CheckpointId, chain: ChainUid) -> ChainCut:
        """Cut one chain behind its last published batch; a chain that is cut already keeps that cut.

        Raises:
            KeyError: the checkpoint is not under way.
        """
        cuts = self._cuts[checkpoint]
        if chain not in cuts:
            state = self._chains[chain]
            committables: dict[OperatorUid, list[JsonValue]] = {}
            for _, sink, committable in state.staged:
                committables.setdefault(sink, []).append(committable)
            cuts[chain] = ChainCut(
                chain=chain,
                batch=state.published,
                positions=dict(state.positions),
                watermarks=dict(state.watermarks),
                committables={sink: tuple(staged) for sink, staged in committables.items()},
            )
        return cuts[chain]

    def cuts_of(self, checkpoint: CheckpointId) -> Mapping[ChainUid, ChainCut]:
        """Return the cuts that a checkpoint has made so far; none if it is not under way."""
        return dict(self._cuts.get(checkpoint, {}))

    def is_committed(self, checkpoint: CheckpointId, chain: ChainUid) -> bool:
        """Whether Spark has committed the batch at which the checkpoint cut the chain: it may be acknowledged then."""
        cut = self._cuts.get(checkpoint, {}).get(chain)
        return cut is not None and self._chains[chain].committed >= cut.batch

    def complete(self, checkpoint: CheckpointId) -> None:
        """Let go of the committables that a completed checkpoint took, and of any older cut; once is enough."""
        for chain, cut in self._cuts.get(checkpoint, {}).items():
            state = self._chains[chain]
            state.staged = [entry for entry in state.staged if entry[0] > cut.batch]
        self._cuts = {other: cuts for other, cuts in self._cuts.items() if other > checkpoint}

    def abort(self, checkpoint: CheckpointId) -> None:
        """Forget a checkpoint's cuts; its committables go into the next. Publication stays sealed if it was."""
        self._cuts.pop(checkpoint, None)
