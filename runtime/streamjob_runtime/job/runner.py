"""Runs a job: one epoch after the other, with growing delays between failures, until it has ended for good."""

from __future__ import annotations

import logging
import random
import shutil
import threading
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from streamjob.errors import CannotRestore, ExitCode, InvalidInput, JobFailed, StreamJobError, Superseded
from streamjob.ids import Attempt, CheckpointId, Owner, TriggerId
from streamjob.job.spec import CheckpointingPolicy
from streamjob.protocol import messages as m
from streamjob.protocol.coordinator import Coordinator
from streamjob.protocol.lifecycle import TRANSITIONS, JobState, Lifecycle
from streamjob.protocol.log import JobId
from streamjob.protocol.ownership import Identity
from streamjob.protocol.requests import must_succeed
from streamjob.protocol.restarts import GiveUp, RestartPolicy, Restarts
from streamjob.protocol.restore import LATEST, ClaimMode
from streamjob.protocol.statistics import StatisticsTracker
from streamjob.protocol.triggers import CheckpointPolicy, TriggerOutcome, Triggers, TriggerState
from streamjob.snapshot.manifest import Manifest
from streamjob.store.base import Store
from streamjob_runtime.chain.end_of_chains import check_ended
from streamjob_runtime.checkpointing.checkpoints import OnCompleted
from streamjob_runtime.checkpointing.ledger import Ledger, RestoreFrom
from streamjob_runtime.job.epoch import Epoch, EpochEnd, EpochOutcome, Job
from streamjob_runtime.spark.error_text import describe

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger("streamjob")


@dataclass(frozen=True)
class RunOptions:
    """How a job is run.

    Args:
        restore_from: the snapshot of the first epoch; later ones go on from what this process has completed.
        attempt: the controller's number for this pod.
        restarts: the restart strategy.
    """

    restore_from: RestoreFrom
    attempt: Attempt
    restarts: RestartPolicy


