"""Publishes each batch of a sink at once, and compares those that run again with what they have published."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from streamjob.ids import NO_BATCH, BatchId, Epoch, OperatorUid
from streamjob.journal import (
    MOST_BATCHES,
    BatchPlan,
    JournalRecord,
    ReplayDiverged,
    published_batch,
    published_marker,
)
from streamjob.sink import Measured, PublishesBatches, Sink, Staged
from streamjob_runtime.pinning.batches import PinnedBatch
from streamjob_runtime.spark.checkpoint_dir.forced_batch import END_OF_TIME_MS
from streamjob_runtime.spark.checkpoint_dir.logs import OffsetEntry, read_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_WITHOUT_ROWS = 1000
_MOST_CHARACTERS = 200_000
"""Of the plans of batches without rows: Kafka refuses records of more than a megabyte."""
_LOOK_SECONDS = 0.5


def batch_plan(checkpoint: Path, batch: BatchId) -> BatchPlan:
    """Return the plan of a batch in Spark's checkpoint directory of a chain. Raises CheckpointError."""
    entry = read_offsets(checkpoint, batch)
    return BatchPlan(
        version=entry.version,
        timestamp_ms=entry.metadata["batchTimestampMs"],
        watermark_ms=entry.metadata["batchWatermarkMs"],
        sources=entry.sources,
    )


def pinned_batch(batch: BatchId, plan: BatchPlan) -> PinnedBatch:
    """Return the batch with its plan as Spark's offset log has it; settings are those of the checkpoint."""
    metadata = {"batchWatermarkMs": plan.watermark_ms, "batchTimestampMs": plan.timestamp_ms, "conf": {}}
    return PinnedBatch(batch, OffsetEntry(plan.version, metadata, plan.sources).render())


class BatchPublisher:
    """Publishes the batches of one sink in one epoch; `covered` may be called on another thread.

    Args:
        uid: the sink's uid.
        sink: the sink, opened; one that has `PublishesBatches`.
        publishes: whether batches are published at once; else only those that run again are compared.
        most: number of batches that the journal may have.
    """

    def __init__(
        self, uid: OperatorUid, sink: Sink, epoch: Epoch, *, publishes: bool, most: int = MOST_BATCHES
    ) -> None:
        assert isinstance(sink, PublishesBatches)
        self._uid = uid
        self._sink = sink
        self._publishing: PublishesBatches = sink
        self._epoch = epoch
        self.publishes = publishes
        self._most = most
        self._published: Mapping[BatchId, JournalRecord] = {}
        self._last_again = NO_BATCH
        self._compares = True
        self._without_rows: dict[BatchId, BatchPlan] = {}
        self._uncovered: set[BatchId] = set()
        self._staged: list[object] = []
        self._changed = threading.Condition()

    def take_journal(self) -> None:
        """Let no other process publish from here on. Raises the errors of the sink."""
        self._publishing.take_journal()

    def journal(self) -> tuple[JournalRecord, ...]:
        """Return the journal. Raises the errors of the sink."""
        return tuple(self._publishing.journal())

    def journal_id(self) -> str | None:
        """Return the id of the journal; None if there is none."""
        return self._publishing.journal_id()

    def drop_journal(self) -> int:
        """Delete all records; return their number. Raises the errors of the sink."""
        return self._publishing.drop_journal()

    def replay(self, published: Mapping[BatchId, JournalRecord], last: BatchId, *, has_state: bool) -> None:
        """Publish nothing of these batches when they run again; compare them with what was published.

        Args:
            last: the last one that does, for any sink of the chain.
            has_state: whether the chain has state. If not, nobody needs their rows, and they are not computed.
        """
        self._published = dict(published)
        self._last_again = last
        self._compares = has_state
        self._uncovered = set(published)

    @property
    def needs_journal(self) -> bool:
        """Whether a start from the next checkpoint needs the journal."""
        return self.publishes or bool(self._published)

    def wait_for_room(self, batch: BatchId, over: Callable[[], bool], ask: Callable[[], None]) -> None:
        """Block while the journal is full, or until `over`; `ask` for a checkpoint as soon as it is half full."""
        if batch <= self._last_again:
            # No checkpoint makes room before it has run again.
            return
        with self._changed:
            if len(self._uncovered) * 2 >= self._most:
                ask()
            while len(self._uncovered) >= self._most and not over():
                self._changed.wait(_LOOK_SECONDS)
                ask()

    def covered(self, committables: Sequence[object]) -> None:
        """Note that the sink has committed a checkpoint, and has forgotten the records of its batches."""
        batches = {batch for each in committables if (batch := published_batch(each)) is not None}
        with self._changed:
            self._staged = [each for each in self._staged if each not in committables]
            self._uncovered -= batches
            self._changed.notify_all()

    def stage(
        self,
        rows: DataFrame,
        batch: BatchId,
        plan_of: Callable[[BatchId], BatchPlan],
        begin: Callable[[], None] = lambda: None,
    ) -> Staged:
        """Publish a batch, or compare it if it has been published before.

        Args:
            plan_of: reads the plan of a batch.
            begin: is called right before something is published; blocks until that may be.

        The flush at the end of input is staged: after a failure, the job may go on reading instead.

        Raises:
            ReplayDiverged: it has other rows than before.
            StreamJobError: what the sink raises.
        """
        if (record := self._published.get(batch)) is not None:
            return self._compared(rows, batch, Measured(record.rows, record.hash))
        if batch < max(self._published, default=NO_BATCH):
            return self._compared(rows, batch, Measured(0, 0))
        # A snapshot that stops the job waits for each that runs again, so these must not wait for its end. And nothing
        # is published before what was staged is committed.
        if batch <= self._last_again or self._staged or not self.publishes:
            return self._stage(rows, batch)
        if (plan := plan_of(batch)).watermark_ms >= END_OF_TIME_MS:
            return self._stage(rows, batch)
        plans = {**self._without_rows, batch: plan}

        def record_of(found: Measured) -> JournalRecord:
            begin()
            return JournalRecord(epoch=self._epoch, batch=batch, plans=plans, rows=found.rows, hash=found.hash)

        long = sum(len(each) for plan in plans.values() for each in plan.sources) >= _MOST_CHARACTERS
        made = self._publishing.publish(rows, record_of, always=long or len(plans) >= _MOST_WITHOUT_ROWS)
        if made is None:
            self._without_rows = plans
            return Staged(None, 0)
        self._without_rows = {}
        with self._changed:
            self._uncovered.add(batch)
        return Staged(published_marker(batch), made.rows, published=True)

    def _stage(self, rows: DataFrame, batch: BatchId) -> Staged:
        staged = self._sink.stage(rows, batch)
        if self.publishes and staged.committable is not None:
            with self._changed:
                self._staged.append(staged.committable)
        return staged

    def _compared(self, rows: DataFrame, batch: BatchId, was: Measured) -> Staged:
        if self._compares and (found := self._publishing.measure(rows)) != was:
            other = "other rows" if found.rows == was.rows else "another number of rows"
            raise ReplayDiverged(
                f"sink {self._uid}: batch {batch} ran again and has {other}: {was.rows} were published (hash "
                f"{was.hash:016x}), and now there are {found.rows} (hash {found.hash:016x})",
                "if the job was changed, start the former one and stop it with a savepoint first; if not, a result "
                "depends on more than its input: find what does, and say publish: checkpoint for the sink until then. "
                "Start with --from and the checkpoint: what was published since stays, and is published again",
            )
        # The rows were counted when they were published.
        return Staged(published_marker(batch) if batch in self._published else None, 0, published=True)
