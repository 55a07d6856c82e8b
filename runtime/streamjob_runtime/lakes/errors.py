"""Errors of tables."""

from __future__ import annotations

from streamjob.errors import InvalidInput


class UnusableTable(InvalidInput):
    """The table does not exist, cannot be read or written, or does not fit the rows."""
