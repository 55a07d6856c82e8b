"""Finds the records of CSV and JSON files that Spark cannot read with the declared schema.

Spark puts such a record into a column that the schema names, and NULL into the columns that it cannot read. It looks
for mistakes only in columns that a query reads, so the condition reads all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamjob.job.dead_letters import BROKEN, DEAD_LETTER
from streamjob.job.formats import DECODED_FILES
from streamjob.job.spec import SourceSpec
from streamjob_runtime.chain.decoding import COUNT, OBSERVED
from streamjob_runtime.chain.error_positions import error_at, position_in
from streamjob_runtime.spark.gateway import once
from streamjob_runtime.spark.quoting import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_UNREAD = "__streamjob_unread"
_KIND = "file-record"
_LONGEST = 500
"""Characters of a record in the message of a job that ends."""


@dataclass(frozen=True, slots=True)
class UnreadRecord:
    """A record of a file that does not fit the schema: its source by name, the file, and the beginning of its text."""

    source: str
    file: str
    record: str


def unread_record_in(text: str) -> UnreadRecord | None:
    """Return the record that the text of one of Spark's errors is about; None if the error is another one."""
    position = position_in(_KIND, text)
    return UnreadRecord(**position) if position else None


def with_unread(source: SourceSpec, form: str, options: Mapping[str, str]) -> tuple[SourceSpec, str, dict[str, str]]:
    """Return a source, its format and its options so that a column has the records that Spark cannot read.

    A source that does not decode files, or says nothing about such records, stays as it is.
    """
    if not _applies(source):
        return source, form, {**options}
    schema = f"{source.schema_ddl}, {_UNREAD} STRING"
    settled = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _UNREAD}
    return source.model_copy(update={"schema_ddl": schema}), form, {**options, **settled}


def without_unread(source: SourceSpec, frame: DataFrame) -> DataFrame:
    """Return the rows of a source without the records that Spark cannot read.

    Such a record fails the query, or is dropped, or has its text and file and the error in a further column, as the
    source says. Its column stays until `with_unread_dropped`, since Spark knows `_metadata` only before a selection.

    Args:
        source: the source.
        frame: its rows, read with what `with_unread` returns.
    """
    from pyspark.sql import functions as f

    if not _applies(source):
        return frame
    columns = [quoted(each) for each in frame.columns if each != _UNREAD]
    reads_all = f.bit_count(f.xxhash64(*(f.isnull(each) for each in columns))) >= 0
    broken = f.col(_UNREAD).isNotNull() & reads_all
    if source.on_error == "fail":
        # Joined with a later filter, Spark would drop rows by their NULLs first, also in the reader.
        return frame.where(once(frame.sparkSession, f.when(broken, _failure(source.name)).otherwise(True)))
    frame = frame.observe(OBSERVED + source.uid, f.count_if(broken).alias(COUNT))
    if source.on_error != DEAD_LETTER:
        return frame.where(~broken)
    letter = f.struct(
        f.col(_UNREAD).cast("binary").alias("value"),
        f.col("_metadata.file_path").alias("file"),
        f.lit(f"the record is not {described(source)}").alias("error"),
    )
    return frame.select(*columns, *(source.columns or ())[1:], f.when(broken, letter).alias(BROKEN))


def with_unread_dropped(frame: DataFrame) -> DataFrame:
    """Return rows without the column of records that Spark cannot read."""
    return frame.drop(_UNREAD) if _UNREAD in frame.columns else frame


def described(source: SourceSpec) -> str:
    """Return the form of a source's records as messages name it."""
    return f"{source.format} with the columns {source.schema_ddl}"


def are_letters(source: SourceSpec) -> bool:
    """Return whether the rows of a source of files have a column for dead letters; then they are its only columns."""
    return _applies(source) and source.on_error == DEAD_LETTER


def _applies(source: SourceSpec) -> bool:
    # A test feeds a Kafka source by JSON files, and the records in them are decoded.
    decodes_records = source.key is not None or source.value is not None
    return source.on_error is not None and source.format in DECODED_FILES and not decodes_records


def _failure(source: str) -> Column:
    from pyspark.sql import functions as f

    position = f.struct(
        f.lit(source).alias("source"),
        f.col("_metadata.file_path").alias("file"),
        f.left(f.col(_UNREAD), f.lit(_LONGEST)).alias("record"),
    )
    return f.raise_error(error_at(_KIND, position)).cast("boolean")
