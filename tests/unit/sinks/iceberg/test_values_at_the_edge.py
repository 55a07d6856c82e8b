"""Values at the edge of their types, under every transform, are read as they were, or refused with the row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from streamjob_runtime.sinks.errors import RowsRefused
from streamjob_runtime.sinks.iceberg.commits import StagedBatch, append
from streamjob_runtime.sinks.iceberg.writing import DataFiles, target_below

Write = Callable[[Schema, PartitionSpec, pa.Table], Table]

TEXTS = [
    "a",
    "",
    "zzzzzzzzzzzzzzz\ud7ffrest",
    "\U0010ffff" * 20,
    "x" * 300,
    "ü" * 200,
    "a/b=c%20 '\"",
    "x\0y",
    "..",
    None,
]
TIMES = [
    datetime(1, 1, 1, 0, 30),
    datetime(1600, 2, 29, 1, 30),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(2026, 7, 1, 12, 30, 0, 1),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
]
DAYS = [date(1, 1, 1), date(1582, 10, 10), date(1969, 12, 31), date(9999, 12, 31)]
DECIMALS = [Decimal(text) for text in ("-0.500", "2.500", "-0.001", "9999999.999", "-9999999.990", "0.000")]
KEPT: tuple[Transform[Any, Any], ...] = (IdentityTransform(), BucketTransform(4))
OF_TIME: tuple[Transform[Any, Any], ...] = (YearTransform(), MonthTransform(), DayTransform())
VALUES: list[tuple[IcebergType, pa.DataType, list[Any], tuple[Transform[Any, Any], ...]]] = [
    (StringType(), pa.string(), TEXTS, (*KEPT, TruncateTransform(10))),
    (DecimalType(10, 3), pa.decimal128(10, 3), DECIMALS, (*KEPT, TruncateTransform(10))),
    (TimestampType(), pa.timestamp("us"), TIMES, (*KEPT, *OF_TIME, HourTransform())),
    (
        TimestamptzType(),
        pa.timestamp("us", "UTC"),
        [at.replace(tzinfo=UTC) for at in TIMES],
        (*KEPT, *OF_TIME, HourTransform()),
    ),
    (DateType(), pa.date32(), DAYS, (*KEPT, *OF_TIME)),
    (LongType(), pa.int64(), [-(2**63) + 8, 2**63 - 1, -1, 0, -11], (*KEPT, TruncateTransform(10))),
    (DoubleType(), pa.float64(), [float("inf"), -0.0, 1.5, float("nan")], (IdentityTransform(),)),
    (BinaryType(), pa.binary(), [b"", b"\xff" * 20, b"x" * 300], (*KEPT, TruncateTransform(4))),
]


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Write]:
    catalog = SqlCatalog("unit", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("db")
    numbers = count()

    def written(schema: Schema, spec: PartitionSpec, rows: pa.Table) -> Table:
        number = next(numbers)
        table = catalog.create_table(f"db.t{number}", schema, partition_spec=spec)
        files = DataFiles(target_below("sink report", table.metadata, {}, f"file://{tmp_path}/staged/{number}"))
        files.write(rows)
        batch = StagedBatch(
            table="",
            sink="",
            life="",
            number=1,
            partitionSpec=table.spec().spec_id,
            schemaId=0,
            files=tuple(files.files),
        )
        append(table, [batch], {}, {})
        return catalog.load_table(f"db.t{number}")

    yield written
    catalog.engine.dispose()


@pytest.mark.parametrize(("kind", "arrow", "values", "transforms"), VALUES, ids=[str(each[0]) for each in VALUES])
def test_every_value_is_read_as_it_was_and_found_by_its_bounds(
    write: Write, kind: IcebergType, arrow: pa.DataType, values: list[Any], transforms: tuple[Transform[Any, Any], ...]
) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "v", kind))
    rows = pa.table({"id": pa.array(range(len(values)), pa.int64()), "v": pa.array(values, arrow)})
    specs = [PartitionSpec(PartitionField(2, 1000, transform, "p")) for transform in transforms]
    for spec in (UNPARTITIONED_PARTITION_SPEC, *specs):
        table = write(schema, spec, rows)
        found = {row["id"]: row["v"] for row in table.scan().to_arrow().to_pylist()}
        assert repr([found[number] for number in range(len(values))]) == repr(rows.column("v").to_pylist()), spec
    for value in values:
        if isinstance(value, str | int | Decimal):
            assert table.scan(row_filter=EqualTo(term=Reference("v"), value=literal(value))).to_arrow().num_rows == 1, (
                value
            )


@pytest.mark.parametrize(
    ("kind", "arrow", "value"),
    [
        (LongType(), pa.int64(), -(2**63)),
        (DecimalType(10, 3), pa.decimal128(10, 3), Decimal("-9999999.999")),
        (DecimalType(38, 0), pa.decimal128(38, 0), Decimal("-" + "9" * 38)),
    ],
    ids=str,
)
def test_a_number_that_truncate_takes_out_of_its_type_is_refused_with_its_row(
    write: Write, kind: IcebergType, arrow: pa.DataType, value: Any
) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "v", kind))
    spec = PartitionSpec(PartitionField(2, 1000, TruncateTransform(10), "p"))
    with pytest.raises(RowsRefused) as raised:
        write(schema, spec, pa.table({"id": pa.array([1, 2], pa.int64()), "v": pa.array([0, value], arrow)}))

    assert "sink report: the column 'v' has a value for which the partition truncate[10]" in raised.value.what
    assert f"in the row {{id: 2, v: {value}" in raised.value.what


INNER = StructType(NestedField(10, "a", LongType()))
ARROW = pa.struct([("a", pa.int64())])
OF_STRUCTS: list[tuple[IcebergType, pa.DataType]] = [
    (ListType(3, INNER, element_required=False), pa.list_(ARROW)),
    (MapType(3, StringType(), 4, INNER, value_required=False), pa.map_(pa.string(), ARROW)),
    (StructType(NestedField(5, "l", ListType(3, INNER, element_required=False))), pa.struct([("l", pa.list_(ARROW))])),
]


@pytest.mark.parametrize(("kind", "arrow"), OF_STRUCTS, ids=["list", "map", "struct"])
def test_a_null_that_pyiceberg_would_store_as_an_empty_list_is_refused(
    write: Write, kind: IcebergType, arrow: pa.DataType
) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "v", kind))

    def rows(*values: Any) -> pa.Table:
        return pa.table({"id": pa.array(range(len(values)), pa.int64()), "v": pa.array(values, arrow)})

    fine: list[Any] = [[], [{"a": None}, {"a": 1}]] if pa.types.is_list(arrow) else [[], [("k", {"a": 1})]]
    null: Any = None
    if pa.types.is_struct(arrow):
        fine, null = [{"l": []}, {"l": [{"a": 1}]}], {"l": None}
    kept = write(schema, UNPARTITIONED_PARTITION_SPEC, rows(*fine)).scan().to_arrow()
    assert kept.column("v").to_pylist() == fine
    with pytest.raises(RowsRefused, match="is an array or map of structs and has NULL"):
        write(schema, UNPARTITIONED_PARTITION_SPEC, rows(*fine, null))


NAMES = ["a.b", "with space", "ü", "select", 'quo"ted', "b`t", "x,y;{}()=\n\t", "UP", "a'b", "1", "%", "a/b"]


def test_columns_have_any_name(write: Write) -> None:
    fields = [NestedField(number, name, StringType()) for number, name in enumerate(NAMES, 1)]
    rows = pa.table({name: [f"value {name}"] for name in NAMES})
    specs = [PartitionSpec(PartitionField(field.field_id, 1000, IdentityTransform(), "p")) for field in fields]
    for spec in (UNPARTITIONED_PARTITION_SPEC, *specs):
        assert write(Schema(*fields), spec, rows).scan().to_arrow().to_pylist() == rows.to_pylist()
