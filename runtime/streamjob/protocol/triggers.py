"""Requests to the coordinator: policies, kinds of snapshots, and the queue.

A request is known by its trigger id: the same id asked twice is one request with one outcome, however often the caller
had to repeat it. Queued requests go savepoints first, then checkpoints, older before younger (Flink's
CheckpointRequestDecider). Periodic checkpoints are not requests: the coordinator's clock makes them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from streamjob.ids import CheckpointId, TriggerId


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPolicy:
    """When and how checkpoints are taken; may be changed while the job runs.

    Args:
        interval: seconds between the starts of periodic checkpoints; None for none.
        timeout: seconds from the trigger until all chains must have acknowledged.
        min_pause: seconds from the last completion to the next periodic trigger, at least.
        tolerable_failures: failures in a row that the job survives.
        mode: `aligned` or `unaligned` barriers; savepoints are always aligned.
        aligned_timeout: seconds from the trigger after which an aligned checkpoint switches to unaligned; None for
        never.

    Raises:
        ValueError: an argument is outside its range.
    """

    interval: float | None = 10.0
    timeout: float = 600.0
    min_pause: float = 0.0
    tolerable_failures: int = 10
    mode: Literal["aligned", "unaligned"] = "aligned"
    aligned_timeout: float | None = None

    def __post_init__(self) -> None:
        if self.interval is not None and self.interval <= 0:
            raise ValueError(f"interval is {self.interval} s; it must be above 0, or None for no periodic checkpoints")
        if self.timeout <= 0:
            raise ValueError(f"timeout is {self.timeout} s; it must be above 0")
        if self.min_pause < 0:
            raise ValueError(f"min_pause is {self.min_pause} s; it must not be negative")
        if self.tolerable_failures < 0:
            raise ValueError(f"tolerable_failures is {self.tolerable_failures}; it must not be negative")
        if self.aligned_timeout is not None and self.aligned_timeout < 0:
            raise ValueError(f"aligned_timeout is {self.aligned_timeout} s; it must not be negative")


class SnapshotKind(StrEnum):
    """Kinds of snapshots, named as in manifests and log records."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"
    FINAL = "final"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointProperties:
    """The properties in which snapshots differ; the code that takes them is the same.

    `location` is where a savepoint goes (None: the job's own place). `stopping` seals publication behind the cut, and
    the job ends once the snapshot is published. `drained` says that all input was flushed as if it had ended.
    `aligned_timeout` is in seconds from the trigger.
    """

    kind: SnapshotKind
    periodic: bool = False
    location: str | None = None
    stopping: bool = False
    drained: bool = False
    unaligned: bool = False
    aligned_timeout: float | None = None

    @property
    def is_savepoint(self) -> bool:
        """Whether a user owns the snapshot."""
        return self.kind is SnapshotKind.SAVEPOINT

    @property
    def failure_counts(self) -> bool:
        """Whether its failure counts as one of the job's tolerable failures: a savepoint's never does."""
        return not self.is_savepoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A requested snapshot."""

    trigger_id: TriggerId
    kind: SnapshotKind
    location: str | None = None


class TriggerState(StrEnum):
    """How far a request has come."""

    QUEUED = "QUEUED"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerOutcome:
    """How a request ended.

    Completed: `checkpoint` is the snapshot, `uri` its manifest. A stop without savepoint is completed also if its last
    checkpoint failed; `failure` then says why, and there is no snapshot. Failed: `failure` says why.
    """

    state: Literal[TriggerState.COMPLETED, TriggerState.FAILED]
    checkpoint: CheckpointId | None = None
    uri: str | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class TriggerStatus:
    """The status of a request in the control API."""

    trigger_id: TriggerId
    state: TriggerState
    outcome: TriggerOutcome | None = None


class Triggers:
    """The queue of requests and the memory of their outcomes; outlives the epochs of a process.

    Args:
        capacity: requests that may wait at once; one more is refused.
        remembered: resolved requests whose outcome is kept.
    """

    def __init__(self, *, capacity: int = 1000, remembered: int = 1000) -> None:
        self._capacity = capacity
        self._remembered = remembered
        self._queue: list[Request] = []
        self._statuses: OrderedDict[TriggerId, TriggerStatus] = OrderedDict()

    def status(self, trigger_id: TriggerId) -> TriggerStatus | None:
        """Return how far a request has come, or None if it is unknown or long forgotten."""
        return self._statuses.get(trigger_id)

    def queued(self) -> tuple[Request, ...]:
        """Return the waiting requests, first to be served first."""
        return tuple(self._queue)

    @property
    def full(self) -> bool:
        """Whether another request would be one too many."""
        return len(self._queue) >= self._capacity

    def enqueue(self, request: Request) -> None:
        """Let a new request wait for its turn. Raises ValueError if its trigger id is known already."""
        self.accept(request.trigger_id, TriggerState.QUEUED)
        self._queue.append(request)
        self._queue.sort(key=lambda queued: queued.kind is not SnapshotKind.SAVEPOINT)

    def accept(self, trigger_id: TriggerId, state: TriggerState = TriggerState.IN_PROGRESS) -> None:
        """Remember a new request that does not wait in the queue. Raises ValueError if its trigger id is known."""
        if trigger_id in self._statuses:
            raise ValueError(f"trigger {trigger_id} is known already")
        self._statuses[trigger_id] = TriggerStatus(trigger_id, state)

    def take(self) -> Request | None:
        """Return the request to be served next and take it from the queue; None if none waits."""
        if not self._queue:
            return None
        request = self._queue.pop(0)
        self._statuses[request.trigger_id] = TriggerStatus(request.trigger_id, TriggerState.IN_PROGRESS)
        return request

    def resolve(self, trigger_id: TriggerId, outcome: TriggerOutcome) -> None:
        """Remember how a request ended, and forget the oldest of those that ended before."""
        self._queue = [queued for queued in self._queue if queued.trigger_id != trigger_id]
        self._statuses[trigger_id] = TriggerStatus(trigger_id, outcome.state, outcome)
        self._statuses.move_to_end(trigger_id)
        self._forget(status.trigger_id for status in list(self._statuses.values()) if status.outcome is not None)

    def _forget(self, resolved: Iterable[TriggerId]) -> None:
        oldest_first = list(resolved)
        for trigger_id in oldest_first[: max(0, len(oldest_first) - self._remembered)]:
            del self._statuses[trigger_id]
