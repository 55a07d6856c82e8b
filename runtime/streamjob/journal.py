"""The journal of a sink that publishes each batch: what each batch was made of, and what came out of it.

Nothing that was published may be contradicted. A batch is a function of the state before it and of its plan: the end
positions of the sources, its time and its watermark. So one transaction writes the rows of a batch and a record of its
plan, with a hash of the rows. After a restore from a checkpoint, the batches behind it run again by their plans,
publish nothing, and have to have the same hashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from streamjob.errors import CannotRestore
from streamjob.ids import BatchId, CheckpointId, Epoch, OperatorUid

MOST_BATCHES = 10_000
"""Number of batches that a journal may have before its sink waits for a checkpoint."""

_PUBLISHED = "publishedBatch"


class JournalIncomplete(CannotRestore):
    """The journal of a sink lacks batches between the checkpoint and what was published."""


class ReplayDiverged(CannotRestore):
    """A batch that ran again has other rows than the ones that it has published."""


class BatchPlan(BaseModel):
    """The inputs of a batch, by which it can run again.

    Args:
        version: the version of Spark's offset log.
        timestamp_ms: the time of the batch, in ms since 1970.
        watermark_ms: its watermark, in ms since 1970.
        sources: the end positions of its sources, a line each, as Spark writes them.
    """

    model_config = ConfigDict(frozen=True)

    version: str
    timestamp_ms: int
    watermark_ms: int
    sources: tuple[str, ...]


class JournalRecord(BaseModel):
    """The record of a published batch.

    Args:
        epoch: the epoch that published it.
        batch: its number.
        plans: its plan, and those of the batches before it that had no rows, by their numbers.
        rows: the number of its rows.
        hash: the sum of the hashes of its rows, modulo 2^64: it depends neither on order nor on partitions.
    """

    model_config = ConfigDict(frozen=True)

    formatVersion: Literal[1] = 1  # noqa: N815 - as it is stored
    epoch: Epoch
    batch: BatchId
    plans: Mapping[BatchId, BatchPlan]
    rows: int
    hash: int


@dataclass(frozen=True, slots=True)
class Replay:
    """The batches that a chain has to run again.

    Args:
        plans: by number, ascending, without a gap.
        published: the records of those that a sink has published, by sink and number.
    """

    plans: Mapping[BatchId, BatchPlan]
    published: Mapping[OperatorUid, Mapping[BatchId, JournalRecord]]


def replay_of(
    journals: Mapping[OperatorUid, Iterable[JournalRecord]], checkpoint: CheckpointId | None, batch: BatchId
) -> Replay:
    """Return what a chain has to run again behind the checkpoint that it was restored from.

    Args:
        journals: the records of its sinks; those up to the checkpoint may still be there.
        batch: the last batch that the checkpoint covers.

    Raises:
        JournalIncomplete: a batch is missing, or two sinks disagree about one.
    """
    published: dict[OperatorUid, dict[BatchId, JournalRecord]] = {}
    plans: dict[BatchId, BatchPlan] = {}
    for sink, records in journals.items():
        own = published[sink] = {each.batch: each for each in records if each.batch > batch}
        for record in own.values():
            for number, plan in record.plans.items():
                if number > batch and plans.setdefault(number, plan) != plan:
                    raise _incomplete(sink, checkpoint, f"has another plan for batch {number} than the other sinks")
    for expected, there in enumerate(sorted(plans), start=batch + 1):
        if expected != there:
            sink = next(each for each, own in published.items() if own)
            raise _incomplete(sink, checkpoint, f"has batch {there}, and lacks batch {expected}")
    return Replay(dict(sorted(plans.items())), published)


def _incomplete(sink: OperatorUid, checkpoint: CheckpointId | None, what: str) -> JournalIncomplete:
    return JournalIncomplete(
        f"sink {sink}: its journal does not continue checkpoint {checkpoint}: it {what}. So it is not known which rows "
        "were published behind the checkpoint",
        "start from the newest checkpoint; bring the journal back from a copy; or start with --from and that "
        "checkpoint, which publishes the rows behind it again",
    )


def published_marker(batch: BatchId) -> dict[str, JsonValue]:
    """Return the committable of a batch whose rows are published already."""
    return {_PUBLISHED: batch}


def published_batch(committable: object) -> BatchId | None:
    """Return the batch that a committable says is published already; None if it has rows to commit."""
    return BatchId(committable[_PUBLISHED]) if isinstance(committable, dict) and _PUBLISHED in committable else None
