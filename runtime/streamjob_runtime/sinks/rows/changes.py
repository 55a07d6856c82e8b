"""Changes as sinks see them: which rows a batch writes, and which it deletes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from streamjob.job.connectors.changes import CHANGE_TYPE, DELETIONS, WRITES
from streamjob_runtime.sinks.rows.column_mismatches import Mismatch

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

_KINDS = ", ".join((*WRITES, *DELETIONS))


def is_deletion(sink: str) -> Column:
    """Return whether a row deletes the one of its key; fails the batch for a kind of change that does not exist."""
    from pyspark.sql import functions as f

    kind = f.lower(f.col(CHANGE_TYPE))
    wrong = f.concat(
        f.lit(f"{sink}: a row has the {CHANGE_TYPE} "),
        f.coalesce(f.col(CHANGE_TYPE), f.lit("NULL")),
        f.lit(f", and a change is one of {_KINDS}"),
    )
    return f.when(kind.isin(*DELETIONS), True).when(kind.isin(*WRITES), False).otherwise(f.raise_error(wrong))


def kind_mismatches(schema: StructType) -> Iterator[Mismatch]:
    """Yield the reason why the column with the kinds of changes cannot be used, if there is one."""
    kind = schema[CHANGE_TYPE].dataType.simpleString()
    if kind != "string":
        what = f"is given the column {CHANGE_TYPE!r} of type {kind.upper()}, which holds the kinds of changes"
        yield Mismatch(what, f"give it one of the texts {_KINDS}, or another name")


def without_kind(schema: StructType) -> StructType:
    """Return the columns of changes without the one with their kinds."""
    from pyspark.sql.types import StructType

    return StructType([field for field in schema.fields if field.name != CHANGE_TYPE])
