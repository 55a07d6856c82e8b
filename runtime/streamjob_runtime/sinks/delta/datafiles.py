"""The data files of a batch, as the table's log will describe them."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pydantic import BaseModel, ConfigDict

from streamjob_runtime.sinks.delta.statistics import partition_problem, partition_value, statistics_of
from streamjob_runtime.sinks.lakes.lives import has_directories
from streamjob_runtime.sinks.lakes.staged_changes import with_values
from streamjob_runtime.sinks.lakes.values import refuse_nulls, refuse_rows, refuse_unreadable
from streamjob_runtime.sinks.rows.staged_hashes import sha256_of

if TYPE_CHECKING:
    from io import FileIO

_HASHED = re.compile(r"-([0-9a-f]{64})\.parquet$")


class StagedFile(BaseModel):
    """A Parquet file with rows, and its entry for the table's log.

    Args:
        path: its path below the table.
        size: its size in bytes.
        rows: the number of rows.
        partition: the values of the partition columns as texts.
        statistics: its statistics as JSON.
    """

    model_config = ConfigDict(frozen=True)

    path: str
    size: int
    rows: int
    partition: dict[str, str | None] = {}
    statistics: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a task's writes.

    Args:
        sink: the sink's name in messages.
        files: opens the table's directory.
        schema: the table's columns.
        partition_by: the columns that partition the table.
        directory: the batch's directory below the table.
        key: for changes, the columns that identify a row.
    """

    sink: str
    files: Callable[[], fs.FileSystem]
    schema: pa.Schema
    partition_by: tuple[str, ...]
    directory: str
    key: tuple[str, ...] = ()


class DataFiles:
    """Writes a batch's rows as data files, one for each of the table's partitions."""

    description = StagedFile

    def __init__(self, target: Target) -> None:
        self.files: list[StagedFile] = []
        self._target = target

    def write(self, rows: pa.Table) -> None:
        """Write rows. Raises RowsRefused if the table or its readers cannot hold a value."""
        check_rows(rows, self._target)
        rows = as_the_table_has_them(rows, self._target.schema)
        for partition, part in split(rows, self._target.partition_by):
            path, size = write_parquet(part, f"{self._target.directory}/part", self._target.files())
            statistics = statistics_of(part)
            self.files.append(
                StagedFile(path=path, size=size, rows=part.num_rows, partition=partition, statistics=statistics)
            )

    def remove(self) -> None:
        """Remove the files."""
        remove_files((file.path for file in self.files), self._target.files())


def check_rows(rows: pa.Table, target: Target, left_out: pa.ChunkedArray | None = None) -> None:
    """Refuse values that the table or its readers cannot hold.

    Args:
        target: the table.
        left_out: the names of the columns that each row leaves out; None if no row does.

    Raises:
        RowsRefused: there is such a value.
    """
    required = [field.name for field in target.schema if not field.nullable]
    for name in required:
        fix = "give it a value in the job, or make the column optional"
        refuse_nulls(target.sink, with_values(rows, name, left_out), [name], "is required", fix)
    refuse_unreadable(target.sink, rows)
    for name in target.partition_by:
        if name in rows.column_names:
            fix = "correct the value in the job, or partition by another column"
            refuse_rows(target.sink, rows, name, partition_problem, fix)


def as_the_table_has_them(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with the types of the table's columns; Spark labels timestamps with the zone of its session."""
    return rows.cast(pa.schema([schema.field(name).with_nullable(True) for name in rows.column_names]))


def split(rows: pa.Table, partition_by: tuple[str, ...]) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
    """Yield the rows of each partition without its columns, and the texts of its values."""
    if not partition_by:
        yield {}, rows
        return
    texts: list[list[str | None]] = []
    numbered = pa.table({"row": pa.array(range(rows.num_rows), pa.int64())})
    for position, name in enumerate(partition_by):
        known, numbers = _numbered(rows, name)
        texts.append(known)
        numbered = numbered.append_column(f"p{position}", numbers)
    columns = [f"p{position}" for position in range(len(partition_by))]
    own = rows.drop_columns([name for name in partition_by if name in rows.column_names])
    for group in numbered.group_by(columns).aggregate([("row", "list")]).to_pylist():
        values = {
            name: texts[n][group[column]] for n, (name, column) in enumerate(zip(partition_by, columns, strict=True))
        }
        yield values, own.take(pa.array(sorted(group["row_list"]), pa.int64()))


def _numbered(rows: pa.Table, name: str) -> tuple[list[str | None], pa.Array]:
    """Return the texts of a column's distinct values, and each row's index among them."""
    if name not in rows.column_names:
        return [None], pa.array([0] * rows.num_rows, pa.int64())
    column = rows.column(name)
    whole = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    encoded = whole.dictionary_encode(null_encoding="encode")
    texts: dict[str | None, int] = {}
    places = [texts.setdefault(partition_value(value), len(texts)) for value in encoded.dictionary.to_pylist()]
    return list(texts), pa.array(places, pa.int64()).take(encoded.indices)


def write_parquet(rows: pa.Table, start: str, files: fs.FileSystem) -> tuple[str, int]:
    """Write rows as a Parquet file with a new name, which has the SHA-256 of the content.

    Args:
        start: the beginning of the file's path.
        files: the table's directory.

    Returns:
        The file's path, and its size in bytes.
    """
    buffer = pa.BufferOutputStream()
    pq.write_table(rows, buffer)
    content = buffer.getvalue()
    path = f"{start}-{secrets.token_hex(16)}-{hashlib.sha256(content).hexdigest()}.parquet"
    if has_directories(files):
        files.create_dir(path.rpartition("/")[0], recursive=True)
    with files.open_output_stream(path) as stream:
        stream.write(content)
    return path, int(content.size)


def recorded_sha256(path: str) -> str | None:
    """Return the SHA-256 that a file had when it was written; None if its name has none."""
    match = _HASHED.search(path)
    return match[1] if match else None


def sha256_at(files: fs.FileSystem, path: str) -> str | None:
    """Return the SHA-256 of a file; None if there is none. Raises OSError."""
    try:
        with files.open_input_stream(path) as stream:
            return sha256_of(cast("FileIO", stream))
    except FileNotFoundError:
        return None


def remove_files(paths: Iterable[str], files: fs.FileSystem) -> None:
    """Remove files, as far as that is possible; the sweep of a later epoch removes those that remain."""
    for path in paths:
        with suppress(OSError):
            files.delete_file(path)
