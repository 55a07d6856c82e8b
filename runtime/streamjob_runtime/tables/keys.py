"""Finds the columns of a join, compares the types of its keys, and returns the columns of its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from streamjob.errors import InvalidInput
from streamjob.job.model.suggest import did_you_mean
from streamjob.job.query.quoting import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField, StructType

_KEYS = ("tinyint", "smallint", "int", "bigint", "string", "boolean", "date", "decimal")


class InvalidJoin(InvalidInput):
    """The columns of a join do not fit its rows; nothing was started."""


def field_of(schema: StructType, name: str, whose: str) -> StructField:
    """Return a column by its name, whose case counts only if there are several.

    Args:
        whose: the columns in messages: `Operator 'x': its input`.

    Raises:
        InvalidJoin: there is no such column.
    """
    exact: Mapping[str, StructField] = {each.name: each for each in schema}
    folded = {each.name.lower(): each for each in schema}
    found = exact.get(name) or folded.get(name.lower())
    if found is None:
        raise InvalidJoin(f"{whose} has no column {name!r}", did_you_mean(name, schema.names, "columns"))
    return found


def check_key(label: str, own: StructField, there: StructField, other: str) -> None:
    """Check that two columns can be a key.

    Args:
        label: the operator in messages: `Operator 'x'`.
        own: the column of the rows.
        there: the column that it is compared with.
        other: the owner of that column: `the table`.

    Raises:
        InvalidJoin: they have types that cannot be compared.
    """
    mine, its = own.dataType.simpleString(), there.dataType.simpleString()
    if not mine.startswith(_KEYS):
        what = f"{label}: the key {own.name!r} is of type {mine.upper()}"
        raise InvalidJoin(what, f"a key is of one of the types {', '.join(_KEYS).upper()}")
    if mine != its:
        what = f"{label}: the key {own.name!r} is of type {mine.upper()}, and {there.name!r} of {other} {its.upper()}"
        raise InvalidJoin(what, f"compute a column of the same type before: CAST({own.name} AS {its.upper()})")


def check_added(label: str, rows: StructType, added: StructType) -> None:
    """Check that rows do not have the columns yet that a join adds to them.

    Args:
        label: the operator in messages.

    Raises:
        InvalidJoin: a column would be there twice.
    """
    taken = {name.lower() for name in rows.names}
    for field in added:
        if field.name.lower() in taken:
            what = f"{label}: its rows have a column {field.name!r} already"
            raise InvalidJoin(what, f"give the other one a name: select: [{field.name} AS …]")
        taken.add(field.name.lower())


def with_metadata(frame: DataFrame, columns: Iterable[StructField]) -> DataFrame:
    """Return the columns of a join with their metadata, such as event time, which rows from Java have lost."""
    from pyspark.sql import functions as f

    def column(field: StructField) -> Column:
        own = f.col(quoted(field.name))
        return own.alias(field.name, metadata=field.metadata) if field.metadata else own

    return frame.select(*map(column, columns))
