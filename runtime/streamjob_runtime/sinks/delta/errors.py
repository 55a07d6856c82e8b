"""Errors between a sink and its Delta table."""

from __future__ import annotations

from streamjob.errors import StreamJobError


class DeltaUnreachable(StreamJobError):
    """The table's files cannot be read or written; the job continues from its checkpoint once they can."""
