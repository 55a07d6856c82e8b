"""Quotes names in Spark expressions."""

from __future__ import annotations


def quoted(name: str) -> str:
    """Return a column's name as a Spark expression in which dots belong to the name."""
    return "`" + name.replace("`", "``") + "`"
