"""Merges changes into a table by key, as one version of it, with deltalake's merge."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, QueryBuilder

from streamjob_runtime.sinks.lakes.staged_changes import (
    DELETED,
    LEFT_OUT,
    folded_changes,
    left_out_columns,
    row_of,
    without,
)
from streamjob_runtime.sinks.rows.unavailable import nothing_to_keep

_STORED, _CHANGE = "stored", "change"


def merge(table: DeltaTable, changes: pa.Table, key: Sequence[str], properties: CommitProperties, label: str) -> None:
    """Replace, insert and delete the rows of changed keys; columns that the changes lack keep their stored values.

    So do those that a change leaves out, for which the changes have a column of their names.

    Args:
        table: the table as it was read.
        changes: changes in their order, with the table's columns and whether each is a deletion.
        key: the columns that identify a row.
        label: the sink and the table in messages.

    Raises:
        RowsRefused: a change leaves out columns of a row that the table does not have.
        CommitFailedError: the table has changed since it was read.
    """
    last = folded_changes(changes, key, label)
    read = table.version()
    new = {_quoted(name): _of(_CHANGE, name) for name in last.column_names if name not in (DELETED, LEFT_OUT)}
    updated = dict(new)
    if LEFT_OUT in last.column_names:
        _check_kept(table, last, key, label)
        left_out = last.column(LEFT_OUT).to_pylist()
        for number, name in enumerate(left_out_columns(last)):
            kept = f"{LEFT_OUT}_{number}"
            last = last.append_column(kept, pa.array([name in names for names in left_out], pa.bool_()))
            updated[_quoted(name)] = (
                f"CASE WHEN {_of(_CHANGE, kept)} THEN {_of(_STORED, name)} ELSE {_of(_CHANGE, name)} END"
            )
        last = last.drop_columns([LEFT_OUT])
    (
        table.merge(
            last,
            " AND ".join(f"{_of(_STORED, name)} = {_of(_CHANGE, name)}" for name in key),
            source_alias=_CHANGE,
            target_alias=_STORED,
            commit_properties=properties,
        )
        .when_matched_delete(_of(_CHANGE, DELETED))
        .when_matched_update(updated)
        .when_not_matched_insert(new, predicate=f"NOT {_of(_CHANGE, DELETED)}")
        .execute()
    )
    if table.version() == read:
        # deltalake commits nothing if no row changes, and the record would be missing.
        table.create_write_transaction(
            [], "append", table.schema(), table.metadata().partition_columns, commit_properties=properties
        )


def _check_kept(table: DeltaTable, last: pa.Table, key: Sequence[str], label: str) -> None:
    """Refuse changes that leave out columns of rows that the table does not have."""
    wanted = last.filter(pc.greater(pc.list_value_length(last.column(LEFT_OUT)), 0))
    query = f"SELECT {', '.join(map(_quoted, key))} FROM {_STORED}"
    found = pa.RecordBatchReader.from_stream(QueryBuilder().register(_STORED, table).execute(query))
    for batch in found:
        stored = [batch.column(place).cast(wanted.schema.field(name).type) for place, name in enumerate(key)]
        wanted = without(wanted, pa.table(stored, names=list(key)), key)
        if not wanted.num_rows:
            return
    raise nothing_to_keep(label, row_of(wanted, key, 0), wanted.column(LEFT_OUT)[0].as_py())


def _of(alias: str, name: str) -> str:
    return f"{alias}.{_quoted(name)}"


def _quoted(name: str) -> str:
    """Return a name as deltalake's SQL has it: quoted, so that case and dots belong to it."""
    return '"' + name.replace('"', '""') + '"'
