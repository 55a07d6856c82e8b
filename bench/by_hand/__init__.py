"""Decoding and bad rows, against plain Spark doing the same by hand."""
