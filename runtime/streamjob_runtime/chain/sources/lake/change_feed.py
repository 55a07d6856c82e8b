"""The columns of a change feed, of which some are in no file.

A file that names the kinds of its rows is read twice: first those that a change takes away, then those that it brings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamjob.job.connectors.changes import CHANGE_TIME, CHANGE_TYPE, DELETIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

INSERT, DELETE = "insert", "delete"
"""All rows of a file, which does not name their kinds."""
BEFORE, AFTER = "before", "after"
"""Those rows of a file that names their kinds which a change takes away, and those which it brings."""
ROWS = "_streamjob_rows"
"""The column that says which rows of a file are read; jobs do not see it."""
VERSION = "_commit_version"
BESIDE = (VERSION, CHANGE_TIME, ROWS)
"""Columns that are in no file."""
_TYPES = {CHANGE_TYPE: "string", VERSION: "long", CHANGE_TIME: "timestamp", ROWS: "string"}
FIELDS: tuple[dict[str, Any], ...] = tuple(
    {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in _TYPES.items()
)
"""The columns in the form of Spark's JSON."""


def changes_of(files: DataFrame) -> DataFrame:
    """Return the changes that files have, which have all columns of the feed.

    Args:
        files: the rows of files; a file lacks CHANGE_TYPE, or its ROWS is BEFORE or AFTER.
    """
    from pyspark.sql import functions as f

    rows, kind = f.col(ROWS), f.col(CHANGE_TYPE)
    whole = rows.isin(INSERT, DELETE)
    wanted = whole | (kind.isin(*DELETIONS) == (rows == BEFORE))
    return files.where(wanted).withColumn(CHANGE_TYPE, f.when(whole, rows).otherwise(kind)).drop(ROWS)
