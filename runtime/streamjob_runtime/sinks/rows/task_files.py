"""Writes a batch's rows as files: each task writes its own while computing them, in bounded memory.

Tasks with few rows send them to the driver instead, which writes them together, so that many small tasks do not fill
the sink with tiny files. All of them together send at most about 16 MB.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar

import pyarrow as pa
from pydantic import BaseModel

from streamjob_runtime.sinks.errors import RowsRefused
from streamjob_runtime.sinks.rows.few_rows import few_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FILE_BYTES = 64 << 20
"""Size of a file's rows in memory, in bytes, before compression."""
_RESULT = "file string, rows binary, refused string"

Batches = Iterator[pa.RecordBatch]
File = TypeVar("File", bound=BaseModel)


class FileWriter(Protocol, Generic[File]):
    """Writes tables of rows as files that readers do not see before the commit; one for each attempt of a task."""

    files: list[File]
    """The descriptions of the files that are written."""

    @property
    def description(self) -> type[File]:
        """The model of a file's description."""
        ...

    def write(self, rows: pa.Table) -> None:
        """Write rows as files, and add each to `files` once it is complete.

        Raises:
            RowsRefused: they contain a value that the target or its readers cannot hold.
        """
        ...

    def remove(self) -> None:
        """Remove the files again, as far as that is possible."""
        ...


def write_batch(rows: DataFrame, in_task: Callable[[], FileWriter[File]], here: FileWriter[File]) -> list[File]:
    """Write a batch's rows, in one Spark action; return the descriptions of the files.

    Args:
        in_task: makes the writer of an attempt of a task; Spark sends it to the tasks.
        here: writes the rows that tasks have sent to this process.

    Raises:
        RowsRefused: the rows contain a value that the target or its readers cannot hold.
    """
    # PySpark's mapInArrow does not quote names, and fails for dots and backticks.
    numbered = rows.toDF(*(f"c{number}" for number in range(len(rows.columns))))
    results = numbered.mapInArrow(_task(in_task, rows.columns, few_of(rows)), _RESULT).collect()
    for row in results:
        if row.refused is not None:
            raise RowsRefused(*json.loads(row.refused))
    files = [here.description.model_validate_json(row.file) for row in results if row.file is not None]
    if (handed_over := _unpacked(row.rows for row in results if row.rows is not None)) is not None:
        here.write(handed_over)
    return files + here.files


def _task(
    in_task: Callable[[], FileWriter[File]], columns: Sequence[str], few: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        named = (batch.rename_columns(list(columns)) for batch in batches)
        return write_task(named, in_task(), few=few)

    return write


def write_task(batches: Batches, writer: FileWriter[File], *, few: int, many: int = _FILE_BYTES) -> Batches:
    """Write a task's rows; yield the descriptions of its files, or the rows themselves if there are few.

    If the task fails, its files are removed. If the writer refuses rows, the reason is yielded instead: an error would
    reach the driver as text, and only after Spark had tried the task again.

    Args:
        few: rows up to this size in memory, in bytes, are sent to the driver.
        many: size of a file's rows in memory, in bytes.
    """
    schema = pa.schema([("file", pa.string()), ("rows", pa.binary()), ("refused", pa.string())])
    handed_over = None
    try:
        for rows, are_few in _chunks(batches, few, many):
            if are_few:
                handed_over = packed(rows)
            else:
                writer.write(rows)
    except RowsRefused as error:
        writer.remove()
        yield pa.RecordBatch.from_pylist([{"refused": json.dumps([error.what, error.fix])}], schema=schema)
        return
    except BaseException:
        writer.remove()
        raise
    for file in writer.files:
        yield pa.RecordBatch.from_pylist([{"file": file.model_dump_json()}], schema=schema)
    if handed_over is not None:
        yield pa.RecordBatch.from_pylist([{"rows": handed_over}], schema=schema)


def _chunks(batches: Iterable[pa.RecordBatch], few: int, many: int) -> Iterator[tuple[pa.Table, bool]]:
    """Yield a task's rows as tables, each with a flag that it contains all rows and they are few.

    Args:
        batches: the rows.
        few: size in memory up to which rows are few, in bytes.
        many: size in memory at which a table ends, in bytes; it may exceed this by one batch.
    """
    held: list[pa.RecordBatch] = []
    size, whole = 0, True
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            size += batch.nbytes
        if size >= many:
            yield pa.Table.from_batches(held), False
            held, size, whole = [], 0, False
    if held:
        yield pa.Table.from_batches(held), whole and size <= few


def packed(rows: pa.Table, compression: Literal["zstd"] | None = None) -> bytes:
    """Return rows as bytes, in Arrow's format for streams."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def _unpacked(content: Iterable[bytes]) -> pa.Table | None:
    """Return all packed rows as one table; None if there are none."""
    tables = [pa.ipc.open_stream(each).read_all() for each in content]
    return pa.concat_tables(tables) if tables else None
