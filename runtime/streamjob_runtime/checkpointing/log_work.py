"""The work on a job's log, in its order: complete a checkpoint, commit its output, delete superseded objects.

Each step is a program that yields its effects. `Checkpoints` performs them on one thread; the simulation in the tests
performs them step by step, with faults in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from streamjob.clock import Clock
from streamjob.errors import Superseded
from streamjob.ids import CheckpointId
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.log.committing import Commit, commit
from streamjob.protocol.log.creating import OutcomeUnknown
from streamjob.snapshot.manifest import Manifest, SinkState
from streamjob.store.base import StoreError
from streamjob_runtime.checkpointing.epoch_log import EpochLog
from streamjob_runtime.spark.text.error_text import describe

log = logging.getLogger("streamjob")


@dataclass(frozen=True, slots=True)
class WriteSavepoint:
    """Write the manifest of a savepoint to its location. Reply: None."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class NameInLog:
    """Name a snapshot in the log, see `EpochLog.complete`. Reply: None."""

    manifest: Manifest
    savepoint: str | None


@dataclass(frozen=True, slots=True)
class AskAgain:
    """Wait before asking the store again for the outcome of a completion. Reply: whether the epoch ends meanwhile."""


@dataclass(frozen=True, slots=True)
class Collect:
    """Delete objects that are no longer needed. Reply: the checkpoints that are no longer retained."""


LogEffect: TypeAlias = WriteSavepoint | NameInLog | AskAgain | Commit | Collect
LogProgram: TypeAlias = Generator[LogEffect, object, None]


class WrittenSavepoint(Protocol):
    """A savepoint's manifest: as the log is to name it, and its URI."""

    @property
    def reference(self) -> str: ...

    @property
    def uri(self) -> str: ...


class CheckpointListener(Protocol):
    """Is notified about checkpoints, from other threads than the coordinator's."""

    def post(self, event: m.Event) -> None:
        """Pass an event to the coordinator."""
        ...

    def completed(self, action: m.CompleteCheckpoint, manifest: Manifest) -> None:
        """The log names a checkpoint."""
        ...

    def discarded(self, checkpoint: CheckpointId) -> None:
        """A checkpoint is no longer retained."""
        ...


class LogWork:
    """The work on the log in one epoch.

    Args:
        manifest_of: makes the manifest of a checkpoint that all chains have acknowledged.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        log: EpochLog,
        manifest_of: Callable[[m.CompleteCheckpoint], Manifest],
        clock: Clock,
        listener: CheckpointListener,
    ) -> None:
        self._log = log
        self._manifest_of = manifest_of
        self._clock = clock
        self._listener = listener

    def complete(
        self, action: m.CompleteCheckpoint, savepoint: WrittenSavepoint | None, named: Callable[[Manifest], None]
    ) -> LogProgram:
        """Write the manifest, then the log's record, and report the outcome.

        Args:
            savepoint: for a savepoint, its manifest.
            named: called as soon as the log names the checkpoint, before the listener is notified.
        """
        try:
            manifest = self._manifest_of(action)
            if savepoint is not None:
                yield WriteSavepoint(manifest)
            yield from self._name_in_log(manifest, savepoint)
            named(manifest)
        except Superseded as error:
            self._completion_failed(action.id, m.CompletionFailure.SUPERSEDED, error)
        except Exception as error:
            # Treating a record that may exist as missing could commit its output twice.
            unknown = self._log.claim.may_name(action.id)
            failure = m.CompletionFailure.UNKNOWN if unknown else m.CompletionFailure.NOT_WRITTEN
            self._completion_failed(action.id, failure, error)
        else:
            uri = savepoint.uri if savepoint else self._log.uri_of(manifest)
            self._listener.post(m.CompletionSucceeded(now=self._clock(), id=action.id, uri=uri))
            self._listener.completed(action, manifest)

    def _name_in_log(self, manifest: Manifest, savepoint: WrittenSavepoint | None) -> LogProgram:
        """Complete; if the store cannot tell whether that was done, keep asking until the epoch ends."""
        while True:
            try:
                yield NameInLog(manifest, savepoint.reference if savepoint else None)
                return
            except OutcomeUnknown:
                if (yield AskAgain()):
                    raise

    def _completion_failed(self, checkpoint: CheckpointId, failure: m.CompletionFailure, error: Exception) -> None:
        self._listener.post(
            m.CompletionFailed(now=self._clock(), id=checkpoint, failure=failure, message=describe(error))
        )

    def commit(self, checkpoint: CheckpointId, sinks: Sequence[SinkState]) -> LogProgram:
        """Commit a completed checkpoint's committables in all sinks, report the outcome, and collect garbage.

        Args:
            sinks: the checkpoint's committables.
        """
        try:
            yield from commit(checkpoint, sinks)
            self._log.claim.committed(checkpoint)
        except Exception as error:
            self._listener.post(m.CommitFailed(now=self._clock(), id=checkpoint, message=describe(error)))
        else:
            self._listener.post(m.OutputCommitted(now=self._clock(), id=checkpoint))
            yield from self._collect()

    def _collect(self) -> LogProgram:
        try:
            discarded = yield Collect()
        except Superseded as error:
            self._listener.post(m.OwnershipLost(now=self._clock(), message=error.what))
        except StoreError as error:
            # Nothing is lost: the collection of the next completion continues here.
            log.warning("Superseded checkpoints were not deleted yet: %s", error.what)
        else:
            assert isinstance(discarded, tuple)
            for checkpoint in discarded:
                self._listener.discarded(checkpoint)
