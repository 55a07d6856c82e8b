"""Converts the checkpoint of a plain Structured Streaming query to a savepoint for a job."""

from streamjob_runtime.restoring.from_spark.query_check import check_query
from streamjob_runtime.restoring.from_spark.taking import take_over, was_taken_over

__all__ = ["check_query", "take_over", "was_taken_over"]
