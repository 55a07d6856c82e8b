"""Jars that jobs of some formats need beside Spark's own: which ones, where they are kept, and how they are fetched."""
