"""What Spark says that a query does at the moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_WAITS = "Waiting for data to arrive"


def waits_for_data(query: StreamingQuery) -> bool:
    """Return whether a query has read all that there is."""
    return bool(query.status["message"] == _WAITS)
