"""Decides which Spark columns fit which Iceberg columns, and converts them before they are written.

A column fits if every value that it can hold arrives unchanged. Spark widens types and converts text to the bytes of
UUIDs; the writer does the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from streamjob.job.model.suggest import did_you_mean
from streamjob.job.query.quoting import quoted
from streamjob_runtime.sinks.rows.column_mismatches import CAST, Mismatch, does_not_hold, given_twice, no_column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import types as spark

_UUID = "^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"
_EXACT: dict[str, IcebergType] = {
    "boolean": BooleanType(),
    "tinyint": IntegerType(),
    "smallint": IntegerType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
    "string": StringType(),
    "binary": BinaryType(),
}
_WIDER: dict[str, tuple[type[IcebergType], ...]] = {
    "tinyint": (LongType,),
    "smallint": (LongType,),
    "int": (LongType,),
    "float": (DoubleType,),
    "binary": (FixedType,),
}
_ADVICE = {
    ("timestamp", "timestamp"): (
        "make the column a timestamptz, or cast to TIMESTAMP_NTZ in the job: a TIMESTAMP of Spark is a moment, and the "
        "column holds the time on some clock"
    ),
    ("timestamp_ntz", "timestamptz"): "cast to TIMESTAMP in the job",
}


def mismatches(rows: spark.StructType, table: Schema) -> list[Mismatch]:
    """Return all reasons why rows do not fit a table; empty if they fit."""
    names = [field.name for field in rows.fields]
    found = list(given_twice(names))
    columns = {field.name: field for field in table.fields}
    for field in rows.fields:
        column = columns.get(field.name)
        if column is None:
            found.append(no_column(field.name, columns))
        elif not (_fits_outermost(field.dataType, column) or _fits(field.dataType, column.field_type)):
            kind, wanted = field.dataType.simpleString(), str(column.field_type)
            found.append(does_not_hold(field.name, wanted, kind, _ADVICE.get((kind, wanted), CAST)))
    for column in table.fields:
        if column.required and column.name not in names:
            what = f"has column {column.name!r}, which is required, and the rows do not have it"
            found.append(Mismatch(what, "add it to the input of the sink, or make it optional"))
    return found


def key_mismatches(key: Sequence[str], rows: Sequence[str], table: Schema) -> Iterator[Mismatch]:
    """Yield the reasons why rows cannot replace those of the same key.

    Args:
        key: the key's columns.
        rows: names of the rows' columns.
        table: the table's columns.
    """
    columns = {column.name: column.field_type for column in table.fields}
    for name in key:
        if name not in columns:
            yield Mismatch(f"has no column {name!r} for the key", did_you_mean(name, columns, "columns"))
        elif name not in rows:
            yield Mismatch(f"has the key column {name!r}, and the rows do not have it", "add it to the rows")
        elif not isinstance(columns[name], PrimitiveType) or isinstance(columns[name], FloatType | DoubleType):
            what = f"has the key column {name!r} of type {columns[name]}, whose values cannot be compared exactly"
            yield Mismatch(what, "choose columns with numbers without fractions, texts or times")


def refusals(table: Schema, partitions: Sequence[int], version: int) -> Iterator[Mismatch]:
    """Yield the reasons why the sink cannot write to a table at all.

    Args:
        table: its schema.
        partitions: the source column's id for each partition field.
        version: the table's format version.
    """
    if version > 2:
        yield Mismatch(f"has format version {version}", "use a table of format version 2")
    for source in sorted({source for source in partitions if partitions.count(source) > 1}):
        name = table.find_column_name(source)
        yield Mismatch(f"is partitioned by {name!r} twice, which pyiceberg cannot write", "partition by it once")
    for source in sorted(set(partitions)):
        # pyiceberg finds no rows in such a partition when it filters by the column.
        if isinstance(table.find_type(source), UUIDType):
            name = table.find_column_name(source)
            yield Mismatch(f"is partitioned by {name!r}, a UUID", "partition by another column, or keep it as a string")


def aligned(batch: DataFrame, table: Schema, *more: str) -> DataFrame:
    """Return a batch's columns in the table's order, widened to the table's types; and `more` columns as they are."""
    fields = {field.name: field.dataType for field in batch.schema.fields}
    columns = [
        _aligned(batch[quoted(column.name)], fields[column.name], column.field_type).alias(column.name)
        for column in table.fields
        if column.name in fields and fields[column.name].simpleString() != "void"
    ]
    return batch.select(*columns, *(batch[quoted(name)] for name in more))


