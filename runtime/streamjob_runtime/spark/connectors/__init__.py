"""Jars that some formats need in addition to Spark's own: their list, their storage, and their download."""
