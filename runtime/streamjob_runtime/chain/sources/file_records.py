"""The records of CSV and JSON files of a source, and what its `onError` says about those that are broken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from streamjob.job.model.spec import SourceSpec
from streamjob.job.planning.dead_letters import BROKEN, DEAD_LETTER
from streamjob_runtime.chain.sources.broken_records import COUNT, OBSERVED
from streamjob_runtime.spark.text.text_records import (
    BROKEN_ERROR,
    BROKEN_FILE,
    BROKEN_TEXT,
    Load,
    fields_of,
    is_decoded,
    records_of,
    whole_records,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def decoded_files(spark: SparkSession, source: SourceSpec, options: Mapping[str, str], load: Load) -> DataFrame:
    """Return the rows of a source whose records are decoded, in the columns of its schema.

    A broken record fails the query, or is dropped, or has its text and file and the error in a further column, as the
    source says. A header that does not fit the schema always fails it.

    Args:
        source: the source, for which `is_decoded`.
        options: its options, resolved.

    Raises:
        UnusableSchema: its schema has other types than the form, or an option makes no sense.
        PySparkException: Spark cannot read the files.
    """
    from pyspark.sql import functions as f

    records = records_of(spark, source, options, load)
    if source.on_error in (None, "fail"):
        return whole_records(source.name, records).select(*fields_of(records))
    if source.format == "csv":
        records = whole_records(source.name, records, only_headers=True)
    is_broken = f.col(BROKEN_ERROR).isNotNull()
    records = records.observe(OBSERVED + source.uid, f.count_if(is_broken).alias(COUNT))
    if source.on_error != DEAD_LETTER:
        return records.where(~is_broken).select(*fields_of(records))
    letter = f.struct(
        f.col(BROKEN_TEXT).alias("value"),
        f.col(BROKEN_FILE).alias("file"),
        f.concat(f.lit(f"the record is not {described(source)}: "), f.col(BROKEN_ERROR)).alias("error"),
    )
    return records.select(*fields_of(records), *(source.columns or ())[1:], f.when(is_broken, letter).alias(BROKEN))


def described(source: SourceSpec) -> str:
    """Return the form of a source's records as messages name it."""
    return f"{source.format} with the columns {source.schema_ddl}"


def are_letters(source: SourceSpec) -> bool:
    """Return whether the rows of a source of files have a column for dead letters; then they are its only columns."""
    return is_decoded(source) and source.on_error == DEAD_LETTER
