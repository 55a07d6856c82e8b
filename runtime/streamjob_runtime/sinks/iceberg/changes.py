"""Stages changes below a table's data until their commit merges them; each knows its position in its batch."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict
from pyiceberg.io.pyarrow import PyArrowFileIO

from streamjob.job.connectors.changes import CHANGE_TYPE
from streamjob_runtime.sinks.iceberg.column_types import aligned
from streamjob_runtime.sinks.iceberg.writing import Target, check_rows
from streamjob_runtime.sinks.lakes.staged_changes import DELETED, KEY_FIX, LEFT_OUT, POSITION
from streamjob_runtime.sinks.lakes.values import refuse_nulls
from streamjob_runtime.sinks.rows.changes import is_deletion
from streamjob_runtime.sinks.rows.task_files import write_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HASHED = re.compile(r"/changes-[0-9a-f]+-([0-9a-f]{64})\.parquet$")


class ChangeFile(BaseModel):
    """A Parquet file with changes: its location, and their number."""

    model_config = ConfigDict(frozen=True)

    path: str
    rows: int


class ChangeFiles:
    """Writes changes as files of their own."""

    description = ChangeFile

    def __init__(self, target: Target, directory: str, key: Sequence[str]) -> None:
        self.files: list[ChangeFile] = []
        self._io = target.files()
        self._target = target
        self._directory = directory
        self._key = key

    def write(self, rows: pa.Table) -> None:
        """Write changes. Raises RowsRefused if the table or its readers cannot hold a value."""
        marks = [name for name in (DELETED, POSITION, LEFT_OUT) if name in rows.column_names]
        columns = rows.drop_columns(marks)
        refuse_nulls(self._target.sink, columns, self._key, "is part of the key", KEY_FIX)
        new = pc.invert(rows.column(DELETED))
        left_out = rows.column(LEFT_OUT).filter(new) if LEFT_OUT in marks else None
        check_rows(columns.filter(new), self._target, left_out)
        buffer = pa.BufferOutputStream()
        pq.write_table(rows, buffer)
        content = buffer.getvalue()
        sha256 = hashlib.sha256(content).hexdigest()
        location = f"{self._directory}/changes-{secrets.token_hex(16)}-{sha256}.parquet"
        with self._io.new_output(location).create() as stream:
            stream.write(content)
        self.files.append(ChangeFile(path=location, rows=rows.num_rows))

    def remove(self) -> None:
        """Remove the files."""
        remove_files((file.path for file in self.files), self._io)


def changes_sha256(location: str) -> str | None:
    """Return the SHA-256 of a file with changes, which its name has; None if an older version staged it."""
    match = _HASHED.search(location)
    return match[1] if match else None


def stage_changes(batch: DataFrame, target: Target, directory: str, key: Sequence[str], sink: str) -> list[ChangeFile]:
    """Write a batch's changes, in one Spark action; return their files.

    Args:
        batch: the rows; those that may leave out columns have the names of these in a column.
    """
    from pyspark.sql import functions as f

    deletion = is_deletion(sink) if CHANGE_TYPE in batch.columns else f.lit(False)
    marked = batch.select("*", deletion.alias(DELETED), f.monotonically_increasing_id().alias(POSITION))
    own = [DELETED, POSITION, *([LEFT_OUT] if LEFT_OUT in batch.columns else [])]
    rows = aligned(marked, target.table().schema(), *own)
    return write_batch(rows, partial(ChangeFiles, target, directory, tuple(key)), ChangeFiles(target, directory, key))


def read_changes(batches: Iterable[Sequence[str]], io: PyArrowFileIO) -> pa.Table:
    """Return staged changes in their order. Raises OSError.

    Args:
        batches: the locations of each batch's files, in order.
        io: access to the files.
    """
    return pa.concat_tables(
        [
            pa.concat_tables([_read(file, io) for file in files]).sort_by(POSITION).drop_columns([POSITION])
            for files in batches
        ]
    )


def remove_files(files: Iterable[str], io: PyArrowFileIO) -> None:
    """Remove staged files, as far as that is possible; the sweep of a later epoch removes those that remain."""
    for file in files:
        with suppress(OSError):
            io.delete(file)


def _read(file: str, io: PyArrowFileIO) -> pa.Table:
    with io.new_input(file).open() as stream:
        return pq.read_table(pa.BufferReader(stream.read()))
