"""Decodes the records of CSV and JSON, of Kafka and of files; our own Java does it, more strictly than Spark.

Spark reads files as lines of text, or as a whole, and the decoder makes rows of them. Spark's own sources of CSV and
JSON do not say what is wrong with a record, and take for right what is not: see `FieldRules.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from streamjob.errors import InvalidInput
from streamjob.job.connectors.options import option
from streamjob.job.model.formats import DECODED_FILES
from streamjob.job.model.spec import SourceSpec, TableSpec
from streamjob.job.query.quoting import quoted
from streamjob_runtime.spark.gateway import (
    column_of,
    each_file_once,
    java_column,
    java_errors,
    java_session,
    once,
    our_java,
    thrown,
)
from streamjob_runtime.spark.text.error_positions import error_at, position_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

BROKEN_TEXT, BROKEN_ERROR, BROKEN_FILE = "__streamjob_text", "__streamjob_error", "__streamjob_file"
"""The columns with the text of a broken record, what is wrong in it, and its file; NULL for the others.

The text alone is NULL for the header of a file that does not fit the schema.
"""
DAMAGE = "__streamjob_damage"
"""The column with what is wrong with a file that nothing can read, as `DiscoveredFiles.java` names it.

Such a file is one row, without any value.
"""
_KIND = "file-record"
_LONGEST = 500
"""Characters of a record in the message of a job that ends."""
_TEXT = "value"
_ENFORCE = "enforceSchema"
HEADER_FIX = (
    "name the columns of the header in the schema, in its order; or, if the names in the header mean nothing, set the "
    f"option {_ENFORCE}: true"
)
"""What to do about the header of a file that does not fit the schema."""


class UnusableSchema(InvalidInput):
    """A schema cannot be read, or does not go with the rows."""


@dataclass(frozen=True, slots=True)
class UnreadRecord:
    """A broken record of a file: its source by name, the file, what is wrong in it, and its text.

    Without a text, it is the header of the file.
    """

    source: str
    file: str
    error: str
    record: str | None = None

    def is_not(self, form: str) -> str:
        """Return what is wrong, as a sentence for a message.

        Args:
            form: the form that the record does not have.
        """
        if self.record is None:
            return f"the header of {self.file} {self.error}"
        return f"a record of {self.file} is not {form}: {self.error}: {self.record}"


def unread_record_in(text: str) -> UnreadRecord | None:
    """Return the record that the text of one of Spark's errors is about; None if the error is another one."""
    position = position_in(_KIND, text)
    return UnreadRecord(**position) if position else None


def is_decoded(part: SourceSpec | TableSpec) -> bool:
    """Return whether the records of a part's files are decoded here: of CSV and JSON, unless it sets Spark's `mode`."""
    if part.format not in DECODED_FILES:
        return False
    if isinstance(part, TableSpec):
        return option(part.options, "mode") is None
    # A test feeds a Kafka source by JSON files, and the records in them are decoded.
    decodes_records = part.key is not None or part.value is not None
    return not decodes_records and (part.on_error is not None or option(part.options, "mode") is None)


def text_decoder(spark: SparkSession, who: str, form: str, fields: str, options: Mapping[str, str]) -> Any:
    """Return what decodes records of CSV or JSON.

    Args:
        who: the source or table, at the beginning of a message.
        form: `csv` or `json`.
        fields: the fields, as `name TYPE, …`.
        options: Spark's options of the form, and our own.

    Raises:
        UnusableSchema: these are no fields of the form, or an option makes no sense.
    """
    java, zone = our_java(spark), spark.conf.get("spark.sql.session.timeZone")
    try:
        return (java.CsvDecoder if form == "csv" else java.JsonDecoder)(fields, dict(options), zone)
    except java_errors() as error:
        what = f"{who}: its schema cannot be read as a type of Spark, with its options: {message(thrown(error))}"
        raise UnusableSchema(what, "correct the schema, or the options") from None


def message(exception: Any) -> str:
    """Return the first line of the message of an exception in Java."""
    return str(exception.getMessage() or exception.getClass().getSimpleName()).split("\n", 1)[0]


