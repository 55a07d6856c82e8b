"""Writes a batch's rows as files: each task writes its own while computing them, in bounded memory.

Tasks with few rows send them to the driver instead, which writes them together, so that many small tasks do not fill
the sink with tiny files. All of them together send at most about 16 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import pyarrow as pa
from pydantic import BaseModel

from streamjob_runtime.sinks.few_rows import few_of
from streamjob_runtime.sinks.row_chunks import FILE_BYTES, chunks, packed, unpacked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RESULT = "file string, rows binary"

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
        """Write rows as files, and add each to `files` once it is complete."""
        ...

    def remove(self) -> None:
        """Remove the files again, as far as that is possible."""
        ...


def write_batch(rows: DataFrame, in_task: Callable[[], FileWriter[File]], here: FileWriter[File]) -> list[File]:
    """Write a batch's rows, in one Spark action; return the descriptions of the files.

    Args:
        rows: the rows.
        in_task: makes the writer of an attempt of a task; Spark sends it to the tasks.
        here: writes the rows that tasks have sent to this process.
    """
    results = rows.mapInArrow(_task(in_task, few_of(rows)), _RESULT).collect()
    files = [here.description.model_validate_json(row.file) for row in results if row.file is not None]
    if (handed_over := unpacked(row.rows for row in results if row.rows is not None)) is not None:
        here.write(handed_over)
    return files + here.files


def _task(
    in_task: Callable[[], FileWriter[File]], few: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return write_task(batches, in_task(), few=few)

    return write


def write_task(batches: Batches, writer: FileWriter[File], *, few: int, many: int = FILE_BYTES) -> Batches:
    """Write a task's rows; yield the descriptions of its files, or the rows themselves if there are few.

    If the task fails, its files are removed.

    Args:
        batches: the rows.
        writer: writes them.
        few: rows up to this size in memory, in bytes, are sent to the driver.
        many: size of a file's rows in memory, in bytes.
    """
    handed_over = None
    try:
        for rows, are_few in chunks(batches, few, many):
            if are_few:
                handed_over = packed(rows)
            else:
                writer.write(rows)
    except BaseException:
        writer.remove()
        raise
    schema = pa.schema([("file", pa.string()), ("rows", pa.binary())])
    for file in writer.files:
        yield pa.RecordBatch.from_pydict({"file": [file.model_dump_json()], "rows": [None]}, schema=schema)
    if handed_over is not None:
        yield pa.RecordBatch.from_pydict({"file": [None], "rows": [handed_over]}, schema=schema)
