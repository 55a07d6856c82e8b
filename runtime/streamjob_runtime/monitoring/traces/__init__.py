"""Traces of a job: spans from what the coordinator, a start and Spark's reports record anyway."""
