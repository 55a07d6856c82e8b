"""The exactly-once file sink for buckets.

A batch's files are uploaded when it is computed, as multipart uploads that are not completed: no reader sees them. When
the checkpoint that covers the batch has completed, its uploads are completed, each in one step. An upload is gone once
it is completed, so a repeated commit changes nothing, even if a consumer has removed the file since.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue

from streamjob.errors import StreamJobError, refuse
from streamjob.ids import BatchId, CheckpointId
from streamjob.job.connectors.bucket_files import path_problem, problems
from streamjob.job.connectors.option_model import refuse_options
from streamjob.sink import SinkContext, Staged
from streamjob.store.base import ObjectMissing, StoreDenied, StoreUnavailable
from streamjob.store.opening import open_location
from streamjob.store.s3 import S3Store
from streamjob.store.s3_connection import S3Connection, S3Settings
from streamjob.store.s3_uploads import S3Uploads
from streamjob.stored.sparks_output import SINK_LOG
from streamjob_runtime.sinks.bucket.layout import OWNER, epoch_of, probe_key
from streamjob_runtime.sinks.bucket.probe import probe_uploads
from streamjob_runtime.sinks.bucket.records import CommitRecords
from streamjob_runtime.sinks.bucket.rows import encoding_of, mismatches, prepared
from streamjob_runtime.sinks.bucket.writing import StagedFile, Target, UploadedFiles
from streamjob_runtime.sinks.committables import read_committable
from streamjob_runtime.sinks.errors import PlaceOfQuery, StagedRowsGone, UnusableSink
from streamjob_runtime.sinks.files.owners import owner_record, read_owner
from streamjob_runtime.sinks.rows.readable_rows import readable_rows
from streamjob_runtime.sinks.rows.task_files import write_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

log = logging.getLogger("streamjob")


class _StagedBatch(BaseModel):
    """The committable: the pending uploads of a batch, below the sink's path."""

    model_config = ConfigDict(frozen=True)

    formatVersion: Literal[1] = 1  # noqa: N815 - as it is stored
    id: str
    files: tuple[StagedFile, ...]


