"""Nexmark: an auction site's events and questions, answered by streamjob, plain Spark and Flink."""
