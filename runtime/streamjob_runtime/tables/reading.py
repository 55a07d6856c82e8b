"""Reads a table by Spark's batch sources, and reports errors in the author's terms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streamjob.errors import InvalidInput, StreamJobError
from streamjob.job.connectors.jdbc import FORMAT as JDBC
from streamjob.job.connectors.kafka_source import FORMAT as KAFKA
from streamjob.job.connectors.options import option, redacted, secrets_in
from streamjob.job.loading.load import LoadedJob
from streamjob.job.model.formats import FILE_FORMATS
from streamjob.job.model.spec import TableSpec
from streamjob_runtime.kafka.client import with_defaults
from streamjob_runtime.sinks.at_least_once.jdbc import database_said
from streamjob_runtime.spark.connectors.buckets import ensure_objects
from streamjob_runtime.spark.gateway import (
    each_file_once,
    java_errors,
    spark_errors,
    thrown,
)
from streamjob_runtime.spark.jdbc import find_driver
from streamjob_runtime.spark.text.error_text import header_said, reason
from streamjob_runtime.spark.text.text_records import (
    HEADER_FIX,
    fields_of,
    is_decoded,
    loading,
    records_of,
    unread_record_in,
    whole_records,
    with_checked_header,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class TableUnreadable(InvalidInput):
    """Spark cannot read a table: it does not exist, or its options or its schema are wrong."""


class TableReadFailed(StreamJobError):
    """Spark began to read a table and failed."""


class TableChanged(StreamJobError):
    """A table has other columns than when the job started."""

    def __init__(self, table: TableSpec, before: StructType, now: StructType) -> None:
        super().__init__(
            f"table {table.name!r} has the columns {now.simpleString()}, and had {before.simpleString()} when the job "
            "started",
            "restart the job, which plans its queries for the new columns",
        )


@contextmanager
def reading_table(spark: SparkSession, job: LoadedJob, table: TableSpec) -> Iterator[dict[str, str]]:
    """Yield the resolved options of a table, and explain the errors of reading it.

    Args:
        job: resolves the options.

    Raises:
        TableUnreadable: Spark refuses the table.
        TableReadFailed: Spark fails while it reads the rows.
        NoDriver: no JDBC driver supports the URL.
        DatabaseRefuses, DatabaseUnreachable: the database does not give the rows.
        MissingVariable: an option refers to an environment variable that is not set.
    """
    from pyspark.errors import AnalysisException, PySparkException

    label = f"table {table.name!r}"
    options = job.options(table)
    if table.format == JDBC and option(options, "driver") is None:
        options["driver"] = find_driver(spark, option(options, "url") or "", label)
    if table.format == "xml" and option(options, "mode") is None:
        # A batch must not join what only looks like the table.
        options["mode"] = "FAILFAST"
    try:
        yield options
    except spark_errors() as error:
        said = database_said(error, options) if isinstance(error, java_errors()) else None
        if (record := unread_record_in(str(error))) is not None:
            what = record.is_not(f"{table.format} with the columns {table.schema_ddl}")
            fix = HEADER_FIX if record.record is None else "correct the file or the schema"
            raise TableReadFailed(f"{label}: {what}", fix) from error
        if said is not None and said.no_table:
            raise TableUnreadable(f"{label}: {said.text}", "correct dbtable or query, or the role's rights") from error
        if said is not None:
            raise said.error(label) from error
        text = redacted(_text(error), secrets_in(options))
        if (header := header_said(text)) is not None:
            raise TableReadFailed(f"{label}: {header}", HEADER_FIX) from error
        if isinstance(error, AnalysisException) or not isinstance(error, PySparkException):
            raise TableUnreadable(f"{label} cannot be read: {text}", "correct its format, options or schema") from error
        raise TableReadFailed(f"{label} cannot be read: {text}", "correct its files or its schema") from error


def batch_frame(spark: SparkSession, table: TableSpec, options: Mapping[str, str]) -> DataFrame:
    """Return the rows of a table, as they are now. Raises Spark's errors, and UnusableSchema."""
    ensure_objects(table, options)
    if is_decoded(table):
        records = records_of(spark, table, options, loading(spark))
        return whole_records(table.name, records).select(*fields_of(records))
    given = with_defaults(options) if table.format == KAFKA else with_checked_header(table.format, options)
    reader = spark.read.format(table.format).options(**given)
    frame = (reader.schema(table.schema_ddl) if table.schema_ddl else reader).load()
    return each_file_once(spark, frame) if table.format in FILE_FORMATS else frame


def _text(error: Exception) -> str:
    """Return the message of an error of Spark, with that of its first cause."""
    if not isinstance(error, java_errors()):
        return reason(error)
    exception = first = thrown(error)
    while first.getCause() is not None:
        first = first.getCause()
    said, cause = (" ".join(str(each.getMessage()).split()) for each in (exception, first))
    return said if cause in said else f"{said} ({cause})"
