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

from streamjob_runtime.sinks.iceberg.commits import overwrite
from streamjob_runtime.sinks.iceberg.datafiles import StagedFile, restore
from streamjob_runtime.sinks.lakes.staged_changes import (
    DELETED,
    LEFT_OUT,
    folded_changes,
    keys_of,
    left_out_columns,
    row_of,
    without,
)
from streamjob_runtime.sinks.rows.unavailable import nothing_to_keep


@dataclass(frozen=True, slots=True)
class Merge:
    """The files that a merge replaces, and those that it adds."""

    replaced: tuple[DataFile, ...]
    added: tuple[StagedFile, ...]


def with_kept(last: pa.Table, key: Sequence[str], stored: pa.Table, table: str) -> pa.Table:
    """Return changes with the stored values of the columns that they leave out.

    Args:
        last: the last change of each key.
        key: the columns that identify a row.
        stored: stored rows, with the key and the columns that are left out.
        table: the table in messages.

    Raises:
        RowsRefused: a change leaves out a column of a row that is not stored.
    """
    # Stored values stand behind those of the changes.
    places = {each: last.num_rows + place for place, each in enumerate(keys_of(stored, key))}
    keys, left_out = keys_of(last, key), last.column(LEFT_OUT).to_pylist()
    for place, names in enumerate(left_out):
        if names and keys[place] not in places:
            raise nothing_to_keep(table, row_of(last, key, place), names)
    for name in left_out_columns(last):
        sources = [places[each] if name in left_out[place] else place for place, each in enumerate(keys)]
        values = pa.chunked_array([*last.column(name).chunks, *stored.column(name).chunks], last.column(name).type)
        column = values.take(pa.array(sources, pa.int64()))
        last = last.set_column(last.column_names.index(name), name, column)
    return last.drop_columns([LEFT_OUT])


def merge(
    table: Table, changes: pa.Table, key: Sequence[str], write: Callable[[pa.Table], Iterable[StagedFile]], label: str
) -> Merge:
    """Write the files that a table has after some changes instead of others, or beside them.

    Args:
        table: the table as it was read.
        changes: changes in their order, with the table's columns and whether each is a deletion.
        key: the columns that identify a row.
        write: writes rows as data files of the table.
        label: the table in messages.

    Raises:
        RowsRefused: a change leaves out a column of a row that is not stored.
    """
    metadata = table.metadata
    last = folded_changes(changes, key, label)
    needed = [*key, *left_out_columns(last)] if LEFT_OUT in last.column_names else []
    stored = [last.select(needed).slice(0, 0)]
    replaced: list[DataFile] = []
    added: list[StagedFile] = []
    for task in table.scan(row_filter=_among(last, key, metadata.schema())).plan_files():
        rows = ArrowScan(metadata, table.io, metadata.schema(), AlwaysTrue()).to_table([task])
        kept = without(rows, _typed(last.select(key), rows.schema), key)
        if kept.num_rows < rows.num_rows:
            replaced.append(task.file)
            if needed:
                stored.append(_typed(without(rows, kept, key).select(needed), last.schema))
            if kept.num_rows:
                added += write(kept)
    if needed:
        last = with_kept(last, key, pa.concat_tables(stored), label)
    new = last.filter(pc.invert(last.column(DELETED))).drop_columns([DELETED])
    if new.num_rows:
        added += write(new)
    return Merge(tuple(replaced), tuple(added))


def commit_merge(table: Table, merged: Merge, summary: Mapping[str, str], properties: Mapping[str, str]) -> None:
    """Replace and add files, and set properties, in a single commit; see `overwrite`."""
    metadata = table.metadata
    added = [restore(file, metadata.spec(), metadata.schema()) for file in merged.added]
    overwrite(table, merged.replaced, added, metadata.default_spec_id, summary, properties)


def _typed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with the types of others: files of the table are read with other types than changes."""
    names = rows.column_names
    return pa.table([rows.column(name).cast(schema.field(name).type) for name in names], names=names)


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
