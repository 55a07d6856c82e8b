"""The checkpoint coordinator as pure code: an event in, actions out; the behaviour is Flink's CheckpointCoordinator.

Usage: create one `Coordinator` per epoch, after the restore, with all chains STARTING. Pass every event of
`streamjob.protocol.coordination.messages` to `handle`, one at a time, and execute the returned actions in order:

- `StartCheckpoint`: under the emission lock, call `Emissions.trigger`. For each cut, now or later, hold the
  files, upload them in the background, then send `ChainAcknowledged` or `ChainDeclined`. A finished chain also
  acknowledges, with its final state. `SwitchToUnaligned`: under the lock, call `Emissions.switch`, which cuts the
  remaining chains.
- `CompleteCheckpoint`: write the manifest, then the log record; send `CompletionSucceeded` or `CompletionFailed`. On
  success, call `Emissions.complete` before sending the event. Nothing else starts until one of the two arrives.
- `CommitOutput`: commit in all sinks; `OutputCommitted` or `CommitFailed`. No checkpoint starts in between.
- `AbortCheckpoint`: call `Emissions.abort` and drop the uploads.
- `WakeAt`: send a `Tick` at that time.
- `FailJob`: end the epoch and ask `streamjob.protocol.restarts`. `RestartJob`: end it and begin the next. `EndJob`: end
  for good. Nothing starts after any of them, but the outcome of a completion in progress may still be sent.
  `EpochEnded` resolves everything that is still open.

`Triggers.status` returns the outcome of a request at any time.

Give the same `Triggers` and `StatisticsTracker` to every epoch of a process. `now` must never run backwards.
"""

from __future__ import annotations

from collections.abc import Iterable

from streamjob.checkpointing_policy import LiveCheckpointingPolicy
from streamjob.ids import ChainUid, CheckpointId, TriggerId
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.failures import AbortReason, FailureCounter
from streamjob.protocol.coordination.pending import PendingCheckpoint, Phase
from streamjob.protocol.coordination.requests import Requests, explain, must_succeed
from streamjob.protocol.coordination.schedule import Chains, Schedule
from streamjob.protocol.coordination.statistics import StatisticsTracker
from streamjob.protocol.coordination.triggers import CheckpointProperties, SnapshotKind, Triggers


