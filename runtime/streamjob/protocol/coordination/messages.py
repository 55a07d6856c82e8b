"""The coordinator's input (events) and output (actions); values without behaviour.

Every event carries `now`: seconds since 1970 by a clock that does not jump (the wall clock at the process's start plus
the monotonic time since).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from streamjob.checkpointing_policy import LiveCheckpointingPolicy
from streamjob.ids import ChainUid, CheckpointId, TriggerId
from streamjob.protocol.coordination.failures import AbortReason
from streamjob.protocol.coordination.triggers import CheckpointProperties, SnapshotKind
from streamjob.snapshot.manifest import ChainState, ChannelState, OperatorState, SinkState, SourceState


class ChainStatus(StrEnum):
    """The life-cycle state of a chain."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    DRAINED = "DRAINED"
    """Flushed on request, as if its input had ended; its next epoch may continue to read."""
    FINISHED = "FINISHED"
    """Its input has ended, and all results are emitted and committed."""
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgementMetrics:
    """An acknowledgement's figures for the statistics; sizes in bytes, durations in seconds.

    `checkpointed_size` was written for this checkpoint; `state_size` is everything that it refers to. `sync_duration`
    is the time under the emission lock and for the hold of the files, `async_duration` that of the upload.
    `start_delay` lasts from the trigger to the first barrier, `alignment_duration` from there to the cut.
    `persisted_data` is the in-flight data in the checkpoint, `processed_data` the data processed during the alignment.
    `unaligned` means that the cut did not wait for all barriers.
    """

    checkpointed_size: int = 0
    state_size: int = 0
    sync_duration: float = 0.0
    async_duration: float = 0.0
    alignment_duration: float = 0.0
    start_delay: float = 0.0
    processed_data: int = 0
    persisted_data: int = 0
    unaligned: bool = False
    objects: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainAcknowledgement:
    """A chain's part of a snapshot, completely stored: its part of the manifest, and its figures.

    `channels` are those that the chain reads.
    """

    state: ChainState
    channels: tuple[ChannelState, ...] = ()
    operators: tuple[OperatorState, ...] = ()
    sources: tuple[SourceState, ...] = ()
    sinks: tuple[SinkState, ...] = ()
    metrics: AcknowledgementMetrics = field(default_factory=AcknowledgementMetrics)

    @property
    def chain(self) -> ChainUid:
        """The chain that acknowledges."""
        return self.state.uid


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened at `now`."""

    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick(Event):
    """Time has passed; sent when the last WakeAt requests it, harmless at any other time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerRequested(Event):
    """A request for a checkpoint or savepoint. A request with the same id is the same request; see `Request`."""

    trigger_id: TriggerId
    kind: SnapshotKind
    location: str | None = None
    unaligned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested(Event):
    """A request to stop the job with a savepoint, otherwise with a last checkpoint; `drain` drains it first."""

    trigger_id: TriggerId
    savepoint: bool = False
    location: str | None = None
    drain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRequested(Event):
    """The runtime needs another epoch, for instance to move state: end this one behind a checkpoint.

    If that checkpoint fails, it is tried again. The request is forgotten if the job stops or finishes.
    """

    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainAcknowledged(Event):
    """A chain's cut is committed in Spark and all its files are in the store."""

    id: CheckpointId
    acknowledgement: ChainAcknowledgement


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainDeclined(Event):
    """A chain cannot take part in a checkpoint."""

    id: CheckpointId
    chain: ChainUid
    reason: AbortReason = AbortReason.DECLINED
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionSucceeded(Event):
    """The log names the checkpoint; `uri` is its manifest's."""

    id: CheckpointId
    uri: str


class CompletionFailure(StrEnum):
    """The known outcome of a completion that did not succeed."""

    NOT_WRITTEN = "NOT_WRITTEN"
    """The log does not name the checkpoint and never will."""
    UNKNOWN = "UNKNOWN"
    """The log may name it now or later."""
    SUPERSEDED = "SUPERSEDED"
    """The log holds another owner's claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionFailed(Event):
    """The completion of a checkpoint did not succeed."""

    id: CheckpointId
    failure: CompletionFailure
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputCommitted(Event):
    """All sinks have committed the checkpoint's committables."""

    id: CheckpointId


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFailed(Event):
    """A sink could not commit; the epoch ends, and the next one commits again."""

    id: CheckpointId
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChanged(Event):
    """The policy has changed; its timeout also applies to a checkpoint under way."""

    policy: LiveCheckpointingPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicHeld(Event):
    """Periodic checkpoints are not wanted for now, or are wanted again."""

    held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainStateChanged(Event):
    """A chain has changed its life-cycle state."""

    chain: ChainUid
    status: ChainStatus
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipLost(Event):
    """The log holds another owner's claim, as noticed outside a completion."""

    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnded(Event):
    """The runtime ends the epoch for its own reasons, or has ended it on request: no more events follow."""

    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCheckpoint:
    """Cut every chain, upload missing files, and acknowledge or decline; `triggered` is the trigger's time."""

    id: CheckpointId
    properties: CheckpointProperties
    triggered: float
    chains: tuple[ChainUid, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchToUnaligned:
    """Switch to unaligned: cut the chains that still wait for barriers where they are; the others keep their cuts."""

    id: CheckpointId


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortCheckpoint:
    """Forget the cut; its committables go into the next one. With `keep_files`, delete none of its files."""

    id: CheckpointId
    reason: AbortReason
    message: str = ""
    keep_files: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteCheckpoint:
    """Write the manifest, then the log record, and report CompletionSucceeded or CompletionFailed."""

    id: CheckpointId
    properties: CheckpointProperties
    triggered: float
    acknowledgements: Mapping[ChainUid, ChainAcknowledgement]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOutput:
    """Commit the checkpoint's committables in every sink, and report OutputCommitted or CommitFailed."""

    id: CheckpointId


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainSources:
    """Let every source end as if its input had ended; chains report DRAINED or FINISHED once flushed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeAt:
    """Send a Tick at `time`, which replaces earlier requests; None for no Tick at all."""

    time: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailJob:
    """End the epoch: the job restarts from its last completed checkpoint, as far as its restart strategy allows."""

    reason: AbortReason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartJob:
    """End the epoch behind a committed checkpoint: the next one continues from it at once. No work is lost."""

    message: str


class JobEnd(StrEnum):
    """The ways in which a job ends for good."""

    FINISHED = "FINISHED"
    STOPPED = "STOPPED"
    SUPERSEDED = "SUPERSEDED"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndJob:
    """End the epoch, and this process's work for the job; nothing is restarted."""

    end: JobEnd
    message: str = ""


Action = (
    StartCheckpoint
    | SwitchToUnaligned
    | AbortCheckpoint
    | CompleteCheckpoint
    | CommitOutput
    | DrainSources
    | WakeAt
    | FailJob
    | RestartJob
    | EndJob
)
