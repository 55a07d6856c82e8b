"""A coordinator with a clock, and what its actions say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from streamjob.checkpointing_policy import LiveCheckpointingPolicy
from streamjob.ids import BatchId, ChainUid, CheckpointId, TriggerId
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.coordinator import Coordinator
from streamjob.protocol.coordination.failures import AbortReason
from streamjob.protocol.coordination.statistics import StatisticsTracker
from streamjob.protocol.coordination.triggers import SnapshotKind, Triggers, TriggerState, TriggerStatus
from streamjob.snapshot.manifest import ChainState

A = TypeVar("A", bound=m.Action)


@dataclass(frozen=True)
class Resolved:
    """The answer that the caller of a request can read since the last event, or again because it has asked again."""

    trigger_id: TriggerId
    outcome: TriggerStatus


Said: TypeAlias = m.Action | Resolved


class Driver:
    """A coordinator with a clock; every method hands in one event and returns the outcomes and the actions."""

    def __init__(
        self,
        policy: LiveCheckpointingPolicy | None = None,
        chains: Sequence[str] = ("a",),
        highest_id: int = 0,
        running: bool = True,
        triggers: Triggers | None = None,
    ) -> None:
        self.now = 0.0
        self.statistics = StatisticsTracker()
        self.triggers = triggers or Triggers()
        self._asked: set[TriggerId] = set()
        """Requests whose outcome nobody has read yet."""
        self.chains = [ChainUid(chain) for chain in chains]
        self.coordinator = Coordinator(
            chains=self.chains,
            policy=policy or LiveCheckpointingPolicy(interval=None),
            highest_id=CheckpointId(highest_id),
            triggers=self.triggers,
            statistics=self.statistics,
        )
        if running:
            self.all_chains(m.ChainStatus.RUNNING)

    def send(self, event: m.Event) -> list[Said]:
        if isinstance(event, m.TriggerRequested | m.StopRequested):
            self._asked.add(event.trigger_id)
        actions = self.coordinator.handle(event)
        read = [(each, self.triggers.status(each)) for each in sorted(self._asked)]
        outcomes = [Resolved(each, status) for each, status in read if status is not None and status.state.resolved]
        self._asked.difference_update(each.trigger_id for each in outcomes)
        return [*outcomes, *actions]

    def all_chains(self, status: m.ChainStatus) -> list[Said]:
        actions: list[Said] = []
        for chain in self.chains:
            actions += self.send(m.ChainStateChanged(now=self.now, chain=chain, status=status))
        return actions

    def at(self, now: float) -> list[Said]:
        self.now = now
        return self.send(m.Tick(now=now))

    def trigger(self, trigger_id: str, kind: SnapshotKind = SnapshotKind.CHECKPOINT) -> list[Said]:
        assert kind is not SnapshotKind.FINAL
        return self.send(m.TriggerRequested(now=self.now, trigger_id=TriggerId(trigger_id), kind=kind))

    def savepoint(self, trigger_id: str) -> list[Said]:
        return self.trigger(trigger_id, SnapshotKind.SAVEPOINT)

    def stop(self, trigger_id: str, *, savepoint: bool = False, drain: bool = False) -> list[Said]:
        trigger = TriggerId(trigger_id)
        return self.send(m.StopRequested(now=self.now, trigger_id=trigger, savepoint=savepoint, drain=drain))

    def acknowledge(self, checkpoint: int, chain: str = "a") -> list[Said]:
        state = ChainState(uid=ChainUid(chain), operators=(), batch=BatchId(0))
        acknowledgement = m.ChainAcknowledgement(state=state)
        return self.send(
            m.ChainAcknowledged(now=self.now, id=CheckpointId(checkpoint), acknowledgement=acknowledgement)
        )

    def decline(self, checkpoint: int, reason: AbortReason = AbortReason.DECLINED, chain: str = "a") -> list[Said]:
        return self.send(
            m.ChainDeclined(now=self.now, id=CheckpointId(checkpoint), chain=ChainUid(chain), reason=reason)
        )

    def stored(self, checkpoint: int) -> list[Said]:
        return self.send(m.CompletionSucceeded(now=self.now, id=CheckpointId(checkpoint), uri=f"uri-{checkpoint}"))

    def not_stored(self, checkpoint: int, failure: m.CompletionFailure = m.CompletionFailure.NOT_WRITTEN) -> list[Said]:
        return self.send(m.CompletionFailed(now=self.now, id=CheckpointId(checkpoint), failure=failure, message="no"))

    def committed(self, checkpoint: int) -> list[Said]:
        return self.send(m.OutputCommitted(now=self.now, id=CheckpointId(checkpoint)))

    def completed(self, checkpoint: int) -> list[Said]:
        actions: list[Said] = []
        for chain in self.chains:
            actions += self.acknowledge(checkpoint, chain)
        return actions + self.stored(checkpoint) + self.committed(checkpoint)

    def fail_chain(self, chain: str = "a") -> list[Said]:
        status = m.ChainStatus.FAILED
        return self.send(m.ChainStateChanged(now=self.now, chain=ChainUid(chain), status=status, message="boom"))

    def counts(self) -> tuple[int, int, int]:
        counts = self.statistics.overview().counts
        return counts.in_progress, counts.completed, counts.failed


def of(kind: type[A], actions: Sequence[Said]) -> list[A]:
    return [action for action in actions if isinstance(action, kind)]


def started(actions: Sequence[Said]) -> list[int]:
    return [action.id for action in of(m.StartCheckpoint, actions)]


def aborted(actions: Sequence[Said]) -> list[tuple[int, AbortReason]]:
    return [(action.id, action.reason) for action in of(m.AbortCheckpoint, actions)]


def resolved(actions: Sequence[Said]) -> dict[str, TriggerState]:
    return {each.trigger_id: each.outcome.state for each in actions if isinstance(each, Resolved)}


def outcome(actions: Sequence[Said], trigger_id: str) -> TriggerStatus:
    (found,) = [each.outcome for each in actions if isinstance(each, Resolved) and each.trigger_id == trigger_id]
    return found


def wishes(actions: Sequence[Said]) -> list[float | None]:
    return [action.time for action in of(m.WakeAt, actions)]
