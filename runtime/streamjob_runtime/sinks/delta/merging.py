"""Merges changes into a table by key, as one version of it, with deltalake's merge."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable

from streamjob_runtime.sinks.staged_changes import DELETED, last_changes

_STORED, _CHANGE = "stored", "change"


def merge(table: DeltaTable, changes: pa.Table, key: Sequence[str], properties: CommitProperties) -> None:
    """Replace, insert and delete the rows of changed keys; columns that the changes lack keep their stored values.

    Args:
        table: the table as it was read.
        changes: changes in their order, with the table's columns and whether each is a deletion.
        key: the columns that identify a row.
        properties: of the commit.

    Raises:
        CommitFailedError: the table has changed since it was read.
    """
    last = last_changes(changes, key)
    read = table.version()
    values = {_quoted(name): _of(_CHANGE, name) for name in last.column_names if name != DELETED}
    (
        table.merge(
            last,
            " AND ".join(f"{_of(_STORED, name)} = {_of(_CHANGE, name)}" for name in key),
            source_alias=_CHANGE,
            target_alias=_STORED,
            commit_properties=properties,
        )
        .when_matched_delete(_of(_CHANGE, DELETED))
        .when_matched_update(values)
        .when_not_matched_insert(values, predicate=f"NOT {_of(_CHANGE, DELETED)}")
        .execute()
    )
    if table.version() == read:
        # deltalake commits nothing if no row changes, and the record would be missing.
        table.create_write_transaction(
            [], "append", table.schema(), table.metadata().partition_columns, commit_properties=properties
        )


def _of(alias: str, name: str) -> str:
    return f"{alias}.{_quoted(name)}"


def _quoted(name: str) -> str:
    """Return a name as deltalake's SQL has it: quoted, so that case and dots belong to it."""
    return '"' + name.replace('"', '""') + '"'