class BucketSink:
    """Writes each batch as objects that become visible when the checkpoint that covers the batch has completed.

    Args:
        file_format: `parquet`, `csv`, `json` or `text`.
        path: `s3://bucket/path`.
        partition_by: columns that become directories.
        concurrency: requests of a commit that run at the same time.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        name: str,
        file_format: str,
        path: str,
        partition_by: Sequence[str] = (),
        *,
        concurrency: int = 16,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._label = f"sink {name}"
        self._format = file_format
        self._path = path
        self._partition_by = tuple(partition_by)
        self._concurrency = concurrency
        self._clock = clock
        self._connection: S3Connection | None = None

    @property
    def label(self) -> str:
        """The place in messages: its URI."""
        return self._path.rstrip("/")

    def staged(self) -> tuple[str, ...]:
        """Return the names of the files that wait as pending uploads. The sink need not be open.

        Raises:
            StoreError: the bucket cannot be read.
        """
        self._connect()
        return tuple(upload.key for upload in self._uploads.list() if epoch_of(upload.key) is not None)

    def open(self, context: SinkContext) -> None:
        """Check the bucket, and claim the path for this job's sink.

        Raises:
            UnusableOptions: an option is invalid.
            PlaceTaken: another job or sink writes there.
            PlaceOfQuery: a plain query has written there.
            UnsuitableBucket: its multipart uploads do not behave as in S3.
            StoreDenied: it refuses the credentials, or they lack a right.
            StoreUnavailable: it does not answer.
        """
        self._context = context
        self._prepare(context)
        with self._explaining():
            if not self._check_place(context):
                probe_uploads(self._uploads, self._objects, probe_key(context.epoch, secrets.token_hex(8)))
                self._claim(context)

    def preview(self, context: SinkContext, schema: StructType | None) -> None:
        """Check the bucket and the rows without changing anything. Raises the errors of `open`."""
        self._prepare(context)
        try:
            with self._explaining():
                self._check_place(context)
            if schema is not None:
                self.check_schema(schema)
        finally:
            self.close()

    def verify(
        self, context: SinkContext, checkpoint: CheckpointId, committables: Sequence[JsonValue]
    ) -> Iterator[StreamJobError]:
        """Yield an error for each problem of the owner, the records of commits, and the pending uploads."""
        self._prepare(context)
        try:
            try:
                self._check_owner(context)
                self._due(checkpoint, self._parsed(committables))
            except StreamJobError as error:
                yield error
            yield from self._records.problems()
        finally:
            self.close()

    def rehearse(self, context: SinkContext, rows: DataFrame) -> None:
        """Check the bucket, and stage rows as for a batch. Without rows there is nothing to upload.

        Raises the errors of `open` and `stage`.
        """
        self._context = context
        self.preview(context, rows.schema)
        self.stage(rows, BatchId(0))

    def check_schema(self, schema: StructType) -> None:
        """Check that the rows can be written in the format.

        Raises:
            UnusableSink: they cannot; lists all problems.
        """
        refuse(UnusableSink, f"{self._label}:", mismatches(self._format, schema, self._partition_by))

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        """Upload the batch's files without completing the uploads, in one Spark action.

        Raises:
            StoreError: the bucket refuses them.
        """
        options = self._context.options
        target = Target(
            settings=self._settings,
            bucket=self._bucket,
            prefix=self._prefix,
            epoch=self._context.epoch,
            encoding=encoding_of(batch, self._format, options, self._partition_by),
            partitions=self._partition_by,
        )
        batch = readable_rows(batch, self._label, self._format, options=options, partition_by=self._partition_by)
        rows = prepared(batch, self._format, options, self._partition_by)
        files = write_batch(rows, partial(UploadedFiles, target), UploadedFiles(target, self._uploads))
        if not files:
            return Staged(None, 0)
        staged = _StagedBatch(id=secrets.token_hex(16), files=tuple(files))
        return Staged(staged.model_dump(mode="json"), sum(file.rows for file in files))

    def commit(self, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        """Complete the uploads of the checkpoint's batches.

        Raises:
            UnreadableCommittable: a committable does not belong to this sink.
            StagedRowsGone: an upload does not exist and was not completed; nothing is committed then.
            StoreError: the bucket does not answer or refuses.
        """
        batches = self._parsed(committables)
        if not batches:
            return
        due, begun = self._due(checkpoint, batches)
        if not begun:
            self._records.add(checkpoint, [batch.id for batch in batches])
        self._complete(due)

    def newest_published(self) -> CheckpointId | None:
        """Return the checkpoint of the newest record of a commit. Raises UnreadableRecord and StoreError."""
        if self._connection is None:
            self._connect()
        return self._records.newest()

    def abort(self) -> None:
        """Abort uploads of lower epochs.

        Leave those of higher epochs alone: a superseded process that wakes up must not harm its successor.
        """
        try:
            below = [
                upload
                for upload in self._uploads.list()
                if (epoch := epoch_of(upload.key)) is not None and epoch < self._context.epoch
            ]
            self._all(self._uploads.abort, below)
        except StoreDenied as error:
            # Nobody sees what stays, and the bucket's lifecycle rule removes it.
            log.warning("%s: uploads of former epochs stay in %s: %s", self._label, self.label, error.what)

    def close(self) -> None:
        """Close the connections; the path still belongs to this sink."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _prepare(self, context: SinkContext) -> None:
        refuse_options(f"{self._label}:", problems(self._format, context.options))
        self._connect()

    def _connect(self) -> None:
        if (problem := path_problem(self._format, self._path)) is not None:
            raise UnusableSink(f"{self._label}: {problem[0]}", problem[1])
        self._bucket, _, self._prefix = open_location(self._path).uri.removeprefix("s3://").partition("/")
        self._settings = S3Settings.from_environment()
        self._connection = S3Connection(self._settings)
        self._objects = S3Store(self._connection, self._bucket, self._prefix)
        self._uploads = S3Uploads(self._connection, self._bucket, self._prefix)
        self._records = CommitRecords(self._objects, self._clock)

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Name the sink in a refusal."""
        try:
            yield
        except StoreDenied as error:
            raise type(error)(f"{self._label}: {error.what}", error.fix) from error

    def _claim(self, context: SinkContext) -> None:
        try:
            created = self._objects.put_if_absent(OWNER, owner_record(context, 1))
        except StoreUnavailable:
            # It may have been created; two sinks never have the same content.
            if not self._check_owner(context):
                raise
            return
        if not created:
            self._check_owner(context)

    def _check_place(self, context: SinkContext) -> bool:
        """Do the same as `_check_owner`; raise PlaceOfQuery if a plain query has written there."""
        if next(self._objects.list(f"{SINK_LOG}/"), None) is not None:
            raise PlaceOfQuery.at(self._label, self.label)
        return self._check_owner(context)

    def _check_owner(self, context: SinkContext) -> bool:
        """Return whether this sink has claimed the path; raise PlaceTaken if another one has."""
        try:
            stored = self._objects.get(OWNER)
        except ObjectMissing:
            return False
        read_owner(stored, context, name=OWNER, place=self.label)
        return True

    def _parsed(self, committables: Sequence[JsonValue]) -> list[_StagedBatch]:
        return [read_committable(_StagedBatch, committable, self._label) for committable in committables]

    def _due(self, checkpoint: CheckpointId, batches: Sequence[_StagedBatch]) -> tuple[Sequence[StagedFile], bool]:
        """Return the uploads to complete, and whether their commit was interrupted. Raises StagedRowsGone."""
        files = [file for batch in batches for file in batch.files]
        parts = self._all(lambda file: self._uploads.parts(file.pending), files)
        pending = [file for file, known in zip(files, parts, strict=True) if file.waits(known)]
        missing = [file for file, known in zip(files, parts, strict=True) if not file.waits(known)]
        if missing and self._records.covers(checkpoint, [batch.id for batch in batches]):
            return pending, True
        for file in missing:
            if not self._is_visible(file):
                self._rows_gone(checkpoint, file)
        return pending, False

    def _complete(self, files: Sequence[StagedFile]) -> None:
        # False means that another process has completed it meanwhile: all of them existed when the record was made.
        self._all(lambda file: self._uploads.complete(file.pending, file.parts), files)

    def _is_visible(self, file: StagedFile) -> bool:
        found = (each for each in self._objects.list(file.path) if each.key == file.path)
        return any(each.size == file.size for each in found)

    def _all(self, call: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """Return the results of calls for all items, several at a time."""
        if len(items) < 2 or self._concurrency < 2:
            return [call(item) for item in items]
        with ThreadPoolExecutor(min(self._concurrency, len(items)), thread_name_prefix="bucket-sink") as pool:
            return list(pool.map(call, items))

    def _rows_gone(self, checkpoint: CheckpointId, file: StagedFile) -> NoReturn:
        raise StagedRowsGone(
            f"sink path {self.label}: rows of checkpoint {checkpoint} are neither published nor whole in the upload of "
            f"{file.path}",
            "relax the bucket's lifecycle rule for incomplete uploads; give these rows up, and start from "
            "that checkpoint (--from) at another --location",
        )
