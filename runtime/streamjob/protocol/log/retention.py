"""Decides which checkpoints a job retains, and which part of its log.

Flink's rule: the newest checkpoints are retained, as many as configured and at least one; older ones are subsumed.
Savepoints neither count nor are subsumed, since they belong to their user.

The log is kept from the oldest retained checkpoint on, even if the last claim is below: an epoch may last for years.
Every record carries epoch, owner and attempt, so the highest one tells who holds the log, even without the claim. It
also contains the number of the oldest record (`LogRecord.oldest`). Only records below that are pruned, so a record
missing above was lost.

Pruning leaves free numbers below the run, and late records there must never count. Readers do not look below `oldest`.
The rest of this text is for logs whose highest record is of version 1, which has no such field.

Call *first(n)* the record that was created first under number n. It was created while n - 1 was the highest number, by
a writer that had read or written first(n - 1): a stale writer finds its number taken or, pruned, something above it
(`exists_above`; the highest record is never pruned, so this stays true), and stops or reads again. Every other record
that anybody ever tries to create under n was composed on first(n - 1) as well:

- a claim, of the epoch behind that of first(n - 1), which lost the number: a sleeping claimer;
- a completion of the epoch, owner and attempt of first(n - 1), when first(n) is the next claim: a sleeping completer;
- first(n) itself, by a request that is repeated late.

A record x under n counts only if what is above it in the run follows it. That was composed on first(n), so it
follows x only if x has the epoch of first(n) and, below anything but a claim, its owner and attempt. The completion has
an earlier epoch than the claim that it lost to: it never counts. The claim has the epoch of first(n) only if that is a
claim, too; by another owner it counts below a claim alone, where it says nothing, and by the same owner it says what
first(n) says. And first(n) come back is true: a claim, or a checkpoint that was subsumed, older than all retained ones.
None of this asks which numbers were pruned.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamjob.ids import LogSeq
from streamjob.protocol.log.ownership import Claim
from streamjob.snapshot.record import LogRecord


def subsumed(checkpoints: Sequence[LogRecord], num_retained: int) -> tuple[LogRecord, ...]:
    """Return the checkpoints that need not be retained any longer, oldest first.

    Args:
        checkpoints: the job's own, oldest first.

    Raises:
        ValueError: `num_retained` is below 1, so nothing would be left to restore.
    """
    if num_retained < 1:
        raise ValueError(f"numRetained is {num_retained}; at least 1 checkpoint must be retained")
    return tuple(checkpoints[:-num_retained])


def prune_below(claim: Claim) -> LogSeq:
    """Return the number below which the log's records are superfluous.

    The remaining records are those of all retained checkpoints, which makes them exist, and all above the oldest of
    them; from the claim on if none is retained. They always include the newest completion and the highest record, and
    all records that the highest record still counts as part of the log.
    """
    return min(claim.oldest, claim.retained[0].seq if claim.retained else claim.record.seq)
