"""Batches that ran before, and are to run again as they did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from streamjob.errors import CannotRestore, StreamJobError
from streamjob.ids import BatchId, ChainUid
from streamjob_runtime.spark.checkpoint_dir.errors import UnreadableCheckpointFile
from streamjob_runtime.spark.checkpoint_dir.forced_batch import END_OF_TIME_MS
from streamjob_runtime.spark.checkpoint_dir.logs import OffsetEntry, parse_offsets, read_offsets
from streamjob_runtime.spark.gateway import java_session, our_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_START_AGAIN = "report it; what was published stays, and `--from none` starts the job without it"


class WrongPinnedBatch(CannotRestore):
    """A record of a batch does not fit the chain that is to run it again; the batch has not run."""

    def __init__(self, chain: ChainUid, batch: BatchId, problem: str) -> None:
        super().__init__(f"Chain {chain!r} cannot run batch {batch} as it ran before: {problem}", _START_AGAIN)
        self.chain = chain
        self.batch = batch


class PinnedBatchFailed(StreamJobError):
    """A batch that runs again as it ran before has failed, as when a source does not have its records any more."""

    def __init__(self, chain: ChainUid, batch: BatchId, reason: str) -> None:
        super().__init__(
            f"Chain {chain!r} fails in batch {batch}, which it runs as it ran before: {reason}",
            "its sources must still have the records that it has read; if they have, start again",
        )
        self.chain = chain
        self.batch = batch


@dataclass(frozen=True, slots=True)
class PinnedBatch:
    """A batch that ran before.

    Args:
        batch: its number.
        entry: the text of its entry in Spark's offset log: its end offsets, its time and its watermark.
    """

    batch: BatchId
    entry: str


def check_pinned(chain: ChainUid, behind: BatchId, sources: int, pinned: Sequence[PinnedBatch]) -> None:
    """Check that batches can follow one another in a chain.

    Args:
        chain: the chain.
        behind: the batch behind which it continues.
        sources: how many sources it reads.
        pinned: the batches, in order.

    Raises:
        WrongPinnedBatch: there is a gap, an entry cannot be read or has other sources, or a batch is a flush.
    """
    for number, each in enumerate(pinned, behind + 1):
        if each.batch != number:
            raise WrongPinnedBatch(chain, each.batch, f"batch {number} comes next")
        entry = _entry(chain, each)
        if len(entry.sources) != sources:
            found = f"its record has {len(entry.sources)} positions, and the chain {sources} sources"
            raise WrongPinnedBatch(chain, each.batch, found)
        if int(entry.metadata["batchWatermarkMs"]) >= END_OF_TIME_MS:
            # Event time would stay at its end for all that comes behind it.
            raise WrongPinnedBatch(chain, each.batch, "it is the flush at the end of the input")


def check_planned(chain: ChainUid, pinned: PinnedBatch, checkpoint: Path) -> None:
    """Check that the batch that Spark is about to run is a pinned one.

    Args:
        chain: the chain.
        pinned: the batch, whose entry has passed `check_pinned`.
        checkpoint: Spark's checkpoint directory of the chain.

    Raises:
        WrongPinnedBatch: it is another one.
    """
    wanted, planned = _essence(_entry(chain, pinned)), _essence(read_offsets(checkpoint, pinned.batch))
    if planned != wanted:
        raise WrongPinnedBatch(chain, pinned.batch, f"Spark has planned it as {planned}, not as {wanted}")


@contextmanager
def beginning_with(spark: SparkSession, query: str, pinned: Sequence[PinnedBatch]) -> Iterator[None]:
    """Let the query of this name that is started meanwhile begin with batches; it goes on by itself behind them."""
    if not pinned:
        yield
        return
    batches = our_java(spark).PinnedBatches.prepare(java_session(spark), query, [each.entry for each in pinned])
    try:
        yield
    finally:
        batches.remove()


def _entry(chain: ChainUid, pinned: PinnedBatch) -> OffsetEntry:
    try:
        entry = parse_offsets(pinned.entry, Path("its record"))
        if {"batchWatermarkMs", "batchTimestampMs"} <= entry.metadata.keys():
            return entry
        problem = "its record has no time or no watermark"
    except UnreadableCheckpointFile as error:
        problem = error.what
    raise WrongPinnedBatch(chain, pinned.batch, problem)


def _essence(entry: OffsetEntry) -> tuple[str, ...]:
    """Return what decides the outcome of a batch: the settings of a checkpoint change with its partitions."""
    return (*entry.sources, *(f"{name}={entry.metadata[name]}" for name in ("batchTimestampMs", "batchWatermarkMs")))
