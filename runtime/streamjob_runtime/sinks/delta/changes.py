"""Stages changes below a table until their commit merges them; each knows its position in its batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from streamjob.job.connectors.changes import CHANGE_TYPE
from streamjob_runtime.sinks.delta.column_types import aligned
from streamjob_runtime.sinks.delta.datafiles import (
    StagedFile,
    Target,
    as_the_table_has_them,
    check_rows,
    remove_files,
    write_parquet,
)
from streamjob_runtime.sinks.lakes.staged_changes import DELETED, KEY_FIX, LEFT_OUT, POSITION
from streamjob_runtime.sinks.lakes.values import refuse_nulls
from streamjob_runtime.sinks.rows.changes import is_deletion
from streamjob_runtime.sinks.rows.task_files import write_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NAME = "changes"


class ChangeFiles:
    """Writes changes as files of their own."""

    description = StagedFile

    def __init__(self, target: Target) -> None:
        self.files: list[StagedFile] = []
        self._target = target

    def write(self, rows: pa.Table) -> None:
        """Write changes. Raises RowsRefused if a key is null, or the table or its readers cannot hold a value."""
        marks = [name for name in (DELETED, POSITION, LEFT_OUT) if name in rows.column_names]
        columns = rows.drop_columns(marks)
        refuse_nulls(self._target.sink, columns, self._target.key, "is part of the key", KEY_FIX)
        new = pc.invert(rows.column(DELETED))
        left_out = rows.column(LEFT_OUT).filter(new) if LEFT_OUT in marks else None
        check_rows(columns.filter(new), self._target, left_out)
        kept = as_the_table_has_them(columns, self._target.schema)
        for name in marks:
            kept = kept.append_column(name, rows.column(name))
        path, size = write_parquet(kept, f"{self._target.directory}/{_NAME}", self._target.files())
        self.files.append(StagedFile(path=path, size=size, rows=rows.num_rows))

    def remove(self) -> None:
        """Remove the files."""
        remove_files((file.path for file in self.files), self._target.files())


def stage_changes(
    batch: DataFrame, table: Mapping[str, Mapping[str, Any]], target: Target, sink: str
) -> list[StagedFile]:
    """Write a batch's changes, in one Spark action; return their files.

    Args:
        batch: the rows; those that may leave out columns have the names of these in a column.
        table: the table's columns by name.
    """
    from pyspark.sql import functions as f

    deletion = is_deletion(sink) if CHANGE_TYPE in batch.columns else f.lit(False)
    marked = batch.select("*", deletion.alias(DELETED), f.monotonically_increasing_id().alias(POSITION))
    own = [DELETED, POSITION, *([LEFT_OUT] if LEFT_OUT in batch.columns else [])]
    rows = aligned(marked, table, *own)
    return write_batch(rows, partial(ChangeFiles, target), ChangeFiles(target))


def read_changes(batches: Iterable[Sequence[str]], files: fs.FileSystem) -> pa.Table:
    """Return staged changes in their order. Raises OSError.

    Args:
        batches: the paths of each batch's files, in order.
        files: the table's directory.
    """
    return pa.concat_tables(
        [
            pa.concat_tables([_read(path, files) for path in paths]).sort_by(POSITION).drop_columns([POSITION])
            for paths in batches
        ]
    )


def is_change_file(path: str) -> bool:
    """Return whether a file has changes, and so is never part of the table."""
    return path.rpartition("/")[2].startswith(_NAME)


def _read(path: str, files: fs.FileSystem) -> pa.Table:
    with files.open_input_stream(path) as stream:
        return pq.read_table(pa.BufferReader(stream.read()))
