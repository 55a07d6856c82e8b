"""Takes over the checkpoint of a plain Structured Streaming query: makes a savepoint of it that a job starts from."""

from streamjob_runtime.restoring.from_spark.query_check import check_query
from streamjob_runtime.restoring.from_spark.taking import take_over

__all__ = ["check_query", "take_over"]
