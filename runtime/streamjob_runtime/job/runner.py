"""Runs a job: one epoch after the other, with growing delays between failures, until it has ended for good."""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from streamjob.errors import CannotRestore, ExitCode, InvalidInput, JobFailed, StreamJobError, Superseded
from streamjob.ids import Attempt, Owner
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.lifecycle import JobState
from streamjob.protocol.log.ownership import Identity
from streamjob.protocol.log.records import JobId
from streamjob.protocol.log.restore import LATEST, ClaimMode
from streamjob.protocol.restarts import GiveUp, RestartPolicy, Restarts
from streamjob.store.base import Store, StoreDenied
from streamjob.telemetry.logs import describe_process
from streamjob_runtime.chain.ending.end_of_chains import check_ended
from streamjob_runtime.checkpointing.ledger import Ledger, RestoreFrom
from streamjob_runtime.job.coordination import Coordination
from streamjob_runtime.job.epoch import Epoch, EpochEnd, EpochOutcome, EpochView, Job
from streamjob_runtime.job.epoch_directories import drop_epochs
from streamjob_runtime.restoring.rewriting import NeedsOneDisk
from streamjob_runtime.spark.gateway import is_broken_connection
from streamjob_runtime.spark.text.error_text import causes, describe

_DEATH_SECONDS = 1.0
"""How long after its connections a process ends, at most."""

log = logging.getLogger("streamjob")


@dataclass(frozen=True)
class RunOptions:
    """The options of a run.

    Args:
        restore_from: the snapshot of the first epoch; later ones continue from this process's completions.
        attempt: the controller's number for this pod.
        restarts: the restart strategy.
        owner: the process in the log; None for a new one.
        once: whether the run is over behind its first checkpoint, which it takes as soon as all chains run.
        on_one_disk: lets another process of this owner take a checkpoint from a snapshot, with all state on one disk;
            returns False if the job was stopped meanwhile.
    """

    restore_from: RestoreFrom
    attempt: Attempt
    restarts: RestartPolicy
    owner: Owner | None = None
    once: bool = False
    on_one_disk: Callable[[RestoreFrom, Owner, Callable[[], bool]], bool] | None = None


