"""Restores chains from a snapshot, or from the checkpoint of a plain Spark query."""
