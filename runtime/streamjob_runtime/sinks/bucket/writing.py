"""Writes a batch's rows as pending uploads: each task uploads its own files while computing them, in bounded memory.

Tasks with few rows send them to the driver instead, which writes a single file, so that many small tasks do not fill
the bucket with tiny files. All of them together send at most about 16 MB.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from streamjob.ids import Epoch
from streamjob.store.base import StoreError
from streamjob.store.names import check_key
from streamjob.store.s3_connection import S3Connection, S3Settings
from streamjob.store.s3_uploads import PendingUpload, S3Uploads
from streamjob_runtime.sinks.bucket.encoding import Encoding
from streamjob_runtime.sinks.bucket.layout import file_name, partition_directory
from streamjob_runtime.sinks.row_chunks import FILE_BYTES, chunks, few_of, packed, unpacked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RESULT = "file string, rows binary"
_ROW = "__streamjob_row"


class StagedFile(BaseModel):
    """A file that waits as a pending upload.

    Args:
        path: its name once it is visible, relative to the sink's path.
        size: its size in bytes.
        rows: the number of its rows.
        upload: the id of the upload.
        parts: the tags of the upload's parts, in order.
    """

    model_config = ConfigDict(frozen=True)

    path: str
    size: int
    rows: int
    upload: str
    parts: tuple[str, ...]

    @property
    def pending(self) -> PendingUpload:
        """The upload."""
        return PendingUpload(check_key(self.path), self.upload)


@dataclass(frozen=True, slots=True)
class Target:
    """Where and how a batch is written. It contains no credentials: each process finds them in its environment.

    Args:
        settings: the S3 server.
        bucket: the bucket's name.
        prefix: the sink's path in the bucket.
        epoch: the epoch that writes.
        encoding: how rows become files.
        partitions: the names of the partition columns.
    """

    settings: S3Settings
    bucket: str
    prefix: str
    epoch: Epoch
    encoding: Encoding
    partitions: tuple[str, ...] = ()

    def uploads(self) -> S3Uploads:
        """Return access to the uploads, with this process's credentials."""
        return S3Uploads(_connection(self.settings), self.bucket, self.prefix)


@lru_cache(maxsize=4)
def _connection(settings: S3Settings) -> S3Connection:
    return S3Connection(settings)


def write_batch(batch: DataFrame, target: Target, uploads: S3Uploads) -> list[StagedFile]:
    """Write a batch, in one Spark action; return its files.

    Args:
        batch: the rows, in the form that `rows.prepared` returns.
        target: where and how.
        uploads: access to the uploads from this process.
    """
    results = batch.mapInArrow(_writer(target, few_of(batch)), _RESULT).collect()
    files = [StagedFile.model_validate_json(row.file) for row in results if row.file is not None]
    if (handed_over := unpacked(row.rows for row in results if row.rows is not None)) is not None:
        write_rows(handed_over, target, uploads, files, secrets.token_hex(16), count())
    return files


def _writer(target: Target, few: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return write_task(batches, target, few=few)

    return write


def write_task(
    batches: Iterator[pa.RecordBatch], target: Target, *, few: int, many: int = FILE_BYTES
) -> Iterator[pa.RecordBatch]:
    """Write a task's rows; yield the descriptions of its files, or the rows themselves if there are few.

    If the task fails, its uploads are aborted.

    Args:
        batches: the rows.
        target: where and how.
        few: rows up to this size in memory, in bytes, are sent to the driver.
        many: size of a file's rows in memory, in bytes.
    """
    files: list[StagedFile] = []
    handed_over = None
    # Each attempt of a task draws its own names.
    unique, numbers = secrets.token_hex(16), count()
    try:
        for rows, are_few in chunks(batches, few, many):
            if are_few:
                handed_over = packed(rows)
            else:
                write_rows(rows, target, target.uploads(), files, unique, numbers)
    except BaseException:
        _abort(files, target)
        raise
    schema = pa.schema([("file", pa.string()), ("rows", pa.binary())])
    for file in files:
        yield pa.RecordBatch.from_pydict({"file": [file.model_dump_json()], "rows": [None]}, schema=schema)
    if handed_over is not None:
        yield pa.RecordBatch.from_pydict({"file": [None], "rows": [handed_over]}, schema=schema)


def write_rows(
    rows: pa.Table, target: Target, uploads: S3Uploads, files: list[StagedFile], unique: str, numbers: Iterator[int]
) -> None:
    """Upload rows as files, one for each partition, and append their descriptions to `files`.

    Args:
        rows: the columns of the files, then the partition values.
        target: where and how.
        uploads: access to the uploads.
        files: receives each file once it is uploaded.
        unique: 32 hexadecimal digits for the names.
        numbers: numbers for the names.
    """
    for values, part in split(rows, len(target.partitions)):
        directory = partition_directory(target.partitions, values)
        name = file_name(target.epoch, unique, next(numbers), target.encoding.suffix)
        content = target.encoding.encode(part)
        upload = uploads.begin(check_key(directory + name))
        try:
            size = target.settings.part_size
            tags = tuple(
                uploads.put_part(upload, number, content[start : start + size])
                for number, start in enumerate(range(0, len(content), size), start=1)
            )
        except BaseException:
            with suppress(StoreError):
                uploads.abort(upload)
            raise
        files.append(StagedFile(path=upload.key, size=len(content), rows=part.num_rows, upload=upload.id, parts=tags))


def split(rows: pa.Table, partitions: int) -> Iterator[tuple[Sequence[str | None], pa.Table]]:
    """Yield the values and the rows of each partition, without the partition columns, in the order of the rows.

    Args:
        rows: the columns of the files, then the partition values.
        partitions: the number of partition columns.
    """
    if not partitions:
        yield (), rows
        return
    names = rows.column_names[-partitions:]
    data = rows.select(range(rows.num_columns - partitions))
    numbered = rows.select(names).append_column(_ROW, pa.array(range(rows.num_rows), pa.int64()))
    groups = numbered.group_by(names, use_threads=False).aggregate([(_ROW, "list")]).to_pylist()
    for group in groups:
        yield [group[name] for name in names], data.take(pa.array(group[f"{_ROW}_list"], pa.int64()))


def _abort(files: Sequence[StagedFile], target: Target) -> None:
    for file in files:
        with suppress(StoreError):
            target.uploads().abort(file.pending)
