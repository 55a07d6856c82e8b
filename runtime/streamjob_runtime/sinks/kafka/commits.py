"""What a sink has committed, and what follows from it for the batches of a checkpoint; pure.

The newest record of a sink in its commits topic is written in the transaction that it tells of. Only that one is sure
to be kept, since the topic is compacted. So the staged rows that a record names are deleted before the next transaction
begins, and a batch is one of three: staged and in no record, and due; in the newest record, and done; or neither, and
done, if a later checkpoint was committed.

Ids of checkpoints alone do not tell: a job that was deleted and made anew begins with 1 again.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from streamjob.ids import CheckpointId, Epoch
from streamjob_runtime.sinks.errors import UnreadableCommittable

NAMES_KEPT = 50
"""Batches that a record names, with those of earlier commits: a store that came from a copy may have their rows."""


class CommitRecord(BaseModel):
    """What a transaction committed: the batches, the newest first, with some of the commits before."""

    model_config = ConfigDict(frozen=True)

    formatVersion: Literal[1] = 1  # noqa: N815 - as it is stored
    epoch: int
    checkpoint: int
    batches: tuple[str, ...]


class Verdict(StrEnum):
    """What is to be done with a batch of a completed checkpoint."""

    DUE = "DUE"
    DONE = "DONE"
    GONE = "GONE"


def verdict(record: CommitRecord | None, checkpoint: CheckpointId, batch: str, *, staged: bool) -> Verdict:
    """Return what is to be done with a batch.

    Args:
        record: the newest of the sink; None if it has none.
        checkpoint: the completed checkpoint that covers the batch.
        batch: the name of its rows.
        staged: whether its rows are staged.
    """
    if is_recorded(record, batch):
        return Verdict.DONE
    if staged:
        return Verdict.DUE
    if record is not None and record.checkpoint >= checkpoint:
        return Verdict.DONE
    return Verdict.GONE


def is_recorded(record: CommitRecord | None, batch: str) -> bool:
    """Return whether the newest record names a batch."""
    return record is not None and batch in record.batches


def following(
    record: CommitRecord | None, epoch: Epoch, checkpoint: CheckpointId, batches: Sequence[str]
) -> CommitRecord:
    """Return the record of a transaction that commits batches, behind that of the one before."""
    earlier = () if record is None else record.batches
    names = (*batches, *earlier)[: max(len(batches), NAMES_KEPT)]
    return CommitRecord(epoch=epoch, checkpoint=checkpoint, batches=names)


def read_record(text: str | None, sink: str) -> CommitRecord | None:
    """Return a record as it is stored; None if there is none.

    Raises:
        UnreadableCommittable: it has another form.
    """
    if text is None:
        return None
    try:
        return CommitRecord.model_validate_json(text)
    except ValidationError as error:
        raise UnreadableCommittable(
            f"{sink}: its newest record in the commits topic cannot be read: {error}",
            "run the version that wrote it, or a later one",
        ) from error


def identity_of(namespace: str, job: str, sink: str) -> str:
    """Return what a sink's records and transactions are known by."""
    return f"{namespace}/{job}/{sink}"


def transactional_id(identity: str) -> str:
    """Return the id under which a sink's transactions are made; brokers let one process at a time use it."""
    return f"streamjob/{identity}"


def partition_of(identity: str, partitions: int) -> int:
    """Return the partition of the commits topic that has a sink's records."""
    return zlib.crc32(identity.encode()) % partitions
