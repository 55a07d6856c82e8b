"""A sink that calls a function of the job with the rows of each checkpoint: Spark's `foreachBatch`.

A restored job plans its batches again, with other rows in each. So a call must not come before a checkpoint has fixed
its rows. They wait in the store, and the commit calls the function with them: a repeated call has the same rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, JsonValue

from streamjob.errors import StreamJobError, refuse
from streamjob.ids import BatchId, CheckpointId
from streamjob.job.model.spec import OutputMode
from streamjob.sink import Puts, SinkContext, Staged, StagedRowsGone, TaskStaging
from streamjob.store.base import StoreError
from streamjob_runtime.sinks.at_least_once.batch import AtLeastOnceSink
from streamjob_runtime.sinks.committables import read_committable
from streamjob_runtime.sinks.errors import UnusableSink
from streamjob_runtime.sinks.rows.column_mismatches import Mismatch
from streamjob_runtime.sinks.rows.task_files import packed, write_batch
from streamjob_runtime.spark.gateway import cloned_session
from streamjob_runtime.spark.text.error_text import describe
from streamjob_runtime.spark.text.user_functions import mistakes_named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

BatchFunction = Callable[["DataFrame", int], object]

CALLS_OF_A_CHECKPOINT = 1_000_000
"""In `outputMode: update`, the ids of a checkpoint's calls begin at its own id times this."""


class FunctionFailed(StreamJobError):
    """A sink's function raised an error that may pass; it is called again with the same rows."""


class _Object(BaseModel):
    """Staged rows: the name of their object in the store, and their number."""

    model_config = ConfigDict(frozen=True)

    name: str
    rows: int


class _StagedBatch(BaseModel):
    """The committable: the columns of a batch as Spark writes them, the output mode of its query, and its objects."""

    model_config = ConfigDict(frozen=True)

    columns: dict[str, Any]
    mode: OutputMode
    objects: tuple[_Object, ...]


class _StagedRows:
    """Stages rows as objects in the store."""

    description = _Object

    def __init__(self, staging: Puts) -> None:
        self.files: list[_Object] = []
        self._staging = staging

    def write(self, rows: pa.Table) -> None:
        """Stage rows as one object."""
        self.files.append(_Object(name=self._staging.put(packed(rows, "zstd")), rows=rows.num_rows))

    def remove(self) -> None:
        """Do nothing: a later epoch removes what belongs to no checkpoint."""


