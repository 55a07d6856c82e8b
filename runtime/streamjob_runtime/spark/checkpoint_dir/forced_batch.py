"""Makes Spark run one batch without new data when a query starts: after a restore, and to flush at the end of input.

Spark writes `offsets/<batch>` before it runs a batch, and a query that starts first runs a batch that is planned but
not committed. So an entry after the last committed batch N, with the source offsets of N, is a batch without data whose
watermark we can choose.

- With the watermark that `commits/N` announces for the next batch, it does what Spark would have done without a
  restart: Spark decides about such batches from memory, so after a restart due windows would wait for new data.
- With a watermark at the end of time, it is the flush at the end of input. Windows, sessions, joins, deduplication and
  event-time timers all fire, even down a cascade of operators within the one batch, and their state is empty
  afterwards. A further flush is needed only if a timer or timeout has set another one. State that no watermark evicts
  stays, as it would at the end of a plain Spark query: state without event time, and processing-time timers.

The sources then continue at the same offsets. With `availableNow`, a source that does not support that trigger (a
Python data source without `SupportsTriggerAvailableNow`) gets one batch per run, and the forced batch is that one:
start the query again to read more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from streamjob.ids import BatchId
from streamjob_runtime.spark.checkpoint_dir.errors import CheckpointError, NotCommitted
from streamjob_runtime.spark.checkpoint_dir.logs import OffsetEntry, batches, last_committed, read_commit, read_offsets
from streamjob_runtime.spark.checkpoint_dir.text_files import write_anew

END_OF_TIME_MS = 253_402_300_799_000
"""9999-12-31T23:59:59Z, the watermark of a flush. From 2^63 microseconds on, Spark overflows and nothing fires."""
NO_WATERMARK_MS = -(2**63 // 2000)
"""What a query without a watermark stores from its first batch on, see `EventTimeStart.java`; Spark would store 0."""

_WITHOUT_TIMERS = frozenset(
    {
        "stateStoreSave",
        "sessionWindowStateStoreSaveExec",
        "symmetricHashJoin",
        "dedupe",
        "dedupeWithinWatermark",
        "globalLimit",
    }
)
"""Spark's names of the operators whose state only the watermark ends."""

_TEN_THOUSAND_YEARS_MS = 10_000 * 365 * 24 * 3600 * 1000
_OVERFLOW_MS = 2**63 // 1000


class BatchAlreadyPlanned(CheckpointError):
    """The offset log already has an entry after the last committed batch."""

    def __init__(self, checkpoint: Path, batch: BatchId) -> None:
        super().__init__(
            f"Batch {batch} is planned in {checkpoint / 'offsets'} already",
            "start the query, which runs it, before another batch is forced",
        )
        self.batch = batch


def force_batch(checkpoint: Path, timestamp_ms: int, watermark_ms: int | None = None) -> BatchId:
    """Plan a batch without data after the last committed one; the query runs it first when it starts.

    Args:
        checkpoint: Spark's checkpoint directory of a chain whose query is not running.
        timestamp_ms: the batch's current time, in ms since 1970: processing-time timers up to it fire.
        watermark_ms: the batch's watermark in ms since 1970; None for Spark's own next one, which is also the minimum.

    Returns:
        The planned batch.

    Raises:
        NotCommitted: no batch is committed yet.
        BatchAlreadyPlanned: a batch is planned already, which the query would run anyway.
    """
    last = last_committed(checkpoint)
    if last is None:
        raise NotCommitted(checkpoint, BatchId(0))
    batch = BatchId(last + 1)
    target = checkpoint / "offsets" / str(batch)
    if target.exists():
        raise BatchAlreadyPlanned(checkpoint, batch)
    entry = forced_entry(
        read_offsets(checkpoint, last), read_commit(checkpoint, last).next_watermark_ms, timestamp_ms, watermark_ms
    )
    write_anew(target, entry.render())
    return batch


def drop_planned(checkpoint: Path) -> None:
    """Withdraw the plan of an uncommitted batch; the next query plans its input again.

    Args:
        checkpoint: Spark's checkpoint directory of a chain whose query is not running.
    """
    last = last_committed(checkpoint)
    for batch in batches(checkpoint / "offsets"):
        if last is None or batch > last:
            (checkpoint / "offsets" / str(batch)).unlink()


