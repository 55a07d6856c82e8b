"""The record of a sink's commits, which the table's log itself has: an application transaction for each life.

An application transaction is a name and a number that the log keeps. The commit that adds the files of a batch sets the
number of its life to that of the batch, so the same version of the table has the rows and the record of them. One more
has the number of the newest checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction, RemoveAction
from pydantic import BaseModel, ConfigDict

from streamjob.ids import CheckpointId
from streamjob_runtime.sinks.delta.datafiles import StagedFile

PREFIX = "streamjob."
_CHECKPOINT = "checkpoint"
"""Stands for a life in the name of the application transaction whose number is the newest checkpoint."""


class StagedBatch(BaseModel):
    """The committable: a batch's files, with the life and number that identify it in the table's log.

    Args:
        formatVersion: 1; 2 if changes may leave out columns, for which an older version would write NULL.
        table: the table's id.
        sink: the sink's identity.
        life: the life that staged the batch.
        number: the number of the batch in that life.
        partitionBy: the columns that partitioned the table.
        columns: the types of the columns in the files and their partitions.
        files: the data files.
        changes: the files with changes, in order; instead of data files.
    """

    model_config = ConfigDict(frozen=True)

    formatVersion: Literal[1, 2] = 1  # noqa: N815 - as it is stored
    table: str
    sink: str
    life: str
    number: int
    partitionBy: tuple[str, ...] = ()  # noqa: N815
    columns: dict[str, Any]
    files: tuple[StagedFile, ...] = ()
    changes: tuple[str, ...] = ()

    def paths(self) -> tuple[str, ...]:
        """Return the paths of its files below the table."""
        return (*(file.path for file in self.files), *self.changes)


def is_committed(table: DeltaTable, identity: str, life: str, number: int) -> bool:
    """Return whether a table's log records that a batch is committed."""
    committed = table.transaction_version(application(identity, life))
    return committed is not None and number <= committed


def newest_checkpoint(table: DeltaTable, identity: str) -> CheckpointId | None:
    """Return the checkpoint that a sink committed last; None if none is recorded."""
    newest = table.transaction_version(application(identity, _CHECKPOINT))
    return None if newest is None else CheckpointId(newest)


def commit_properties(
    batches: Sequence[StagedBatch],
    numbers: Mapping[str, int],
    notes: Mapping[str, str],
) -> CommitProperties:
    """Return the properties of a commit that records batches and is refused if the table has changed since it was read.

    Args:
        batches: the batches, in order.
        numbers: further application transactions.
        notes: describe the commit in the table's history.
    """
    numbers = {**{application(batch.sink, batch.life): batch.number for batch in batches}, **numbers}
    now = int(time.time() * 1000)
    return CommitProperties(
        custom_metadata={f"{PREFIX}{name}": value for name, value in notes.items()},
        max_commit_retries=0,
        app_transactions=[Transaction(application, number, now) for application, number in numbers.items()],
    )


def add(
    table: DeltaTable, batches: Sequence[StagedBatch], properties: CommitProperties, *, replaces: bool = False
) -> None:
    """Add the files of batches to a table as one version of it.

    Args:
        replaces: whether they replace all files of the table.

    Raises:
        CommitFailedError: the table has changed since it was read.
    """
    now = int(time.time() * 1000)
    added: list[AddAction | RemoveAction] = [
        AddAction(file.path, file.size, file.partition, now, True, file.statistics)
        for batch in batches
        for file in batch.files
    ]
    table.create_write_transaction(
        added,
        "overwrite" if replaces else "append",
        table.schema(),
        table.metadata().partition_columns,
        commit_properties=properties,
    )


def parts_of(table: DeltaTable, paths: Iterable[str]) -> frozenset[str]:
    """Return those of some paths that are part of the table as it is now."""
    wanted = frozenset(paths)
    return wanted & set(pa.table(table.get_add_actions()).column("path").to_pylist()) if wanted else frozenset()


def of_checkpoint(identity: str, checkpoint: CheckpointId) -> Mapping[str, int]:
    """Return the application transaction that tells the newest checkpoint."""
    return {application(identity, _CHECKPOINT): checkpoint}


def application(identity: str, numbered: str) -> str:
    """Return the name of an application transaction of a sink."""
    return f"{PREFIX.rstrip('.')}/{identity}/{numbered}"
