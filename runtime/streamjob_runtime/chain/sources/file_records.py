"""The records of files of a source, and what its `onError` says about those that are broken, and damaged files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from streamjob.job.model.spec import SourceSpec
from streamjob.job.planning.dead_letters import BROKEN, DEAD_LETTER, leaves_out_damaged
from streamjob_runtime.chain.sources.broken_records import COUNT, OBSERVED
from streamjob_runtime.spark.text.text_records import (
    BROKEN_ERROR,
    BROKEN_TEXT,
    DAMAGE,
    Load,
    fields_of,
    records_of,
    whole_records,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def decoded_files(spark: SparkSession, source: SourceSpec, options: Mapping[str, str], load: Load) -> DataFrame:
    """Return the rows of a source whose records are decoded, in the columns of its schema.

    A broken record fails the query, or is dropped, or has its text and file and the error in a further column, as the
    source says, and so has a damaged file. A header that does not fit the schema always fails it.

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
    wrong = f.concat(f.lit(f"the record is not {described(source)}: "), f.col(BROKEN_ERROR))
    return _without_broken(source, records, wrong, f.col(BROKEN_TEXT))


def without_damaged(source: SourceSpec, rows: DataFrame) -> DataFrame:
    """Return the rows of a source of files whose records are not decoded here, as `decoded_files` does.

    Args:
        source: the source, for which `leaves_out_damaged`.
        rows: those of its files.
    """
    from pyspark.sql import functions as f

    nothing = f.lit(None)
    return _without_broken(source, rows, nothing.cast("string"), nothing.cast("binary"))


def _without_broken(source: SourceSpec, records: DataFrame, wrong: Column, text: Column) -> DataFrame:
    """Return the rows without those of a broken record or damaged file; with deadLetter, all with a column of it."""
    from pyspark.sql import functions as f

    error = f.coalesce(f.concat(f.lit("the file cannot be read: "), f.col(DAMAGE)), wrong)
    records = records.observe(OBSERVED + source.uid, f.count_if(error.isNotNull()).alias(COUNT))
    if source.on_error != DEAD_LETTER:
        return records.where(error.isNull()).select(*fields_of(records))
    letter = f.struct(text.alias("value"), f.input_file_name().alias("file"), error.alias("error"))
    dead = f.when(error.isNotNull(), letter).alias(BROKEN)
    return records.select(*fields_of(records), *(source.columns or ())[1:], dead)


def described(source: SourceSpec) -> str:
    """Return the form of a source's records as messages name it."""
    return f"{source.format} with the columns {source.schema_ddl}"


def are_letters(source: SourceSpec) -> bool:
    """Return whether the rows of a source of files have a column for dead letters; then they are its only columns."""
    return leaves_out_damaged(source) and source.on_error == DEAD_LETTER
