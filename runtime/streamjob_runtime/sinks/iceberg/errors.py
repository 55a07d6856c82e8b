"""Errors between a sink and its Iceberg table."""

from __future__ import annotations

from streamjob.errors import InvalidInput, StreamJobError


class CatalogRefuses(InvalidInput):
    """The catalog or the file store answers, but refuses the sink's credentials or an operation."""


class CatalogUnreachable(StreamJobError):
    """The catalog or the file store does not answer; the job continues from its checkpoint once it does."""
