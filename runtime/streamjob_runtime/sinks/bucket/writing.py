"""The files of a batch as pending uploads."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from streamjob.ids import Epoch, Key
from streamjob.store.base import StoreError
from streamjob.store.names import check_key
from streamjob.store.s3_connection import S3Connection, S3Settings
from streamjob.store.s3_uploads import PendingUpload, S3Uploads
from streamjob_runtime.sinks.bucket.encoding import Encoding
from streamjob_runtime.sinks.bucket.layout import file_name, partition_directory

_ROW = "__streamjob_row"


class StagedFile(BaseModel):
    """A file that waits as a pending upload.

    Args:
        path: its name once it is visible, relative to the sink's path.
        size: its size in bytes.
        rows: the number of its rows.
        upload: the id of the upload.
        parts: the tags of the upload's parts, in order.
        sha256: of its content, in hexadecimal; None in what older versions staged.
    """

    model_config = ConfigDict(frozen=True)

    path: str
    size: int
    rows: int
    upload: str
    parts: tuple[str, ...]
    sha256: str | None = None

    @property
    def pending(self) -> PendingUpload:
        """The upload."""
        return PendingUpload(check_key(self.path), self.upload)

    def waits(self, parts: Mapping[int, str] | None) -> bool:
        """Return whether the upload is whole and waits for completion; if not, it was completed before, or is lost.

        Args:
            parts: the tags of its parts by number; None if it does not exist.
        """
        return parts is not None and all(parts.get(number) == tag for number, tag in enumerate(self.parts, start=1))


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


class UploadedFiles:
    """Uploads a batch's rows as files, one for each partition.

    Args:
        target: where and how.
        uploads: access to the uploads; by default with this process's credentials.
    """

    description = StagedFile

    def __init__(self, target: Target, uploads: S3Uploads | None = None) -> None:
        self.files: list[StagedFile] = []
        self._target = target
        self._uploads = uploads or target.uploads()
        # Each attempt of a task draws its own names.
        self._unique, self._numbers = secrets.token_hex(16), count()

    def write(self, rows: pa.Table) -> None:
        """Upload rows: the columns of the files, then the partition values. Raises StoreError."""
        for values, part in split(rows, len(self._target.partitions)):
            directory = partition_directory(self._target.partitions, values)
            encoding = self._target.encoding
            name = file_name(self._target.epoch, self._unique, next(self._numbers), encoding.suffix)
            self._upload(check_key(directory + name), encoding.encode(part), part.num_rows)

    def _upload(self, key: Key, content: memoryview, rows: int) -> None:
        upload = self._uploads.begin(key)
        try:
            size = self._target.settings.part_size
            tags = tuple(
                self._uploads.put_part(upload, number, content[start : start + size])
                for number, start in enumerate(range(0, len(content), size), start=1)
            )
        except BaseException:
            with suppress(StoreError):
                self._uploads.abort(upload)
            raise
        self.files.append(
            StagedFile(
                path=upload.key,
                size=len(content),
                rows=rows,
                upload=upload.id,
                parts=tags,
                sha256=hashlib.sha256(content).hexdigest(),
            )
        )

    def remove(self) -> None:
        """Abort the uploads."""
        for file in self.files:
            with suppress(StoreError):
                self._uploads.abort(file.pending)


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
