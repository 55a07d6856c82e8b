"""Requests to the coordinator: kinds of snapshots, and the queue.

A request is identified by its trigger id: repeated requests with the same id are one request with one outcome. Queued
savepoints are served first, then checkpoints, older before younger (Flink's CheckpointRequestDecider). Periodic
checkpoints are not requests; the coordinator's clock starts them.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum

from streamjob.ids import CheckpointId, TriggerId

_REMEMBERED = 1000
"""Number of resolved requests whose outcome is remembered."""


class SnapshotKind(StrEnum):
    """Kinds of snapshots, named as in manifests and log records."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"
    FINAL = "final"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointProperties:
    """The properties in which snapshots differ; the same code takes all of them.

    `location` is the place for a savepoint (None for the job's own). `stopping` seals emission after the cut, and
    the job ends once the snapshot is committed. `drained` means that all input was flushed as if it had ended.
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
        """Whether its failure counts as one of the job's tolerable failures; a savepoint's never does."""
        return not self.is_savepoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A requested snapshot; `unaligned` cuts all chains at once, whatever the policy says."""

    trigger_id: TriggerId
    kind: SnapshotKind
    location: str | None = None
    unaligned: bool = False


class TriggerState(StrEnum):
    """The state of a request."""

    QUEUED = "QUEUED"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"

    @property
    def resolved(self) -> bool:
        """Whether the request has its outcome."""
        return self in (TriggerState.COMPLETED, TriggerState.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerStatus:
    """The status of a request, and its outcome once it is resolved.

    Completed: `checkpoint` is the snapshot, `uri` its manifest. A stop without savepoint also completes if its last
    checkpoint failed; then there is no snapshot, and `failure` has the reason. Failed: `failure` has the reason.
    """

    state: TriggerState
    checkpoint: CheckpointId | None = None
    uri: str | None = None
    failure: str | None = None


class Triggers:
    """The queue of requests and the memory of their outcomes; outlives the epochs of a process.

    Args:
        capacity: maximum number of queued requests; further ones are refused.
    """

    def __init__(self, *, capacity: int = 1000) -> None:
        self._capacity = capacity
        self._queue: list[Request] = []
        self._statuses: OrderedDict[TriggerId, TriggerStatus] = OrderedDict()

    def status(self, trigger_id: TriggerId) -> TriggerStatus | None:
        """Return the state of a request; None if it is unknown or forgotten."""
        return self._statuses.get(trigger_id)

    def queued(self) -> tuple[Request, ...]:
        """Return the queued requests in the order of service."""
        return tuple(self._queue)

    @property
    def full(self) -> bool:
        """Whether the queue is full."""
        return len(self._queue) >= self._capacity

    def enqueue(self, request: Request) -> None:
        """Queue a new request. Raises ValueError if its trigger id is known already."""
        self.accept(request.trigger_id, TriggerState.QUEUED)
        self._queue.append(request)
        self._queue.sort(key=lambda queued: queued.kind is not SnapshotKind.SAVEPOINT)

    def accept(self, trigger_id: TriggerId, state: TriggerState = TriggerState.IN_PROGRESS) -> None:
        """Remember a new request without queueing it. Raises ValueError if its trigger id is known."""
        if trigger_id in self._statuses:
            raise ValueError(f"trigger {trigger_id} is known already")
        self._statuses[trigger_id] = TriggerStatus(state=state)

    def take(self) -> Request | None:
        """Remove the next request from the queue and return it; None if the queue is empty."""
        if not self._queue:
            return None
        request = self._queue.pop(0)
        self._statuses[request.trigger_id] = TriggerStatus(state=TriggerState.IN_PROGRESS)
        return request

    def resolve(self, trigger_id: TriggerId, outcome: TriggerStatus) -> None:
        """Remember the outcome of a request, and forget the oldest outcomes."""
        self._queue = [queued for queued in self._queue if queued.trigger_id != trigger_id]
        self._statuses[trigger_id] = outcome
        self._statuses.move_to_end(trigger_id)
        oldest_first = [each for each, status in self._statuses.items() if status.state.resolved]
        for forgotten in oldest_first[: max(0, len(oldest_first) - _REMEMBERED)]:
            del self._statuses[forgotten]
