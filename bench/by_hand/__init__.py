"""Decoding, bad rows and joins with tables, against plain Spark doing the same by hand."""
