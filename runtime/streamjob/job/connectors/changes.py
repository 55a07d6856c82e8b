"""Change streams: rows that are changes of other rows, and the sinks that apply them by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamjob.job.connectors.options import option
from streamjob.job.model.formats import REPLACE_FORMATS, UPSERT_FORMATS

if TYPE_CHECKING:
    from streamjob.job.model.spec import SinkSpec, SourceSpec

CHANGE_TYPE = "_change_type"
"""The column with the kind of each change, as in Spark's own change data feeds."""

CHANGE_TIME = "_commit_timestamp"
"""The column with the time of each change in the database that it comes from."""

DEBEZIUM = "debezium"

UNAVAILABLE = "__debezium_unavailable_value"
"""Debezium's default placeholder for a column that the database did not send with a change."""

WRITES = ("insert", "update_postimage", "update_after")
"""Kinds of changes after which there is a row with this key; the last one is the name in Flink and Iceberg."""

DELETIONS = ("delete", "update_preimage", "update_before")
"""Kinds of changes after which there is no row with this key; the last one is the name in Flink and Iceberg."""


def change_columns(source: SourceSpec) -> dict[str, str]:
    """Return the columns of a source that describe changes, with their types."""
    if source.changes is None:
        return {}
    return {CHANGE_TYPE: "string", **({CHANGE_TIME: "timestamp"} if source.changes == DEBEZIUM else {})}


def is_upsert(sink: SinkSpec) -> bool:
    """Return whether a sink applies its rows by key instead of appending them."""
    return (
        sink.format in UPSERT_FORMATS and sink.delivery == "exactly-once" and option(sink.options, "mode") == "upsert"
    )


def is_replace(sink: SinkSpec) -> bool:
    """Return whether each checkpoint replaces what is in the sink's table."""
    return sink.format in REPLACE_FORMATS and option(sink.options, "mode") == "replace"


def upsert_fix(sink: SinkSpec) -> str:
    """Return how the rows of a sink could be applied by key, as the beginning of a fix."""
    if sink.format in UPSERT_FORMATS:
        return "say mode: upsert and a key"
    *others, last = sorted(UPSERT_FORMATS)
    return f"write to {', '.join(others)} or {last} with mode: upsert"


def replace_fix(sink: SinkSpec) -> str:
    """Return how the rows of a sink could replace those of before, as the beginning of a fix."""
    if sink.format in REPLACE_FORMATS:
        return "say mode: replace"
    *others, last = sorted(REPLACE_FORMATS)
    return f"write to {', '.join(others)} or {last} with mode: replace"
