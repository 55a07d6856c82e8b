"""What can go wrong between a sink and its Iceberg table."""

from __future__ import annotations

from streamjob.errors import InvalidInput, StreamJobError


class CatalogRefuses(InvalidInput):
    """The catalog or the files' store answers, and does not let the sink in, or not do what it has to do."""


class CatalogUnreachable(StreamJobError):
    """The catalog or the files' store does not answer; the job continues from its checkpoint once it does."""


class CommitContended(StreamJobError):
    """Other writers changed the table each time before the sink's commit was through."""