class Coordinator:
    """Decides when checkpoints start, complete, fail and are committed, in one epoch of one job.

    Args:
        chains: all chains of the job; each must acknowledge.
        policy: when and how checkpoints are taken.
        highest_id: the highest id ever used in the job's log; new ids are higher.
        triggers: requests and their outcomes; outlives the epoch.
        statistics: follows the checkpoints; outlives the epoch.
    """

    def __init__(
        self,
        *,
        chains: Iterable[ChainUid],
        policy: LiveCheckpointingPolicy,
        highest_id: CheckpointId,
        triggers: Triggers,
        statistics: StatisticsTracker,
    ) -> None:
        self._chains = Chains(chains)
        self._schedule = Schedule(policy)
        self._requests = Requests(triggers)
        self._statistics = statistics
        self._failures = FailureCounter()
        self._last_id = highest_id
        self._pending: PendingCheckpoint | None = None
        self._restart: str | None = None
        self._ended = False
        self._woken: float | None = None
        self._out: list[m.Action] = []

    @property
    def ended(self) -> bool:
        """Whether the epoch is over: FailJob, RestartJob or EndJob was returned, or EpochEnded was handled."""
        return self._ended

    @property
    def stopping(self) -> bool:
        """Whether a stop is under way."""
        return self._requests.stop is not None

    @property
    def draining(self) -> bool:
        """Whether a stop waits until the chains are drained."""
        stop = self._requests.stop
        return stop is not None and stop.request.drain and not self._chains.drained

    @property
    def policy(self) -> LiveCheckpointingPolicy:
        """The policy in force."""
        return self._schedule.policy

    @property
    def last_id(self) -> CheckpointId:
        """The highest id in use; ids of a later epoch are higher."""
        return self._last_id

    @property
    def pending(self) -> CheckpointId | None:
        """The checkpoint in progress, up to its commit; None if there is none."""
        return None if self._pending is None else self._pending.id

    def handle(self, event: m.Event) -> list[m.Action]:
        """Handle an event and return the actions to execute now, in this order."""
        self._out = []
        if self._ended:
            self._after_the_end(event)
            return self._out
        self._expire(event.now)
        if self.ended:
            # The expired checkpoint exceeded the tolerable failures, but the event still needs its answer.
            self._after_the_end(event)
        else:
            self._dispatch(event)
        if not self._ended:
            self._switch(event.now)
            self._start_next(event.now)
        if not self._ended:
            self._announce_wake(repeat=isinstance(event, m.Tick))
        return self._out

    def _dispatch(self, event: m.Event) -> None:
        match event:
            case m.TriggerRequested():
                self._on_trigger(event)
            case m.StopRequested():
                self._on_stop(event)
            case m.RestartRequested():
                self._restart = event.message
            case m.ChainAcknowledged():
                self._on_acknowledgement(event)
            case m.ChainDeclined():
                self._on_decline(event)
            case m.CompletionSucceeded():
                self._on_completed(event)
            case m.CompletionFailed():
                self._on_completion_failed(event)
            case m.OutputCommitted():
                self._on_committed(event)
            case m.CommitFailed():
                if self._pending_in(event.id, Phase.COMMITTING):
                    self._fail_job(event.now, AbortReason.COMMIT_FAILED, event.message)
            case m.ChainStateChanged():
                self._on_chain_state(event)
            case m.PolicyChanged():
                self._schedule.policy = event.policy
            case m.PeriodicHeld():
                self._schedule.held = event.held
            case m.OwnershipLost():
                self._end_superseded(event.now, event.message)
            case m.EpochEnded():
                self._end(event.now, AbortReason.EPOCH_ENDED, event.message, None)
                self._give_up_completion(event.now)
            case _:
                pass

    def _on_trigger(self, event: m.TriggerRequested) -> None:
        if self._requests.repeats(event.trigger_id):
            return
        if self._requests.stop is not None:
            self._requests.refuse(event.trigger_id, AbortReason.JOB_STOPPING)
        elif self._finishing():
            self._requests.refuse(event.trigger_id, AbortReason.JOB_FINISHING)
        else:
            self._requests.enqueue(event)

    def _on_stop(self, event: m.StopRequested) -> None:
        requests, trigger_id, wants_more = self._requests, event.trigger_id, must_succeed(event)
        if requests.repeats(trigger_id):
            return
        if requests.stop is not None:
            if wants_more:
                requests.refuse(trigger_id, AbortReason.ALREADY_STOPPING)
            else:
                requests.join_stop(trigger_id)
            return
        pending = self._pending
        if wants_more and self._finishing():
            requests.refuse(trigger_id, AbortReason.JOB_FINISHING)
            return
        if wants_more and pending is not None and pending.restarting and not pending.gives_way:
            requests.refuse(trigger_id, AbortReason.JOB_RESTARTING)
            return
        if wants_more and not self._chains.ready:
            requests.refuse(trigger_id, AbortReason.NOT_ALL_CHAINS_RUNNING, self._chains.why_not_ready())
            return
        requests.begin_stop(event)
        if pending is not None and pending.gives_way:
            self._abort(event.now, AbortReason.JOB_STOPPING, "")
        if event.drain:
            self._emit(m.DrainSources())

    def _finishing(self) -> bool:
        return self._pending is not None and self._pending.final

    def _on_acknowledgement(self, event: m.ChainAcknowledged) -> None:
        chain, pending = event.acknowledgement.chain, self._pending
        known = chain in self._chains
        if known:
            self._statistics.acknowledged(event.id, event.acknowledgement, event.now)
        if not known or pending is None or pending.id != event.id or chain in pending.acknowledgements:
            return
        pending.acknowledgements[chain] = event.acknowledgement
        if not pending.missing(self._chains):
            pending.phase = Phase.COMPLETING
            self._emit(pending.completion())

    def _on_decline(self, event: m.ChainDeclined) -> None:
        if self._pending_in(event.id, Phase.COLLECTING) and event.chain in self._chains:
            message = f"chain {event.chain}: {event.message}" if event.message else f"chain {event.chain}"
            self._abort(event.now, event.reason, message)

    def _expire(self, now: float) -> None:
        expires = self._pending.expires(self.policy.timeout) if self._pending else None
        if self._pending and expires is not None and now >= expires:
            missing = ", ".join(self._pending.missing(self._chains))
            self._abort(now, AbortReason.EXPIRED, f"no acknowledgement from {missing}")

    def _switch(self, now: float) -> None:
        """Switch a checkpoint to unaligned, once, if its barriers take too long (FLIP-76's aligned timeout)."""
        pending = self._pending
        switches = pending.switches() if pending else None
        if pending is not None and switches is not None and now >= switches:
            pending.switched = True
            self._emit(m.SwitchToUnaligned(id=pending.id))

    def _on_completed(self, event: m.CompletionSucceeded) -> None:
        pending = self._pending_in(event.id, Phase.COMPLETING)
        if pending is not None:
            self._note_completion(pending, event)
            pending.phase = Phase.COMMITTING
            self._emit(m.CommitOutput(id=event.id))

    def _note_completion(self, pending: PendingCheckpoint, event: m.CompletionSucceeded) -> None:
        pending.uri = event.uri
        self._schedule.completed(event.now)
        self._failures.succeeded(event.id)
        self._statistics.completed(event.id, event.uri)
        if not pending.properties.is_savepoint:
            self._requests.complete(pending.trigger_ids, pending.id, event.uri)

    def _on_completion_failed(self, event: m.CompletionFailed) -> None:
        if self._pending_in(event.id, Phase.COMPLETING) is None:
            return
        match event.failure:
            case m.CompletionFailure.NOT_WRITTEN:
                self._abort(event.now, AbortReason.COMPLETION_FAILED, event.message)
            case m.CompletionFailure.UNKNOWN:
                self._drop(event.now, AbortReason.OUTCOME_UNKNOWN, event.message, keep_files=True)
                self._fail_job(event.now, AbortReason.OUTCOME_UNKNOWN, event.message)
            case m.CompletionFailure.SUPERSEDED:
                self._drop(event.now, AbortReason.SUPERSEDED, event.message, keep_files=True)
                self._end_superseded(event.now, event.message)

    def _on_committed(self, event: m.OutputCommitted) -> None:
        pending = self._pending_in(event.id, Phase.COMMITTING)
        if pending is None:
            return
        self._pending = None
        if pending.properties.is_savepoint:
            self._requests.complete(pending.trigger_ids, pending.id, pending.uri)
        if pending.final:
            self._requests.stopped(pending.id, pending.uri)
            self._end(event.now, AbortReason.JOB_FINISHING, "", m.EndJob(end=m.JobEnd.FINISHED))
        elif pending.restarting and self._requests.stop is None:
            self._end(event.now, AbortReason.JOB_RESTARTING, "", m.RestartJob(message=self._restart or ""))
        elif pending.properties.stopping:
            self._requests.stopped(pending.id, pending.uri)
            self._end(event.now, AbortReason.JOB_STOPPING, "", m.EndJob(end=m.JobEnd.STOPPED))

    def _on_chain_state(self, event: m.ChainStateChanged) -> None:
        self._chains.put(event.chain, event.status)
        if event.status is m.ChainStatus.FAILED:
            self._fail_job(event.now, AbortReason.CHAIN_FAILED, f"chain {event.chain}: {event.message}")
        elif self._chains.ready:
            self._schedule.ready(event.now)

    def _start_next(self, now: float) -> None:
        while self._pending is None and not self._ended:
            properties, trigger_ids = self._choose(now)
            if properties is None:
                return
            if properties.periodic:
                self._schedule.started_periodic(now)
            if self._chains.ready:
                self._start(now, properties, trigger_ids)
            elif properties.stopping:
                self._fail_job(now, AbortReason.NOT_ALL_CHAINS_RUNNING, self._chains.why_not_ready())
            else:
                self._requests.fail(trigger_ids, AbortReason.NOT_ALL_CHAINS_RUNNING, self._chains.why_not_ready())

    def _choose(self, now: float) -> tuple[CheckpointProperties | None, tuple[TriggerId, ...]]:
        if self._requests.stop is not None:
            stop = self._requests.stop.request
            if self.draining:
                return None, ()
            kind = SnapshotKind.SAVEPOINT if stop.savepoint else SnapshotKind.CHECKPOINT
            return self._schedule.properties(kind, location=stop.location, stopping=True, drained=stop.drain), ()
        request = self._requests.take()
        if request is not None:
            properties = self._schedule.properties(request.kind, location=request.location, unaligned=request.unaligned)
            return properties, (request.trigger_id,)
        restart = self._next_restart()
        if restart is not None and now >= restart:
            return self._schedule.properties(SnapshotKind.CHECKPOINT, stopping=True), ()
        return self._schedule.due(now, self._chains), ()

    def _next_restart(self) -> float | None:
        return None if self._restart is None else self._schedule.next_restart(self._chains)

    def _start(self, now: float, properties: CheckpointProperties, trigger_ids: tuple[TriggerId, ...]) -> None:
        self._last_id = CheckpointId(self._last_id + 1)
        restarting = properties.stopping and self._requests.stop is None
        self._pending = PendingCheckpoint(self._last_id, properties, now, trigger_ids, restarting=restarting)
        self._statistics.started(self._last_id, properties, now, tuple(self._chains))
        self._emit(self._pending.start(self._chains))

    def _abort(self, now: float, reason: AbortReason, message: str) -> None:
        """Abort the checkpoint, and handle the consequences for a stop or for the job."""
        pending = self._drop(now, reason, message)
        if pending.restarting:
            self._schedule.restart_failed(now)
        elif pending.properties.stopping:
            if pending.properties.is_savepoint and not pending.properties.drained:
                self._requests.give_up_stop(reason, message)
            else:
                # A drained job cannot read on, and a stop without savepoint ends without one.
                self._fail_job(now, reason, message)
            return
        if pending.final:
            self._schedule.final_failed(now)
        if pending.properties.failure_counts:
            self._failures.failed(pending.id, reason)
            count, tolerable = self._failures.count, self.policy.tolerable_failed_checkpoints
            if reason.counts and count > tolerable:
                text = f"{count} in a row, {tolerable} are tolerable; the last, checkpoint {pending.id}: "
                self._fail_job(now, AbortReason.TOO_MANY_FAILURES, text + explain(reason, message))

    def _drop(self, now: float, reason: AbortReason, message: str, *, keep_files: bool = False) -> PendingCheckpoint:
        pending, self._pending = self._pending, None
        assert pending is not None
        self._emit(m.AbortCheckpoint(id=pending.id, reason=reason, message=message, keep_files=keep_files))
        if reason is AbortReason.JOB_STOPPING:
            # It gave way to that of the stop.
            self._statistics.withdrawn(pending.id)
        else:
            self._statistics.failed(pending.id, explain(reason, message), now)
        self._requests.fail(pending.trigger_ids, reason, message)
        return pending

    def _fail_job(self, now: float, reason: AbortReason, message: str) -> None:
        text = explain(reason, message)
        if self._requests.stop is not None and not self._requests.stop.must_succeed:
            self._end(now, reason, message, m.EndJob(end=m.JobEnd.STOPPED, message=text))
        else:
            self._end(now, reason, message, m.FailJob(reason=reason, message=text))

    def _end_superseded(self, now: float, message: str) -> None:
        self._end(now, AbortReason.SUPERSEDED, message, m.EndJob(end=m.JobEnd.SUPERSEDED, message=message))

    def _end(self, now: float, reason: AbortReason, message: str, last: m.Action | None) -> None:
        """Close everything except a completion in progress, whose outcome is still open."""
        self._ended = True
        if self._pending is not None and self._pending.phase is Phase.COLLECTING:
            self._drop(now, reason, message, keep_files=reason is AbortReason.SUPERSEDED)
        elif self._pending is not None and self._pending.phase is Phase.COMMITTING:
            pending, self._pending = self._pending, None
            if pending.properties.is_savepoint:
                self._requests.uncommitted(pending.trigger_ids, pending.id, pending.uri)
        self._requests.close(reason, message, job_stopped=isinstance(last, m.EndJob) and last.end is m.JobEnd.STOPPED)
        if last is not None:
            self._emit(last)

    def _after_the_end(self, event: m.Event) -> None:
        match event:
            case m.CompletionSucceeded():
                if pending := self._pending_in(event.id, Phase.COMPLETING):
                    self._pending = None
                    self._note_completion(pending, event)
                    if pending.properties.is_savepoint:
                        self._requests.uncommitted(pending.trigger_ids, pending.id, event.uri)
            case m.CompletionFailed():
                if self._pending_in(event.id, Phase.COMPLETING):
                    unwritten = event.failure is m.CompletionFailure.NOT_WRITTEN
                    reason = AbortReason.COMPLETION_FAILED if unwritten else AbortReason.OUTCOME_UNKNOWN
                    self._drop(event.now, reason, event.message, keep_files=True)
            case m.EpochEnded():
                self._give_up_completion(event.now)
            case m.TriggerRequested() | m.StopRequested():
                if not self._requests.repeats(event.trigger_id):
                    self._requests.refuse(event.trigger_id, AbortReason.EPOCH_ENDED)
            case _:
                pass

    def _give_up_completion(self, now: float) -> None:
        if self._pending is not None:
            self._drop(now, AbortReason.OUTCOME_UNKNOWN, "the epoch ended meanwhile", keep_files=True)

    def _pending_in(self, checkpoint: CheckpointId, phase: Phase) -> PendingCheckpoint | None:
        pending = self._pending
        return pending if pending is not None and pending.id == checkpoint and pending.phase is phase else None

    def _announce_wake(self, *, repeat: bool) -> None:
        """Request a Tick. A Tick consumes the last request, even if it comes too early."""
        wake: float | None = None
        if self._pending is not None:
            wakes = (self._pending.expires(self.policy.timeout), self._pending.switches())
            wake = min((time for time in wakes if time is not None), default=None)
        elif self._requests.stop is None:
            times = (self._schedule.next_start(self._chains), self._next_restart())
            wake = min((time for time in times if time is not None), default=None)
        if wake != self._woken or (repeat and wake is not None):
            self._woken = wake
            self._emit(m.WakeAt(time=wake))

    def _emit(self, action: m.Action) -> None:
        self._out.append(action)
