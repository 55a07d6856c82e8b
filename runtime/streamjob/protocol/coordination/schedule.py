"""Decides what starts next: the ready chains, the due checkpoints, and the order of requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from streamjob.checkpointing_policy import LiveCheckpointingPolicy
from streamjob.ids import ChainUid
from streamjob.protocol.coordination.messages import ChainStatus
from streamjob.protocol.coordination.triggers import CheckpointProperties, SnapshotKind

_READY = frozenset({ChainStatus.RUNNING, ChainStatus.DRAINED, ChainStatus.FINISHED})
_DRAINED = frozenset({ChainStatus.DRAINED, ChainStatus.FINISHED})
_FINISHED = frozenset({ChainStatus.FINISHED})
_RETRY = 10.0


class Chains:
    """The life-cycle state of each chain of the job; all begin STARTING."""

    def __init__(self, chains: Iterable[ChainUid]) -> None:
        self._statuses = dict.fromkeys(chains, ChainStatus.STARTING)

    def __iter__(self) -> Iterator[ChainUid]:
        return iter(self._statuses)

    def __len__(self) -> int:
        return len(self._statuses)

    def __contains__(self, chain: object) -> bool:
        return chain in self._statuses

    def put(self, chain: ChainUid, status: ChainStatus) -> None:
        """Note a chain's status. Raises KeyError if the job has no such chain."""
        if chain not in self._statuses:
            raise KeyError(f"the job has no chain {chain}")
        self._statuses[chain] = status

    @property
    def ready(self) -> bool:
        """Whether every chain can be cut."""
        return self._all(_READY)

    @property
    def drained(self) -> bool:
        """Whether every chain has been flushed."""
        return self._all(_DRAINED)

    @property
    def finished(self) -> bool:
        """Whether the input of every chain has ended and been processed."""
        return self._all(_FINISHED)

    def why_not_ready(self) -> str:
        """Return the chains that cannot be cut, in words."""
        return ", ".join(
            f"chain {chain} is {status}" for chain, status in self._statuses.items() if status not in _READY
        )

    def _all(self, statuses: frozenset[ChainStatus]) -> bool:
        return all(status in statuses for status in self._statuses.values())


class Schedule:
    """Decides when the coordinator starts checkpoints by itself; times in seconds.

    An overdue periodic checkpoint is neither lost nor repeated: it starts as soon as possible. The interval counts from
    the last periodic start, the minimum pause from the last completion of any kind.
    """

    def __init__(self, policy: LiveCheckpointingPolicy) -> None:
        self.policy = policy
        self.held = False
        """Whether no periodic checkpoint is wanted."""
        self._base: float | None = None
        self._last_completion: float | None = None
        self._final_due = float("-inf")
        self._restart_due = float("-inf")

    def ready(self, now: float) -> None:
        """All chains are ready: the first interval begins, unless it has begun before."""
        if self._base is None:
            self._base = now

    def started_periodic(self, now: float) -> None:
        """A periodic checkpoint has started or was refused: the next interval begins."""
        self._base = now

    def completed(self, now: float) -> None:
        """A checkpoint has completed: the minimum pause begins."""
        self._last_completion = now

    def final_failed(self, now: float) -> None:
        """The final checkpoint has failed: it is tried again after an interval."""
        self._final_due = now + (self.policy.interval or _RETRY)

    def restart_failed(self, now: float) -> None:
        """The checkpoint of a planned restart has failed: it is tried again after an interval."""
        self._restart_due = now + (self.policy.interval or _RETRY)

    def next_restart(self, chains: Chains) -> float | None:
        """Return when the checkpoint of a planned restart may start; None while no restart is possible."""
        return self._restart_due if chains.ready and not chains.finished else None

    def next_start(self, chains: Chains) -> float | None:
        """Return when the final checkpoint, otherwise the next periodic one, is due; None for never."""
        if chains.finished:
            return self._final_due
        if self.held or self.policy.interval is None or self._base is None:
            return None
        due = self._base + self.policy.interval
        return due if self._last_completion is None else max(due, self._last_completion + self.policy.min_pause)

    def due(self, now: float, chains: Chains) -> CheckpointProperties | None:
        """Return the checkpoint that must start by itself now, if any."""
        due = self.next_start(chains)
        if due is None or now < due:
            return None
        if chains.finished:
            return self.properties(SnapshotKind.FINAL)
        return self.properties(SnapshotKind.CHECKPOINT, periodic=True)

    def properties(
        self,
        kind: SnapshotKind,
        *,
        periodic: bool = False,
        location: str | None = None,
        stopping: bool = False,
        drained: bool = False,
        unaligned: bool = False,
    ) -> CheckpointProperties:
        """Return the properties of a snapshot under the policy; only plain checkpoints may be unaligned.

        A checkpoint that would switch immediately at its trigger is unaligned from the start.
        """
        policy = self.policy
        aligned_timeout = policy.aligned_checkpoint_timeout
        at_once = unaligned or policy.mode == "unaligned" or aligned_timeout == 0
        unaligned = kind is SnapshotKind.CHECKPOINT and at_once
        may_switch = kind is SnapshotKind.CHECKPOINT and not unaligned
        return CheckpointProperties(
            kind=kind,
            periodic=periodic,
            location=location,
            stopping=stopping,
            drained=drained,
            unaligned=unaligned,
            aligned_timeout=aligned_timeout if may_switch else None,
        )