class FunctionSink(AtLeastOnceSink):
    """Calls a function with the rows of each completed checkpoint, and notes in the store that it has returned.

    Args:
        name: the sink's name.
        find: imports the function; it raises UnusableSink if there is none.
        reference: the function's name in messages.
        mode: the output mode of the query whose rows it gets.
        spark: starts Spark or returns its session; None if no function is to be called.
    """

    def __init__(
        self,
        name: str,
        find: Callable[[], BatchFunction],
        reference: str,
        mode: OutputMode,
        spark: Callable[[], SparkSession] | None,
    ) -> None:
        self._label = f"sink {name}"
        self._find = find
        self._reference = reference
        self._mode: OutputMode = mode
        self._spark = spark
        self._calling = Lock()

    def open(self, context: SinkContext) -> None:
        """Begin an epoch."""
        super().open(context)
        self._session: SparkSession | None = None
        self._garbage: list[str] = []
        self._recovered = False

    def preview(self, context: SinkContext, schema: StructType | None) -> None:
        """Find the function, and check the columns. Raises the errors of `check_schema`."""
        self._find()
        if schema is not None:
            self.check_schema(schema)

    def check_schema(self, schema: StructType) -> None:
        """Check that there is a function, and that rows can be staged.

        Raises:
            UnusableSink: there is no function, or columns have types that do not come back from Arrow; lists all.
        """
        from pyspark.errors import PySparkException
        from pyspark.sql.pandas.types import to_arrow_type

        self._find()
        found = []
        for field in schema.fields:
            try:
                returns = '"type":"udt"' not in field.dataType.json()
                to_arrow_type(field.dataType, timezone="UTC")
            except PySparkException:
                returns = False
            if not returns:
                kind = field.dataType.simpleString().upper()
                what = f"its function cannot be given the column {field.name!r} of type {kind}"
                found.append(Mismatch(what, "cast it in an operator before the sink, such as to STRING"))
        refuse(UnusableSink, f"{self._label}:", found)

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        """Stage the batch's rows in the store, in one Spark action. Raises StoreError."""
        if self._mode == "update":
            # Each batch is a call of its own: batches that go on meanwhile would bring more calls than they end.
            with self._calling:
                pass
        staging = self.context.staging
        objects = write_batch(batch, partial(_StagedRows, staging.in_tasks()), _StagedRows(staging))
        if not objects:
            return Staged(None, 0)
        staged = _StagedBatch(columns=batch.schema.jsonValue(), mode=self._mode, objects=tuple(objects))
        return Staged(staged.model_dump(mode="json"), sum(each.rows for each in objects))

    def commit(self, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        """Call the function with the checkpoint's rows, unless it has returned from this call before.

        Raises:
            WrongFunction: the function has a mistake.
            FunctionFailed: it raised another error.
            StagedRowsGone: rows are not in the store.
            UnreadableCommittable: a committable does not belong to this sink.
            StoreError: the store does not note that the function has returned.
        """
        batches = [read_committable(_StagedBatch, each, self._label) for each in committables]
        staging = self.context.staging
        if self._recovered:
            # No checkpoint before this one is ever committed again.
            with suppress(StoreError):
                staging.delete(self._garbage)
                self._garbage = []
        # Another process may have committed this one, or a part of it.
        stored = {each.name for each in staging.list()} if batches and not self._recovered else None
        with self._calling:
            for batch_id, together in _calls(checkpoint, batches):
                note = f"returned from {batch_id}".encode()
                if stored is not None:
                    sha256 = hashlib.sha256(note).hexdigest()
                    if any(name.endswith(sha256) for name in stored):
                        continue
                    self._check_presence(checkpoint, together, stored)
                self._call(together, batch_id)
                self._garbage.append(staging.put(note))
        self._garbage += [each.name for batch in batches for each in batch.objects]

    def rescue(self, checkpoint: CheckpointId, committables: Sequence[JsonValue], target: Path) -> int:
        """Write the rows to a file, each as one JSON object. Raises StagedRowsGone."""
        batches = [read_committable(_StagedBatch, each, self._label) for each in committables]
        if not batches:
            return 0
        self._check_presence(checkpoint, batches, {each.name for each in self.context.staging.list()})
        from pyspark.sql import functions as f

        text = f.to_json(f.struct("*"), {"ignoreNullFields": "false"})
        with target.open("a", encoding="utf-8") as file:
            file.writelines(f"{row[0]}\n" for row in self._rows(batches).select(text).toLocalIterator())
        return sum(each.rows for batch in batches for each in batch.objects)

    def abort(self) -> None:
        """Let the next commit delete what lower epochs have staged: until then, the last one may be repeated."""
        self._recovered = True
        self._garbage += [each.name for each in self.context.staging.list() if each.epoch < self.context.epoch]

    def _call(self, batches: Sequence[_StagedBatch], batch_id: int) -> None:
        what = f"{self._label}: the function {self._reference} failed with batch {batch_id}"
        function = self._find()
        try:
            with mistakes_named(what, function):
                function(self._rows(batches), batch_id)
        except StreamJobError:
            raise
        except Exception as error:
            again = "the job goes on when it returns: it is called again with the same rows and the same id"
            raise FunctionFailed(f"{what}: {describe(error)}", again) from error

    def _check_presence(self, checkpoint: CheckpointId, batches: Sequence[_StagedBatch], stored: set[str]) -> None:
        missing = [each.name for batch in batches for each in batch.objects if each.name not in stored]
        if missing:
            raise StagedRowsGone(
                f"{self._label}: rows of checkpoint {checkpoint} are not in the store: {', '.join(missing)}",
                "bring them back from a copy of the store",
            )

    def _rows(self, batches: Sequence[_StagedBatch]) -> DataFrame:
        """Return staged rows, which each action of the function reads from the store."""
        from pyspark.sql.types import StructField, StructType

        if self._session is None:
            assert self._spark is not None, "a sink that commits has a Spark"
            self._session = cloned_session(self._spark())
        columns = StructType.fromJson(batches[-1].columns)
        numbered = StructType(
            [StructField(f"c{number}", each.dataType, each.nullable) for number, each in enumerate(columns)]
        )
        names = [(each.name,) for batch in batches for each in batch.objects]
        objects = self._session.createDataFrame(names, "name string")
        return objects.mapInArrow(_reading(self.context.staging.in_tasks()), numbered).toDF(*columns.names)


def _calls(checkpoint: CheckpointId, batches: Sequence[_StagedBatch]) -> Iterator[tuple[int, Sequence[_StagedBatch]]]:
    """Yield the ids of the calls for a checkpoint, each with its batches.

    Appended rows come together. A batch of `update` has a row for each key, and one of `complete` replaces the former.
    """
    if batches and batches[0].mode == "update":
        yield from ((checkpoint * CALLS_OF_A_CHECKPOINT + number, [each]) for number, each in enumerate(batches))
    elif batches:
        yield checkpoint, batches if batches[0].mode == "append" else batches[-1:]


def _reading(staging: TaskStaging) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(names: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in names:
            for name in batch.column(0).to_pylist():
                rows = pa.ipc.open_stream(staging.get(name))
                numbered = [f"c{number}" for number in range(len(rows.schema))]
                yield from (each.rename_columns(numbered) for each in rows)

    return read
