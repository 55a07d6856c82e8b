"""Which rows fit which Iceberg tables."""

from __future__ import annotations

import pytest
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
from pyspark.sql import types as spark

from streamjob_runtime.sinks.iceberg.column_types import mismatches, refusals, schema_of


def struct(*names: str, kind: IcebergType) -> StructType:
    return StructType(*(NestedField(n + 10, name, kind, required=False) for n, name in enumerate(names)))


ALL: dict[str, IcebergType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "decimal(10,2)": DecimalType(10, 2),
    "decimal(12,4)": DecimalType(12, 4),
    "date": DateType(),
    "time": TimeType(),
    "timestamp": TimestampType(),
    "timestamptz": TimestamptzType(),
    "string": StringType(),
    "uuid": UUIDType(),
    "binary": BinaryType(),
    "fixed": FixedType(4),
    "list<long>": ListType(2, LongType(), element_required=False),
    "map<string,long>": MapType(2, StringType(), 3, LongType(), value_required=False),
    "struct<a,b>": struct("a", "b", kind=LongType()),
}


def of(kind: spark.DataType) -> spark.StructType:
    return spark.StructType([spark.StructField("x", kind)])


FITTING = [
    (spark.ByteType(), "int long"),
    (spark.IntegerType(), "int long"),
    (spark.LongType(), "long"),
    (spark.FloatType(), "float double"),
    (spark.DoubleType(), "double"),
    (spark.DecimalType(10, 2), "decimal(10,2) decimal(12,4)"),
    (spark.DecimalType(9, 1), "decimal(10,2) decimal(12,4)"),
    (spark.DecimalType(11, 2), ""),
    (spark.BooleanType(), "boolean"),
    (spark.DateType(), "date"),
    (spark.TimestampType(), "timestamptz"),
    (spark.TimestampNTZType(), "timestamp"),
    (spark.StringType(), "string uuid"),
    (spark.VarcharType(7), "string uuid"),
    (spark.BinaryType(), "binary fixed"),
    (spark.ArrayType(spark.IntegerType()), "list<long>"),
    (spark.ArrayType(spark.StringType()), ""),
    (spark.MapType(spark.StringType(), spark.ShortType()), "map<string,long>"),
    (spark.StructType().add("a", "integer").add("b", "long"), "struct<a,b>"),
    (spark.StructType().add("b", "integer").add("a", "long"), ""),
    (spark.StructType().add("a", "integer"), ""),
    (spark.VariantType(), ""),
    (spark.NullType(), " ".join(ALL)),
]


@pytest.mark.parametrize(("kind", "fitting"), FITTING, ids=[kind.simpleString() for kind, _ in FITTING])
def test_a_column_fits_where_every_value_arrives_as_it_is(kind: spark.DataType, fitting: str) -> None:
    found = [
        name for name, to in ALL.items() if not mismatches(of(kind), Schema(NestedField(1, "x", to, required=False)))
    ]

    assert found == fitting.split()


def test_all_that_is_wrong_is_said_at_once() -> None:
    table = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "at", TimestampType(), required=False),
        NestedField(3, "name", StringType(), required=True),
    )
    rows = spark.StructType().add("at", "timestamp").add("nam", "string").add("nam", "string").add("id", "void")
    found = mismatches(rows, table)

    assert [problem.what for problem in found] == [
        "is given the column 'nam' twice",
        "has column 'at' of type timestamp, which does not hold TIMESTAMP as it is",
        "has no column 'nam'",
        "has no column 'nam'",
        "has column 'id' of type long, which does not hold VOID as it is",
        "has column 'name', which is required, and the rows do not have it",
    ]
    assert "make the column a timestamptz" in found[1].fix
    assert "did you mean 'name'?" in found[2].fix


def test_a_new_table_fits_the_rows_that_it_is_made_for() -> None:
    rows = spark.StructType()
    for number, kind in enumerate(kind for kind, _ in FITTING if kind.simpleString() not in ("variant", "void")):
        rows = rows.add(f"c{number}", kind)
    made = schema_of(rows)

    assert made is not None
    assert mismatches(rows, made) == []


@pytest.mark.parametrize("kind", [spark.VariantType(), spark.ArrayType(spark.VariantType())])
def test_there_is_no_new_table_for_what_iceberg_does_not_have(kind: spark.DataType) -> None:
    assert schema_of(of(kind)) is None


def test_tables_that_cannot_be_written_are_refused() -> None:
    table = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "session", UUIDType()))

    assert [problem.what for problem in refusals(table, [1, 1, 2], 3)] == [
        "has format version 3",
        "is partitioned by 'id' twice, which pyiceberg cannot write",
        "is partitioned by 'session', a UUID",
    ]
    assert list(refusals(table, [1], 2)) == []
