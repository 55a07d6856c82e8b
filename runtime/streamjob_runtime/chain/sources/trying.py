"""Finds the rows for which Spark cannot compute an operator, while it computes the others.

Each selection of the operator is computed by one expression of our own, which returns the error in place of its value.
So a row is computed once, by Spark's generated code, and its error concerns no other row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamjob.errors import InvalidInput
from streamjob.job.model.spec import OperatorSpec
from streamjob.job.planning.dead_letters import BROKEN, DEAD_LETTER
from streamjob_runtime.chain.sources.broken_records import COUNT, OBSERVED
from streamjob_runtime.spark.gateway import java_errors, java_frame, our_java, thrown
from streamjob_runtime.spark.text.error_positions import error_at, position_in
from streamjob_runtime.spark.text.text_forms import writer_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ERROR = "__streamjob_error"
_ROW = "__streamjob_row"
_KIND = "row-failed"
_LONGEST_ROW, _LONGEST_ERROR = 1000, 500
"""Characters in the message of a job that ends; more would be cut off somewhere on its way."""


class RowsNotSeparable(InvalidInput):
    """An operator with `onError` does more than to compute each row of its input by itself; nothing was started."""


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A row for which an operator has an error: the operator by name, the row as JSON, and Spark's message."""

    operator: str
    row: str
    error: str


def failed_row_in(text: str) -> FailedRow | None:
    """Return the row that the text of one of Spark's errors is about; None if the error is another one."""
    position = position_in(_KIND, text)
    return FailedRow(**position) if position else None


def with_failed_rows(spark: SparkSession, operator: OperatorSpec, rows: DataFrame, result: DataFrame) -> DataFrame:
    """Return the result of an operator with what its `onError` says about rows that Spark cannot compute.

    Such a row fails the query with a message that `failed_row_in` reads, or is dropped and counted, or is in the result
    with nothing but itself and the error in a further column.

    Raises:
        RowsNotSeparable: it does more than to select and to filter.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as f

    try:
        tried = DataFrame(our_java(spark).TriedRows.of(java_frame(rows), java_frame(result)), spark)
    except java_errors() as error:
        raise RowsNotSeparable(
            f"Operator {operator.name!r} has onError, and has {thrown(error).getMessage()}: only a selection or a "
            "filter computes each row by itself",
            "put that into another operator, before or after it; or leave onError out, and use functions such as "
            "try_cast and try_divide",
        ) from error
    row = f.to_json(_ROW, writer_options("json", {"ignoreNullFields": "false"}))
    failed = f.col(_ERROR).isNotNull()
    if operator.on_error == "fail":
        position = f.struct(
            f.lit(operator.name).alias("operator"),
            f.left(row, f.lit(_LONGEST_ROW)).alias("row"),
            f.left(_ERROR, f.lit(_LONGEST_ERROR)).alias("error"),
        )
        raised = f.raise_error(error_at(_KIND, position))
        return tried.where(f.when(failed, raised.cast("boolean")).otherwise(True)).drop(_ERROR, _ROW)
    tried = tried.observe(OBSERVED + operator.uid, f.count_if(failed).alias(COUNT))
    if operator.on_error != DEAD_LETTER:
        return tried.where(~failed).drop(_ERROR, _ROW)
    letter = f.when(failed, f.struct(row.alias("row"), f.col(_ERROR).alias("error")))
    return tried.withColumn(BROKEN, letter).drop(_ERROR, _ROW)