class Runner:
    """One job in one process. `run` blocks; everything else may be called from other threads.

    Args:
        job: the job.
        store: the store at the job's root.
        options: how it is run.

    `on_completed` may be set before `run`: it is told of each completed checkpoint.
    """

    def __init__(self, job: Job, store: Store, options: RunOptions) -> None:
        self.job = job
        self.store = store
        self.attempt = options.attempt
        self.started = job.clock()
        self.triggers = Triggers()
        self.statistics = StatisticsTracker()
        self.lock = threading.RLock()
        self.lifecycle = Lifecycle.created(self.started)
        self.policy = job.loaded.spec.checkpointing
        self.epoch: Epoch | None = None
        self.ledger: Ledger | None = None
        self.failure: str | None = None
        self.on_completed: OnCompleted = lambda action, manifest: None
        self._options = options
        self._owner = Owner(uuid.uuid4().hex)
        self._restarts = Restarts(options.restarts)
        self._stop: m.StopRequested | None = None
        self._stop_ids: list[TriggerId] = []
        self._stopping = threading.Event()
        self._highest_id = CheckpointId(0)
        self._has_run = False
        self._stopped = False

    def run(self) -> ExitCode:
        """Run the job to its end; return how the process is to exit.

        Raises:
            CannotRestore: the snapshot cannot be restored.
            InvalidInput: the job cannot run, and never ran in this process.
            Superseded: another owner holds the log.
        """
        first_epoch: int | None = None
        restore_from = self._options.restore_from
        held: Path | None = None
        while True:
            try:
                check_ended(() if self.epoch is None else self.epoch.left)
                ledger = self._claim()
                first_epoch = ledger.epoch if first_epoch is None else first_epoch
                if ledger.newest_epoch is not None and ledger.newest_epoch >= first_epoch:
                    restore_from = replace(restore_from, snapshot=LATEST, mode=ClaimMode.CLAIM)
                outcome, held = self._run_epoch(ledger, restore_from, held)
            except (CannotRestore, InvalidInput) as error:
                if isinstance(error, CannotRestore) or not self._has_run:
                    self._end(JobState.FAILED, error.what)
                    raise
                # The same job was valid when it ran: what it needs, such as a sink's path, is not there at the moment.
                outcome = EpochOutcome(EpochEnd.FAILED, error.what)
            except Superseded as error:
                self._end(JobState.SUPERSEDED, error.what)
                raise
            except JobFailed as error:
                self._end(JobState.FAILED, error.what)
                raise
            except StreamJobError as error:
                outcome = EpochOutcome(EpochEnd.FAILED, error.what)
            except Exception as error:
                log.exception("The epoch failed")
                outcome = EpochOutcome(EpochEnd.FAILED, describe(error, self.job.workdir))
            match outcome.end:
                case EpochEnd.FINISHED:
                    self._end(JobState.FINISHED, None)
                    return ExitCode.OK
                case EpochEnd.STOPPED:
                    self._end(JobState.STOPPED, outcome.message or None)
                    return ExitCode.OK
                case EpochEnd.SUPERSEDED:
                    self._end(JobState.SUPERSEDED, outcome.message)
                    raise Superseded(outcome.message)
                case EpochEnd.FAILED:
                    if not self._wait_for_restart(outcome.message):
                        return ExitCode.FAILED if self.lifecycle.state is JobState.FAILED else ExitCode.OK

    def post(self, event: m.Event) -> bool:
        """Hand an event to the epoch that runs; return False if none does."""
        with self.lock:
            epoch = self.epoch
            if epoch is None or not epoch.listens:
                return False
            epoch.post(event)
            return True

    def stop(self, request: m.StopRequested) -> bool:
        """Stop the job; return False if nothing runs that could take the savepoint that was asked for.

        Behind a last checkpoint if no savepoint is asked for; while none can be taken, such as between restarts, at
        once.
        """
        with self.lock:
            if must_succeed(request):
                return self.post(request)
            self._stop = request
            self._stop_ids.append(request.trigger_id)
            self._stopping.set()
            self.post(request)
            return True

    def stop_now(self, trigger_id: TriggerId) -> None:
        """Ask for a plain stop."""
        self.stop(m.StopRequested(now=self.job.clock(), trigger_id=trigger_id))

    def change_policy(self, policy: CheckpointingPolicy) -> None:
        """Put another checkpointing policy in force."""
        with self.lock:
            self.policy = policy
            if self.ledger is not None:
                self.ledger.num_retained = policy.num_retained
            self.post(m.PolicyChanged(now=self.job.clock(), policy=coordinator_policy(policy)))

    def _claim(self) -> Ledger:
        identity = Identity(
            job=JobId(namespace=self.job.namespace, name=self.job.name),
            owner=self._owner,
            attempt=self.attempt,
        )
        ledger = Ledger.claim(
            self.store, identity, self.job.clock, self.policy.num_retained, again=self.ledger is not None
        )
        ledger.incremental = self.policy.incremental
        return ledger

    def _run_epoch(
        self, ledger: Ledger, restore_from: RestoreFrom, held: Path | None
    ) -> tuple[EpochOutcome, Path | None]:
        epoch = Epoch(
            job=self.job,
            ledger=ledger,
            restore_from=restore_from,
            coordinate=self._coordinate,
            state_lock=self.lock,
            held=held,
            stopped=self._stopped,
            on_state=self._on_epoch_state,
            on_restored=self._on_restored,
            on_completed=self._on_completed,
            on_discarded=self._on_discarded,
        )
        with self.lock:
            self.ledger, self.epoch = ledger, epoch
        # Also one of the same number, of another location's log; and what failed restores have left on a full disk.
        self._drop_epochs(set() if held is None else {int(held.relative_to(self.job.workdir).parts[0])})
        try:
            outcome = epoch.run()
        finally:
            with self.lock:
                if epoch.coordinator is not None:
                    self._highest_id = max(self._highest_id, epoch.coordinator.last_id)
        return outcome, epoch.held

    def _coordinate(self, last_id: CheckpointId) -> Coordinator:
        coordinator = Coordinator(
            chains=[chain.uid for chain in self.job.plan.chains],
            policy=coordinator_policy(self.policy),
            highest_id=max(last_id, self._highest_id),
            triggers=self.triggers,
            statistics=self.statistics,
        )
        if self._stop is not None and self.epoch is not None:
            self.epoch.post(self._stop)
        return coordinator

    def _on_epoch_state(self, state: JobState) -> None:
        with self.lock:
            if state in TRANSITIONS[self.lifecycle.state]:
                self.lifecycle = self.lifecycle.enter(state, self.job.clock())

    def _on_completed(self, action: m.CompleteCheckpoint, manifest: Manifest) -> None:
        # Once what the job may only stop behind is recorded, it ends with that, also if publishing it needs a restart.
        properties = action.properties
        self._stopped = properties.stopping and (properties.is_savepoint or properties.drained)
        self.on_completed(action, manifest)

    def _on_discarded(self, checkpoint: CheckpointId) -> None:
        with self.lock:
            self.statistics.discarded(checkpoint)

    def _on_restored(self, epoch: Epoch) -> None:
        assert self.ledger is not None
        self._has_run = True
        self._drop_epochs({self.ledger.epoch})
        restored = epoch.restored
        if restored is not None:
            with self.lock:
                self.statistics.restored(
                    restored.manifest.id,
                    self.job.clock(),
                    is_savepoint=restored.manifest.kind == "savepoint",
                    uri=restored.uri,
                )

    def _wait_for_restart(self, message: str) -> bool:
        """Wait until the job may be restarted; return False if it may not, or was stopped meanwhile."""
        self.failure = message
        log.warning("The job failed: %s", message)
        self._restarts, decision = self._restarts.after_failure(self.job.clock(), random.random)
        if isinstance(decision, GiveUp):
            self._end(JobState.FAILED, message)
            return False
        self._enter(JobState.RESTARTING)
        if self._stopping.wait(max(0.0, decision.time - self.job.clock())):
            self._end(JobState.STOPPED, message)
            self._tell_stopped(message)
            return False
        return True

    def _tell_stopped(self, message: str) -> None:
        """Tell whoever asked for a stop while no epoch ran that it took place, though without a last checkpoint."""
        with self.lock:
            for trigger_id in self._stop_ids:
                status = self.triggers.status(trigger_id)
                if status is None or status.outcome is None:
                    self.triggers.resolve(trigger_id, TriggerOutcome(state=TriggerState.COMPLETED, failure=message))

    def _enter(self, state: JobState) -> None:
        with self.lock:
            self.lifecycle = self.lifecycle.enter(state, self.job.clock())

    def _end(self, state: JobState, message: str | None) -> None:
        with self.lock:
            if message is not None:
                self.failure = message
            self.lifecycle = self.lifecycle.enter(state, self.job.clock())

    def _drop_epochs(self, kept: set[int]) -> None:
        for directory in _epoch_directories(self.job.workdir):
            if int(directory.name) not in kept:
                shutil.rmtree(directory, ignore_errors=True)


def coordinator_policy(policy: CheckpointingPolicy) -> CheckpointPolicy:
    """Return the coordinator's part of a job's checkpointing policy."""
    return CheckpointPolicy(
        interval=policy.interval,
        timeout=policy.timeout,
        min_pause=policy.min_pause,
        tolerable_failures=policy.tolerable_failed_checkpoints,
        mode=policy.mode,
        aligned_timeout=policy.aligned_checkpoint_timeout,
    )


def _epoch_directories(workdir: Path) -> Iterator[Path]:
    return (each for each in workdir.iterdir() if each.is_dir() and each.name.isdigit())
