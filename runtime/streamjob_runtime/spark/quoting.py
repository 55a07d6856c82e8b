"""Names in expressions of Spark."""

from __future__ import annotations


def quoted(name: str) -> str:
    """Return a column's name as an expression of Spark, in which a dot is part of the name."""
    return "`" + name.replace("`", "``") + "`"
