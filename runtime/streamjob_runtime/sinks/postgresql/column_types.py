"""Decides which Spark columns fit which PostgreSQL columns, and in which form values are sent; pure.

A column fits if every value that it can hold arrives unchanged: not rounded, cut or shifted. PostgreSQL itself refuses
values that turn out too large, such as a decimal with many digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from streamjob.job.model.suggest import did_you_mean
from streamjob_runtime.sinks.rows.column_mismatches import Mismatch, does_not_hold, given_twice, no_column


class Form(Enum):
    """The conversion of a value to a CSV field."""

    PLAIN = "as Spark prints it, which holds no comma and no quote"
    QUOTED = "as text in quotes"
    BYTES = "in hexadecimal digits"
    INSTANT = "with its offset from UTC"
    JSON = "as JSON"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of the table.

    Args:
        name: its name in the catalog.
        type_name: its type as people write it: `numeric(10,2)`.
        base: the catalog's name of the type, with domains resolved: `numeric`.
        scale: digits after the decimal point; None for unlimited numerics and for other types.
        is_enum: whether the type is an enumeration.
        not_null: whether it refuses NULL.
        has_default: whether a row may omit it although it refuses NULL.
        generated: whether it cannot be written.
        writable: whether the role may write it.
    """

    name: str
    type_name: str
    base: str
    scale: int | None = None
    is_enum: bool = False
    not_null: bool = False
    has_default: bool = False
    generated: bool = False
    writable: bool = True


_NUMBERS = {
    "tinyint": frozenset({"int2", "int4", "int8", "numeric", "float4", "float8"}),
    "smallint": frozenset({"int2", "int4", "int8", "numeric", "float4", "float8"}),
    "int": frozenset({"int4", "int8", "numeric", "float8"}),
    "bigint": frozenset({"int8", "numeric"}),
    "float": frozenset({"float4", "float8"}),
    "double": frozenset({"float8"}),
    "decimal": frozenset({"numeric"}),
}
_TEXTS = frozenset(
    {"text", "varchar", "bpchar", "citext", "json", "jsonb", "uuid", "xml", "inet", "cidr", "macaddr", "macaddr8"}
    | {"ltree", "hstore"}
)
_JSON = frozenset({"json", "jsonb"})
_FITS: Mapping[str, tuple[Form, frozenset[str]]] = {
    **{kind: (Form.PLAIN, fits) for kind, fits in _NUMBERS.items()},
    "boolean": (Form.PLAIN, frozenset({"bool"})),
    "date": (Form.PLAIN, frozenset({"date"})),
    "timestamp_ntz": (Form.PLAIN, frozenset({"timestamp"})),
    "timestamp": (Form.INSTANT, frozenset({"timestamptz"})),
    "binary": (Form.BYTES, frozenset({"bytea"})),
    "string": (Form.QUOTED, _TEXTS),
    "array": (Form.JSON, _JSON),
    "map": (Form.JSON, _JSON),
    "struct": (Form.JSON, _JSON),
    "variant": (Form.JSON, _JSON),
}
_KIND = re.compile(r"[a-z_]+")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_ADVICE = {
    ("timestamp", "timestamp"): (
        "make the column a timestamp with time zone, or cast to TIMESTAMP_NTZ in the job: a TIMESTAMP of Spark is a "
        "moment, and the column holds the time on some clock"
    ),
    ("timestamp_ntz", "timestamptz"): "cast to TIMESTAMP in the job",
}


def form_of(spark_type: str) -> Form:
    """Return the form in which values of a type are sent.

    Args:
        spark_type: the type in Spark's notation: `decimal(10,2)`, `array<int>`.
    """
    kind = _kind(spark_type)
    return _FITS[kind][0] if kind in _FITS else Form.PLAIN


def mismatches(rows: Sequence[tuple[str, str]], table: Sequence[TableColumn]) -> list[Mismatch]:
    """Return all reasons why rows do not fit a table; empty if they fit.

    Args:
        rows: the rows' columns: name, and type in Spark's notation.
    """
    columns = {column.name: column for column in table}
    found = list(given_twice([name for name, _ in rows]))
    for name, spark_type in rows:
        column = columns.get(name)
        if column is None:
            found.append(no_column(name, columns))
        elif column.generated:
            found.append(Mismatch(f"computes its column {name!r} itself", "remove it from the input of the sink"))
        elif not column.writable:
            found.append(Mismatch(f"does not let the role write column {name!r}", "grant INSERT on it"))
        elif not _fits(spark_type, column):
            found.append(does_not_hold(name, column.type_name, spark_type, _fix(spark_type, column)))
    written = {name for name, _ in rows}
    for column in table:
        if column.name not in written and column.not_null and not column.has_default and not column.generated:
            what = f"has column {column.name!r}, which refuses NULL, and the rows do not have it"
            found.append(Mismatch(what, "add it to the input of the sink, or give it a default"))
    return found


def key_mismatches(
    key: Sequence[str], rows: Iterable[str], table: Sequence[TableColumn], unique: Iterable[frozenset[str]]
) -> list[Mismatch]:
    """Return all reasons why rows cannot replace those of the same key.

    Args:
        key: the key's columns.
        rows: names of the rows' columns.
        unique: the columns of each unique index that can identify equal rows.
    """
    columns, written = {column.name: column for column in table}, set(rows)
    found = []
    for name in key:
        if name not in columns:
            found.append(Mismatch(f"has no column {name!r} for the key", did_you_mean(name, columns, "columns")))
        elif name not in written:
            found.append(Mismatch(f"has the key column {name!r}, and the rows do not have it", "add it to the rows"))
        elif not columns[name].not_null:
            what = f"has the key column {name!r}, which may be NULL: no two NULLs are the same"
            found.append(Mismatch(what, f"make it NOT NULL: ALTER TABLE … ALTER COLUMN {name} SET NOT NULL"))
    if not found and frozenset(key) not in set(unique):
        names = ", ".join(key)
        what = f"has no unique index on ({names}) that holds for all rows at once"
        found.append(Mismatch(what, f"make one: CREATE UNIQUE INDEX ON … ({names})"))
    return found


def _kind(spark_type: str) -> str:
    match = _KIND.match(spark_type)
    kind = match[0] if match else spark_type
    return "string" if kind in ("varchar", "char") else kind


def _fits(spark_type: str, column: TableColumn) -> bool:
    kind = _kind(spark_type)
    if kind == "void":
        return True
    if kind not in _FITS:
        return False
    if kind == "string" and column.is_enum:
        return True
    decimal = _DECIMAL.match(spark_type)
    if decimal and column.base == "numeric" and column.scale is not None:
        return int(decimal[2]) <= column.scale
    return column.base in _FITS[kind][1]


def _fix(spark_type: str, column: TableColumn) -> str:
    kind = _kind(spark_type)
    if (kind, column.base) in _ADVICE:
        return _ADVICE[(kind, column.base)]
    if kind not in _FITS:
        return "cast it in the job to a type that PostgreSQL has"
    if kind == "decimal" and column.base == "numeric":
        return "round it in the job, or give the column more digits after the decimal point"
    fitting = sorted(_FITS[kind][1])
    return f"cast it in the job, or make the column one of {', '.join(fitting)}"
