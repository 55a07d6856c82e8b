"""Merges changes into a table by key, in one snapshot: files with affected rows are written again without them.

pyiceberg writes neither equality nor position deletes, so this is copy-on-write. The changes of a checkpoint, and one
data file of the table at a time, are held in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    GreaterThanOrEqual,
    LessThanOrEqual,
    Reference,
)
from pyiceberg.expressions.literals import literal
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IntegerType, LongType, StringType

from streamjob_runtime.sinks.iceberg.datafiles import StagedFile, restore
from streamjob_runtime.sinks.staged_changes import DELETED, POSITION, in_order, last_changes


@dataclass(frozen=True, slots=True)
class Merge:
    """The files that a merge replaces, and those that it adds."""

    replaced: tuple[DataFile, ...]
    added: tuple[StagedFile, ...]


def without(rows: pa.Table, changes: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the rows whose key has no change, in their order.

    Args:
        rows: rows of the table.
        changes: changes of keys, of which each occurs once.
        key: the columns that identify a row.
    """
    positions = pa.array(range(rows.num_rows), pa.int64())
    numbered = rows.select(key).append_column(POSITION, positions)
    kept = numbered.join(changes.select(key), list(key), join_type="left anti", use_threads=False)
    return in_order(rows, kept.column(POSITION))


def merge(
    table: Table, changes: pa.Table, key: Sequence[str], write: Callable[[pa.Table], Iterable[StagedFile]]
) -> Merge:
    """Write the files that a table has after some changes instead of others, or beside them.

    Args:
        table: the table as it was read.
        changes: changes in their order, with the table's columns and whether each is a deletion.
        key: the columns that identify a row.
        write: writes rows as data files of the table.
    """
    metadata = table.metadata
    last = last_changes(changes, key)
    replaced: list[DataFile] = []
    added: list[StagedFile] = []
    for task in table.scan(row_filter=_among(last, key, metadata.schema())).plan_files():
        rows = ArrowScan(metadata, table.io, metadata.schema(), AlwaysTrue()).to_table([task])
        kept = without(rows, _typed_as(last, rows.schema, key), key)
        if kept.num_rows < rows.num_rows:
            replaced.append(task.file)
            if kept.num_rows:
                added += write(kept)
    new = last.filter(pc.invert(last.column(DELETED))).drop_columns([DELETED])
    if new.num_rows:
        added += write(new)
    return Merge(tuple(replaced), tuple(added))


def commit_merge(table: Table, merged: Merge, summary: Mapping[str, str], properties: Mapping[str, str]) -> None:
    """Replace and add files, and set properties, in a single commit without retries.

    Raises:
        CommitFailedException: the table has changed since it was read.
    """
    metadata = table.metadata
    table.metadata = metadata.model_copy(
        update={"properties": {**metadata.properties, "commit.retry.num-retries": "0"}}
    )
    transaction = table.transaction()
    transaction.set_properties(dict(properties))
    with transaction.update_snapshot(snapshot_properties=dict(summary)).overwrite() as overwriting:
        # pyiceberg looks for the files in manifests that can have such rows: in all, since partitions may be computed.
        overwriting.delete_by_predicate(AlwaysTrue())
        for file in merged.replaced:
            overwriting.delete_data_file(file)
        for added in merged.added:
            overwriting.append_data_file(restore(added, metadata.spec(), metadata.schema()))
    transaction.commit_transaction()


def _typed_as(changes: pa.Table, schema: pa.Schema, key: Sequence[str]) -> pa.Table:
    """Return the keys of changes with the types that the table's files are read with."""
    columns = [changes.column(name).cast(schema.field(name).type) for name in key]
    return pa.table(columns, names=list(key))


def _among(changes: pa.Table, key: Sequence[str], schema: Schema) -> BooleanExpression:
    """Return a condition that the changed rows of the table meet, to leave out files by their bounds."""
    condition: BooleanExpression = AlwaysTrue()
    for name in key:
        if isinstance(schema.find_type(name), IntegerType | LongType | StringType):
            bounds = pc.min_max(changes.column(name)).as_py()
            least, greatest = (literal(bounds[each]) for each in ("min", "max"))
            column = Reference(name)
            within = And(GreaterThanOrEqual(term=column, value=least), LessThanOrEqual(term=column, value=greatest))
            condition = And(condition, within)
    return condition
