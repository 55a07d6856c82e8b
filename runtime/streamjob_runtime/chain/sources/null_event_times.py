"""Finds the rows whose event time is NULL: no watermark ever passes them, so what waits for it would wait for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamjob.job.model.spec import OperatorSpec, SourceSpec
from streamjob_runtime.chain.sources.broken_records import COUNT
from streamjob_runtime.spark.gateway import once
from streamjob_runtime.spark.text.error_positions import error_at, position_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OBSERVED = "streamjob-no-event-time:"
"""Before the uid of a source or operator, the name under which Spark reports how many rows it dropped."""
_KIND = "no-event-time"
_OF_OPERATOR = "null-event-time"  # see `NullTimes.java`


def part_without_event_time_in(text: str) -> str | None:
    """Return the source or operator, by name, that the text of one of Spark's errors is about; None for another one."""
    position = position_in(_KIND, text)
    return None if position is None else str(position["part"])


def column_without_event_time_in(text: str) -> str | None:
    """Return the column of an operator's input that the text of a Spark error is about; None for another error."""
    position = position_in(_OF_OPERATOR, text)
    return None if position is None else str(position["column"])


def with_event_times(frame: DataFrame, part: SourceSpec | OperatorSpec) -> DataFrame:
    """Return the rows of a source or operator with a watermark, without those that have no event time.

    Such a row fails the query, or is dropped and counted, as the watermark says. With dead letters, the rows that
    arrive here have an event time.
    """
    from pyspark.sql import functions as f

    assert part.watermark is not None
    known = f.col(part.watermark.column).isNotNull()
    if part.watermark.null_event_time == "drop":
        return frame.observe(OBSERVED + part.uid, f.count_if(~known).alias(COUNT)).where(known)
    failure = f.raise_error(error_at(_KIND, f.struct(f.lit(part.name).alias("part")))).cast("boolean")
    return frame.where(once(frame.sparkSession, f.when(known, True).otherwise(failure)))
