"""At-least-once sinks for all targets to which Spark can write a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue

from streamjob.errors import refuse
from streamjob.ids import BatchId, CheckpointId
from streamjob.job.connectors.options import option
from streamjob.job.model.formats import FILE_FORMATS
from streamjob.sink import SinkContext, Staged
from streamjob.stored.sparks_output import SINK_LOG
from streamjob_runtime.discovery.hadoop_directories import HadoopDirectories
from streamjob_runtime.sinks.errors import PlaceOfQuery, UnusableSink
from streamjob_runtime.sinks.rows.counting import counted
from streamjob_runtime.sinks.rows.readable_rows import readable_rows, unwritable
from streamjob_runtime.spark.text.text_forms import writer_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class AtLeastOnceSink:
    """Base of sinks whose rows are visible once written. A batch that runs again after a failure is written again."""

    def open(self, context: SinkContext) -> None:
        """Keep the context for `stage`."""
        self.context = context

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        """Write the batch permanently, in one Spark action."""
        raise NotImplementedError

    def commit(self, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        """Do nothing: the rows are visible already."""

    def abort(self) -> None:
        """Do nothing: written rows cannot be withdrawn."""

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class BatchSink(AtLeastOnceSink):
    """Appends each batch with one of Spark's batch writers: jdbc, kafka, parquet, noop, …

    Args:
        spark_format: Spark's name of the format, or its class.
        partition_by: columns that become directories or partitions.
    """

    def __init__(self, spark_format: str, partition_by: Sequence[str] = ()) -> None:
        self._format = spark_format
        self._partition_by = tuple(partition_by)

    def preview(self, context: SinkContext, schema: StructType | None) -> None:
        """Check the rows and the place with Spark. Raises the errors of `check_schema`."""
        self.open(context)
        if schema is not None:
            self.check_schema(schema)

    def check_schema(self, schema: StructType) -> None:
        """Check that the format holds the columns, and that Spark's readers will see the files.

        Raises:
            UnusableSink: readers of JSON or CSV would not find a column as it was.
            PlaceOfQuery: a plain query has written there.
        """
        path = option(self.context.options, "path") if self._format in FILE_FORMATS else None
        if path is not None and _exists(f"{path.rstrip('/')}/{SINK_LOG}"):
            raise PlaceOfQuery.at(f"sink {self.context.uid}", path)
        refuse(UnusableSink, f"sink {self.context.uid}:", unwritable(self._format, schema.fields))

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        """Append the batch, in one Spark action."""
        options = self.context.options
        who = f"sink {self.context.uid}"
        batch = readable_rows(batch, who, self._format, options=options, partition_by=self._partition_by)
        # Other writers may run any number of actions on the batch.
        batch, rows = counted(batch) if self._format in FILE_FORMATS else (batch, lambda: None)
        writer = batch.write.format(self._format).mode("append").options(**writer_options(self._format, options))
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        writer.save()
        return Staged(None, rows())


def _exists(uri: str) -> bool:
    from pyspark.sql import SparkSession

    try:
        HadoopDirectories(SparkSession.active()).stat(uri)
    except FileNotFoundError:
        return False
    return True