def forced_entry(
    last: OffsetEntry, next_watermark_ms: int, timestamp_ms: int, watermark_ms: int | None = None
) -> OffsetEntry:
    """Return the plan for a batch without data.

    Args:
        last: the plan of the last committed batch.
        next_watermark_ms: the watermark that the last commit announces for the next batch.
        timestamp_ms: the batch's current time; it never decreases.
        watermark_ms: the requested watermark; None for the announced one.
    """
    # The 0 of a first batch says nothing, and what it announces may be earlier than 1970.
    announced = max(int(last.metadata.get("batchWatermarkMs", 0)) or NO_WATERMARK_MS, next_watermark_ms)
    return OffsetEntry(
        version=last.version,
        metadata={
            **last.metadata,
            "batchWatermarkMs": announced if watermark_ms is None else max(announced, watermark_ms),
            "batchTimestampMs": max(int(last.metadata.get("batchTimestampMs", 0)), timestamp_ms),
        },
        sources=last.sources,
    )


def brings_nothing(entry: OffsetEntry, previous: OffsetEntry) -> bool:
    """Return whether a planned batch has neither new data nor a later watermark: only processing time asks for it.

    Args:
        entry: the plan of the batch.
        previous: the plan of the batch before it.
    """
    now, before = (int(each.metadata.get("batchWatermarkMs", 0)) for each in (entry, previous))
    return entry.sources == previous.sources and now in (before, NO_WATERMARK_MS)


def force_flush(checkpoint: Path, timestamp_ms: int) -> BatchId | None:
    """Plan the next flush after the last committed batch; the query runs it first when it starts.

    Flush, run, and flush again as long as `needs_another_flush` is true.

    Args:
        checkpoint: Spark's checkpoint directory of a chain whose query is not running and whose input has ended.
        timestamp_ms: the batch's current time, in ms since 1970; 0 for that of the last batch.

    Returns:
        The planned batch. None if the chain has been flushed up to the last time that Spark can represent: timers that
        keep registering successors can then never fire.

    Raises:
        NotCommitted: no batch is committed yet.
        BatchAlreadyPlanned: a batch is planned already, which the query has to run first.
    """
    last = last_committed(checkpoint)
    if last is None:
        raise NotCommitted(checkpoint, BatchId(0))
    watermark = flush_watermark(read_commit(checkpoint, last).next_watermark_ms)
    return None if watermark is None else force_batch(checkpoint, timestamp_ms, watermark)


def flush_watermark(reached_ms: int) -> int | None:
    """Return the watermark of the next flush in ms since 1970, or None past the last time that Spark can represent.

    A further flush is far later than the one before, so that timers registered during that one, relative to its
    watermark, fire in this one.

    Args:
        reached_ms: the current watermark of the chain.
    """
    if reached_ms < END_OF_TIME_MS:
        return END_OF_TIME_MS
    watermark = reached_ms + _TEN_THOUSAND_YEARS_MS
    return watermark if watermark < _OVERFLOW_MS else None


def is_followed_by_flush(checkpoint: Path, batch: BatchId) -> bool:
    """Return whether a committed batch, which is no flush itself, announces the watermark of a flush.

    The query that ran it was about to run the flush. One that starts behind it without that intention has to begin at
    the watermark from before.
    """
    announced = read_commit(checkpoint, batch).next_watermark_ms
    return announced >= END_OF_TIME_MS and not is_flush(checkpoint, batch)


def is_flush(checkpoint: Path, batch: BatchId) -> bool:
    """Return whether a batch ran with its event time at the end."""
    return int(read_offsets(checkpoint, batch).metadata.get("batchWatermarkMs", 0)) >= END_OF_TIME_MS


def needs_another_flush(state_operators: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a further flush with a higher watermark would produce more results.

    Firing removes state, and its results fire in downstream operators in the same batch. So only an operator that can
    set timers or timeouts, and that received input or fired some during the flush, can still wait for one.

    Args:
        state_operators: `stateOperators` in the progress of the flushing batch.
    """
    return any(
        operator.get("numRowsUpdated", 0) > 0 or operator.get("customMetrics", {}).get("numRegisteredTimers", 0) > 0
        for operator in state_operators
        if operator.get("operatorName") not in _WITHOUT_TIMERS
    )
