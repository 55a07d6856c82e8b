"""Which checkpoints a job keeps, and how much of its log.

Flink's rule: the newest checkpoints are retained, as many as the job says and never none; older ones are subsumed.
Savepoints neither count nor are subsumed, for they belong to their user.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamjob.ids import LogSeq
from streamjob.protocol.ownership import Claim
from streamjob.snapshot.record import LogRecord


def subsumed(checkpoints: Sequence[LogRecord], num_retained: int) -> tuple[LogRecord, ...]:
    """Return the checkpoints that need not be retained any longer, oldest first.

    Args:
        checkpoints: the job's own, oldest first.
        num_retained: how many are retained.

    Raises:
        ValueError: `num_retained` is below 1, so nothing would be left to restore from.
    """
    if num_retained < 1:
        raise ValueError(f"numRetained is {num_retained}; at least 1 checkpoint must be retained")
    return tuple(checkpoints[:-num_retained])


def prune_below(held: Claim) -> LogSeq:
    """Return the number below which the log's records are superfluous.

    What stays: the last claim and all above it, so that no reader and no late writer can mistake who holds the log; and
    the records of all retained checkpoints, so that they exist.
    """
    oldest = held.retained[0].seq if held.retained else held.record.seq
    return min(oldest, held.record.seq)
