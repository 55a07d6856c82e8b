"""Decides which Spark columns fit which Delta columns; both in the form of Spark's JSON. Pure but for `aligned`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from streamjob.job.model.suggest import did_you_mean
from streamjob.job.query.quoting import quoted
from streamjob_runtime.sinks.rows.column_mismatches import Mismatch, does_not_hold, given_twice, no_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_WIDER: Mapping[str, frozenset[str]] = {
    "byte": frozenset({"short", "integer", "long"}),
    "short": frozenset({"integer", "long"}),
    "integer": frozenset({"long"}),
    "float": frozenset({"double"}),
}
_INEXACT = frozenset({"float", "double"})
_TYPES = frozenset(
    [
        "boolean",
        "byte",
        "short",
        "integer",
        "long",
        "float",
        "double",
        "string",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
        "struct",
        "array",
        "map",
    ]
)


def mismatches(rows: StructType, table: Mapping[str, Mapping[str, Any]]) -> Iterator[Mismatch]:
    """Yield all reasons why rows do not fit a table.

    Args:
        rows: the rows' columns.
        table: the table's columns by name.
    """
    yield from given_twice(rows.names)
    for field in rows.fields:
        name, given = field.name, field.jsonValue()["type"]
        if name not in table:
            yield no_column(name, table)
            continue
        kind, optional = table[name]["type"], table[name].get("nullable", True)
        if not _fits(given, kind) and not (given == "void" and optional):
            yield does_not_hold(name, simple(kind), field.dataType.simpleString())
    for name, column in table.items():
        if not column.get("nullable", True) and name not in rows.names:
            what = f"has column {name!r}, which is required, and the rows do not have it"
            yield Mismatch(what, "add it to the input of the sink, or make it optional")


def key_mismatches(
    key: Sequence[str], rows: Sequence[str], table: Mapping[str, Mapping[str, Any]]
) -> Iterator[Mismatch]:
    """Yield the reasons why rows cannot replace those of the same key.

    Args:
        key: the key's columns.
        rows: names of the rows' columns.
        table: the table's columns by name.
    """
    for name in key:
        if name not in table:
            yield Mismatch(f"has no column {name!r} for the key", did_you_mean(name, table, "columns"))
        elif name not in rows:
            yield Mismatch(f"has the key column {name!r}, and the rows do not have it", "add it to the rows")
        elif not isinstance(kind := table[name]["type"], str) or kind in _INEXACT:
            what = f"has the key column {name!r} of type {simple(kind)}, whose values cannot be compared exactly"
            yield Mismatch(what, "choose columns with numbers without fractions, texts or times")


def untyped(rows: StructType) -> Iterator[Mismatch]:
    """Yield the columns whose types a new table cannot have."""
    for field in rows.fields:
        kinds = set(_kinds(field.jsonValue()["type"]))
        if any(kind not in _TYPES and not kind.startswith("decimal") for kind in kinds):
            what = f"cannot have the column {field.name!r} of type {field.dataType.simpleString().upper()}"
            yield Mismatch(what, "cast it in the job")


def aligned(batch: DataFrame, table: Mapping[str, Mapping[str, Any]], *more: str) -> DataFrame:
    """Return a batch's columns in the table's order, widened to the table's types; and `more` columns as they are."""
    fields = {field.name: field.dataType for field in batch.schema.fields}
    columns = []
    for name, column in table.items():
        if name in fields:
            given, wanted = fields[name].simpleString(), _spark_type(column["type"])
            values = batch[quoted(name)]
            columns.append(values if given == wanted else values.cast(wanted).alias(name))
    return batch.select(*columns, *(batch[quoted(name)] for name in more))


def simple(kind: Any) -> str:
    """Return a table's type for messages."""
    return kind if isinstance(kind, str) else str(kind["type"])


def bare(kind: Any) -> Any:
    """Return a type without details that do not affect its values."""
    if isinstance(kind, dict):
        left_out = {"nullable", "containsNull", "valueContainsNull", "metadata"}
        return {key: bare(value) for key, value in kind.items() if key not in left_out}
    return [bare(each) for each in kind] if isinstance(kind, list) else kind


def _fits(rows: Any, table: Any) -> bool:
    if isinstance(rows, str) and isinstance(table, str):
        return rows == table or table in _WIDER.get(rows, ()) or _fits_decimal(rows, table)
    if not isinstance(rows, dict) or not isinstance(table, dict) or rows["type"] != table["type"]:
        return False
    if rows["type"] == "struct":
        inner, columns = rows["fields"], table["fields"]
        return [field["name"] for field in inner] == [field["name"] for field in columns] and all(
            _fits(field["type"], other["type"]) for field, other in zip(inner, columns, strict=True)
        )
    return all(_fits(rows[part], table[part]) for part in ("elementType", "keyType", "valueType") if part in table)


def _fits_decimal(rows: str, table: str) -> bool:
    if not (rows.startswith("decimal(") and table.startswith("decimal(")):
        return False
    (given, digits), (precision, scale) = ((int(n) for n in kind[8:-1].split(",")) for kind in (rows, table))
    return scale >= digits and precision - scale >= given - digits


def _spark_type(kind: Any) -> str:
    """Return a table's type as Spark's own simple string."""
    if isinstance(kind, str):
        return {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}.get(kind, kind)
    if kind["type"] == "array":
        return f"array<{_spark_type(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{_spark_type(kind['keyType'])},{_spark_type(kind['valueType'])}>"
    inner = ",".join(f"{quoted(field['name'])}:{_spark_type(field['type'])}" for field in kind["fields"])
    return f"struct<{inner}>"


def _kinds(kind: Any) -> Iterator[str]:
    if isinstance(kind, str):
        yield kind
        return
    yield kind["type"]
    for field in kind.get("fields", ()):
        yield from _kinds(field["type"])
    for part in ("elementType", "keyType", "valueType"):
        if part in kind:
            yield from _kinds(kind[part])
