"""Columns that a change may leave out: they hold a placeholder for a value that the database did not send.

PostgreSQL sends no large value with an update that does not change it, and Debezium then writes a text of its own. The
columns of a source that can hold it have a mark in Spark's metadata, which goes with them as long as they are only
selected. A sink that keeps stored values reads the mark. For all others, and where a column is computed with, the
placeholder fails the batch, or becomes NULL.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from streamjob.job.query.quoting import quoted
from streamjob_runtime.sinks.errors import RowsRefused

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField, StructType

MARK = "streamjob.unavailable"
"""The key of a mark in the metadata of a column."""


@runtime_checkable
class KeepsUnavailable(Protocol):
    """A sink that may leave columns as they are stored."""

    @property
    def keeps_unavailable(self) -> bool:
        """Whether it does so with its options."""
        ...


@dataclass(frozen=True, slots=True)
class Mark:
    """The mark of a column that may hold a placeholder.

    Args:
        source: the source, by name.
        column: the column's name there.
        placeholder: the text.
        as_null: whether it becomes NULL where it cannot be kept; otherwise it fails the batch.
    """

    source: str
    column: str
    placeholder: str
    as_null: bool

    @classmethod
    def of(cls, field: StructField) -> Mark | None:
        """Return the mark of a column or field; None if it has none."""
        found = field.metadata.get(MARK)
        return None if found is None else cls.from_json(found)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Mark:
        """Return the mark that metadata describe."""
        return cls(found["source"], found["column"], found["placeholder"], found["asNull"])

    def to_json(self) -> dict[str, Any]:
        """Return the mark as metadata."""
        return {
            "source": self.source,
            "column": self.column,
            "placeholder": self.placeholder,
            "asNull": self.as_null,
        }


def marked_type(row: StructType, mark: Callable[[str], Mark]) -> StructType:
    """Return the type of rows with marks at the fields that can hold a placeholder.

    Args:
        row: the type.
        mark: returns the mark of a field by its name.
    """
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [
            StructField(
                field.name, field.dataType, field.nullable, {**field.metadata, MARK: mark(field.name).to_json()}
            )
            if can_hold(field.dataType)
            else field
            for field in row.fields
        ]
    )


def can_hold(kind: DataType) -> bool:
    """Return whether values of a type can be a placeholder: texts, bytes, and arrays and maps of them."""
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType

    if isinstance(kind, ArrayType):
        return isinstance(kind.elementType, StringType | BinaryType)
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType)
    return isinstance(kind, StringType | BinaryType)


def is_unavailable(column: Column, kind: DataType, placeholder: str) -> Column:
    """Return whether a value is the placeholder, in any form that Debezium gives it; never NULL.

    Args:
        column: the value.
        kind: its type, of those that `can_hold` names.
        placeholder: the text.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType

    if isinstance(kind, ArrayType):
        test = (f.size(column) == 1) & is_unavailable(f.get(column, f.lit(0)), kind.elementType, placeholder)
    elif isinstance(kind, MapType):
        test = (f.size(column) == 1) & f.map_contains_key(column, placeholder)
    else:
        test = column.isin(*_forms(kind, placeholder))
    return f.coalesce(test, f.lit(False))


def _forms(kind: DataType, placeholder: str) -> list[Any]:
    from pyspark.sql.types import BinaryType

    content = placeholder.encode()
    if isinstance(kind, BinaryType):
        return [content]
    # Bytes in a column of texts, by binary.handling.mode; JSON without it has base64.
    texts = [base64.b64encode(content), base64.urlsafe_b64encode(content), content.hex().encode()]
    return list(dict.fromkeys([placeholder, *(text.decode() for text in texts)]))


def marks_of(schema: StructType) -> set[Mark]:
    """Return the marks of columns and of the fields of columns."""
    from pyspark.sql.types import StructType

    found = {mark for field in schema.fields if (mark := Mark.of(field)) is not None}
    for field in schema.fields:
        if isinstance(field.dataType, StructType):
            found |= marks_of(field.dataType)
    return found