Load = Callable[[Mapping[str, str], "StructType | None", Any], "DataFrame"]
"""Returns files as text for options, a schema (None for that of the text and the directories), and Spark's accumulator
for the number of records beyond the rows that Spark counts."""


def loading(spark: SparkSession) -> Load:
    """Return what loads the text of a table."""

    def load(options: Mapping[str, str], schema: StructType | None, surplus: Any) -> DataFrame:
        text = spark.read.format("text").options(**options)
        return each_file_once(spark, (text if schema is None else text.schema(schema)).load())

    return load


def records_of(spark: SparkSession, part: SourceSpec | TableSpec, options: Mapping[str, str], load: Load) -> DataFrame:
    """Return the records of a part's files, with the columns that the directories name, and those of broken records.

    Args:
        part: the source or table, of whose files the records are decoded.
        options: its options, resolved.
        load: loads the text of the files.

    Raises:
        UnusableSchema: its schema has other types than the form, or an option makes no sense.
        PySparkException: Spark cannot read the files.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    fields = part.schema_ddl or ""
    given = {**options, "wholetext": (option(options, "multiLine") or "false").lower()}
    surplus = java_session(spark).sparkContext().longAccumulator()
    frame = load(given, None, surplus)
    if directories := [each for each in frame.schema.fields[1:] if each.name != DAMAGE]:
        declared = {each.name.lower(): each for each in cast("StructType", StructType.fromDDL(fields)).fields}
        # As in Spark, they have the declared types.
        columns = [declared.pop(each.name.lower(), each) for each in directories]
        fields = StructType(list(declared.values())).toDDL()
        frame = load(given, StructType([StructField(_TEXT, StringType()), *columns]), surplus)
    who = f"{'Source' if isinstance(part, SourceSpec) else 'Table'} {part.name!r}"
    decoder = text_decoder(spark, who, part.format, fields, options)
    records = column_of(our_java(spark).FileRecords.of(java_column(f.col(_TEXT).cast("binary")), decoder, surplus))
    names = cast("StructType", StructType.fromDDL(fields)).names
    rows = records.alias(*names, BROKEN_TEXT, BROKEN_ERROR, BROKEN_FILE)
    return frame.select(rows, *(quoted(each) for each in frame.columns[1:]))


def with_checked_header(form: str, options: Mapping[str, str]) -> Mapping[str, str]:
    """Return options with which Spark's own source of CSV compares a header with the schema, as ours does.

    Args:
        form: the format.
        options: the options of a source or table, resolved.
    """
    return options if form != "csv" or option(options, _ENFORCE) else {**options, _ENFORCE: "false"}


def whole_records(part: str, records: DataFrame, *, only_headers: bool = False) -> DataFrame:
    """Return records of files, so that a broken one fails the query with a message that `unread_record_in` reads.

    Args:
        part: the source or table, by name.
        records: what `records_of` returns.
        only_headers: only a header that does not fit the schema fails it. The records behind it mean nothing, and who
            reads a later part of the file does not know that.
    """
    from pyspark.sql import functions as f

    position = f.struct(
        f.lit(part).alias("source"),
        f.col(BROKEN_FILE).alias("file"),
        f.left(f.col(BROKEN_TEXT).cast("string"), f.lit(_LONGEST)).alias("record"),
        f.col(BROKEN_ERROR).alias("error"),
    )
    failure = f.raise_error(error_at(_KIND, position)).cast("boolean")
    # Joined with a later filter, Spark would drop rows by their NULLs first.
    fails = f.col(BROKEN_ERROR).isNotNull()
    if only_headers:
        fails = fails & f.col(BROKEN_TEXT).isNull()
    return records.where(once(records.sparkSession, f.when(fails, failure).otherwise(True)))


def fields_of(records: DataFrame) -> list[str]:
    """Return the quoted names of the columns of records of files, without those of broken records and damaged files."""
    further = (BROKEN_TEXT, BROKEN_ERROR, BROKEN_FILE, DAMAGE)
    return [quoted(each) for each in records.columns if each not in further]
