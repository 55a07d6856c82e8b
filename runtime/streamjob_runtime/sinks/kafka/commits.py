"""Tracks a sink's commits, and decides what to do with the batches of a checkpoint; pure.

Each transaction also writes a record about itself to the commits topic. Only the newest record is certain to survive,
since the topic is compacted. So the staged rows that a record names are deleted before the next transaction begins. A
batch is then in one of three states: staged and not recorded, so it is due; named by the newest record, so it is done;
or neither, and done if a later checkpoint was committed.

Checkpoint ids alone do not decide this: a job that was deleted and created again restarts at 1.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from streamjob.ids import CheckpointId, Epoch
from streamjob_runtime.sinks.committables import read_record as _read

NAMES_KEPT = 50
"""Number of batches that a record names, including earlier commits: a copied store may still have their rows."""


class CommitRecord(BaseModel):
    """The record of a transaction: its batches, newest first, followed by some of earlier commits."""

    model_config = ConfigDict(frozen=True)

    formatVersion: Literal[1] = 1  # noqa: N815 - as it is stored
    epoch: int
    checkpoint: int
    batches: tuple[str, ...]


def is_recorded(record: CommitRecord | None, batch: str) -> bool:
    """Return whether the newest record names a batch."""
    return record is not None and batch in record.batches


def is_done_before(record: CommitRecord | None, checkpoint: CheckpointId) -> bool:
    """Return whether a batch of a checkpoint that is neither staged nor recorded was committed before the record."""
    return record is not None and record.checkpoint >= checkpoint


def following(
    record: CommitRecord | None, epoch: Epoch, checkpoint: CheckpointId, batches: Sequence[str]
) -> CommitRecord:
    """Return the record of a transaction that commits these batches after the previous record."""
    earlier = () if record is None else record.batches
    names = (*batches, *earlier)[: max(len(batches), NAMES_KEPT)]
    return CommitRecord(epoch=epoch, checkpoint=checkpoint, batches=names)


def read_record(text: str | None, sink: str) -> CommitRecord | None:
    """Parse a stored record; None if there is none.

    Raises:
        UnreadableRecord: it is damaged, or has an unknown form.
    """
    if text is None:
        return None
    return _read(
        CommitRecord,
        text,
        name="its newest record in the commits topic",
        sink=sink,
        fix="run the version that wrote it, or a later one; if another program wrote it, write the sink's last valid "
        "record to the topic again, with the same key",
    )


def identity_of(namespace: str, job: str, sink: str) -> str:
    """Return the identity of a sink in its records and transactions."""
    return f"{namespace}/{job}/{sink}"


def journal_topic(commits_topic: str, identity: str) -> str:
    """Return the topic of a sink's journal: others' transactions that stay open must not hold it back."""
    # The part at the end tells identities apart that are alike with other separators, or when they are cut.
    return f"{commits_topic}.{identity.replace('/', '.')}"[:240] + f".{zlib.crc32(identity.encode()):08x}"


def transactional_id(identity: str) -> str:
    """Return the transactional id of a sink; brokers allow one process at a time to use it."""
    return f"streamjob/{identity}"


def partition_of(identity: str, partitions: int) -> int:
    """Return the partition of the commits topic with a sink's records."""
    return zlib.crc32(identity.encode()) % partitions