def schema_of(rows: spark.StructType) -> Schema | None:
    """Return the schema of a new table for rows, with optional columns only; None if Iceberg lacks a type."""
    ids = count(1)

    def made(kind: Any) -> IcebergType | None:
        name = _kind(kind)
        if name == "array":
            number, element = next(ids), made(kind.elementType)
            return element and ListType(number, element, element_required=False)
        if name == "map":
            first, second = next(ids), next(ids)
            key, value = made(kind.keyType), made(kind.valueType)
            return key and value and MapType(first, key, second, value, value_required=False)
        if name == "struct":
            fields = fields_of(kind)
            return None if fields is None else StructType(*fields)
        if name == "decimal":
            return DecimalType(kind.precision, kind.scale)
        return _EXACT.get(name)

    def fields_of(struct: Any) -> list[NestedField] | None:
        fields = []
        for field in struct.fields:
            number, kind = next(ids), made(field.dataType)
            if kind is None:
                return None
            fields.append(NestedField(number, field.name, kind, required=False))
        return fields

    fields = fields_of(rows)
    return None if fields is None else Schema(*fields)


def _fits_outermost(kind: Any, column: NestedField) -> bool:
    name = _kind(kind)
    return (name == "void" and column.optional) or (name == "string" and isinstance(column.field_type, UUIDType))


def _fits(kind: Any, column: IcebergType) -> bool:
    name = _kind(kind)
    if name == "array":
        return isinstance(column, ListType) and _fits(kind.elementType, column.element_type)
    if name == "map":
        return (
            isinstance(column, MapType)
            and _fits(kind.keyType, column.key_type)
            and _fits(kind.valueType, column.value_type)
        )
    if name == "struct":
        return (
            isinstance(column, StructType)
            and [field.name for field in kind.fields] == [field.name for field in column.fields]
            and all(
                _fits(field.dataType, other.field_type) for field, other in zip(kind.fields, column.fields, strict=True)
            )
        )
    if name == "decimal":
        return (
            isinstance(column, DecimalType)
            and column.scale >= kind.scale
            and column.precision - column.scale >= kind.precision - kind.scale
        )
    return column == _EXACT.get(name) or isinstance(column, _WIDER.get(name, ()))


def _kind(kind: Any) -> str:
    name = str(kind.simpleString())
    for container in ("array", "map", "struct", "decimal", "varchar", "char"):
        if name.startswith(container):
            return "string" if container in ("varchar", "char") else container
    return name.partition(" ")[0]


def _aligned(column: Column, kind: Any, target: IcebergType) -> Column:
    from pyspark.sql import functions as f

    if isinstance(target, UUIDType):
        refused = f.raise_error(f.concat(f.lit("this is not a UUID: "), column))
        digits = f.when(column.rlike(_UUID), f.replace(column, f.lit("-"), f.lit(""))).otherwise(refused.cast("string"))
        return f.when(column.isNotNull(), f.unhex(digits))
    wanted = _spark_type(kind, target)
    return column if wanted == kind.simpleString() else column.cast(wanted)


def _spark_type(kind: Any, target: IcebergType) -> str:
    """Return the Spark type to which a column is cast; columns that need no widening keep their type."""
    name = _kind(kind)
    if isinstance(target, ListType) and name == "array":
        return f"array<{_spark_type(kind.elementType, target.element_type)}>"
    if isinstance(target, MapType) and name == "map":
        key, value = _spark_type(kind.keyType, target.key_type), _spark_type(kind.valueType, target.value_type)
        return f"map<{key},{value}>"
    if isinstance(target, StructType) and name == "struct":
        fields = zip(kind.fields, target.fields, strict=True)
        inner = ",".join(f"{quoted(field.name)}:{_spark_type(field.dataType, to.field_type)}" for field, to in fields)
        return f"struct<{inner}>"
    if isinstance(target, DecimalType):
        return f"decimal({target.precision},{target.scale})"
    for wider, widened in ((LongType, "bigint"), (IntegerType, "int"), (DoubleType, "double")):
        if isinstance(target, wider):
            return widened
    return str(kind.simpleString())
