"""Streams between chains, on Spark: written by a producer, read by its consumers."""
