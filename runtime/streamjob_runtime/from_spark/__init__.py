"""Takes over the checkpoint of a plain Structured Streaming query: makes a savepoint of it that a job starts from."""

from streamjob_runtime.from_spark.taking import FROM_SPARK, take_over

__all__ = ["FROM_SPARK", "take_over"]
