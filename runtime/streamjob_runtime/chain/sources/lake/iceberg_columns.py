"""The columns of an Iceberg table for Spark, which finds them in Parquet files by their field ids."""

from __future__ import annotations

import json
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, FixedType, IcebergType, ListType, MapType, NestedField, StructType

from streamjob_runtime.sinks.errors import UnusableTable

_NAMES = {
    **{name: name for name in ("boolean", "long", "float", "double", "date", "string", "binary")},
    "int": "integer",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
    # Spark has no type for these two, and reads what Parquet stores: 16 bytes, and the microseconds since midnight.
    "uuid": "binary",
    "time": "long",
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
        if not isinstance(kind, FixedType) and str(kind) not in _NAMES:
            what = f"{label}: column {path.rstrip('.')!r} has the type {kind}, which Spark does not read"
            raise UnusableTable(what, "read a table without this column")
        return _NAMES.get(str(kind), "binary")

    def column(field: NestedField, path: str) -> dict[str, Any]:
        if field.initial_default is not None:
            what = f"{label}: column {path!r} has a default for older files, and Spark would read null there"
            raise UnusableTable(what, "rewrite the table's files, and read a table without such a default")
        inner = f"{path}." if isinstance(field.field_type, StructType) else path
        metadata = {"parquet.field.id": field.field_id}
        return {"name": field.name, "type": of(field.field_type, inner), "nullable": True, "metadata": metadata}

    return json.dumps(of(schema.as_struct(), ""))
