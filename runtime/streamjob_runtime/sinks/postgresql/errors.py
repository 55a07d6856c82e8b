"""What can go wrong between a sink and its PostgreSQL server."""

from __future__ import annotations

from streamjob.errors import InvalidInput, StreamJobError


class DatabaseRefuses(InvalidInput):
    """The server answers, and does not let the sink's role in, or not do what the sink has to do."""


class UnusableTable(InvalidInput):
    """The table is not there, is of a kind that cannot be written to, or the rows do not fit."""


class DatabaseUnreachable(StreamJobError):
    """No server answers, or it cannot at the moment; the job goes on from its checkpoint once it does."""


class RowsRefused(StreamJobError):
    """The server refuses rows, such as a number that is too large for its column."""


class StagedRowsGone(StreamJobError):
    """Rows of a completed checkpoint are neither committed nor staged: the database is older than it."""
