"""The reasons why checkpoints fail, and the limit of tolerable failures (Flink's CheckpointFailureManager).

The coordinator counts them when a chain declines (`checkpointing.checkpoints`, in the runtime); what the store's log
cannot answer is asked again (`checkpointing.log_work`).
"""

from __future__ import annotations

from enum import StrEnum

from streamjob.ids import CheckpointId


class AbortReason(StrEnum):
    """The reason why a checkpoint did not complete, a request was refused or a job ended; the value is a sentence.

    Its effect on the job is one of three:

    - it counts (`counts`), unless the checkpoint is a savepoint: the job goes on, until more such failures in a row
      than are tolerable fail it;
    - it ends the job's epoch, whatever the count: `TOO_MANY_FAILURES`, `COMMIT_FAILED`, `CHAIN_FAILED`,
      `OUTCOME_UNKNOWN`, `SUPERSEDED`, and `NOT_ALL_CHAINS_RUNNING` when a stop is due;
    - the others change nothing: they say what ended a checkpoint, or why a request was refused.

    A checkpoint of a stop is no such failure: without it, the stop is given up if it needs a savepoint and has not
    drained the job; otherwise the job ends (`coordinator`).
    """

    DECLINED = "a chain declined the checkpoint"
    UPLOAD_FAILED = "a chain could not write its files to the store"
    EXPIRED = "the checkpoint expired before all chains had acknowledged it"
    COMPLETION_FAILED = "the manifest or its log record could not be written"
    TOO_MANY_FAILURES = "more checkpoints failed than are tolerable"
    COMMIT_FAILED = "a sink could not publish the output of the checkpoint"
    NOT_ALL_CHAINS_RUNNING = "not all chains are running"
    CHAIN_FAILED = "a chain failed"
    JOB_STOPPING = "the job is stopping"
    JOB_RESTARTING = "the job continues in another epoch, behind a checkpoint that is under way"
    JOB_FINISHING = "the job is finishing"
    ALREADY_STOPPING = "the job is stopping already, in another way"
    TOO_MANY_REQUESTS = "too many requests are waiting"
    EPOCH_ENDED = "the epoch ended"
    OUTCOME_UNKNOWN = "the store cannot tell whether the checkpoint completed"
    SUPERSEDED = "another owner holds the job's log"

    @property
    def counts(self) -> bool:
        """Whether it counts as a tolerable failure; other reasons do not indicate a problem of the job."""
        return self in _COUNTED


_COUNTED = frozenset(
    {AbortReason.DECLINED, AbortReason.UPLOAD_FAILED, AbortReason.EXPIRED, AbortReason.COMPLETION_FAILED}
)


class FailureCounter:
    """Counts failed checkpoints in a row: each id once, none at or below the last success."""

    def __init__(self) -> None:
        self._counted: set[CheckpointId] = set()
        self._last_success: CheckpointId | None = None

    @property
    def count(self) -> int:
        """Failures since the last success."""
        return len(self._counted)

    def failed(self, checkpoint: CheckpointId, reason: AbortReason) -> None:
        """Count a failure, if its reason counts and no later checkpoint has succeeded."""
        if reason.counts and (self._last_success is None or checkpoint > self._last_success):
            self._counted.add(checkpoint)

    def succeeded(self, checkpoint: CheckpointId) -> None:
        """Reset the count after a success."""
        if self._last_success is None or checkpoint > self._last_success:
            self._last_success = checkpoint
            self._counted = {failed for failed in self._counted if failed > checkpoint}
