"""Errors of tables."""

from __future__ import annotations

from streamjob.errors import InvalidInput, StreamJobError


class UnusableTable(InvalidInput):
    """The table does not exist, cannot be read or written, or does not fit the rows."""


class TableUnreachable(StreamJobError):
    """A table, its catalog or its files cannot be reached; the job goes on once they can."""
