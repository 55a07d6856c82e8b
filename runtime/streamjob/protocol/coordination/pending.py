"""The checkpoint under way: from its trigger, through its chains' acknowledgements, to its commit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from streamjob.ids import ChainUid, CheckpointId, TriggerId
from streamjob.protocol.coordination.messages import ChainAcknowledgement, CompleteCheckpoint, StartCheckpoint
from streamjob.protocol.coordination.triggers import CheckpointProperties, SnapshotKind


class Phase(Enum):
    """The phase of a checkpoint; it can be declined, expire or be aborted only in the first."""

    COLLECTING = auto()
    """Chains acknowledge."""
    COMPLETING = auto()
    """The log record is being written: only the store knows the outcome."""
    COMMITTING = auto()
    """The log names it; the sinks commit."""


@dataclass
class PendingCheckpoint:
    """A checkpoint that has started and is not committed yet; `triggered` is in seconds since 1970.

    `restarting`: the epoch ends behind it, and the job goes on.
    """

    id: CheckpointId
    properties: CheckpointProperties
    triggered: float
    trigger_ids: tuple[TriggerId, ...]
    phase: Phase = Phase.COLLECTING
    uri: str | None = None
    switched: bool = False
    restarting: bool = False
    acknowledgements: dict[ChainUid, ChainAcknowledgement] = field(default_factory=dict)

    @property
    def final(self) -> bool:
        """Whether it ends the job because all work is done."""
        return self.properties.kind is SnapshotKind.FINAL

    @property
    def gives_way(self) -> bool:
        """Whether a stop may abort this checkpoint: it was periodic."""
        return self.phase is Phase.COLLECTING and (self.properties.periodic or self.restarting)

    def expires(self, timeout: float) -> float | None:
        """Return when it expires, None if it no longer can; a record that is being written cannot be taken back."""
        return self.triggered + timeout if self.phase is Phase.COLLECTING else None

    def switches(self) -> float | None:
        """Return when it switches to unaligned unless all chains have acknowledged before; None for never."""
        timeout = self.properties.aligned_timeout
        may_switch = self.phase is Phase.COLLECTING and not self.switched and not self.properties.unaligned
        return self.triggered + timeout if may_switch and timeout is not None else None

    def missing(self, chains: Iterable[ChainUid]) -> tuple[ChainUid, ...]:
        """Return the chains that have not acknowledged yet."""
        return tuple(chain for chain in chains if chain not in self.acknowledgements)

    def start(self, chains: Iterable[ChainUid]) -> StartCheckpoint:
        """Return the action that starts it."""
        return StartCheckpoint(id=self.id, properties=self.properties, triggered=self.triggered, chains=tuple(chains))

    def completion(self) -> CompleteCheckpoint:
        """Return the action that completes it."""
        return CompleteCheckpoint(
            id=self.id,
            properties=self.properties,
            triggered=self.triggered,
            acknowledgements=dict(self.acknowledgements),
        )
