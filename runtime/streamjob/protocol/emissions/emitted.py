"""Emissions of chains, and the effects of emissions and cuts: values without behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from streamjob.ids import BatchId, ChainUid, CheckpointId, OperatorUid
from streamjob.protocol.emissions.channels import Entry, Segment

Channel = tuple[ChainUid, ChainUid]
"""Producer and consumer."""


class IllegalEmission(RuntimeError):
    """A batch was emitted or committed out of order: the job's state is unreliable, so its epoch must end."""


class EmissionSealed(RuntimeError):
    """A batch came after the cut of a stopping snapshot; it belongs to no checkpoint and must not be committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A batch's output for its chain's readers; `watermark_ms` is the chain's watermark after it, since 1970."""

    segments: tuple[Segment, ...] = ()
    watermark_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch's emission: its committables and its output.

    `staged` has a sink's committable where there is something to commit. `consumed` has the positions in the streams of
    other chains; with several readers of one stream, the smallest.
    """

    batch: BatchId
    staged: Mapping[OperatorUid, JsonValue] = field(default_factory=dict)
    consumed: Mapping[ChainUid, int] = field(default_factory=dict)
    output: Output | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FedBack:
    """A checkpoint's part of a feedback channel: its entries from `consumed`, the position at its reader's cut."""

    consumed: int
    entries: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainCut:
    """A chain's place in a checkpoint: after `batch`, which is NO_BATCH if the chain has emitted none.

    `committables` has everything that the chain's sinks have staged up to here and no completed checkpoint has taken
    yet, oldest first. `consumed` has the position in every stream that the chain reads, by producer. `in_flight` and
    `ended_inputs` refer to the same streams except feedback channels: the entries from there to the producer's cut, and
    whether the stream has ended at that cut. `next_index` and `ended` refer to the chain's own stream after its cut,
    and `fed_back` to the feedback channels that it writes, by consumer. Durations are in seconds: from the trigger to
    the first barrier, and from there to the cut; `processed_bytes` is what the chain consumed between these two.
    """

    chain: ChainUid
    batch: BatchId
    committables: Mapping[OperatorUid, tuple[JsonValue, ...]]
    consumed: Mapping[ChainUid, int] = field(default_factory=dict)
    in_flight: Mapping[ChainUid, tuple[Entry, ...]] = field(default_factory=dict)
    ended_inputs: frozenset[ChainUid] = frozenset()
    fed_back: Mapping[ChainUid, FedBack] = field(default_factory=dict)
    next_index: int = 0
    ended: bool = False
    unaligned: bool = False
    start_delay: float = 0.0
    alignment_duration: float = 0.0
    processed_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """The effects of a step; execute them before the emission lock is released.

    Args:
        checkpoint: the checkpoint that `cuts` belong to; None without cuts.
        cuts: chains that were cut, to be acknowledged.
        appended: new entries, with the producer to whose stream they belong, in order.
        frontiers: the new read limits of consumers, by producer and consumer; changed ones only.
        dropped: by producer, the index below which entries may be deleted; changed ones only.
    """

    checkpoint: CheckpointId | None = None
    cuts: tuple[ChainCut, ...] = ()
    appended: tuple[tuple[ChainUid, Entry], ...] = ()
    frontiers: Mapping[Channel, int] = field(default_factory=dict)
    dropped: Mapping[ChainUid, int] = field(default_factory=dict)
