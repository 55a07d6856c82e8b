"""The rows of a source: as its format has them, in the columns that the job computes, with event time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, cast

from streamjob.errors import InvalidInput
from streamjob.job.loading.load import LoadedJob
from streamjob.job.model.spec import OperatorSpec, SourceSpec
from streamjob.job.planning.dead_letters import leaves_out_damaged
from streamjob_runtime.chain.event_time.event_times import Watermarked, with_observed_time
from streamjob_runtime.chain.event_time.watermarks import event_time_columns
from streamjob_runtime.chain.sources.broken_records import with_decoded
from streamjob_runtime.chain.sources.changes import check_changes, envelope_of, with_available, with_changes
from streamjob_runtime.chain.sources.discovered_files import DiscoveredFiles
from streamjob_runtime.chain.sources.file_records import are_letters, decoded_files, without_damaged
from streamjob_runtime.chain.sources.null_event_times import with_event_times
from streamjob_runtime.spark.gateway import (
    analyzed_plan,
    our_java,
    streaming_leaves,
)
from streamjob_runtime.spark.text.text_records import is_decoded, with_checked_header
from streamjob_runtime.spark.text.user_functions import mistakes_named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class InvalidColumns(InvalidInput):
    """A source's columns need more than each row alone, or a watermark is on no time; nothing was started."""


def read_stream(
    spark: SparkSession, source: SourceSpec, form: str, options: Mapping[str, str], files: DiscoveredFiles | None = None
) -> DataFrame:
    """Return the rows of a source in the columns of its format, those of CSV and JSON files decoded.

    Args:
        form: Spark's name of the format.
        options: of the source, resolved.
        files: its files, if it has any.

    Raises:
        UnusableSchema: the schema has other types than the format, or an option makes no sense.
        PySparkException: Spark refuses the source.
    """
    if files is not None and is_decoded(source):
        return decoded_files(spark, source, options, partial(files.stream, "text"))
    if source.format == "xml":
        # Spark's own default is NULL in the columns that it cannot read.
        options = {"mode": "FAILFAST", **options}
    options = with_checked_header(source.format, options)
    if files is not None:
        rows = files.stream(form, options, _schema_of(source.schema_ddl))
        return without_damaged(source, rows) if leaves_out_damaged(source) else rows
    reader = spark.readStream.format(form).options(**options)
    return (reader.schema(source.schema_ddl) if source.schema_ddl else reader).load()


def source_rows(spark: SparkSession, job: LoadedJob, source: SourceSpec, frame: DataFrame) -> Watermarked:
    """Return a source's rows as operators read them: decoded, in the columns that the job computes, with its watermark.

    Args:
        job: resolves the source's function.
        frame: its rows in the columns of its format.

    Raises:
        InvalidJob: its function cannot be imported.
        WrongFunction: its function has a mistake.
        InvalidColumns: the columns need other rows than the one that they are computed from.
        ChangesMiscounted: the columns forget that the rows are changes.
        UnusableSchema, SchemaMissing, RegistryUnreachable, RegistryRefuses: the schema of its records cannot be had.
        PySparkException: Spark refuses a schema, the columns or the watermark.
    """
    if are_letters(source):
        return Watermarked(frame)
    changes = with_changes(source, with_decoded(job, envelope_of(source), frame))
    rows, _ = with_available(
        f"Source {source.name!r}",
        {source.name: changes},
        lambda given: with_columns(spark, job, source, given[source.name]),
    )
    check_changes(f"Source {source.name!r}", rows, {source.name: changes}, spark)
    return with_watermark(rows, source)


def with_columns(spark: SparkSession, job: LoadedJob, source: SourceSpec, frame: DataFrame) -> DataFrame:
    """Return a source's rows in the columns that the job computes; raises as `source_rows` does.

    Args:
        job: resolves the source's function.
        frame: its rows in the columns of its format.
    """
    if source.columns is not None:
        computed = frame.selectExpr(*source.columns)
    elif source.python is not None:
        computed = _returned(spark, job, source, frame)
    else:
        return frame
    if our_java(spark).StateForms.mayKeep(analyzed_plan(computed)):
        raise InvalidColumns(
            f"Source {source.name!r}: its columns keep state, and a source computes each row by itself",
            "compute them in an operator",
        )
    return computed


def with_watermark(frame: DataFrame, part: SourceSpec | OperatorSpec) -> Watermarked:
    """Return the rows of a source or operator with its watermark.

    Raises:
        InvalidColumns: the column is a window.
        PySparkException: the column does not exist, or cannot be event time.
    """
    if part.watermark is None:
        return Watermarked(frame)
    rows = with_observed_time(with_event_times(frame, part), part.watermark)
    if rows is None:
        kind = "Operator" if isinstance(part, OperatorSpec) else "Source"
        raise InvalidColumns(
            f"{kind} {part.name!r}: its watermark is on {part.watermark.column!r}, a window",
            "put the watermark on a TIMESTAMP, such as the end of the window",
        )
    return rows


def _schema_of(ddl: str | None) -> StructType | None:
    from pyspark.sql.types import StructType

    return None if ddl is None else cast("StructType", StructType.fromDDL(ddl))


def _returned(spark: SparkSession, job: LoadedJob, source: SourceSpec, frame: DataFrame) -> DataFrame:
    from pyspark.sql import DataFrame

    function = job.resolve(source)
    with mistakes_named(f"Source {source.name!r}", function):
        result = function(frame)
    if not isinstance(result, DataFrame):
        raise InvalidColumns(
            f"Source {source.name!r}: its function returned {type(result).__name__}, not a DataFrame",
            "return the DataFrame that it computes",
        )
    own = {each.source for each in streaming_leaves(spark, frame)}
    if [each.source for each in streaming_leaves(spark, result)] != list(own):
        raise InvalidColumns(
            f"Source {source.name!r}: its function returned a DataFrame that does not read the source's rows once",
            "derive it from its argument alone; an operator can read several sources, or one twice",
        )
    if event_time_columns(result.schema):
        raise InvalidColumns(
            f"Source {source.name!r}: its function sets a watermark",
            "give the source `watermark: {column: …, delay: …}`",
        )
    return result