class Runner:
    """One job in one process. `run` blocks; all other methods may be called from other threads.

    Args:
        store: the store at the job's root.
    """

    def __init__(self, job: Job, store: Store, options: RunOptions) -> None:
        self.job = job
        self._store = store
        self._options = options
        self._owner = options.owner or Owner(uuid.uuid4().hex)
        self._restarts = Restarts(options.restarts)
        self.started = job.clock()
        """When the runner was created, in seconds since 1970."""
        chains = [chain.uid for chain in job.plan.chains]
        self.coordination = Coordination(chains, job.loaded.spec.checkpointing, job.clock)
        """The job's coordinator and state."""
        self._ledger: Ledger | None = None
        self._epoch: Epoch | None = None
        self._has_rearranged = False

    @property
    def location(self) -> str:
        """The URI of the job's root in its store."""
        return self._store.uri

    @property
    def attempt(self) -> Attempt:
        """The controller's number for this pod."""
        return self._options.attempt

    @property
    def epoch(self) -> EpochView | None:
        """The running parts of the newest epoch; None before the first."""
        epoch = self._epoch
        return None if epoch is None else epoch.view()

    def run(self) -> ExitCode:
        """Run the job to its end; return the process's exit code.

        Raises:
            CannotRestore: the snapshot cannot be restored.
            InvalidInput: the job cannot run, and has never run in this process.
            StoreDenied: the store refuses it, and it has never run in this process.
            Superseded: another owner holds the log.
        """
        first_epoch: int | None = None
        restore_from = self._options.restore_from
        held: Path | None = None
        while True:
            try:
                check_ended(() if self._epoch is None else self._epoch.left)
                ledger = self._claim()
                first_epoch = ledger.epoch if first_epoch is None else first_epoch
                newest = ledger.log.claim.newest
                if newest is not None and newest.epoch >= first_epoch:
                    restore_from = replace(restore_from, snapshot=LATEST, mode=ClaimMode.CLAIM)
                try:
                    outcome, held = self._run_epoch(ledger, restore_from, held)
                except NeedsOneDisk as error:
                    outcome = self._rearrange(restore_from, error)
            except Superseded as error:
                self.coordination.end(JobState.SUPERSEDED, error.what)
                raise
            except Exception as error:
                self._check_process(error)
                outcome = self._failed(error)
            match outcome.end:
                case EpochEnd.FINISHED:
                    self.coordination.end(JobState.FINISHED, None)
                    return ExitCode.OK
                case EpochEnd.READ:
                    return self._stop("", ExitCode.OK)
                case EpochEnd.STOPPED:
                    return self._stop(outcome.message)
                case EpochEnd.RESTARTED:
                    self.coordination.enter(JobState.RESTARTING, planned=True)
                    if self._options.once:
                        self._stop("")
                        return ExitCode.OK
                    log.info("The job continues from a checkpoint in another epoch: %s", outcome.message)
                    if self.coordination.stop_asked:
                        return self._stop("The job stopped behind a checkpoint that was under way already")
                case EpochEnd.SUPERSEDED:
                    self.coordination.end(JobState.SUPERSEDED, outcome.message)
                    raise Superseded(outcome.message)
                case EpochEnd.FAILED:
                    self._check_process()
                    if not self._wait_for_restart(outcome.message):
                        return (
                            ExitCode.FAILED
                            if self.coordination.lifecycle.state is JobState.FAILED
                            else self.stopped_code
                        )

    @property
    def stopped_code(self) -> ExitCode:
        """The exit code of the process after a stop request."""
        return ExitCode.of_stop(available_now=self.job.available_now)

    def leave(self) -> ExitCode:
        """End a job that was stopped before it has run; return the process's exit code."""
        return self._stop("The job was stopped before it was told to start")

    def _check_process(self, error: Exception | None = None) -> None:
        """Raise the error to end with if no other epoch can run in this process, which a failure is a sign of."""
        broken = error is not None and any(is_broken_connection(each) for each in causes(error))
        unfit = self.job.unfit(_DEATH_SECONDS if broken else 0.0)
        if unfit is not None:
            self.coordination.end(JobState.FAILED, unfit.what)
            raise unfit from error

    def _failed(self, error: Exception) -> EpochOutcome:
        """Return the outcome of an epoch that ended with an error; raise the error if another would end with it too."""
        # A refusal lasts until somebody changes a right or a key, and a process reads its keys only once.
        lasting = isinstance(error, (InvalidInput, StoreDenied)) and not self.coordination.has_run
        if lasting or isinstance(error, (CannotRestore, JobFailed)):
            assert isinstance(error, StreamJobError)
            self.coordination.end(JobState.FAILED, error.what)
            raise error
        if isinstance(error, StreamJobError):
            # The same job was valid when it ran, so something that it needs, such as a sink's path, is temporarily
            # missing.
            return EpochOutcome(EpochEnd.FAILED, error.what)
        log.error("The epoch failed", exc_info=error)
        return EpochOutcome(EpochEnd.FAILED, describe(error, self.job.workdir))

    def _claim(self) -> Ledger:
        identity = Identity(
            job=JobId(namespace=self.job.namespace, name=self.job.name),
            owner=self._owner,
            attempt=self.attempt,
        )
        policy = self.coordination.policy
        ledger = Ledger.claim(
            self._store, identity, self.job.clock, policy.num_retained, again=self._ledger is not None
        )
        ledger.log.incremental = policy.incremental
        return ledger

    def _rearrange(self, restore_from: RestoreFrom, needed: NeedsOneDisk) -> EpochOutcome:
        """Let another process take a checkpoint from the same snapshot, from which the next epoch begins."""
        if self._options.on_one_disk is None or self._has_rearranged:
            raise needed
        log.warning("%s: another process on this machine rearranges it first, with all state on its disk", needed.what)
        if not self._options.on_one_disk(restore_from, self._owner, lambda: self.coordination.stop_asked):
            return EpochOutcome(EpochEnd.STOPPED, "The job was stopped while its state was rearranged")
        self._has_rearranged = True
        return EpochOutcome(EpochEnd.RESTARTED, needed.what)

    def _run_epoch(
        self, ledger: Ledger, restore_from: RestoreFrom, held: Path | None
    ) -> tuple[EpochOutcome, Path | None]:
        epoch = Epoch(self.job, ledger, restore_from, held, self.coordination)
        self._ledger, self._epoch = ledger, epoch
        if self._options.once:
            epoch.post(m.RestartRequested(now=self.job.clock(), message="only a checkpoint was asked for"))
        describe_process(epoch=ledger.epoch)
        self.coordination.claimed(ledger)
        # Including one with the same number of another location's log, and remains of failed restores on a full disk.
        drop_epochs(self.job.workdir, () if held is None else (int(held.relative_to(self.job.workdir).parts[0]),))
        return epoch.run(), epoch.held

    def _wait_for_restart(self, message: str) -> bool:
        """Wait until the job may be restarted; return False if it may not, or was stopped meanwhile."""
        coordination = self.coordination
        coordination.failed(message)
        log.warning("The job failed: %s", message)
        self._restarts, decision = self._restarts.after_failure(self.job.clock(), random.random)
        if isinstance(decision, GiveUp):
            coordination.end(JobState.FAILED, message)
            return False
        coordination.enter(JobState.RESTARTING)
        if coordination.wait_for_stop(max(0.0, decision.time - self.job.clock())):
            self._stop(message)
            return False
        return True

    def _stop(self, message: str, code: ExitCode | None = None) -> ExitCode:
        """End the job between two epochs; requests that came while none ran get the message."""
        code = self.stopped_code if code is None else code
        if code is ExitCode.INTERRUPTED:
            log.warning("The run was stopped before it had read all that was there; repeat it")
        self.coordination.end(JobState.STOPPED, message or None)
        self.coordination.resolve_stops(message)
        return code
