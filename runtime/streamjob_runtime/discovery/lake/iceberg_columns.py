"""The columns of an Iceberg table for Spark, which finds them in Parquet files by their field ids."""

from __future__ import annotations

import json
from typing import Any

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
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from streamjob_runtime.lakes.errors import UnusableTable

_NAMES: dict[type[IcebergType], str] = {
    BooleanType: "boolean",
    IntegerType: "integer",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    DateType: "date",
    TimestamptzType: "timestamp",
    TimestampType: "timestamp_ntz",
    StringType: "string",
    BinaryType: "binary",
    FixedType: "binary",
    # Spark has no type for these two, and reads what Parquet stores: 16 bytes, and the microseconds since midnight.
    UUIDType: "binary",
    TimeType: "long",
}


def spark_columns(schema: Schema, label: str) -> str:
    """Return the JSON of a StructType. All columns may be null: an older file lacks those that were added later.

    Args:
        label: names the table in messages.

    Raises:
        UnusableTable: Spark would not read the right values.
    """

    def of(kind: IcebergType, path: str) -> Any:
        if isinstance(kind, StructType):
            return {"type": "struct", "fields": [column(each, f"{path}{each.name}") for each in kind.fields]}
        if isinstance(kind, ListType):
            return {"type": "array", "containsNull": True, "elementType": of(kind.element_type, f"{path}.")}
        if isinstance(kind, MapType):
            key, value = of(kind.key_type, f"{path}."), of(kind.value_type, f"{path}.")
            return {"type": "map", "valueContainsNull": True, "keyType": key, "valueType": value}
        if isinstance(kind, DecimalType):
            return f"decimal({kind.precision},{kind.scale})"
        name = _NAMES.get(type(kind))
        if name is None:
            what = f"{label}: column {path.rstrip('.')!r} has the type {kind}, which Spark does not read"
            raise UnusableTable(what, "read a table without this column")
        return name

    def column(field: NestedField, path: str) -> dict[str, Any]:
        if field.initial_default is not None:
            what = f"{label}: column {path!r} has a default for older files, and Spark would read null there"
            raise UnusableTable(what, "rewrite the table's files, and read a table without such a default")
        inner = f"{path}." if isinstance(field.field_type, StructType) else path
        metadata = {"parquet.field.id": field.field_id}
        return {"name": field.name, "type": of(field.field_type, inner), "nullable": True, "metadata": metadata}

    return json.dumps(of(schema.as_struct(), ""))
