"""Streams between chains, on Spark: what a producer writes and its consumers read."""
