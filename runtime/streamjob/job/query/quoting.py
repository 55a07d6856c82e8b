"""Quotes names and texts in Spark SQL."""

from __future__ import annotations


def quoted(name: str) -> str:
    """Return a column's name as an expression in which dots belong to the name."""
    return "`" + name.replace("`", "``") + "`"


def as_text(text: str) -> str:
    """Return a text as a constant."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
