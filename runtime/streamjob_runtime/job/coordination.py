"""The coordinator of a job, and the job's state across its epochs: everything that the state lock guards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from streamjob.clock import Clock
from streamjob.comparison.compatibility import Restored
from streamjob.ids import ChainUid, CheckpointId, Epoch, TriggerId
from streamjob.job.model.spec import CheckpointingPolicy
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.coordinator import Coordinator
from streamjob.protocol.coordination.requests import must_succeed
from streamjob.protocol.coordination.statistics import (
    CheckpointingStatistics,
    CheckpointStatistics,
    Latest,
    StatisticsTracker,
)
from streamjob.protocol.coordination.triggers import Triggers, TriggerState, TriggerStatus
from streamjob.protocol.lifecycle import TRANSITIONS, JobState, Lifecycle
from streamjob.snapshot.manifest import Manifest
from streamjob_runtime.checkpointing.ledger import Ledger

_HOUR = 3600.0

OnCompleted = Callable[[m.CompleteCheckpoint, Manifest], None]
OnHandled = Callable[[Epoch, m.Event, Sequence[m.Action]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """A job at one moment.

    Args:
        lifecycle: its state, since when, and its restarts.
        failure: its last failure; None if it has never failed.
        policy: the checkpointing policy in force.
        epoch: the epoch of its claim; None before the first.
        finished: whether its log has the final record.
        checkpoints: counts, summary, the latest of each kind, and the history.
        last: the newest completed snapshot of this process, with its tasks if the history has it; None if there is
            none.
        starts: how often it has started in the last hour, see `Claim.starts_since`; None before the first claim.
        requests: the status of those requests that the coordinator knows.
    """

    lifecycle: Lifecycle
    failure: str | None
    policy: CheckpointingPolicy
    epoch: Epoch | None
    finished: bool
    checkpoints: CheckpointingStatistics
    last: CheckpointStatistics | None
    starts: int | None = None
    requests: Mapping[TriggerId, TriggerStatus] = field(default_factory=dict)


class Coordination:
    """Coordinates the checkpoints of a job from epoch to epoch; any thread may call it.

    An epoch calls `begin`, lets the coordinator `handle` its events, and calls `end`. Requests reach the running epoch
    by `post` and `stop`.

    Args:
        clock: seconds since 1970.
    """

    def __init__(self, chains: Sequence[ChainUid], policy: CheckpointingPolicy, clock: Clock) -> None:
        self._chains = tuple(chains)
        self.policy = policy
        """The checkpointing policy in force."""
        self._clock = clock
        self._lock = threading.RLock()
        self.lifecycle = Lifecycle.created(clock())
        """The job's state, the time of its last change, and the number of restarts."""
        self._failure: str | None = None
        self._statistics = StatisticsTracker()
        self._triggers = Triggers()
        self._ledger: Ledger | None = None
        self._coordinator: Coordinator | None = None
        self._deliver: Callable[[m.Event], None] | None = None
        self._stop: m.StopRequested | None = None
        self._stop_ids: list[TriggerId] = []
        self._stop_asked = threading.Event()
        self.stop_completed = False
        """Whether the job was stopped with the log's newest completion, so that only its commit is left."""
        self.has_run = False
        """Whether an epoch of this process was ready to run."""
        self.on_completed: OnCompleted = lambda action, manifest: None
        """Hears of each completed checkpoint, on another thread."""
        self.on_handled: OnHandled | None = None
        """Hears of each handled event with its actions, under the state lock."""

    def status(self, requests: Collection[TriggerId] = ()) -> JobStatus:
        """Return the status of the job and of some requests, all of the same moment."""
        with self._lock:
            # Before the checkpoints: the log has its final record before the coordinator knows it.
            finished = self._ledger is not None and self._ledger.log.claim.finished
            checkpoints = self._statistics.overview()
            known = {each: self._triggers.status(each) for each in requests}
            return JobStatus(
                lifecycle=self.lifecycle,
                failure=self._failure,
                policy=self.policy,
                epoch=None if self._ledger is None else self._ledger.epoch,
                finished=finished,
                checkpoints=checkpoints,
                last=self._newest(checkpoints.latest),
                starts=None if self._ledger is None else self._ledger.log.claim.starts_since(self._clock() - _HOUR),
                requests={each: status for each, status in known.items() if status is not None},
            )

    def _newest(self, latest: Latest) -> CheckpointStatistics | None:
        newest = max(filter(None, (latest.completed, latest.savepoint)), key=lambda each: each.id, default=None)
        if newest is None:
            return None
        details = self._statistics.details(CheckpointId(newest.id))
        return newest if details is None or details.class_name != "completed" else details

    def checkpoint(self, checkpoint: CheckpointId) -> CheckpointStatistics | None:
        """Return one checkpoint with its tasks, or None if it is not in the history."""
        with self._lock:
            return self._statistics.details(checkpoint)

    def request(self, trigger_id: TriggerId) -> TriggerStatus | None:
        """Return the status of a request, or None if the coordinator does not know it."""
        with self._lock:
            return self._triggers.status(trigger_id)

    def post(self, event: m.Event) -> bool:
        """Pass an event to the running epoch; return False if there is none."""
        with self._lock:
            if self._deliver is None:
                return False
            self._deliver(event)
            return True

    def stop(self, request: m.StopRequested) -> bool:
        """Stop the job; return False if a savepoint is requested and no epoch runs that could take it.

        Without a savepoint the job stops with a last checkpoint; if none can be taken, as between restarts, it stops at
        once.
        """
        with self._lock:
            if must_succeed(request):
                return self.post(request)
            self._stop = request
            self._stop_ids.append(request.trigger_id)
            self._stop_asked.set()
            self.post(request)
            return True

    def stop_now(self, trigger_id: TriggerId) -> None:
        """Request a plain stop."""
        self.stop(m.StopRequested(now=self._clock(), trigger_id=trigger_id))

    def change_policy(self, policy: CheckpointingPolicy) -> None:
        """Put another checkpointing policy in force."""
        with self._lock:
            self.policy = policy
            if self._ledger is not None:
                self._ledger.num_retained = policy.num_retained
            self.post(m.PolicyChanged(now=self._clock(), policy=policy))

    def claimed(self, ledger: Ledger) -> None:
        """Record the claim of the starting epoch."""
        with self._lock:
            self._ledger, self._deliver = ledger, None

    def enter(self, state: JobState, *, planned: bool = False) -> None:
        """Enter a state; a planned restart is not counted. Raises IllegalTransition."""
        with self._lock:
            self.lifecycle = self.lifecycle.enter(state, self._clock(), planned=planned)

    def enter_if_possible(self, state: JobState) -> None:
        """Enter a state if it can follow the current one."""
        with self._lock:
            if state in TRANSITIONS[self.lifecycle.state]:
                self.enter(state)

    def failed(self, message: str) -> None:
        """Record the job's last failure."""
        with self._lock:
            self._failure = message

    def end(self, state: JobState, message: str | None) -> None:
        """Enter the job's last state; a message gives the reason if it is unexpected."""
        with self._lock:
            if message is not None:
                self._failure = message
            self.enter(state)

    @property
    def stop_asked(self) -> bool:
        """Whether a stop was requested that must end the job, with or without a last checkpoint."""
        return self._stop_asked.is_set()

    def wait_for_stop(self, seconds: float) -> bool:
        """Wait between two epochs; return whether a stop was requested meanwhile."""
        return self._stop_asked.wait(seconds)

    def resolve_stops(self, message: str) -> None:
        """Resolve stop requests that came while no epoch ran: the job stopped without a last checkpoint."""
        with self._lock:
            for trigger_id in self._stop_ids:
                status = self._triggers.status(trigger_id)
                if status is None or not status.state.resolved:
                    self._triggers.resolve(trigger_id, TriggerStatus(state=TriggerState.COMPLETED, failure=message))

    def restored(self, restored: Restored | None) -> None:
        """Record that an epoch is ready to run, and the snapshot that it was restored from."""
        with self._lock:
            self.has_run = True
            if restored is not None:
                self._statistics.restored(
                    restored.manifest.id,
                    self._clock(),
                    is_savepoint=restored.manifest.kind == "savepoint",
                    uri=restored.uri,
                )

    def begin(self, last_id: CheckpointId, deliver: Callable[[m.Event], None]) -> None:
        """Create the coordinator of an epoch.

        Args:
            last_id: the last used id; ids of its checkpoints are higher.
            deliver: queues an event for the epoch, which lets the coordinator handle it.
        """
        with self._lock:
            before = CheckpointId(0) if self._coordinator is None else self._coordinator.last_id
            self._coordinator = Coordinator(
                chains=self._chains,
                policy=self.policy,
                highest_id=max(last_id, before),
                triggers=self._triggers,
                statistics=self._statistics,
            )
            self._deliver = deliver
            if self._stop is not None:
                deliver(self._stop)

    def handle(self, event: m.Event) -> Sequence[m.Action]:
        """Pass an event to the coordinator; return the actions."""
        assert self._coordinator is not None
        with self._lock:
            return self._handle(self._coordinator, event)

    def _handle(self, coordinator: Coordinator, event: m.Event) -> Sequence[m.Action]:
        actions = coordinator.handle(event)
        if self.on_handled is not None and self._ledger is not None:
            self.on_handled(self._ledger.epoch, event, actions)
        return actions

    def is_stopping(self) -> bool | None:
        """Return whether the coordinator is stopping the job; None once it has ended the epoch."""
        assert self._coordinator is not None
        return None if self._coordinator.ended else self._coordinator.stopping

    def is_draining(self) -> bool:
        """Return whether a stop waits until the chains are drained."""
        assert self._coordinator is not None
        return not self._coordinator.ended and self._coordinator.draining

    def end_epoch(self, rest: Iterable[m.Event]) -> None:
        """End an epoch: it receives no more events.

        Args:
            rest: returns the events that are still queued, such as the outcome of a completion; called under the state
                lock.
        """
        assert self._coordinator is not None
        with self._lock:
            for event in rest:
                self._handle(self._coordinator, event)
            self._handle(self._coordinator, m.EpochEnded(now=self._clock()))
            self._deliver = None

    def completed(self, action: m.CompleteCheckpoint, manifest: Manifest) -> None:
        """Record a completed checkpoint."""
        # Once the log names the snapshot with which the job stops, the job ends with it, even if its commit needs a
        # restart.
        properties = action.properties
        self.stop_completed = properties.stopping and (properties.is_savepoint or properties.drained)
        self.on_completed(action, manifest)

    def discarded(self, checkpoint: CheckpointId) -> None:
        """Record that a checkpoint is no longer retained."""
        with self._lock:
            self._statistics.discarded(checkpoint)