def available(
    rows: DataFrame, what: str, marks: Collection[Mark] | None = None, keeping: Collection[str] = ()
) -> DataFrame:
    """Return rows without placeholders in some columns: each fails the batch, or becomes NULL, as its source says.

    Args:
        what: who cannot do with the placeholder, and why, in messages: "operator 'x' computes with it".
        marks: those of the columns; default all.
        keeping: columns that stay as they are, unless they are structs.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    wanted = marks_of(rows.schema) if marks is None else set(marks)
    if not wanted & marks_of(rows.schema):
        return rows

    def whole(column: Column, field: StructField, *, top: bool) -> Column:
        mark = Mark.of(field)
        if mark is not None and mark in wanted and not (top and field.name in keeping):
            column = _replaced(column, field.dataType, mark, what)
        elif isinstance(field.dataType, StructType) and wanted & marks_of(field.dataType):
            for inner in field.dataType.fields:
                if Mark.of(inner) in wanted or (
                    isinstance(inner.dataType, StructType) and wanted & marks_of(inner.dataType)
                ):
                    column = column.withField(quoted(inner.name), whole(column.getField(inner.name), inner, top=False))
        return column

    columns = []
    for field in rows.schema.fields:
        column = f.col(quoted(field.name))
        changed = whole(column, field, top=True)
        columns.append(column if changed is column else changed.alias(field.name))
    return rows.select(*columns)


def with_left_out(rows: DataFrame, sink: str, key: Collection[str], name: str) -> tuple[DataFrame, tuple[str, ...]]:
    """Return rows with NULL in place of placeholders, for a sink that keeps stored values.

    Args:
        sink: the sink's name in messages.
        key: the columns that identify a row, which no change can leave out.
        name: the name of a further column with the names of the columns that a row leaves out.

    Returns:
        The rows, and the columns that a row may leave out; without any, the rows have no further column.
    """
    from pyspark.sql import functions as f

    marks = {field.name: mark for field in rows.schema.fields if (mark := Mark.of(field)) and field.name not in key}
    rows = available(rows, f"{sink} needs it: it is part of the key, or of a struct", keeping=marks)
    if not marks:
        return rows, ()
    left_out = {
        each: is_unavailable(f.col(quoted(each)), rows.schema[each].dataType, mark.placeholder)
        for each, mark in marks.items()
    }
    columns = [
        f.when(~left_out[each], f.col(quoted(each))).alias(each) if each in left_out else f.col(quoted(each))
        for each in rows.columns
    ]
    names = f.array_compact(f.array(*(f.when(test, f.lit(each)) for each, test in left_out.items())))
    return rows.select(*columns, names.alias(name)), tuple(marks)


def nothing_to_keep(table: str, row: Mapping[str, object], columns: Iterable[str]) -> RowsRefused:
    """Return the error for a change that leaves out columns of a row that is not stored.

    Args:
        table: the sink and the table in messages.
        row: the key of the row.
    """
    names, key = ", ".join(map(repr, columns)), ", ".join(f"{name} = {value}" for name, value in row.items())
    return RowsRefused(
        f"{table}: a change leaves out {names} of the row {key}, since the database did not send what had not changed, "
        "and the table has no such row to keep",
        "insert that row into the table by hand, and the job continues; or start with a snapshot of the source",
    )


def without_marks(rows: StructType) -> StructType:
    """Return the type of rows without the marks of their columns, as a new table can have it."""
    from pyspark.sql.types import StructField, StructType

    def bare(field: StructField) -> StructField:
        kind = without_marks(field.dataType) if isinstance(field.dataType, StructType) else field.dataType
        metadata = {name: value for name, value in field.metadata.items() if name != MARK}
        return StructField(field.name, kind, field.nullable, metadata)

    return StructType([bare(field) for field in rows.fields])


def _replaced(column: Column, kind: DataType, mark: Mark, what: str) -> Column:
    from pyspark.sql import functions as f

    if mark.as_null:
        instead: Column = f.lit(None)
    else:
        message = (
            f"source {mark.source}: a change leaves out the column {mark.column!r}: it holds {mark.placeholder!r}, and "
            f"{what[0].lower()}{what[1:]}; let only sinks of PostgreSQL, Iceberg and Delta with mode: upsert have the "
            "column, as it is; or let the database send it (REPLICA IDENTITY FULL); or say onUnavailable: asNull"
        )
        instead = f.raise_error(f.lit(message))
    return f.when(is_unavailable(column, kind, mark.placeholder), instead).otherwise(column)
